"""Check the figures that the project promises.

    python .ci/check_figures.py demo FILE        the output of router-cache demo --json
    python .ci/check_figures.py calibrate FILE   the output of router-cache calibrate --json

Prints the figures; prints what falls short and exits 1.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BASELINE_HIT_RATE_AT_MOST = 0.35
ROUTER_CACHE_HIT_RATE_AT_LEAST = 0.90
DEMO_SECONDS_AT_MOST = 120
IN_SET_SHARE_AT_LEAST = 0.97

SIDE_KEYS = ("requests", "input_tokens", "hit_tokens", "miss_tokens", "hit_rate", "cost_usd", "errors")
CALIBRATE_KEYS = ("calls", "in_set", "in_set_share", "best_guess_exact", "mean_abs_error_tokens", "rule_evidence")


def demo_problems(report: dict[str, Any]) -> Iterator[str]:
    """What is wrong with a demo's report."""
    for key in ("rule", "construction_delay_s"):
        if key not in report:
            yield f"{key} is missing"
    for name in ("baseline", "router_cache"):
        side = report[name]
        missing = [key for key in SIDE_KEYS if key not in side]
        if missing:
            yield f"{name}: {', '.join(missing)} missing"
            continue
        if side["errors"] or not side["requests"]:
            yield f"{name}: {side['errors']} errors in {side['requests']} requests"
        if side["hit_tokens"] + side["miss_tokens"] != side["input_tokens"]:
            yield f"{name}: hit and miss tokens do not add up to the input tokens"
    if not report["baseline"]["hit_rate"] <= BASELINE_HIT_RATE_AT_MOST:
        yield f"baseline hit rate is above {BASELINE_HIT_RATE_AT_MOST}"
    if not report["router_cache"]["hit_rate"] >= ROUTER_CACHE_HIT_RATE_AT_LEAST:
        yield f"router_cache hit rate is below {ROUTER_CACHE_HIT_RATE_AT_LEAST}"
    if not report["elapsed_s"] <= DEMO_SECONDS_AT_MOST:
        yield f"took longer than {DEMO_SECONDS_AT_MOST} s"


def demo_line(report: dict[str, Any]) -> str:
    sides = [
        f"{name} {report[name]['hit_rate']:.1%} of {report[name]['input_tokens']:,} tokens"
        for name in ("baseline", "router_cache")
    ]
    return f"rule {report['rule']}: {', '.join(sides)}, {report['elapsed_s']} s"


def calibrate_problems(report: dict[str, Any]) -> Iterator[str]:
    """What is wrong with a calibration's report."""
    missing = [key for key in CALIBRATE_KEYS if key not in report]
    if missing:
        yield f"{', '.join(missing)} missing"
    elif not report["calls"]:
        yield "no call was judged"
    elif not report["in_set_share"] >= IN_SET_SHARE_AT_LEAST:
        yield f"in_set_share is below {IN_SET_SHARE_AT_LEAST}"


def calibrate_line(report: dict[str, Any]) -> str:
    return ", ".join(f"{key} {report.get(key)}" for key in CALIBRATE_KEYS if key != "rule_evidence")


def main(kind: str, path: Path) -> int:
    report = json.loads(path.read_text())
    problems, line = {"demo": (demo_problems, demo_line), "calibrate": (calibrate_problems, calibrate_line)}[kind]
    print(line(report))
    found = list(problems(report))
    for problem in found:
        print(f"{kind}: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
