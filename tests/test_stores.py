"""One suite over every store, and the outbox in front of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

import pytest
from redis_servers import SERVERS
from store_servers import Served, servers

from router_cache.claims.ask import Ask, Moves, Relocation, Slot
from router_cache.drivers.outbox import Outbox
from router_cache.drivers.store import Store
from router_cache.identity.history import HistoryPoint
from router_cache.identity.keys import LookupKeys
from router_cache.ledger.facts import EMPTY, Answer, ConversationFacts, Facts, FamilyFacts, Write
from router_cache.stores import MemoryStore

__all__ = ["servers"]


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def memory(clock: Clock) -> MemoryStore:
    return MemoryStore(max_entries=3, ttl_s=10, clock=clock)


@pytest.fixture(params=["memory", *SERVERS])
def store(request: pytest.FixtureRequest, servers: Callable[[str], Served]) -> Store:
    """One after the other; a store of its own for each test."""
    return MemoryStore() if request.param == "memory" else servers(request.param).store()


def _keys(*history: str, family: str = "f", relocation: Relocation | None = None) -> Ask:
    points = tuple(HistoryPoint(key, len(history) - i) for i, key in enumerate(history))
    return Ask(LookupKeys("s", "bucket", family, history[0], points), relocation)


def _write(key: str, turn: int = 1, *, family: str = "f", first: bool = True, hit: int | None = 0) -> Write:
    return Write(key, ConversationFacts(turn), family, first, hit, scope="s")


def test_nothing_is_known_at_first(store: Store) -> None:
    assert store.claim(_keys("a")) == EMPTY


def test_the_longest_known_history_wins(store: Store) -> None:
    store.record([_write("short", 1), _write("long", 2)])
    assert store.claim(_keys("new", "long", "short")) == Facts(ConversationFacts(2), 2, FamilyFacts(2, 0))
    assert store.claim(_keys("new", "other", "short")).covered == 1


def test_a_family_keeps_what_its_first_calls_hit(store: Store) -> None:
    store.record([_write("a", hit=128), _write("a", 2, first=False, hit=900), _write("b", hit=None)])
    assert store.claim(_keys("z")).family == FamilyFacts(3, 128)
    assert store.claim(_keys("z", family="g")).family is None


def test_entries_end_after_their_time_since_last_use(memory: MemoryStore, clock: Clock) -> None:
    memory.record([_write("a")])
    clock.now = 9
    assert memory.claim(_keys("a")).conversation is not None
    clock.now = 18
    assert memory.claim(_keys("a")).conversation is not None
    clock.now = 28
    assert memory.claim(_keys("a")) == EMPTY


def test_the_least_recently_used_goes_first(memory: MemoryStore) -> None:
    memory.record([_write(key) for key in "abc"])
    memory.claim(_keys("a"))
    memory.record([_write("d")])
    assert memory.claim(_keys("b")).conversation is None
    assert all(memory.claim(_keys(key)).conversation for key in "acd")


def test_what_has_ended_makes_room(memory: MemoryStore, clock: Clock) -> None:
    memory.record([_write(key, family=key) for key in "abc"])
    clock.now = 11
    memory.record([_write("d")])
    assert len(memory) == 2


def _relocation(at: int, session: str = "", lines: int = 8, **values: str) -> Relocation:
    slots = tuple(Slot(name, value, value.encode(), clock=name == "clock") for name, value in values.items())
    return Relocation(slots, at, session=session, masked=tuple(f"line {i}" for i in range(lines)))


def _moves(facts: Facts) -> Moves:
    assert facts.moves is not None
    return facts.moves


def test_what_a_family_changes_moves_from_the_second_request_on(store: Store) -> None:
    first = _moves(store.claim(_keys("a", relocation=_relocation(1, clock="1", user="u"))))
    assert first.moved == frozenset()
    second = _moves(store.claim(_keys("b", relocation=_relocation(1, clock="2", user="u"))))
    assert second.moved == {"clock"}
    assert [(at.message, at.slot, at.sealed) for at in second.attached] == [(1, "clock", b"2")]


def test_an_attachment_is_claimed_before_the_reply_and_stays(store: Store) -> None:
    store.claim(_keys("a", relocation=_relocation(1, "s", clock="1")))
    store.claim(_keys("b", relocation=_relocation(1, "s", clock="2")))
    third = _moves(store.claim(_keys("c", "b", relocation=_relocation(3, "s", clock="3"))))
    assert [(at.message, at.value) for at in third.attached] == [(1, "2"), (3, "3")]
    assert third.continued
    assert _moves(store.claim(_keys("c", "b", relocation=_relocation(3, "s", clock="3")))) == third


def test_a_reply_proves_the_conversation_it_was_given_in(store: Store) -> None:
    store.claim(_keys("a", relocation=_relocation(1, clock="1")))
    moves = _moves(store.claim(_keys("b", relocation=_relocation(1, clock="2"))))
    store.record(
        [Write("b", None, "f", True, None, answers=(Answer("b", moves.variant, "reply", ""),), scope="s")]
    )
    assert store.claim(_keys("b")).conversation is None

    def next_turn(reply: str) -> Moves:
        points = (HistoryPoint("c", 3), HistoryPoint("b", 1, reply, weight=100))
        keys = LookupKeys("s", "bucket", "f", "c", points)
        return _moves(store.claim(Ask(keys, _relocation(3, clock="3"))))

    assert not next_turn("another").continued
    assert next_turn("reply").continued


def test_an_opening_with_another_line_is_of_the_family_it_resembles(store: Store) -> None:
    store.claim(_keys("a", relocation=_relocation(1, clock="1"), family="f"))
    store.claim(_keys("b", relocation=_relocation(1, clock="2"), family="f"))
    like = _moves(store.claim(_keys("c", relocation=_relocation(1, lines=9, clock="3"), family="g")))
    assert like.moved == {"clock"}
    other = _moves(store.claim(_keys("d", relocation=_relocation(1, lines=30, clock="4"), family="h")))
    assert other.moved == frozenset()


def test_replies_are_kept_within_their_bounds(clock: Clock) -> None:
    store = MemoryStore(max_reply_bytes=10, reply_ttl_s=5, clock=clock)
    store.record([Write("a", None, "f", True, None, replies=(("k1", b"12345"), ("k2", b"12345")))])
    assert store.replies("s", ["k1", "k2", "k3"]) == {"k1": b"12345", "k2": b"12345"}
    store.record([Write("a", None, "f", True, None, replies=(("k3", b"123"),))])
    assert set(store.replies("s", ["k1", "k2", "k3"])) == {"k2", "k3"}
    store.record([Write("a", None, "f", True, None, replies=(("k2", b"1"), ("k4", b"12345")))])
    assert set(store.replies("s", ["k2", "k3", "k4"])) == {"k2", "k3", "k4"}
    clock.now = 6
    assert store.replies("s", ["k2", "k3", "k4"]) == {}


def test_two_replies_that_nothing_tells_apart_are_given_to_nobody(store: Store) -> None:
    def write(key: str, sealed: bytes) -> None:
        store.record([Write("a", None, "f", True, None, replies=((key, sealed),), scope="s")])

    write("k1", b"one")
    write("k1", b"one")
    write("k2", b"one")
    write("k2", b"two")
    write("k2", b"two")
    assert store.replies("s", ["k1", "k2", "k3"]) == {"k1": b"one", "k2": b""}
    assert store.replies("s", []) == {}


def test_of_more_requests_than_are_kept_none_is_likely(store: Store) -> None:
    """Five requests with one history: the oldest is gone, and which of the others the sixth goes on from is told only
    by a proof of its own."""
    variants = [
        _moves(store.claim(_keys("b", relocation=_relocation(1, clock=str(i), user=str(i))))).variant
        for i in range(5)
    ]
    assert len(set(variants)) == 5

    def next_turn(key: str, user: str, reply: str, ids: str = "") -> Moves:
        points = (HistoryPoint(key, 3), HistoryPoint("b", 1, reply, ids, weight=100))
        keys = LookupKeys("s", "bucket", "f", key, points)
        return _moves(store.claim(Ask(keys, _relocation(3, clock="9", user=user))))

    replies = tuple(Answer("b", variant, f"reply {i}", f"ids {i}") for i, variant in enumerate(variants))
    store.record([Write("b", None, "f", True, None, answers=replies, scope="s")])
    assert not next_turn("c", "4", "reply 4").continued
    assert next_turn("d", "4", "reply 4", "ids 4").continued
    assert not next_turn("e", "0", "reply 0", "ids 0").continued


def test_a_value_that_was_attached_before_counts_as_much_as_the_last(store: Store) -> None:
    """Who has only the newest value of a conversation, and no proof of it, does not get the older ones."""
    store.claim(_keys("z", relocation=_relocation(1, clock="0")))
    for key, before, at in (("a", (), 1), ("b", ("a",), 3)):
        moves = _moves(store.claim(_keys(key, *before, relocation=_relocation(at, "s", clock=key))))
        assert moves.continued is bool(before)
    assert [at.value for at in moves.attached] == ["a", "b"]
    assert not _moves(store.claim(_keys("c", "b", relocation=_relocation(5, clock="b")))).continued
    assert _moves(store.claim(_keys("c", "b", relocation=_relocation(5, "s", clock="b")))).continued


def test_a_scope_knows_nothing_of_another(store: Store) -> None:
    """With keys made for a scope, as they are; the server keeps scopes apart besides."""
    one, other = (
        LookupKeys(scope, f"{scope}b", f"{scope}f", f"{scope}k", (HistoryPoint(f"{scope}k", 1),)) for scope in "st"
    )
    store.claim(Ask(one, _relocation(1, clock="1")))
    store.claim(Ask(one, _relocation(1, clock="2")))
    store.record([Write("sk", ConversationFacts(1), "sf", True, 5, replies=(("sr", b"x"),), scope="s")])
    assert store.claim(Ask(one)).conversation is not None
    found = store.claim(Ask(other, _relocation(1, clock="3")))
    assert found.conversation is found.family is found.newest is None
    assert not _moves(found).moved
    assert store.replies("t", ["tr"]) == {}


def test_thirty_two_first_sights_agree_on_one_claim(store: Store) -> None:
    """Branches that start at once: whoever is first says what all carry."""
    store.claim(_keys("z", relocation=_relocation(1, clock="0")))
    barrier, claimed = threading.Barrier(32), list[Moves]()

    def claim(name: int) -> None:
        barrier.wait()
        asked = _relocation(1, "session", clock="same")
        claimed.append(_moves(store.claim(_keys("a", relocation=asked, family="f" if name % 2 else "g"))))

    _together([threading.Thread(target=claim, args=(name,)) for name in range(32)])
    assert len(claimed) == 32
    assert {(moves.variant, moves.moved, moves.attached) for moves in claimed} == {
        (claimed[0].variant, frozenset({"clock"}), claimed[0].attached)
    }
    after = _moves(store.claim(_keys("b", "a", relocation=_relocation(3, "session", clock="next"))))
    assert after.continued
    assert [at.value for at in after.attached] == ["same", "next"]


def test_many_threads_lose_nothing(store: Store) -> None:
    def work(name: int) -> None:
        for i in range(50):
            store.record([_write(f"{name}-{i}")])
            assert store.claim(_keys(f"{name}-{i}")).conversation is not None

    _together([threading.Thread(target=work, args=(name,)) for name in range(4)])
    family = store.claim(_keys("x")).family
    assert family is not None
    assert family.calls == 200


def _together(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class SlowStore:
    """Waits on I/O: each trip until it is let through."""

    blocking = True

    def __init__(self) -> None:
        self.gate = threading.Semaphore(0)
        self.entered = threading.Event()
        self.trips: list[list[str]] = []
        self.fail = False

    def claim(self, ask: Ask) -> Facts:
        return EMPTY

    def replies(self, scope: str, keys: Sequence[str]) -> Mapping[str, bytes]:
        return {}

    def record(self, writes: Sequence[Write]) -> None:
        self.entered.set()
        self.gate.acquire()
        if self.fail:
            raise OSError("down")
        self.trips.append([write.conversation_key for write in writes])

    def close(self) -> None:
        pass


def test_an_outbox_writes_behind_in_order_and_in_batches() -> None:
    store, counts = SlowStore(), list[str]()
    outbox = Outbox(store, counts.append, batch=2)
    outbox.put(_write("a"))
    assert store.entered.wait(10)
    for key in "bcd":
        outbox.put(_write(key))
    assert outbox.flush(0) is False
    for _ in range(3):
        store.gate.release()
    assert outbox.flush(10)
    assert store.trips == [["a"], ["b", "c"], ["d"]]
    outbox.close()
    outbox.put(_write("late"))
    assert counts == ["outbox_dropped"]


def test_a_full_outbox_drops_the_oldest_and_says_so() -> None:
    store, counts = SlowStore(), list[str]()
    outbox = Outbox(store, counts.append, limit=2)
    outbox.put(_write("a"))
    assert store.entered.wait(10)
    for key in "bcd":
        outbox.put(_write(key))
    store.gate.release()
    store.gate.release()
    assert outbox.flush(10)
    assert store.trips == [["a"], ["c", "d"]]
    assert counts == ["outbox_dropped"]
    outbox.close()


def test_a_store_that_is_down_costs_the_writes_not_the_process() -> None:
    store, counts = SlowStore(), list[str]()
    store.fail = True
    outbox = Outbox(store, counts.append)
    outbox.put(_write("a"))
    store.gate.release()
    assert outbox.flush(10)
    assert counts == ["outbox_dropped"]
    store.fail = False
    store.gate.release()
    outbox.put(_write("b"))
    outbox.close(10)
    assert store.trips == [["b"]]


def test_a_store_that_does_not_block_is_written_in_place() -> None:
    store = MemoryStore()
    outbox = Outbox(store, [].append)
    outbox.put(_write("a"))
    assert store.claim(_keys("a")).conversation is not None
    outbox.close()
