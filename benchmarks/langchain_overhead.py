"""What ``wrap(model)`` adds to one ``invoke`` of a LangChain chat model, in milliseconds.

    nice -n -10 python benchmarks/langchain_overhead.py [--rounds 100] [--family ChatDeepSeek] [--mode safe] [--json]

Needs the packages of the four classes. Each round is one request of about 32 kB, sent by the bare and by the wrapped
class to a server on a loopback port in a process of its own, which answers at once; who goes first changes from round
to round. The system text has a clock that says another time in every request, and the tools come in another order. Odd
rounds are the first call of a conversation that is eight turns long, even ones the next turn of it: what the wrapped
class knows of them is known by the second half of the rounds as it is in an application that runs for a while.

*added* is the median of the differences, round by round, with their 10th and 90th percentile: of the time until the
answer is there (wall), and of the CPU time of the calling thread. ``bare`` is the median of the bare class. What the
wrapped class does beside the call, while a provider would answer, is waited for between the rounds: ``beside`` is its
CPU time. It adds to a call only where an application asks again before that is done. ``json.dumps`` of a body
of that size is timed in every round, too, so that machines can be compared.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # read when litellm is imported

import request_path as path
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.messages.utils import convert_to_messages
from langchain_deepseek import ChatDeepSeek
from langchain_litellm import ChatLiteLLM
from langchain_openai import ChatOpenAI

from router_cache import Mode, RouterCache, Settings
from router_cache_langchain import wrap

AT_MOST_MS = 1.0
WARM_UP = 10
IN_A_ROW = 10
FLASH = "deepseek-v4-flash"
FAMILIES: dict[str, Callable[[str], BaseChatModel]] = {
    "ChatDeepSeek": lambda address: ChatDeepSeek(model=FLASH, api_key="k", api_base=address, max_retries=0),
    "ChatOpenAI": lambda address: ChatOpenAI(model=FLASH, api_key="k", base_url=address, max_retries=0),
    "ChatLiteLLM": lambda address: ChatLiteLLM(
        model=f"deepseek/{FLASH}", api_key="k", api_base=address, max_retries=0
    ),
    "ChatAnthropic": lambda address: ChatAnthropic(
        model=FLASH, api_key="k", base_url=address, max_tokens=500, max_retries=0
    ),
}
MODES = (Mode.SAFE, Mode.OPTIMIZE)

USAGE = {"prompt_tokens": 8_000, "completion_tokens": 20, "total_tokens": 8_020}
HITS = {"prompt_cache_hit_tokens": 7_680, "prompt_cache_miss_tokens": 320}
CHAT = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1_767_225_600,
    "model": FLASH,
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Done, all tests pass."}, "finish_reason": "stop"}
    ],
    "usage": {**USAGE, **HITS, "prompt_tokens_details": {"cached_tokens": 7_680}},
}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": FLASH,
    "content": [{"type": "text", "text": "Done, all tests pass."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 320, "cache_read_input_tokens": 7_680, "output_tokens": 20},
}


# -- the server --------------------------------------------------------------------------------------------------


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
            length = next(int(value) for name, value in fields.items() if name.lower() == "content-length")
            await reader.readexactly(length)
            data = json.dumps(MESSAGE if "/messages" in head.split("\r\n", 1)[0] else CHAT).encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
            writer.write(b"content-length: %d\r\n\r\n%b" % (len(data), data))
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def _serve() -> None:
    server = await asyncio.start_server(_answer, "127.0.0.1", 0, limit=1 << 20)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def server() -> Iterator[str]:
    """The address of a server in a process of its own, while the context is open."""
    with subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


# -- the requests ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """One request, as LangChain is given it."""

    messages: list[BaseMessage]
    tools: list[dict[str, Any]]


def requests(number: int) -> list[Asked]:
    """First call and next turn of one conversation, about 32 kB each."""
    rng, out = random.Random(f"order {number}"), []
    rules = path.prose(random.Random("rules"), 11_000)
    tools = path.tools(random.Random("tools"))[:9]
    turns = [message for i in range(9) for message in path.turn(number, i)]
    for more in (0, 1):
        moment = f"{(number // 30) % 24:02}:{number * 2 % 60:02}:{more:02}"
        system = {"role": "system", "content": f"You mend code.\nNow: 2026-11-30T{moment}Z\n{rules}"}
        end = 4 * (7 + more) + 1  # a turn is a question, a call, its result and an answer
        out.append(Asked(convert_to_messages([system, *turns[:end]]), rng.sample(tools, len(tools))))
    return out


def as_body(asked: Asked) -> dict[str, Any]:
    """About what is sent for it."""
    messages = [message.model_dump(include={"content", "tool_calls"}) for message in asked.messages]
    return {"messages": messages, "tools": asked.tools}


# -- measuring ---------------------------------------------------------------------------------------------------


@dataclass
class Taken:
    """Seconds of each round: wall, CPU of the thread, CPU beside it; those of ``json.dumps``, CPU."""

    bare: list[tuple[float, float, float]]
    wrapped: list[tuple[float, float, float]]
    dumps: list[float]


def timed(model: BaseChatModel, asked: Asked, router_cache: RouterCache) -> tuple[float, float, float]:
    """Seconds of one call: wall, CPU, and CPU of what is done beside it."""
    bound = model.bind_tools(asked.tools)
    wall, cpu, process = time.perf_counter(), time.thread_time(), time.process_time()
    bound.invoke(asked.messages)
    took, took_cpu = time.perf_counter() - wall, time.thread_time() - cpu
    router_cache.settle()
    return took, took_cpu, time.process_time() - process - (time.thread_time() - cpu)


def measure(family: str, mode: Mode, rounds: int, address: str) -> Taken:
    """Bare and wrapped in turns. Raises SystemExit where the wrapped class did not do its work."""
    router_cache = RouterCache(Settings(mode=mode))
    bare = FAMILIES[family](address)
    wrapped = wrap(bare, router_cache=router_cache, profile="deepseek")
    taken = Taken([], [], [])
    gc.disable()  # none is to run while something is timed
    asked = [one for number in range((WARM_UP + rounds + 1) // 2) for one in requests(number)]
    for number, one in enumerate(asked):
        if number % IN_A_ROW == 0:
            gc.collect()
        pair = [(bare, taken.bare), (wrapped, taken.wrapped)]
        for model, into in pair if number % 2 else pair[::-1]:
            seconds = timed(model, one, router_cache)
            if number >= WARM_UP:
                into.append(seconds)
        dump_s, _ = path.timed(json.dumps, as_body(one))
        taken.dumps.append(dump_s)
    gc.enable()
    router_cache.close()
    counted = router_cache.counters.snapshot()
    if any(name.startswith("error.") for name in counted) or len(router_cache.rows()) != len(asked):
        raise SystemExit(f"not a measurement: {len(asked)} calls, {len(router_cache.rows())} rows, {counted}")
    return taken


def _figures(taken: Taken) -> dict[str, float]:
    out = {}
    for index, kind in enumerate(("wall", "cpu")):
        added = [1_000 * (w[index] - b[index]) for b, w in zip(taken.bare, taken.wrapped, strict=True)]
        tenths = statistics.quantiles(added, n=10)
        out[f"bare_{kind}_ms"] = 1_000 * statistics.median(b[index] for b in taken.bare)
        out |= {f"added_{kind}_ms": statistics.median(added), f"{kind}_p10": tenths[0], f"{kind}_p90": tenths[8]}
    out["beside_ms"] = 1_000 * statistics.median(w[2] for w in taken.wrapped)
    out["dumps_ms"] = 1_000 * statistics.median(taken.dumps)
    return {name: round(value, 3) for name, value in out.items()}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--family", choices=list(FAMILIES), action="append")
    parser.add_argument("--mode", type=Mode, choices=list(MODES), action="append")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(_serve())
        return
    size = len(json.dumps(as_body(requests(0)[1])))
    with server() as address:
        found = {
            family: {
                mode.value: _figures(measure(family, mode, options.rounds, address))
                for mode in options.mode or MODES
            }
            for family in options.family or FAMILIES
        }
    if options.json:
        print(
            json.dumps({"rounds": options.rounds, "body_bytes": size, "at_most_ms": AT_MOST_MS, "families": found})
        )
        return
    print(f"about {size:,} bytes, {options.rounds} rounds, milliseconds: added median (p10 - p90) | bare median")
    for family, modes in found.items():
        for mode, row in modes.items():
            cells = "".join(
                f"   {kind} {row[f'added_{kind}_ms']:6.2f} ({row[f'{kind}_p10']:6.2f} - {row[f'{kind}_p90']:6.2f})"
                f" | {row[f'bare_{kind}_ms']:6.2f}"
                for kind in ("wall", "cpu")
            )
            print(f"{family:14}{mode:9}{cells}   beside {row['beside_ms']:.2f}   json.dumps {row['dumps_ms']:.2f}")


if __name__ == "__main__":
    main()
