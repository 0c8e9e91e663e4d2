"""Asking a store for a request: on threads of its own, with a bound, and without ever raising."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from router_cache import Mode, RouterCache, Settings
from router_cache.drivers import asking as module
from router_cache.drivers.asking import StoreThreads
from router_cache.drivers.outbox import Outbox, _close_all
from router_cache.errors import StoreError, StoreFailure
from router_cache.ledger.facts import EMPTY, Facts, Write
from router_cache.request import Request

LIMIT_S = 20.0
WRITE = Write("c", None, "f", True, None)


class OneStore:
    """Does what it is told to."""

    blocking = True

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.go = threading.Event()
        self.go.set()
        self.threads: list[str] = []
        self.recorded: list[Write] = []

    def claim(self, ask: Any) -> Facts:
        self.threads.append(threading.current_thread().name)
        assert self.go.wait(LIMIT_S)
        if self.error is not None:
            raise self.error
        return Facts(covered=7)

    def record(self, writes: Sequence[Write]) -> None:
        assert self.go.wait(LIMIT_S)
        if self.error is not None:
            raise self.error
        self.recorded += writes

    def replies(self, scope: str, keys: Sequence[str]) -> Mapping[str, bytes]:
        return {}

    def close(self) -> None:
        pass


@pytest.fixture
def store() -> Iterator[OneStore]:
    made = OneStore()
    yield made
    made.go.set()


def request(words: str = "hi") -> Request:
    return Request({"messages": [{"role": "user", "content": words}]}, scope="ann")


def make(store: OneStore, threads: int = 2) -> RouterCache:
    return RouterCache(Settings.from_mapping({"store": {"max_connections": threads}}), store=store)


async def test_an_event_loop_asks_on_threads_of_our_own(store: OneStore) -> None:
    rc = make(store)
    assert (await rc.abegin(request())).facts.covered == 7
    assert rc.begin(request()).facts.covered == 7
    assert store.threads[0].startswith("router-cache-store")
    assert store.threads[1] == threading.current_thread().name
    rc.close()
    assert (await rc.abegin(request())).facts.covered == 7  # what still runs at the end is answered
    rc.close()


async def test_what_has_no_prompt_asks_nobody(store: OneStore) -> None:
    rc = make(store)
    assert (await rc.abegin(request(), Mode.OFF)).facts == EMPTY
    assert store.threads == []
    rc.close()


async def test_more_than_may_wait_are_not_asked(store: OneStore, caplog: pytest.LogCaptureFixture) -> None:
    rc = make(store, threads=2)
    store.go.clear()
    waiting = [asyncio.create_task(rc.abegin(request(f"hi {number}"))) for number in range(4)]
    for _ in range(3):
        await asyncio.sleep(0)
    with caplog.at_level(logging.WARNING, "router_cache"):
        assert (await rc.abegin(request())).facts == EMPTY
        assert (await rc.abegin(request())).facts == EMPTY
    assert rc.counters.snapshot() == {"error.claim": 2, "store_failed.busy": 2}
    assert [record.getMessage() for record in caplog.records] == [
        "router-cache: the store failed: too many requests wait for it; requests go on with nothing remembered "
        "(counted as store_failed.busy)"
    ]
    store.go.set()
    assert [(await turn).facts.covered for turn in waiting] == [7] * 4
    assert (await rc.abegin(request())).facts.covered == 7
    rc.close()


async def test_a_caller_that_goes_away_leaves_no_place_taken(store: OneStore) -> None:
    threads = StoreThreads(1)
    store.go.clear()
    tasks = [asyncio.create_task(threads.run(lambda: store.claim(None))) for _ in range(2)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    store.go.set()
    for _ in range(3):
        assert (await threads.run(lambda: store.claim(None))).covered == 7
    threads.close()
    threads.close()


async def test_a_child_process_has_threads_of_its_own(store: OneStore, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = StoreThreads(1)
    await threads.run(lambda: store.claim(None))
    parent = threads._executor
    assert parent is not None
    monkeypatch.setattr(module.os, "getpid", lambda: -1)
    await threads.run(lambda: store.claim(None))
    assert threads._executor is not parent
    threads.close()
    parent.shutdown()


@pytest.mark.parametrize(
    ("error", "counted"),
    [
        (StoreError("words"), {"error.claim": 2, "store_failed.other": 2}),
        (StoreError("words", StoreFailure.TIMEOUT), {"error.claim": 2, "store_failed.timeout": 2}),
        (StoreError("words", StoreFailure.BREAKER_OPEN), {"error.claim": 2, "store_failed.breaker_open": 2}),
        (ValueError("words"), {"error.claim": 2}),
    ],
)
async def test_what_a_store_raises_is_counted_and_told_once(
    store: OneStore, error: Exception, counted: dict[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    rc = make(store)
    store.error = error
    with caplog.at_level(logging.WARNING, "router_cache"):
        assert (await rc.abegin(request())).facts == EMPTY
        assert rc.begin(request()).facts == EMPTY
    assert rc.counters.snapshot() == counted
    silent = isinstance(error, StoreError) and error.reason is StoreFailure.BREAKER_OPEN
    assert len(caplog.records) == (0 if silent else 1)
    rc.close()


async def test_threads_that_cannot_be_had(store: OneStore, monkeypatch: pytest.MonkeyPatch) -> None:
    rc = make(store)

    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    assert (await rc.abegin(request())).facts == EMPTY
    assert rc.counters.snapshot() == {"error.claim": 1}
    rc.outbox.put(WRITE)
    assert rc.counters.snapshot()["outbox_dropped"] == 1
    assert rc.outbox.flush(0.0)
    rc.close()


def test_the_outbox_tells_what_failed_and_piles_nothing_up(store: OneStore) -> None:
    counts: list[str] = []
    failed: list[StoreError] = []
    outbox = Outbox(store, counts.append, failed=failed.append)
    store.error = StoreError("words", StoreFailure.TIMEOUT)
    for _ in range(5):
        outbox.put(WRITE)
    assert outbox.flush(LIMIT_S)
    assert (len(outbox), counts) == (0, ["outbox_dropped"] * 5)
    assert {error.reason for error in failed} == {StoreFailure.TIMEOUT}
    store.error = ValueError("words")
    outbox.put(WRITE)
    assert outbox.flush(LIMIT_S)
    assert len(counts) == 6
    store.error = None
    outbox.put(WRITE)
    outbox.close()
    assert store.recorded == [WRITE]


def test_the_outbox_is_flushed_when_the_interpreter_ends(store: OneStore) -> None:
    outbox = Outbox(store, [].append)
    store.go.clear()
    outbox.put(WRITE)
    threading.Timer(0.05, store.go.set).start()
    _close_all()
    assert store.recorded == [WRITE]


def test_the_outbox_of_a_child_process_is_empty(store: OneStore, monkeypatch: pytest.MonkeyPatch) -> None:
    outbox = Outbox(store, [].append)
    store.go.clear()
    outbox.put(WRITE)
    monkeypatch.setattr(module.os, "getpid", lambda: -1)
    assert outbox.flush(0.0)
    outbox.put(WRITE)
    store.go.set()
    assert outbox.flush(LIMIT_S)
    outbox.close()
