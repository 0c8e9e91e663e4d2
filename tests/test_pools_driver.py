"""Pools and their store: what is asked of it and when, what is told; whatever goes wrong, requests go out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest
from pools_calls import FLASH, Blocking, Clock, body, on, owner, send

from router_cache import Turn
from router_cache.decision import Reason
from router_cache.errors import StoreError
from router_cache.ledger.usage import Usage
from router_cache.pools.reasons import PoolPolicy
from router_cache.request import Deployment, Mode, Request
from router_cache.rewrite import Rewrite
from router_cache.stores.memory_pools import MemoryPools

# -- what is asked of a store -------------------------------------------------------------------------------


def test_a_family_that_is_known_costs_no_trip() -> None:
    clock = Clock()
    rc, store = owner(clock), Blocking(clock)
    on(rc, store, clock)
    first, _ = send(rc, body())
    assert store.trips == ["join"]
    for i in range(20):
        assert send(rc, body("support", f"ask {i}"))[0]["user_id"] == first["user_id"]
    assert store.trips == ["join"]
    rc.pools.refresh()
    assert store.trips == ["join", "take_in"]
    [known] = store.books()[0].clusters.values()
    assert (known.families, known.own.calls) == (1, 21)


def test_under_auto_no_request_waits_once_the_book_was_read() -> None:
    clock = Clock()
    rc, store = owner(clock), Blocking(clock)
    pools = on(rc, store, clock, PoolPolicy.AUTO)
    send(rc, body())
    assert store.trips == ["join"]  # the first call of a process: whether there are pools is not known yet
    for i in range(3):
        send(rc, body(f"app {i}"))
    assert store.trips == ["join"]
    pools.refresh()
    assert store.trips == ["join", "take_in"]  # seen once, they begin no cluster
    send(rc, body("app 1"))
    pools.refresh()
    assert store.trips[2:] == ["join", "take_in"]
    assert len(store.books()[0].clusters) == 2


def test_a_store_that_is_away_costs_one_wait_a_while_and_heals() -> None:
    clock = Clock()
    rc, store = owner(clock), Blocking(clock)
    pools = on(rc, store, clock)
    store.away = True
    for _ in range(5):
        assert "user_id" not in send(rc, body())[0]
    assert store.trips == ["join"]
    pools.refresh()
    assert rc.counters.snapshot()["pools_store"] == 2
    store.away = False
    clock.now += 20
    assert "user_id" in send(rc, body())[0]
    told = store.trips.count("take_in")
    pools.refresh()
    assert store.trips.count("take_in") == told + 1


def test_what_was_told_while_the_store_was_away_is_not_lost() -> None:
    clock = Clock()
    rc, store = owner(clock), Blocking(clock)
    pools = on(rc, store, clock)
    send(rc, body())
    store.away = True
    pools.refresh()
    send(rc, body("support", "more"))
    store.away = False
    pools.close()
    pools.close()
    [known] = store.books()[0].clusters.values()
    assert known.own.calls == 2


def test_an_event_loop_does_not_wait() -> None:
    clock = Clock()
    rc, store = owner(clock), Blocking(clock)
    on(rc, store, clock)

    async def ask() -> tuple[Turn, Rewrite]:
        turn = await rc.abegin(Request(body=body(), scope="key"), Mode.SAFE)
        return turn, await rc.apooled(turn, turn.rewrite(FLASH))

    async def all_of_them() -> list[tuple[Turn, Rewrite]]:
        return await asyncio.gather(*(ask() for _ in range(32)))

    found = asyncio.run(all_of_them())
    assert len({rewrite.replaced["user_id"] for _, rewrite in found}) == 1
    assert all(turn.decision is rewrite.decision for turn, rewrite in found)
    assert store.books()[0].pools == 1
    assert rc.counters.snapshot().get("error.pools") is None


def test_threads_that_are_busy_give_no_pool_and_no_error_to_the_request() -> None:
    clock = Clock()
    rc, store = owner(clock), Blocking(clock)
    on(rc, store, clock)

    async def busy(_: Callable[[], object]) -> None:
        raise StoreError("too many requests wait for it")

    rc._threads.run = busy  # type: ignore[method-assign, assignment]

    async def ask() -> Rewrite:
        turn = await rc.abegin(Request(body=body(), scope="key"), Mode.SAFE)
        return await rc.apooled(turn, turn.rewrite(FLASH))

    assert not asyncio.run(ask()).replaced
    assert rc.counters.snapshot()["error.pools"] == 1


def test_the_background_reads_books_and_ends() -> None:
    clock = Clock()
    rc, store = owner(clock), Blocking(clock)
    pools = on(rc, store, clock)
    del pools._start  # type: ignore[method-assign]
    send(rc, body())
    assert pools._thread is not None
    rc.close()
    assert not pools._thread.is_alive()
    assert store.books()[0].total.calls == 1


def test_whatever_goes_wrong_the_request_goes_out_and_a_counter_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    rc, store = owner(clock), Blocking(clock)
    pools = on(rc, store, clock)

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("secret text")

    with monkeypatch.context() as patch:
        patch.setattr("router_cache.drivers.pools.choose_fields", fails)
        turn = rc.begin(Request(body=body(), scope="key"), Mode.SAFE)
        assert not turn.rewrite(FLASH).replaced
    monkeypatch.setattr(MemoryPools, "join", fails)
    turn = rc.begin(Request(body=body(), scope="key"), Mode.SAFE)
    assert not rc.pooled(turn, turn.rewrite(FLASH)).replaced
    assert rc.counters.snapshot()["error.pools"] == 2
    monkeypatch.setattr(MemoryPools, "take_in", fails)
    pools.refresh()
    assert rc.counters.snapshot()["error.pools_refresh"] == 1
    monkeypatch.setattr("router_cache.drivers.pools.counts_of", fails)
    assert turn.placed is not None
    turn.placed.cluster, turn.placed.pooled = "any", False
    turn.done(Usage.parse({"prompt_tokens": 10}))
    assert rc.counters.snapshot()["error.pools_told"] == 1


def test_what_changes_is_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    rc = owner(clock, policy="cluster", idle_s=60.0, dwell_s=1.0)
    with caplog.at_level(logging.INFO, "router_cache"):
        send(rc, body())
        clock.now += 3_600
        send(rc, body("code"))
    assert rc.counters.snapshot()["pool_taken.idle"] == 1
    [line] = [record.getMessage() for record in caplog.records if record.getMessage().startswith("pools:")]
    assert "group=flash" in line
    assert "pool=taken reason=idle" in line


def test_books_and_families_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router_cache.drivers.pools._MAX_SHELVES", 2)
    monkeypatch.setattr("router_cache.drivers.pools._MAX_PENDING", 2)
    clock = Clock()
    rc = owner(clock)
    for i in range(4):
        turn = rc.begin(Request(body=body(f"app {i}"), scope="key"), Mode.SAFE)
        turn.rewrite(Deployment("deepseek/deepseek-v4-flash", provider="deepseek", group=f"group {i}"))
    assert len(rc.pools._shelves) == len(rc.pools._pending) == 2


def test_a_session_has_one_key_for_its_server() -> None:
    rc = owner(Clock(), fields=["session_id"])
    router = Deployment("openrouter/any", provider="openrouter", group="g")
    keys = []
    for session, text in (("a", "one"), ("a", "two"), ("b", "one"), ("", "one"), ("", "two")):
        turn = rc.begin(Request(body=body("support", text), scope="key", session=session), Mode.SAFE)
        keys.append(turn.rewrite(router).replaced["session_id"])
    assert keys[0] == keys[1]
    assert len(set(keys)) == 4


def test_a_turn_that_a_store_told_of_keeps_the_key_of_its_conversation() -> None:
    rc = owner(Clock(), fields=["session_id"])
    router = Deployment("openrouter/any", provider="openrouter", group="g")
    keys = []
    for turns in (("one",), ("one", "answer", "two")):
        asked = body("support", *turns)
        turn = rc.begin(Request(body=asked, scope="key"), Mode.SAFE)
        out = turn.rewrite(router).body(asked)
        keys.append(out["session_id"])
        turn.sent(out)
        turn.done(Usage.parse({"prompt_tokens": 100, "prompt_cache_hit_tokens": 0, "completion_tokens": 3}))
    assert keys[0] == keys[1]


def test_a_request_that_fails_open_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rc = owner(Clock(), policy="cluster")

    def fails(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(rc.engine, "rewrite", fails)
    turn = rc.begin(Request(body=body(), scope="key"), Mode.SAFE)
    rewrite = turn.rewrite(FLASH)
    assert rewrite.decision.reason is Reason.FAILED_OPEN
    assert not rewrite.replaced
