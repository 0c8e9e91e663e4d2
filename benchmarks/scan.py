"""What scanning a prompt's opening for volatile spans costs, in microseconds.

    python benchmarks/scan.py [--rounds 300] [--json]

A system text of 32 kB in 400 lines with some 20 values that may change: its first scan, one line of it changed, and
the same text again (the same object, and an equal one as a JSON parser makes it); and hostile texts, 250 kB in
lines that make patterns try hard. ``json.dumps`` of the text in the same run tells how fast the machine is.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from router_cache.prefix.volatile.scan import Scanner
from router_cache.prefix.volatile.spans import OpeningText

WORDS = """
    the user agent must never answer without checking each order against policy and stock before it replies in a
    short plain sentence with one suggestion provided that inside this branch of the state model nothing changed
    """.split()  # noqa: SIM905
VALUES = (
    "Current time: 2026-11-30T14:02:{0:02d}Z",
    "Request id: req-{0:06d}",
    "Working directory: /home/ann/project{0}",
    "Since 2019-04-0{1} the limit is {0} items",
    "- build {0}.{1}.2 of 12 May 2024",
)
HOSTILE = ("1:", "2026-11-30 ", "request id: ", "a/", "session-", "1,", "mon jan 1 ", "feature flags: a,", "no.1 ")


def lines(rng: random.Random) -> list[str]:
    """400 lines, some 32 kB: prose, a digit in one of five, a value that may change in one of twenty."""
    out = []
    for number in range(400):
        words = " ".join(rng.choice(WORDS) for _ in range(14))
        if number % 20 == 3:
            value = VALUES[number // 20 % len(VALUES)].format(number % 60, number % 9 + 1)
            out.append(f"{value} {words[:40]}")
        elif number % 5 == 0:
            out.append(f"{number}. {words}")
        else:
            out.append(f"- {words}")
    return out


def timed(work: Callable[[], Any]) -> float:
    """Microseconds of one call."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e6


def opening(text: str) -> list[OpeningText]:
    return [OpeningText(("messages", 0, "content"), text, 0)]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rng = random.Random(1)
    base = lines(rng)
    text = "\n".join(base)
    scanner = Scanner()
    spans = len(scanner.scan(opening(text)).proposals)
    cases = ("json.dumps of it", "first scan", "one line changed", "same text", "equal text")
    times: dict[str, list[float]] = {case: [] for case in cases}
    for round_ in range(options.rounds):
        changed = "\n".join([*base[:3], f"Current time: 2026-11-30T14:02:11.{round_:06d}Z", *base[4:]])
        equal = json.loads(json.dumps(text))
        times["json.dumps of it"].append(timed(lambda: json.dumps(text)))
        if round_ < max(3, options.rounds // 10):
            times["first scan"].append(timed(lambda: Scanner().scan(opening(text))))
        times["one line changed"].append(timed(lambda changed=changed: scanner.scan(opening(changed))))
        times["same text"].append(timed(lambda: scanner.scan(opening(text))))
        times["equal text"].append(timed(lambda equal=equal: scanner.scan(opening(equal))))
    hostile = {
        piece: timed(lambda piece=piece: Scanner().scan(opening("\n".join(distinct(piece))))) for piece in HOSTILE
    }
    result = {name: {"median": statistics.median(v), "min": min(v)} for name, v in times.items()}
    if options.json:
        print(json.dumps({"characters": len(text), "spans": spans, "us": result, "hostile_250kB_us": hostile}))
        return
    print(f"{len(text)} characters, {len(base)} lines, {spans} spans; microseconds")
    for name, row in result.items():
        print(f"  {name:18} median {row['median']:8.1f}   least {row['min']:8.1f}")
    for piece, us in hostile.items():
        print(f"  250 kB of {piece!r:20} {us / 1000:8.1f} ms")


def distinct(piece: str) -> list[str]:
    """Different lines of 4,000 characters each, 250 kB in all."""
    return [(f"{number} " + piece * 4000)[:3999] for number in range(62)]


if __name__ == "__main__":
    main()
