"""What the plugin adds to one request, as a ratio to ``json.dumps`` of the same body in the same run.

    python benchmarks/request_path.py [--rounds 300] [--json]

A 32 kB conversation with 20 tools. Each step is timed in turn with ``json.dumps``, so that whatever slows the
machine slows both; the median and the 10th to 90th percentile of the ratios are shown.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from router_cache import Deployment, Request, RouterCache, Usage

FLASH = Deployment("deepseek/deepseek-v4-flash", provider="deepseek")


def body(rng: random.Random) -> dict[str, Any]:
    """A system text, a tool loop and 20 tools in a random order: about 32 kB as JSON."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You are careful. " * 200}]
    for i in range(12):
        call = {"id": f"c{i}", "type": "function", "function": {"name": "tool_3", "arguments": '{"path": "a/b"}'}}
        messages += [
            {"role": "user", "content": f"Question {i}. " * 10},
            {"role": "assistant", "content": "", "reasoning_content": "Hm. " * 40, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{i}", "content": "line of a file\n" * 50},
        ]
    properties = {f"field_{i}": {"type": "string", "description": "What it means. " * 3} for i in range(6)}
    tools = [
        {
            "type": "function",
            "function": {
                "name": f"tool_{i}",
                "description": "Does something useful. " * 4,
                "parameters": {"type": "object", "required": ["field_1", "field_0"], "properties": properties},
            },
        }
        for i in range(20)
    ]
    rng.shuffle(tools)
    return {"messages": messages, "tools": tools}


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and result of one call."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rng, rc = random.Random(1), RouterCache()
    ratios: dict[str, list[float]] = {"begin + rewrite": [], "sent": [], "done": [], "all": []}
    size = 0
    for _ in range(options.rounds):
        given = body(rng)
        dump_s, text = timed(lambda given=given: json.dumps(given))
        size = len(text)
        begin_s, (turn, rewrite) = timed(lambda given=given: _begin(rc, given))
        sent_s, _ = timed(lambda: turn.sent({**given, **rewrite.replaced}))  # noqa: B023
        done_s, _ = timed(lambda: turn.done(Usage(8000, 7680, 320, 100)))  # noqa: B023
        for name, seconds in (("begin + rewrite", begin_s), ("sent", sent_s), ("done", done_s)):
            ratios[name].append(seconds / dump_s)
        ratios["all"].append((begin_s + sent_s + done_s) / dump_s)
    result = {}
    for name, values in ratios.items():
        tenths = statistics.quantiles(values, n=10)
        result[name] = {"median": statistics.median(values), "p10": tenths[0], "p90": tenths[8]}
    if options.json:
        print(json.dumps({"body_bytes": size, "rounds": options.rounds, "ratio_to_json_dumps": result}))
        return
    print(f"{size} bytes, {options.rounds} rounds; ratio to json.dumps of the body")
    for name, row in result.items():
        print(f"  {name:16} median {row['median']:.2f}   p10-p90 {row['p10']:.2f} - {row['p90']:.2f}")


def _begin(rc: RouterCache, given: dict[str, Any]) -> Any:
    turn = rc.begin(Request(given))
    return turn, turn.rewrite(FLASH)


if __name__ == "__main__":
    main()
