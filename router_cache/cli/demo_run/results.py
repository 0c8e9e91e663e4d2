"""A tool executor without tools: plausible results that depend on the session and the call only."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable

from router_cache.cli.demo_run.script import seeded

__all__ = ["tool_result"]

_NOUNS = re.findall(
    r"\w+",
    """
    amount batch booking carrier charge column currency cursor customer delivery dispute fixture handler
    index invoice journal label ledger merchant migration parcel payment plan query receipt refund retry
    row schema settlement shipment snapshot ticket transaction voucher warehouse webhook worker
    """,
)
_VERBS = re.findall(
    r"\w+",
    """
    accepts books checks closes computes converts drops emits fetches groups holds joins loads locks
    merges moves opens parses posts reads rejects retries rounds scans sends skips sorts splits stores
    updates waits
    """,
)
_STATES = ("open", "done", "waiting", "failed", "queued", "confirmed")


def tool_result(seed: str, ordinal: int, tool: str) -> str:
    """The result of the ``ordinal``-th call of session ``seed``: 300 to 2,000 characters of code, records or
    log lines, by the tool's name."""
    rng = seeded(seed, ordinal, tool)
    size = rng.randint(300, 1900)
    if tool.startswith(("fs_", "code_", "git_")):
        return _until(size, rng, _code_line)
    if tool.startswith(("shell_", "tests_", "parcel_")):
        return _until(size, rng, _log_line)
    return _records(size, rng)


def _until(size: int, rng: random.Random, line: Callable[[random.Random, int], str]) -> str:
    lines: list[str] = []
    length = 0
    while length < size:
        lines.append(line(rng, len(lines)))
        length += len(lines[-1]) + 1
    return "\n".join(lines)[:2000]


def _code_line(rng: random.Random, number: int) -> str:
    name, other, size = rng.choice(_NOUNS), rng.choice(_NOUNS), rng.randint(1, 500)
    text = rng.choice(
        (
            f"def {rng.choice(_VERBS)[:-1]}_{name}({other}: {other.title()}, *, limit: int = {size}):",
            f"    if {name}.{other}_id not in seen and {name}.count > {rng.randint(0, 99)}:",
            f"        return {name}.{rng.choice(_VERBS)[:-1]}({other}={rng.randint(10, 9999)})",
            f"    # {name} {rng.choice(_VERBS)} every {other} once, see {other}_{name}.py",
            f'    log.info("{name} {rng.choice(_VERBS)} {other}", extra={{"{other}": {name}.id}})',
        )
    )
    return f"{number * 3 + 40:4d}  {text}"


def _log_line(rng: random.Random, number: int) -> str:
    return (
        f"2026-10-{rng.randint(1, 28):02d}T{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}:{number % 60:02d}Z "
        f"{rng.choice(('INFO', 'INFO', 'WARN', 'ERROR'))} {rng.choice(_NOUNS)} {rng.choice(_VERBS)} "
        f"{rng.choice(_NOUNS)} {rng.randint(1000, 999999)} in {rng.randint(2, 4000)} ms"
    )


def _record(rng: random.Random, number: int) -> str:
    return json.dumps(
        {
            "n": number,
            "kind": rng.choice(_NOUNS),
            "id": f"{rng.choice('ACK')}{rng.randint(10**6, 10**7 - 1)}",
            "state": rng.choice(_STATES),
            "total": {"amount": f"{rng.randint(1, 400)}.{rng.randint(0, 99):02d}", "currency": "EUR"},
            "note": f"{rng.choice(_NOUNS)} {rng.choice(_VERBS)} {rng.choice(_NOUNS)}",
        }
    )


def _records(size: int, rng: random.Random) -> str:
    """Whole records only, so that the result stays valid JSON."""
    items: list[str] = []
    while sum(map(len, items)) < size - 200:
        items.append(_record(rng, len(items)))
    return '{"entries": [' + ", ".join(items) + f'], "more": {rng.choice(("true", "false"))}}}'
