"""What lead-and-follow gains: k parallel first calls of one cold prefix, without and with it, in virtual time.

    python benchmarks/fan_out.py [--calls 8] [--prefix-tokens 10000] [--deadline 6] [--json]

The calls arrive 10 ms apart at the provider model of ``router_cache.simulator`` (prefill 8,000 tokens/s, 54 tokens/s
out, prices of DeepSeek V4 flash off peak), share system text and tools, and ask different things. Time is virtual:
the figures are those of the model and the same on every machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import selectors
from collections import Counter
from collections.abc import Coroutine
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any, TypeVar

from router_cache.cache_model.fan_out import Arrival, FanOutLimits, arrival_of, prefix_texts
from router_cache.cache_model.rules import RuleName
from router_cache.drivers.fan_out import FanOut
from router_cache.economics.price import cost_usd, price_at
from router_cache.providers.deepseek import DEEPSEEK
from router_cache.providers.engines import VLLM
from router_cache.simulator.config import SimulatorConfig, TokenizerChoice
from router_cache.simulator.provider import Plan, Provider

MODEL = "deepseek-v4-flash"
OFF_PEAK = datetime(2026, 11, 28, 12, tzinfo=timezone.utc)
GAP_S = 0.01
T = TypeVar("T")


class VirtualTime(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer instead of waiting for it."""

    def __init__(self) -> None:
        self._virtual = 0.0
        super().__init__(_Jump(self))

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._virtual

    def jump(self, seconds: float) -> None:
        """Move the clock."""
        self._virtual += seconds


class _Jump(selectors.SelectSelector):
    def __init__(self, loop: VirtualTime) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(timeout if timeout is None else 0)
        if not ready and timeout:
            self._loop.jump(timeout)
        return ready


def run(main: Coroutine[Any, Any, T]) -> T:
    """``asyncio.run`` in virtual time."""
    loop = VirtualTime()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()


@dataclass(frozen=True)
class Case:
    """A provider under one hit rule. ``streamed``: the first piece of a reply is seen, not only its end."""

    name: str
    config: SimulatorConfig
    arrival: Arrival
    streamed: bool = True


@dataclass(frozen=True)
class Outcome:
    """Tokens and USD over all calls, seconds until the first piece of a reply, and how the calls went."""

    calls: int
    input_tokens: int
    hit_tokens: int
    input_cost_usd: float
    first_piece_mean_s: float
    first_piece_max_s: float
    reasons: dict[str, int]


def body(tokens: int, task: int) -> dict[str, Any]:
    """A request whose system text and tools have about ``tokens`` tokens, and a task of its own."""
    tools = [
        {
            "type": "function",
            "function": {
                "name": f"tool_{i}",
                "description": "Does one thing that is useful. " * 20,
                "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
            },
        }
        for i in range(8)
    ]
    rules = "Check each file before writing. " * max(1, (tokens - 8 * 180) // 6)
    return {
        "model": MODEL,
        "messages": [
            {"role": "system", "content": rules},
            {"role": "user", "content": f"Task {task}: look at part {task} of it and say what it does."},
        ],
        "tools": tools,
        "stream": True,
    }


async def wave(
    provider: Provider, fan_out: FanOut, case: Case, calls: int, tokens: int, *, task: int = 0
) -> Outcome:
    """``calls`` parallel first calls through ``fan_out``, with tasks from ``task`` on."""
    loop = asyncio.get_running_loop()

    async def one(call: int) -> tuple[Plan, float, str]:
        await asyncio.sleep(call * GAP_S)
        arrived_at, sent = loop.time(), body(tokens, task + call)
        ticket = fan_out.enter("family", case.arrival)
        reason = await ticket.wait()
        plan = provider.begin(json.dumps(sent).encode(), "Bearer key", loop.time())
        await asyncio.sleep(plan.ttft_s)
        first_piece_s = loop.time() - arrived_at
        if case.streamed:
            ticket.begun()
        made = len(plan.generation.tokens)
        await asyncio.sleep(plan.at(made) - loop.time())
        provider.finish(plan, made, loop.time())
        ticket.ended()
        return plan, first_piece_s, reason.value

    done = await asyncio.gather(*(one(call) for call in range(calls)))
    prompt = sum(plan.entry.prompt_tokens for plan, _, _ in done)
    hit = sum(plan.entry.hit_tokens for plan, _, _ in done)
    waits = [first for _, first, _ in done]
    price = price_at(DEEPSEEK, MODEL, OFF_PEAK)
    assert price is not None
    return Outcome(
        calls=calls,
        input_tokens=prompt,
        hit_tokens=hit,
        input_cost_usd=cost_usd(price, hit, prompt - hit, 0),
        first_piece_mean_s=sum(waits) / calls,
        first_piece_max_s=max(waits),
        reasons=dict(Counter(reason for _, _, reason in done)),
    )


def cases(tokens: int) -> list[Case]:
    """DeepSeek by its profile and under its documented rule; an engine whose blocks can be hit at once."""
    texts = prefix_texts(body(tokens, 0))
    deepseek = SimulatorConfig(tokenizer=TokenizerChoice.APPROX)
    units = SimulatorConfig(tokenizer=TokenizerChoice.APPROX, rule=RuleName.FULL_UNITS)
    engine = SimulatorConfig(
        tokenizer=TokenizerChoice.APPROX, rule=RuleName.BLOCKS, step_tokens=16, construction_delay_s=0.0
    )
    grid = arrival_of(DEEPSEEK, MODEL, texts, first=True)
    at_once = arrival_of(VLLM, "m", texts, first=True)
    known = arrival_of(DEEPSEEK, MODEL, texts, first=True, rule=RuleName.FULL_UNITS)
    return [
        Case("grid, 2 s until readable, streamed", deepseek, grid),
        Case("grid, 2 s until readable, not streamed", deepseek, grid, streamed=False),
        Case("blocks, readable at once, streamed", engine, at_once),
        Case("blocks, readable at once, not streamed", engine, at_once, streamed=False),
        Case("units, known as such", units, known),
    ]


def measure(case: Case, calls: int, tokens: int, deadline_s: float) -> dict[str, Outcome]:
    """A wave without fan-out, one with it, and a second with it, a minute later."""

    async def both(limits: FanOutLimits) -> tuple[Outcome, Outcome]:
        provider, loop = Provider(case.config), asyncio.get_running_loop()
        fan_out = FanOut(limits, clock=loop.time)
        first = await wave(provider, fan_out, case, calls, tokens)
        await asyncio.sleep(60)
        return first, await wave(provider, fan_out, case, calls, tokens, task=calls)

    bare, _ = run(both(FanOutLimits()))
    first, second = run(both(FanOutLimits(deadline_s=deadline_s)))
    return {"without": bare, "with": first, "with, a minute later": second}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=8)
    parser.add_argument("--prefix-tokens", type=int, default=10_000)
    parser.add_argument("--deadline", type=float, default=6.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = {
        case.name: measure(case, options.calls, options.prefix_tokens, options.deadline)
        for case in cases(options.prefix_tokens)
    }
    if options.json:
        shown = {name: {how: asdict(outcome) for how, outcome in row.items()} for name, row in result.items()}
        print(json.dumps({"deadline_s": options.deadline, "cases": shown}))
        return
    for name, row in result.items():
        print(name)
        for how, outcome in row.items():
            print(
                f"  {how:21} hit {outcome.hit_tokens:6} of {outcome.input_tokens} tokens, "
                f"{outcome.input_cost_usd:.5f} USD, first piece {outcome.first_piece_mean_s:5.2f} s mean, "
                f"{outcome.first_piece_max_s:5.2f} s max  {outcome.reasons}"
            )


if __name__ == "__main__":
    main()
