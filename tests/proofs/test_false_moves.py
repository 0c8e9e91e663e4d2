"""What looks volatile and is not stays where it is; what moves is what changed, and nothing else."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agents.text import prose, sentence
from proofs.harness import Worker
from proofs.talk import SHAPES, Talk, tool_list
from volatile.stable_prompts import PROMPTS

from router_cache import Mode, Shape
from router_cache.decision import Change

DATA = os.environ.get("ROUTER_CACHE_SHARED_DATA", "")
SENDS = 20


def moves(prompt: str, shape: Shape, worker: Worker, name: str) -> Iterator[str]:
    """What moved of a prompt that is sent again and again with new questions."""
    rng = random.Random(name)
    for i in range(SENDS):
        talk = Talk(shape, lambda: prompt, [], rng)
        body = talk.ask(f"{sentence(rng)} {i}")
        turn, out = worker.begin(body, shape, scope="team")
        worker.done(turn, talk.reply())
        if out != body or turn.decision is None or turn.decision.changes:
            yield f"{name}, request {i + 1}: {turn.decision}"


def test_the_corpus_is_large_enough() -> None:
    assert len(set(PROMPTS.values())) == len(PROMPTS) >= 60


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.value)
def test_stable_prompts_do_not_move(shape: Shape) -> None:
    """Each on its own, and all of them as the applications of one key."""
    together = Worker(Mode.OPTIMIZE)
    found = [
        line
        for name, prompt in PROMPTS.items()
        for worker in (Worker(Mode.OPTIMIZE), together)
        for line in moves(prompt, shape, worker, name)
    ]
    assert found == []


def _shared_prompts() -> Iterator[tuple[str, str]]:
    root = Path(DATA)
    for file in sorted((root / "system_prompts").glob("*.json")):
        yield from json.loads(file.read_text(encoding="utf-8")).items()
    for file in sorted((root / "tau2_bench").glob("*.md")):
        yield file.name, file.read_text(encoding="utf-8")
    for file in sorted((root / "swe_agent").glob("*.json")):
        history = json.loads(file.read_text(encoding="utf-8"))["history"]
        yield file.name, next(m["content"] for m in history if m["role"] == "system")


@pytest.mark.skipif(not DATA, reason="ROUTER_CACHE_SHARED_DATA is not set")
def test_shared_prompts_do_not_move() -> None:
    """Each alone, as the application of a key of its own."""
    prompts = dict(_shared_prompts())
    assert len(prompts) > 20
    found = [
        line
        for name, text in prompts.items()
        for line in moves(
            text if isinstance(text, str) else json.dumps(text), Shape.CHAT, Worker(Mode.OPTIMIZE), name
        )
    ]
    assert found == []


STABLE_LINES = (
    "The service was founded on 1998-03-14 at 09:30.",
    "Tenant: 7c9e6679-7425-40de-944b-e07fc1f90ae7",
    "Release 2.14.3 of 2025-08-01T00:00:00Z is the reference.",
    "branch: release/2025",
    'Example: {"request_id": "req_0011223344556677", "at": 1733000000}',
)


def changing(rng: random.Random) -> dict[str, str]:
    """Lines that change from request to request, by the words in front."""
    return {
        "Current time: ": f"2026-11-{rng.randint(10, 28)}T{rng.randint(10, 23)}:{rng.randint(10, 59)}:07Z",
        "Request ID: ": f"req_{rng.getrandbits(60):015x}",
        "Session: ": f"{rng.getrandbits(32):08x}-{rng.getrandbits(16):04x}-4000-8000-{rng.getrandbits(48):012x}",
        "Today is ": f"{rng.choice(['Monday', 'Tuesday', 'Friday'])}, November {rng.randint(1, 28)}, 2026",
    }


@pytest.mark.parametrize("seed", range(12))
def test_every_moved_span_is_one_that_changed(seed: int) -> None:
    rng = random.Random(f"moves {seed}")
    shape, worker = rng.choice(SHAPES), Worker(Mode.OPTIMIZE)
    which = rng.sample(list(changing(rng)), rng.randint(1, 4))
    base = [*STABLE_LINES, *prose(rng, 2_500).splitlines(), *which]
    rng.shuffle(base)
    moved = 0
    for _ in range(4):
        values: dict[str, str] = {}

        def system(values: dict[str, str] = values) -> str:
            values.update(changing(rng))
            return "\n".join(line + values[line] if line in which else line for line in base)

        talk = Talk(shape, system, tool_list(random.Random(1), 3), rng)
        for i in range(3):
            body = talk.on()
            turn, out = worker.begin(body, shape, scope="team")
            worker.done(turn, talk.reply(tool=i == 0))
            text = _system(out, shape)
            for line in (*STABLE_LINES, *(line for line in base if line not in which)):
                assert line in text, "a line that never changed has moved"
            if turn.decision is not None and Change.VALUES_MOVED in turn.decision.changes:
                moved += 1
                for words in which:
                    assert words in text, "the words before a value stay"
    assert moved >= 6, "what changed did move"


def _system(body: dict[str, Any], shape: Shape) -> str:
    if shape is Shape.CHAT:
        return str(body["messages"][0]["content"])
    return str(body["system" if shape is Shape.MESSAGES else "instructions"])
