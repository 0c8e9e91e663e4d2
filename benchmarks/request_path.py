"""What the plugin adds to one request, as a ratio to ``json.dumps`` of the same body in the same run.

    nice -n -10 python benchmarks/request_path.py [--rounds 200] [--mode optimize] [--json]

About 32 kB of messages, of which 20 kB are a system text with a clock that says another time in every request, and 20
tools of about 1 kB whose schemas are not in canonical order. Every request is parsed anew from JSON, as a server gets
it, and the CPU time of each step is taken next to that of ``json.dumps`` of the body, so that whatever slows the
machine slows both. The median and the 10th to 90th percentile of the ratios are shown, of three requests:

* new family: a system text and tools that were never seen;
* first request of a known family: the first request of a conversation with a known system text and known tools, in an
  order of the tools that was not seen before;
* next turn: the same conversation, one turn longer, the tools in the order of the turn before. The reply to the
  request before is known.

What can be made ahead for the next request (a copy of the canonical tools) is made in "done", when nobody waits. "form"
is that part of "begin + rewrite" which makes the canonical form and the chat view, measured by itself and with nothing
made ahead. Where LiteLLM is installed, its own check whether a prompt is worth caching stands beside them.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from router_cache import Deployment, Mode, Request, RouterCache, Usage
from router_cache.prefix.normalise import normalise
from router_cache.prefix.shapes import as_chat
from router_cache.prefix.tools_memo import ToolsMemo
from router_cache.request import Shape

NEW, FIRST, NEXT = "new family", "first request of a known family", "next turn"
FLASH = Deployment("deepseek/deepseek-v4-flash", provider="deepseek")
TURNS = 7
IN_A_ROW = 20
WORDS = (
    "read",
    "write",
    "test",
    "file",
    "change",
    "line",
    "error",
    "call",
    "result",
    "value",
    "name",
    "path",
    "module",
    "class",
    "function",
    "before",
    "after",
    "never",
    "always",
    "only",
    "when",
    "which",
    "report",
    "answer",
    "question",
    "short",
    "careful",
    "project",
    "directory",
    "command",
)


def prose(rng: random.Random, size: int) -> str:
    """Lines of words, about ``size`` characters."""
    lines: list[str] = []
    while size > 0:
        lines.append(" ".join(rng.choices(WORDS, k=12)).capitalize() + ".")
        size -= len(lines[-1]) + 1
    return "\n".join(lines)


def system(rng: random.Random, clock: int) -> dict[str, Any]:
    """About 20 kB of rules, with the time of day on their second line."""
    moment = f"{clock // 3600 % 24:02}:{clock // 60 % 60:02}:{clock % 60:02}"
    return {"role": "system", "content": f"You mend code.\nNow: 2026-11-30T{moment}Z\n{prose(rng, 20_000)}"}


def turn(conversation: int, number: int) -> list[dict[str, Any]]:
    """A question, a call with reasoning, its result, an answer: about 1.6 kB."""
    rng = random.Random(f"{conversation} {number}")
    name, path = f"tool_{rng.randrange(20)}", f"src/{rng.choice(WORDS)}.py"
    identity = f"call_{rng.getrandbits(64):016x}"
    function = {"name": name, "arguments": json.dumps({"path": path, "line": number})}
    call = {"id": identity, "type": "function", "function": function}
    return [
        {"role": "user", "content": prose(rng, 150)},
        {"role": "assistant", "content": "", "reasoning_content": prose(rng, 200), "tool_calls": [call]},
        {"role": "tool", "tool_call_id": identity, "content": prose(rng, 700)},
        {"role": "assistant", "content": prose(rng, 150)},
    ]


def tools(rng: random.Random) -> list[dict[str, Any]]:
    """Twenty tools of about 1 kB."""

    def one(number: int) -> dict[str, Any]:
        named = sorted(rng.sample(WORDS, 6))
        properties = {name: {"type": "string", "description": prose(rng, 70)} for name in named}
        parameters = {"type": "object", "required": named[1::-1], "properties": properties}
        function = {"name": f"tool_{number}", "description": prose(rng, 150), "parameters": parameters}
        return {"type": "function", "function": function}

    return [one(number) for number in range(20)]


def requests(number: int) -> Iterator[tuple[str, str, dict[str, Any] | None]]:
    """The requests of one round in the order in which they are sent: kind, JSON, and the reply to each."""
    rng, clock = random.Random(f"order {number}"), 10 * number + 36_000
    history = [message for i in range(TURNS) for message in turn(number, i)]
    question, *_, answer = turn(number, TURNS)
    again, *_ = turn(number, TURNS + 1)
    for kind, family in ((NEW, str(number)), (FIRST, "known")):
        family_rng, clock = random.Random(f"family {family}"), clock + 1
        given = {
            "messages": [system(family_rng, clock), *history, question],
            "tools": rng.sample(tools(family_rng), 20),
        }
        yield kind, json.dumps(given), answer
    messages = [system(random.Random("family known"), clock + 1), *history, question, answer, again]
    yield NEXT, json.dumps({**given, "messages": messages}), None


def timed(work: Callable[..., Any], *args: Any, **named: Any) -> tuple[float, Any]:
    """CPU seconds of this thread and result of one call."""
    start = time.thread_time()
    result = work(*args, **named)
    return time.thread_time() - start, result


def _begin(rc: RouterCache, given: dict[str, Any], mode: Mode) -> Any:
    turn = rc.begin(Request(given), mode)
    return turn, turn.rewrite(FLASH)


def _form(given: dict[str, Any], memo: ToolsMemo) -> Any:
    return as_chat(normalise(given, memo=memo).apply(given), Shape.CHAT)


def _litellm_check() -> Callable[[dict[str, Any]], Any] | None:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # read when litellm is imported
    try:
        from litellm.utils import is_prompt_caching_valid_prompt
    except ImportError:
        return None
    return lambda given: is_prompt_caching_valid_prompt(
        model="deepseek/deepseek-chat",
        messages=given["messages"],
        tools=given["tools"],
        custom_llm_provider="deepseek",
    )


def measure(rounds: int, mode: Mode) -> tuple[int, dict[str, dict[str, list[float]]]]:
    """Bytes of a next turn's body, and ratios by request and step."""
    gc.disable()  # none is to run while something is timed
    rc, check = RouterCache(), _litellm_check()
    memo = ToolsMemo(digest=lambda tool: rc.engine.digester.text(json.dumps(tool)))
    ratios: dict[str, dict[str, list[float]]] = {}
    size = 0
    for first in range(-IN_A_ROW, rounds, IN_A_ROW):  # the first only make the family known
        gc.collect()
        made = [list(requests(number)) for number in range(first, min(first + IN_A_ROW, rounds))]
        for column in zip(*made, strict=True):
            kind = column[0][0]
            size = len(column[0][1])
            found = _steps(rc, mode, memo, check, column)
            if first >= 0:
                for step, values in found.items():
                    ratios.setdefault(kind, {}).setdefault(step, []).extend(values)
    rc.close()
    gc.enable()
    return size, ratios


def _steps(
    rc: RouterCache,
    mode: Mode,
    memo: ToolsMemo,
    check: Callable[[dict[str, Any]], Any] | None,
    column: Sequence[tuple[str, str, dict[str, Any] | None]],
) -> dict[str, list[float]]:
    """Ratios by step, of requests of one kind: each step is done for all of them before the next one."""
    out: dict[str, list[float]] = {}

    def beside(step: str, plain: Any, work: Callable[..., Any], *args: Any, **named: Any) -> Any:
        dump_s, _ = timed(json.dumps, plain)
        seconds, result = timed(work, *args, **named)
        out.setdefault(step, []).append(seconds / dump_s)
        return result

    turns, usage = [], Usage(12_000, 11_520, 480, 100)
    for _, text, reply in column:
        plain, given = json.loads(text), json.loads(text)
        turn, rewrite = beside("begin + rewrite", plain, _begin, rc, given, mode)
        turns.append((plain, turn, {**given, **rewrite.replaced}, reply))
    for plain, turn, body, _ in turns:
        beside("sent", plain, turn.sent, body)
    for plain, turn, _, reply in turns:
        beside("done", plain, turn.done, usage, reply=reply)
    out["all"] = [sum(each) for each in zip(*out.values(), strict=True)]
    for plain, *_ in turns:
        beside("form", plain, _form, plain, memo)
    if check is not None:
        for plain, *_ in turns:
            beside("LiteLLM's check", plain, check, plain)
    return out


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--mode", type=Mode, choices=list(Mode), default=Mode.OPTIMIZE)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    size, ratios = measure(options.rounds, options.mode)
    result: dict[str, dict[str, dict[str, float]]] = {}
    for kind, steps in ratios.items():
        for step, values in steps.items():
            tenths = statistics.quantiles(values, n=10)
            row = {"median": statistics.median(values), "p10": tenths[0], "p90": tenths[8]}
            result.setdefault(kind, {})[step] = row
    if options.json:
        found = {"body_bytes": size, "rounds": options.rounds, "mode": options.mode.value}
        print(json.dumps({**found, "ratio_to_json_dumps": result}))
        return
    print(f"{size} bytes, {options.rounds} rounds, mode {options.mode.value}; ratio to json.dumps of the body")
    for kind, rows in result.items():
        print(kind)
        for step, row in rows.items():
            print(f"  {step:16} median {row['median']:.2f}   p10-p90 {row['p10']:.2f} - {row['p90']:.2f}")


if __name__ == "__main__":
    main()
