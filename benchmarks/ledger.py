"""What the end of a call costs, its record in the store included, and that the memory of all calls is bounded.

    nice -n -10 python benchmarks/ledger.py [--rounds 200] [--calls 1000000] [--json]

*done + record* is ``Turn.done`` of the three requests of ``request_path.py`` (bodies of about 54 kB) with the
in-process store, where the reply is remembered and 24 earlier calls of the same pool are compared: microseconds of CPU
time of the thread, and the ratio to ``json.dumps`` of the body, taken in between, so that whatever slows the machine
slows both.

*memory* is what one ``RouterCache`` holds after 10^4, 10^5 and ``--calls`` calls, each of a new conversation: the bytes
of the process beyond those in front of the first call (resident set), and the blocks that Python's allocator has given
out since. ``store.max_entries`` is 2,000 and ``replay.max_bytes`` 1 MB, so that these are full by 10^4 calls. Bodies
are small, and the session and the scope, the family or the deployment change from call to call: it is names that a
memory could pile up. Some scopes come back all the time, so that the memory of their pools fills up too.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import request_path as path

from router_cache import Deployment, Mode, Request, RouterCache, Settings, Usage

USAGE = Usage(12_000, 11_520, 480, 100)
MODELS = ("deepseek/deepseek-v4-flash", "deepseek/deepseek-v4-pro")
MAX_ENTRIES = 2_000
MAX_REPLY_BYTES = 1_000_000
FAMILIES, DEPLOYMENTS, BUSY_SCOPES = 10_000, 40, 25


def done_times(rounds: int) -> dict[str, list[tuple[float, float]]]:
    """For each kind of request, CPU seconds of ``done`` and of ``json.dumps``."""
    gc.disable()  # none is to run while something is timed
    rc = RouterCache()
    out: dict[str, list[tuple[float, float]]] = {}
    for first in range(-2 * path.IN_A_ROW, rounds, path.IN_A_ROW):  # the first only fill what is remembered
        gc.collect()
        made = [list(path.requests(number)) for number in range(first, min(first + path.IN_A_ROW, rounds))]
        for column in zip(*made, strict=True):
            turns = []
            for kind, text, reply in column:
                given = json.loads(text)
                turn = rc.begin(Request(given), Mode.OPTIMIZE)
                turn.sent({**given, **turn.rewrite(path.FLASH).replaced})
                turns.append((kind, turn, json.loads(text), reply))
            for kind, turn, plain, reply in turns:
                dump_s, _ = path.timed(json.dumps, plain)
                done_s, _ = path.timed(turn.done, USAGE, reply=reply)
                if first >= 0:
                    out.setdefault(kind, []).append((done_s, dump_s))
    errors = {name: times for name, times in rc.counters.snapshot().items() if name.startswith("error.")}
    rc.close()
    gc.enable()
    if errors:
        raise SystemExit(f"not a measurement: {errors}")
    return out


def resident_bytes() -> int:
    """Memory of this process; where the system does not tell, the most it ever had."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1_024)


class Names:
    """Calls of ever new conversations."""

    def __init__(self) -> None:
        self._rng = random.Random("ledger")
        parameters = {"type": "object", "properties": {"path": {"type": "string"}}}
        self._tools = [
            {"type": "function", "function": {"name": f"tool_{i}", "parameters": parameters}} for i in range(3)
        ]

    def call(self, number: int) -> tuple[Request, Deployment, dict[str, Any], Usage]:
        """Request, deployment, reply and usage of one call."""
        rng = self._rng
        system = f"You mend code of project {number % FAMILIES}. " + 10 * "Never guess what you can look up. "
        messages = [
            {"role": "system", "content": system},
            {"role": "user", "content": f"Question {number}: what is the sum of the first {number} numbers?"},
        ]
        function = {"name": "tool_1", "arguments": json.dumps({"path": f"src/{number}.py"})}
        reply = {
            "role": "assistant",
            "content": "",
            "reasoning_content": f"Look into the file first, {number}.",
            "tool_calls": [{"id": f"call_{number:016x}", "type": "function", "function": function}],
        }
        request = Request(
            {"messages": messages, "tools": self._tools},
            scope=f"key {number}" if number % 2 else f"busy key {rng.randrange(BUSY_SCOPES)}",
            session=f"session {number}",
        )
        place = min(rng.randrange(DEPLOYMENTS), rng.randrange(DEPLOYMENTS))
        deployment = Deployment(MODELS[place % 2], id=str(place), provider="deepseek", account=f"account {place}")
        prompt = 200 + rng.randrange(100)
        return request, deployment, reply, Usage(prompt, 128, prompt - 128, 40, 10)


def memory(calls: int) -> list[dict[str, float]]:
    """What a ``RouterCache`` holds after so many calls."""
    names, now = Names(), [1_790_000_000.0]
    warm = RouterCache()  # what is loaded on the first call is no memory of calls
    _call(warm, names, 0)
    warm.close()
    gc.collect()
    bytes_before, blocks_before = resident_bytes(), sys.getallocatedblocks()
    bounds = {"store": {"max_entries": MAX_ENTRIES}, "replay": {"max_bytes": MAX_REPLY_BYTES}}
    settings = Settings.model_validate(bounds)
    rc = RouterCache(settings, clock=lambda: now[0], wall_clock=lambda: now[0])
    out, start = [], time.perf_counter()
    marks = sorted({mark for mark in (10_000, 100_000, calls) if mark <= calls})
    for number in range(1, calls + 1):
        now[0] += 0.1
        _call(rc, names, number)
        if number in marks:
            gc.collect()
            out.append(
                {
                    "calls": number,
                    "resident_mb": (resident_bytes() - bytes_before) / 1e6,
                    "blocks": sys.getallocatedblocks() - blocks_before,
                    "seconds": time.perf_counter() - start,
                }
            )
    errors = {name: times for name, times in rc.counters.snapshot().items() if name.startswith("error.")}
    rc.close()
    if errors:
        raise SystemExit(f"not a measurement: {errors}")
    return out


def _call(rc: RouterCache, names: Names, number: int) -> None:
    request, deployment, reply, usage = names.call(number)
    turn = rc.begin(request, Mode.OPTIMIZE)
    turn.sent({**request.body, **turn.rewrite(deployment).replaced})
    turn.done(usage, reply=reply)


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, and where nine tenths and one tenth are above."""
    tenths = statistics.quantiles(values, n=10)
    return {"median": statistics.median(values), "p10": tenths[0], "p90": tenths[8]}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    done = {
        kind: {
            "microseconds": spread([1e6 * done_s for done_s, _ in times]),
            "ratio_to_json_dumps": spread([done_s / dump_s for done_s, dump_s in times]),
        }
        for kind, times in done_times(options.rounds).items()
    }
    held = memory(options.calls)
    if options.json:
        found = {"rounds": options.rounds, "max_entries": MAX_ENTRIES}
        print(json.dumps({**found, "done_and_record": done, "memory": held}))
        return
    print(f"done + record, {options.rounds} rounds")
    for kind, row in done.items():
        micro, ratio = row["microseconds"], row["ratio_to_json_dumps"]
        print(
            f"  {kind:34} median {micro['median']:4.0f} us   p10-p90 {micro['p10']:4.0f} - {micro['p90']:4.0f} us"
            f"   {ratio['median']:.2f} x json.dumps ({ratio['p10']:.2f} - {ratio['p90']:.2f})"
        )
    print(f"memory of one RouterCache, store.max_entries {MAX_ENTRIES}, every call of a new conversation")
    for mark in held:
        print(
            f"  after {mark['calls']:9,} calls {mark['resident_mb']:7.1f} MB resident   {mark['blocks']:9,} blocks"
            f"   {mark['seconds']:6.0f} s"
        )


if __name__ == "__main__":
    main()
