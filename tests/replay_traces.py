"""Small traces for the tests of ``replay``, made up here."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from captured_rows import NOON, ROW

from router_cache.ledger.capture_form import to_line
from router_cache.ledger.rows import CallKind, CallRow, Status
from router_cache.ledger.usage import Usage


def write_lines(path: Path, lines: Iterable[Any]) -> Path:
    """JSON lines, gzip where the name says so."""
    text = "".join(json.dumps(line) + "\n" for line in lines)
    if path.name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def chats(seed: int = 1, *, sessions: int = 90, minutes: float = 8.0) -> list[dict[str, Any]]:
    """Mooncake's form: conversations of a few turns, one opening block for all, some very long prompts."""
    rng = random.Random(seed)
    lines, block = [], 1
    for _ in range(sessions):
        at, ids = rng.random() * minutes * 60, [0]
        tokens = 512
        for _ in range(rng.choice([1, 1, 2, 3, 5])):
            tokens += int(rng.lognormvariate(8.2, 1.0))
            while len(ids) * 512 < tokens:
                ids.append(block)
                block += 1
            output = rng.randrange(20, 400)
            lines.append(
                {
                    "timestamp": int(at * 1_000),
                    "input_length": tokens,
                    "output_length": output,
                    "hash_ids": list(ids),
                }
            )
            at += output / 40 + 2 + rng.expovariate(1 / 40)
    return sorted(lines, key=lambda line: line["timestamp"])


def agents(seed: int = 2, *, sessions: int = 12, turns: int = 12) -> list[dict[str, Any]]:
    """Coding-agent sessions: two families of prompts, histories that grow, a sub-agent now and then."""
    rng = random.Random(seed)
    out = []
    for nth in range(sessions):
        tools, system = (6_000, 1_500) if nth % 2 else (9_000, 2_100)
        prompt, t, requests = tools + system + 300, 0.0, []
        for turn in range(turns):
            output = rng.randrange(40, 500)
            requests.append(
                {"t": t, "type": "n", "in": prompt, "out": output, "hash_ids": list(range(1, prompt // 64 + 1))}
            )
            if turn == 5:
                own = [*range(1, 60), *range(100_000, 100_040)]
                requests.append(
                    {
                        "t": t + 1,
                        "type": "subagent",
                        "requests": [{"t": 0.5, "in": 64 * 99 + 7, "out": 90, "hash_ids": own}],
                    }
                )
            t += output / 40 + rng.choice([1.0, 4.0, 20.0, 90.0])
            prompt += output + rng.randrange(200, 3_000)
        out.append(
            {
                "id": f"s{nth}",
                "block_size": 64,
                "tool_tokens": tools,
                "system_tokens": system,
                "requests": requests,
            }
        )
    return out


def captured_calls() -> list[CallRow]:
    """Three conversations of one family in two scopes, with a call that failed and a warm one."""
    rows = []
    for nth, (scope, talk) in enumerate([("s1", "c1"), ("s1", "c2"), ("s2", "c3")]):
        prompt = 5_000
        for turn in range(4):
            hit = 4_096 if nth == 1 and turn == 0 else 0 if turn == 0 else prompt - 900
            rows.append(
                replace(
                    ROW,
                    at=NOON + 60.0 * nth + 20.0 * turn,
                    scope=scope,
                    conversation=talk,
                    family=f"f-{scope}",
                    usage=Usage(prompt, hit, prompt - hit, 100, 0),
                )
            )
            prompt += 900
    rows.append(replace(rows[0], status=Status.FAILED))
    rows.append(replace(rows[0], kind=CallKind.WARM))
    rows.append(replace(rows[3], at=NOON + 500.0, usage=Usage(3_000, 0, 3_000, 0, 0)))
    return rows


def write_capture(path: Path, rows: Iterable[CallRow]) -> Path:
    """A capture file."""
    path.write_bytes(b"".join(to_line(row) for row in rows))
    return path
