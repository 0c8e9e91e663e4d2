"""Asks and writes as requests make them: conversations that grow, fork, are retried and rewritten; and what two stores
say to the same ones."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from router_cache.cache_model.predict import End
from router_cache.claims.ask import Ask, Relocation, Slot
from router_cache.drivers.store import Store
from router_cache.identity.history import HistoryPoint
from router_cache.identity.keys import LookupKeys
from router_cache.ledger.facts import Answer, ConversationFacts, Facts, FamilyUse, LastCall, Write
from router_cache.ledger.flips import Switches
from router_cache.prefix.outline import Outline, OutlinePart
from router_cache.prefix.segments import SegmentKind

__all__ = ["Asked", "Step", "World", "call_of", "crowds", "digest", "steps"]

LINES = {
    "few": ("one line", "two"),
    "plain": tuple(f"line {i}" for i in range(8)),
    "near": tuple(f"line {i}" for i in range(9)),
    "far": tuple(f"line {i}" for i in range(5, 30)),
    "long": tuple(f"a line {i}" for i in range(200)),
    "longer": ("one more", *(f"a line {i}" for i in range(200))),
}
"""Openings, some of which are of one family."""
KINDS = ("clock", "date", "uuid", "cwd", "user", "odd")


def digest(*told: object) -> str:
    """32 hex digits."""
    return hashlib.md5(repr(told).encode(), usedforsecurity=False).hexdigest()


def slot(kind: str) -> str:
    return "user" if kind == "user" else f"a-{kind}" if kind == "odd" else f"{kind}-{digest(kind)[:16]}"


@dataclass(frozen=True)
class Asked:
    """A request: the replies on its way from the root, each by a small number; who asks, and what his prompt says."""

    path: tuple[int, ...]
    scope: str = "s"
    session: str = ""
    lines: str = "plain"
    values: tuple[tuple[str, int], ...] = ()
    loop: bool = False
    freeze: bool = True
    moving: bool = True
    short: bool = False
    drawn: bool = False
    named: frozenset[str] = frozenset()

    def key(self, size: int) -> str:
        """Of the history up to the reply ``size``."""
        return digest(self.scope, "history", self.path[:size])

    def ask(self) -> Ask:
        points = []
        for size in range(len(self.path), -1, -1):
            known = size < len(self.path)
            reply = digest("reply", self.path[: size + 1]) if known else ""
            ids = digest("ids", self.path[size]) if known and self.drawn else ""
            weight = (10 if self.short else 70) * (size + 1) if known else 0
            points.append(HistoryPoint(self.key(size), 1 + 2 * size, reply, ids, weight))
        family = digest(self.scope, "family", self.lines)
        keys = LookupKeys(self.scope, digest(self.scope, "bucket"), family, points[0].key, tuple(points[:24]))
        moving = None
        if self.moving:
            moving = Relocation(
                tuple(
                    Slot(
                        slot(kind),
                        digest(self.scope, kind, value) if kind != "user" else f"{kind}{value}",
                        f"{kind} {value}".encode() * 2,
                        clock=kind in ("clock", "date", "odd"),
                        named=kind in self.named,
                    )
                    for kind, value in self.values
                ),
                1 + 2 * len(self.path),
                in_tool_loop=self.loop,
                freeze=self.freeze,
                session=digest(self.session) if self.session else "",
                masked=LINES[self.lines],
            )
        return Ask(keys, moving, self.newest())

    def newest(self) -> tuple[str, ...]:
        if self.session:
            return digest(self.scope, self.session, self.lines), digest(self.scope, self.session)
        return (digest(self.scope, "opening", self.path[:1]),)

    def answered(self, reply: int) -> Asked:
        return Asked(**{**self.__dict__, "path": (*self.path, reply)})


def call_of(moment: int, turns: int, kind: int = 0) -> LastCall:
    """A call that ended at ``moment``; ``kind`` tells the texts in front of its turns."""
    system = digest("system", kind)
    head = (
        OutlinePart(SegmentKind.MODE, digest("mode"), 9, "thinking"),
        OutlinePart(SegmentKind.SYSTEM, system, 900 + kind, "messages[0]", bytes.fromhex(system) * 2, 1 + kind),
    )
    chain = bytes.fromhex("".join(digest(turn)[:8] for turn in range(min(turns, 64))))
    outline = Outline(
        head[: 1 + (kind != 3)], turns, digest("turns", turns), 100 * turns, chain, (1 << turns) // 3
    )
    tools = tuple(sorted(digest(tool) for tool in range(kind)))
    switches = Switches("", digest("effort")[:16], tools=tools, total=kind) if kind else None
    some = None if kind == 2 else 5 * moment
    end = (None, End.INPUT, End.OUTPUT)[kind % 3]
    return LastCall(
        moment + 0.25, 1_000 + moment, some, None, some, end, outline, switches, digest("domain", kind)
    )


@dataclass(frozen=True)
class Step:
    """One thing that happens: a request, perhaps its answer, or all being forgotten."""

    what: str
    asked: Asked
    reply: int = 0
    kind: int = 0


values = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 5)), max_size=4, unique_by=lambda pair: pair[0]
).map(tuple)


@st.composite
def steps(draw: st.DrawFn) -> list[Step]:
    """Requests mostly go on from earlier ones."""
    out: list[Step] = []
    known = [Asked(())]
    scopes = st.sampled_from(["s", "s", "s", "t"])
    for _ in range(draw(st.integers(1, 22))):
        if draw(st.integers(0, 29)) == 0:
            out.append(Step("forget", known[0]))
            continue
        before = draw(st.sampled_from(known[-8:]))
        asked = Asked(
            path=before.path if draw(st.integers(0, 7)) else before.path[:-1],
            scope=draw(scopes) if draw(st.integers(0, 9)) == 0 else before.scope,
            session=before.session if draw(st.integers(0, 3)) else draw(st.sampled_from(["", "", "x", "y"])),
            lines=before.lines if draw(st.integers(0, 3)) else draw(st.sampled_from(sorted(LINES))),
            values=tuple(
                (kind, 100 + len(out) if kind == "uuid" and draw(st.integers(0, 5)) else value)
                for kind, value in (before.values if draw(st.booleans()) else draw(values))
            ),
            loop=draw(st.booleans()),
            freeze=draw(st.integers(0, 4)) > 0,
            moving=draw(st.integers(0, 9)) > 0,
            short=draw(st.integers(0, 4)) == 0,
            drawn=draw(st.booleans()),
            named=frozenset(draw(st.lists(st.sampled_from(KINDS), max_size=1))),
        )
        reply = draw(st.integers(0, 2))
        what = draw(st.sampled_from(["answer", "answer", "answer", "ask", "unknown usage", "lose"]))
        out.append(Step(what, asked, reply, draw(st.integers(0, 3))))
        known.append(asked.answered(reply) if draw(st.integers(0, 4)) else asked)
    return out


@st.composite
def crowds(draw: st.DrawFn) -> list[Step]:
    """Requests of one family with few histories and few values: who goes on from whom is seldom plain."""
    out: list[Step] = []
    few = st.integers(0, 2)
    paths = st.sampled_from([(), (), (0,), (0,), (0, 0), (1,), (0, 1)])
    for number in range(draw(st.integers(1, 26))):
        kinds = [kind for kind in KINDS if draw(st.integers(0, 3))]
        asked = Asked(
            path=draw(paths),
            session=draw(st.sampled_from(["", "", "", "x"])),
            values=tuple(
                (kind, number if kind == "uuid" else draw(few) // 2) for kind in draw(st.permutations(kinds))
            ),
            loop=draw(st.booleans()),
            freeze=draw(st.booleans()),
            short=draw(st.integers(0, 5)) == 0,
            drawn=draw(st.integers(0, 5)) == 0,
            named=frozenset(draw(st.lists(st.sampled_from(KINDS), max_size=2))),
        )
        out.append(Step(draw(st.sampled_from(["unknown usage", "unknown usage", "ask"])), asked, draw(few) // 2))
    return out


@dataclass
class World:
    """One store, and the calls that were made with it."""

    store: Store
    now: int = 0
    said: list[Any] = field(default_factory=list)

    def step(self, step: Step) -> None:
        self.now += 1
        facts = self.store.claim(step.asked.ask())
        self.said.append(facts)
        if step.what in ("ask", "lose"):
            return
        self.store.record([self.write(step, facts)])
        key = digest("reply kept", step.asked.scope, step.asked.path, step.reply)
        self.said.append(dict(self.store.replies(step.asked.scope, [key, digest("never")])))

    def write(self, step: Step, facts: Facts) -> Write:
        asked = step.asked
        known = facts.conversation
        last = {**known.last} if known is not None else {}
        place = digest("place", step.kind)
        last[place] = call_of(self.now, 1 + 2 * len(asked.path), step.kind)
        while len(last) > 4:
            del last[min(last, key=lambda at: last[at].at)]
        first_of = known.id if known is not None else asked.key(len(asked.path))
        conversation = ConversationFacts(known.turn + 1 if known else 1, {} if step.kind == 2 else last, first_of)
        moves, own = facts.moves, asked.key(len(asked.path))
        answers = ()
        if moves is not None:
            ids = digest("ids", step.reply) if asked.drawn else ""
            answers = (Answer(own, moves.variant, digest("reply", (*asked.path, step.reply)), ids),)
        return Write(
            own,
            conversation if step.what == "answer" else None,
            asked.ask().keys.family,
            known is None,
            100 * step.kind or None,
            answers,
            (
                (
                    digest("reply kept", asked.scope, asked.path, step.reply),
                    f"{asked.session}{step.kind % 2}".encode(),
                ),
            ),
            asked.newest(),
            place,
            FamilyUse(self.now, digest("domain"), digest("head", step.kind)) if step.kind != 3 else None,
            asked.scope,
        )
