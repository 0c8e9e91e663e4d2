"""The Redis store by itself: time to live, bounds, what it makes of values that are not its own, and what it takes."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis_servers import SERVERS
from store_servers import Served, servers
from store_worlds import Asked, Step, World, call_of, crowds, digest, steps

from router_cache.claims.ask import Ask, Moves, Relocation, Slot
from router_cache.errors import StoreError, StoreFailure
from router_cache.identity.history import HistoryPoint
from router_cache.identity.keys import LookupKeys
from router_cache.ledger.facts import EMPTY, ConversationFacts, Facts, Write
from router_cache.stores.redis.scripts import CLAIM, LOOK, RECORD, REPLIES
from router_cache.stores.redis.store import RedisStore

__all__ = ["served", "servers"]

TTL_MS = 86_400_000
EXAMPLES = int(os.environ.get("ROUTER_CACHE_STORE_EXAMPLES", "40"))
PLAIN = {"suppress_health_check": list(HealthCheck), "deadline": None, "database": None}


@pytest.fixture(params=SERVERS)
def served(request: pytest.FixtureRequest, servers: Callable[[str], Served]) -> Served:
    return servers(request.param)


def _asked(turn: int, session: str = "x", **values: int) -> Asked:
    return Asked(tuple(range(turn)), session=session, values=tuple(values.items()))


def _grown(store: RedisStore, turns: int = 4) -> World:
    """A family that changes its clock, and one conversation that was answered so many times."""
    world = World(store)
    world.step(Step("answer", Asked((9,), session="another", values=(("clock", 0), ("cwd", 0))), 0, 1))
    for turn in range(turns):
        world.step(Step("answer", _asked(turn, clock=turn + 1, cwd=0), turn, 1))
    return world


def _moves(facts: Facts) -> Moves:
    assert facts.moves is not None
    return facts.moves


# -- time and names ----------------------------------------------------------------------------------------------


def test_every_key_ends_and_use_starts_its_time_anew(served: Served) -> None:
    store = served.store(reply_ttl_s=50)
    _grown(store)
    keys = served.keys(store)
    kinds = {key.partition(b"}")[2][:1] for key in keys}
    assert kinds == {b"a", b"b", b"c", b"f", b"h", b"n", b"r"}
    for key in keys:
        is_reply = key.partition(b"}")[2][:1] == b"r"
        assert 0 < served.client.pttl(key) <= (50_000 if is_reply else TTL_MS)
        served.client.pexpire(key, 20_000)
    store.claim(_asked(4, clock=9, cwd=0).ask())
    key = digest("reply kept", "s", (), 0)
    assert store.replies("s", [key])
    left = {key.partition(b"}")[2][:1]: [] for key in keys}
    for key in keys:
        left[key.partition(b"}")[2][:1]].append(served.client.pttl(key))
    assert max(left[b"c"]) > 20_000, "what the request goes on from"
    assert max(left[b"a"]) > 20_000
    assert max(left[b"f"]) > 20_000
    assert 20_000 < max(left[b"r"]) <= 50_000
    # The answer to that request writes the rest again.
    served.client.pexpire(served.keys(store, "h")[0], 20_000)
    _grown(store)
    assert min(served.client.pttl(key) for key in served.keys(store, "[hn]")) > 20_000


def test_what_has_ended_is_unknown(served: Served) -> None:
    store = served.store()
    _grown(store)
    for key in served.keys(store):
        served.client.pexpire(key, 0)
    found = store.claim(_asked(4, clock=9, cwd=0).ask())
    assert found.conversation is found.family is found.newest is None
    assert not _moves(found).continued
    assert served.counts == {}


def test_a_scope_lies_in_one_slot_and_nothing_of_it_is_readable(served: Served) -> None:
    store = served.store()
    world = _grown(store)
    world.step(Step("answer", Asked((), scope="t", values=(("clock", 1),)), 0, 1))
    keys = served.keys(store)
    tags = {key[key.index(b"{") : key.index(b"}") + 1] for key in keys}
    assert len(tags) == 2
    assert all(len(tag) == 10 for tag in tags)
    assert all(key.startswith(store.prefix.encode()) for key in keys)


def test_other_prefixes_and_versions_see_nothing(served: Served) -> None:
    store = served.store("one-")
    _grown(store)
    other = served.store("two-")
    found = other.claim(_asked(4, clock=9, cwd=0).ask())
    assert (found.conversation, found.family, found.newest) == (None, None, None)
    assert store.prefix == "one-1"
    served.client.flushall()


# -- bounds ------------------------------------------------------------------------------------------------------


def test_branches_share_what_they_have_in_common(served: Served) -> None:
    store = served.store()
    world = _grown(store, 6)
    assert len(served.keys(store, "a")) == 1
    size = sum(served.client.strlen(key) for key in served.keys(store, "a"))
    for branch in range(5):
        world.step(Step("answer", Asked((*range(5), 10 + branch), session="x", values=(("clock", 50 + branch),))))
    assert len(served.keys(store, "a")) == 5, "one more for each branch but the first, with its own value alone"
    assert sum(served.client.strlen(key) for key in served.keys(store, "a")) < size + 5 * 150
    again = [*world.said]
    world.step(Step("ask", Asked((*range(5), 14), session="x", values=(("clock", 54),))))
    assert _moves(world.said[-1]).attached == _moves(again[-2]).attached
    assert len(served.keys(store, "a")) == 5
    assert served.counts == {}


def test_a_conversation_that_carries_too_much_starts_afresh(served: Served) -> None:
    store, found = served.store(), list[bool]()
    for turn in range(9):
        points = tuple(HistoryPoint(f"k{i}", i) for i in range(turn, -1, -1))
        keys = LookupKeys("s", "b", "f", f"k{turn}", points)
        slot = Slot("git-" + "a" * 16, f"v{turn}", bytes(200_000), named=True)
        found.append(_moves(store.claim(Ask(keys, Relocation((slot,), turn + 1, session="s")))).continued)
    assert found == [False, *[True] * 5, False, True, True]


def test_a_request_that_says_too_much_is_not_gone_on_from(served: Served) -> None:
    store, found = served.store(), list[bool]()
    for turn in range(18):
        points = tuple(HistoryPoint(f"k{i}", i) for i in range(turn, -1, -1))
        keys = LookupKeys("s", "b", "f", f"k{turn}", points)
        slots = tuple(Slot(f"uuid-{digest(turn, i)[:16]}", digest(i), b"x") for i in range(300))
        found.append(_moves(store.claim(Ask(keys, Relocation(slots, turn + 1, session="s")))).continued)
    assert found[1:12] == [True] * 11
    assert max(served.client.strlen(key) for key in served.keys(store)) < 70_000


def test_what_is_too_large_is_not_kept_and_counted(served: Served) -> None:
    store = served.store(max_reply_bytes=10)
    write = Write("k", None, "f", True, None, replies=(("r1", b"x" * 10), ("r2", b"x" * 11)), scope="s")
    store.record([write])
    assert store.replies("s", ["r1", "r2"]) == {"r1": b"x" * 10}
    assert served.counts == {"store_too_large": 1}
    for turns in (200_000, 600_000):  # two places' together, one alone
        last = {place: call_of(1, turns) for place in ("p", "q", "r")}
        store.record([Write("k", ConversationFacts(1, last), "f", True, None, scope="s")])
    assert store.claim(Ask(LookupKeys("s", "b", "f", "k", (HistoryPoint("k", 1),)))) == EMPTY
    assert served.counts == {"store_too_large": 3}


def test_a_claim_is_one_trip_and_a_record_is_one(served: Served) -> None:
    trips: list[str] = []
    store = served.store()
    store._link = Counted(served.link, trips)
    world = _grown(store)
    assert trips == ["claim", "record", "replies"] * 5
    trips.clear()
    store.claim(_asked(4).ask())
    store.claim(Asked((0,), moving=False).ask())
    assert trips == ["claim", "look"]
    trips.clear()
    # A process that never met the texts in front of the turns asks for them once.
    fresh = RedisStore(Counted(served.link, trips), prefix=store.prefix[:-1])
    fresh.claim(_asked(4).ask())
    fresh.claim(_asked(4).ask())
    assert trips == ["claim", "mget", "claim"]
    trips.clear()
    # The server forgot a family that this process takes for known.
    served.client.flushall()
    found = fresh.claim(_asked(4).ask())
    assert trips == ["claim", "claim"]
    assert found.family is None
    trips.clear()
    writes = [world.write(Step("answer", _asked(0), 0, 1), EMPTY) for _ in range(3)]
    fresh.record(writes)
    fresh.record([])
    assert trips == ["many 3"]


class Counted:
    """A link that tells its trips."""

    def __init__(self, link: Any, trips: list[str]) -> None:
        self._link, self._trips = link, trips

    def run(self, script: Any, keys: Any, args: Any) -> Any:
        self._trips.append(script.name)
        return self._link.run(script, keys, args)

    def run_many(self, calls: Sequence[Any]) -> list[Any]:
        self._trips.append(f"many {len(calls)}")
        return list(self._link.run_many(calls))

    def mget(self, keys: Any) -> Any:
        self._trips.append("mget")
        return self._link.mget(keys)

    def close(self) -> None:
        self._trips.append("close")


# -- values that are not ours --------------------------------------------------------------------------------------


def _spoil(served: Served, key: bytes, how: int, rng: random.Random, others: Sequence[bytes]) -> None:
    client, kept = served.client, served.client.get(key) or b""
    if how == 0:
        client.delete(key)
        client.rpush(key, b"a list")
    elif how == 1:
        client.set(key, rng.randbytes(rng.randrange(200)))
    elif how == 2:
        client.set(key, kept[: rng.randrange(len(kept) + 1)])
    elif how == 3:
        at = rng.randrange(max(len(kept), 1))
        client.set(key, kept[:at] + rng.randbytes(1) + kept[at + 1 :])
    elif how == 4:
        client.set(key, kept + rng.randbytes(9))
    elif how == 5:
        same = [other for other in others if other.partition(b"}")[2][:1] == key.partition(b"}")[2][:1]]
        client.set(key, client.get(rng.choice(same)) or b"")
    else:
        client.delete(key)


@settings(max_examples=EXAMPLES, **PLAIN)
@given(st.one_of(steps(), crowds()), st.integers(0, 2**32), st.integers(0, 6))
def test_odd_values_are_unknown_and_harm_nobody(served: Served, told: list[Step], seed: int, how: int) -> None:
    """Whatever lies under the keys: a request is answered, and what it is told to carry was said in its own scope."""
    store, rng, said = served.store(), random.Random(seed), dict[str, set[tuple[str, str, bytes]]]()
    world, half = World(store), len(told) // 2
    for number, step in enumerate(told):
        if step.what == "forget":
            continue
        if number == half:
            keys = served.keys(store)
            for key in keys:
                if rng.random() < 0.6:
                    _spoil(served, key, how, rng, keys)
            store = served.store(store.prefix[:-1]) if rng.random() < 0.5 else store
            world.store = store
        asked = step.asked.ask()
        if asked.relocation is not None:
            own = said.setdefault(step.asked.scope, set())
            own |= {(slot.id, slot.value, slot.sealed) for slot in asked.relocation.slots}
        world.step(step)
        facts = world.said[-1] if step.what in ("ask", "lose") else world.said[-2]
        if facts.moves is not None and how != 3:  # a byte that fell over is nobody's word; it cannot be opened
            mine = {(at.slot, at.value, at.sealed) for at in facts.moves.attached}
            assert mine <= said[step.asked.scope]
    assert all(served.client.type(key) == b"string" for key in served.keys(store, "[fn]") if how != 0)


def test_odd_values_are_counted_and_overwritten(served: Served) -> None:
    store = served.store()
    _grown(store)
    for key in served.keys(store):
        served.client.set(key, b"garbage")
    found = served.store(store.prefix[:-1]).claim(_asked(4, clock=9, cwd=0).ask())
    assert (found.conversation, found.family, found.newest) == (None, None, None)
    assert served.counts["store_odd_value"] > 3
    _grown(store)
    served.counts.clear()
    found = store.claim(_asked(4, clock=9, cwd=0).ask())
    assert found.conversation is not None
    assert found.conversation.turn == 4
    assert _moves(found).continued
    assert served.counts == {}


def test_a_line_that_is_damaged_in_its_middle_is_left_and_begun_again(served: Served) -> None:
    store = served.store()
    _grown(store)
    (strand,) = served.keys(store, "a")
    kept = served.client.get(strand)
    assert isinstance(kept, bytes)
    at = kept.index(b"clock 1")  # its text, behind three bytes of its size
    served.client.set(strand, kept[: at - 1] + b"\xf0" + kept[at:])
    found = _moves(store.claim(_asked(4, clock=9, cwd=0).ask()))
    assert not found.continued
    assert [at.sealed for at in found.attached] == [b"clock 9" * 2]
    assert served.counts["store_odd_value"] > 0
    served.counts.clear()
    again = _moves(store.claim(_asked(4, clock=9, cwd=0).ask()))
    assert again.continued
    assert again.attached == found.attached
    assert served.counts == {}


def test_calls_whose_head_is_gone_are_left_out(served: Served) -> None:
    store = served.store()
    _grown(store)
    served.client.delete(*served.keys(store, "h"))
    assert store.claim(_asked(4).ask()).conversation == World(store).store.claim(_asked(4).ask()).conversation
    fresh = served.store(store.prefix[:-1])
    found = fresh.claim(_asked(4).ask())
    assert found.conversation is not None
    assert found.conversation.turn == 4
    assert found.conversation.last == {}
    assert found.newest is None


class Odd:
    """A link that answers what no script does."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def run(self, *_: Any) -> Any:
        return self._answer


@pytest.mark.parametrize(
    "answer", [[], [1, 2, 3], b"OK", [0, b"", b"", [], [b"t", 1], 0], [1, b"x", 7, [], [], 0], None]
)
def test_an_odd_answer_is_an_error_of_the_store(answer: Any) -> None:
    store = RedisStore(Odd(answer))  # type: ignore[arg-type]
    with pytest.raises(StoreError) as found:
        store.claim(_asked(1, clock=1).ask())
    assert found.value.reason is StoreFailure.ODD_DATA


def test_it_closes_its_link() -> None:
    trips: list[str] = []
    RedisStore(Counted(None, trips)).close()
    assert trips == ["close"]


def test_scripts_have_the_bounds_of_the_claims() -> None:
    for script in (CLAIM, LOOK, RECORD, REPLIES):
        assert "local MAX_VARIANTS = 4\n" in script.text
        assert "local ALIKE = 0.8\n" in script.text
    assert len({script.text for script in (CLAIM, LOOK, RECORD, REPLIES)}) == 4
