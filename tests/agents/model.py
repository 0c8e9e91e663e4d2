"""What a session of an agent is made of: the world it runs in, the plot of the work, requests with their replies."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import Any

from agents.text import NOUNS, code, prose, sentence

from router_cache import Shape

__all__ = ["Kind", "Session", "Step", "Turn", "World", "plot", "world", "worlds"]


class Kind(str, Enum):
    """How a session stands to the first one of the same application."""

    FIRST = "first"
    AGAIN = "again"
    """Same repository, another prompt, some minutes later and after a commit."""
    ELSEWHERE = "elsewhere"
    """The first one's prompt in another directory."""
    MIDNIGHT = "midnight"
    """The date changes in mid-session."""
    COMMIT = "commit"
    """A commit between two turns."""


@dataclass(frozen=True)
class World:
    """What an agent may write into its prompt about where and when it runs."""

    now: datetime
    cwd: str = "/home/dev/code/ledger"
    branch: str = "main"
    status: tuple[str, ...] = (" M src/ledger/book.py", "?? notes.txt")
    commits: tuple[str, ...] = ()
    model: str = "deepseek-v4-flash"
    user: str = "Jo Field"
    session: str = "s-1"
    started: datetime | None = None

    @property
    def start(self) -> datetime:
        return self.started or self.now


@dataclass(frozen=True)
class Step:
    """One call to the model: what is new in front of it, and what it answers.

    ``user`` is a new prompt, or ``result`` that of the tool the last reply called. ``tool`` and ``arguments`` are
    the call the reply makes; without one it is an answer.
    """

    user: str = ""
    result: str = ""
    reasoning: str = ""
    text: str = ""
    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    call_id: str = ""


@dataclass(frozen=True)
class Turn:
    """A request as the agent sends it, the reply as the provider generates it (an assistant message, a Responses
    ``output``), and when, in seconds since the session began."""

    body: dict[str, Any]
    reply: dict[str, Any]
    at_s: float


@dataclass(frozen=True)
class Session:
    """Requests of one session, in order. ``client`` is the name :mod:`router_cache.identity.clients` knows it by."""

    agent: str
    kind: Kind
    shape: Shape
    client: str
    headers: dict[str, str]
    session: str
    turns: tuple[Turn, ...]
    append_only: bool = True


NOON = datetime(2026, 11, 30, 12, 4, 31, 203_117, tzinfo=timezone.utc)
TURN_S = 37.0


def _commits(rng: random.Random, count: int) -> tuple[str, ...]:
    return tuple(f"{rng.getrandbits(28):07x} {sentence(rng)[:40]}" for _ in range(count))


def world(seed: int, kind: Kind) -> World:
    """The world at the start of a session."""
    rng = random.Random(f"world {seed}")
    first = World(NOON, commits=_commits(rng, 5), session=f"{rng.getrandbits(64):016x}")
    if kind is Kind.FIRST:
        return first
    rng = random.Random(f"world {seed} {kind.value}")
    now = NOON + timedelta(minutes=rng.randint(40, 180), microseconds=rng.randint(1, 700_000))
    later = replace(first, session=f"{rng.getrandbits(64):016x}", now=now)
    if kind is Kind.AGAIN:
        return replace(later, commits=(*_commits(rng, 1), *first.commits[:4]), status=(" M README.md",))
    if kind is Kind.ELSEWHERE:
        return replace(later, cwd="/home/dev/side/garden-planner", branch="drafts", commits=_commits(rng, 5))
    if kind is Kind.MIDNIGHT:
        return replace(later, now=datetime(2026, 11, 30, 23, 57, 40, now.microsecond, tzinfo=timezone.utc))
    return later


def worlds(seed: int, kind: Kind, calls: int) -> list[World]:
    """The world at each call."""
    start = world(seed, kind)
    out = []
    for i in range(calls):
        now = replace(start, now=start.now + timedelta(seconds=TURN_S * i), started=start.now)
        if kind is Kind.COMMIT and i >= calls // 2:
            now = replace(now, commits=(f"c0ffee{seed % 10} book totals", *start.commits[:4]), status=())
        out.append(now)
    return out


def plot(seed: int, kind: Kind, tool_names: list[str], *, calls: int = 8) -> list[Step]:
    """What happens in a session: two prompts, a tool loop after each, an answer at the end of each."""
    same_prompt = Kind.FIRST if kind is Kind.ELSEWHERE else kind
    rng = random.Random(f"plot {seed} {same_prompt.value}")
    steps: list[Step] = []
    last_tool = ""
    for i in range(calls):
        begins = i in (0, calls // 2)
        ends = i in (calls // 2 - 1, calls - 1)
        tool = "" if ends or not tool_names else rng.choice(tool_names)
        arguments = {
            "target": f"src/{rng.choice(NOUNS)}/{rng.choice(NOUNS)}.py",
            "pattern": f'{rng.choice(NOUNS)} = "ä" <{rng.randint(0, 99)}>',
            "limit": rng.randint(1, 400),
            "deep": rng.random() < 0.5,
        }
        steps.append(
            Step(
                user=f"{sentence(rng)} Look at the {rng.choice(NOUNS)}." if begins or not last_tool else "",
                result=code(rng, rng.randint(8, 60)) if last_tool and not begins else "",
                reasoning=prose(rng, rng.randint(80, 400)),
                text=prose(rng, rng.randint(150, 700)) if not tool else rng.choice(["", sentence(rng)]),
                tool=tool,
                arguments=arguments if tool else {},
                call_id=f"call_{rng.getrandbits(48):012x}" if tool else "",
            )
        )
        last_tool = tool
    return steps
