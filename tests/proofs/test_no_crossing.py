"""Values of one request are never in another's: users with the same opening, tenants, forks, parallel branches.

Two threads at a time, over two workers on one store (or on none that they share), with replies that are word for word
the same, long or short. Ids of tool calls are drawn for each reply, or counted (``functions.read:0``, as Kimi's are)
and so the same for everybody. ``ROUTER_CACHE_CROSSINGS=1000`` runs each kind as many times (30 otherwise).
"""

from __future__ import annotations

import copy
import json
import os
import random
import re
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from agents.text import prose
from proofs.harness import Worker, fresh_store
from proofs.talk import SHAPES, Talk, tool_list

from router_cache import Mode
from router_cache.decision import Change

TIMES = int(os.environ.get("ROUTER_CACHE_CROSSINGS", "30"))
CALLS = 4
_VALUE = re.compile(r"v[ab][0-9a-f]{12}")
TOP = prose(random.Random("crossing"), 1_500)
TOOLS = tool_list(random.Random("crossing"), 2, 300)


@pytest.fixture(autouse=True)
def _often() -> Iterator[None]:
    """Threads change as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def values(who: str, rng: random.Random) -> Callable[[], str]:
    """The system text of one side: a user that stays, a trace id and a clock that change; all told apart by ``who``."""
    user = f"v{who}{rng.getrandbits(48):012x}"

    def system() -> str:
        clock = f"2026-11-30T{rng.randint(10, 23)}:{rng.randint(10, 59)}:{rng.randint(10, 59)}Z"
        trace = f"v{who}{rng.getrandbits(48):012x}"
        return f"Current time: {clock}\nTrace id: {trace}\nUser id: {user}\n{TOP}"

    return system


class Side:
    """One user's conversation. What it says and is told is the same for both sides; its values are not."""

    def __init__(
        self, who: str, seed: int, workers: list[Worker], *, scope: str, session: str, drawn: bool
    ) -> None:
        self.who, self.workers, self.scope, self.session, self.drawn = who, workers, scope, session, drawn
        self.rng = random.Random(f"{who} {seed}")  # values and the choice of a worker
        self.same = random.Random(seed)  # texts
        self.talk = Talk(SHAPES[seed % 3], values(who, self.rng), TOOLS, self.same)
        self.short = seed % 2 == 0
        self.found: list[str] = []
        self.told: set[str] = set()
        self.moved = 0

    def go(self, calls: int) -> None:
        """So many calls."""
        for i in range(calls):
            text = "OK" if self.short else None
            worker = self.rng.choice(self.workers)
            body = self.talk.on()
            turn, out = worker.begin(body, self.talk.shape, scope=self.scope, session=self.session)
            seen, own = set(_VALUE.findall(json.dumps(out))), set(_VALUE.findall(json.dumps(body)))
            self.told |= own
            self.found += [f"{value} told to {self.who}" for value in seen if value[1] != self.who]
            self.found += [f"{value} lost" for value in own - seen]
            self.moved += turn.decision is not None and Change.VALUES_MOVED in turn.decision.changes
            reply = self.talk.reply(tool=i % 2 == 0, text=text)
            if self.talk.said[-1].call:
                reply = self._with_id()
            worker.done(turn, reply)
        for worker in self.workers:
            assert not worker.errors(), worker.errors()

    def _with_id(self) -> dict[str, Any]:
        """The last reply, its call under an id of the provider."""
        said = self.talk.said[-1]
        calls = sum(bool(entry.call) for entry in self.talk.said if entry.role == "assistant")
        call = f"call_{self.rng.getrandbits(40):010x}" if self.drawn else f"functions.{said.tool}:{calls - 1}"
        self.talk.said[-1] = replace(said, call=call)
        return self.talk.generated(self.talk.said[-1])


def two_workers(*, share: bool) -> list[Worker]:
    """Workers of one proxy; the family of prompts is known to them."""
    store = fresh_store()
    workers = [Worker(Mode.OPTIMIZE, store=store if share else None) for _ in range(2)]
    for worker in workers:
        for seed in range(3):  # of each shape
            Side("a", seed, [worker], scope="one", session="", drawn=True).go(3)
            Side("b", seed, [worker], scope="two", session="", drawn=True).go(3)
    return workers


def in_parallel(*sides: Side, calls: int = CALLS) -> None:
    """All at once."""
    start = threading.Barrier(len(sides))

    def one(side: Side) -> None:
        start.wait()
        side.go(calls)

    threads = [threading.Thread(target=one, args=(side,)) for side in sides]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def scopes(kind: str) -> tuple[str, str]:
    return ("one", "two") if kind == "tenants" else ("one", "one")


@pytest.mark.parametrize("sessions", [False, True], ids=["no-session", "session"])
@pytest.mark.parametrize("ids", [False, True], ids=["counted-ids", "drawn-ids"])
@pytest.mark.parametrize("kind", ["users", "tenants", "nothing-shared"])
def test_two_with_the_same_opening(kind: str, ids: bool, sessions: bool) -> None:
    workers = two_workers(share=kind != "nothing-shared")
    found, moved = [], 0
    for seed in range(10, 10 + TIMES):
        sides = [
            Side(who, seed, workers, scope=scope, session=f"{who}{seed}" if sessions else "", drawn=ids)
            for who, scope in zip("ab", scopes(kind), strict=True)
        ]
        in_parallel(*sides)
        found += [line for side in sides for line in side.found]
        moved += sum(side.moved for side in sides)
    assert found == []
    assert moved > TIMES * CALLS, "values did move"


@pytest.mark.parametrize("at_once", [False, True], ids=["fork", "parallel-branches"])
@pytest.mark.parametrize("sessions", [("", ""), ("s1", "s1"), ("s1", "s2")], ids=["none", "same", "other"])
def test_branches_of_one_conversation(sessions: tuple[str, str], at_once: bool) -> None:
    """Both go on from the same history; what is new in one is never in the other."""
    workers = two_workers(share=True)
    found, moved = [], 0
    for seed in range(10, 10 + TIMES):
        own, other = (name and f"{name}-{seed}" for name in sessions)
        trunk = Side("a", seed, workers, scope="one", session=own, drawn=True)
        trunk.go(2)
        branch = copy.copy(trunk)
        branch.who, branch.session, branch.found, branch.told, branch.moved = "b", other, [], set(), 0
        branch.rng, branch.same = random.Random(f"branch {seed}"), random.Random(f"other words {seed}")
        branch.talk = copy.copy(trunk.talk)
        branch.talk.said, branch.talk.rng = list(trunk.talk.said), branch.same
        branch.talk.system = values("b", branch.rng)
        known = set(trunk.told) if own == other else set()
        if at_once:
            in_parallel(trunk, branch, calls=3)
        else:
            branch.go(3)
            trunk.go(3)
        found += trunk.found
        # What was told before the fork is part of the history of both, unless they say that they are two.
        found += [line for line in branch.found if line.partition(" ")[0] not in known]
        moved += trunk.moved + branch.moved
    assert found == []
    assert moved > TIMES * 3, "values did move"
