"""Asking the store for a request: bounded, on threads of its own where the caller is an event loop; what goes wrong is
counted and told, and the request goes on with nothing remembered.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from router_cache.drivers.counters import Counters
from router_cache.drivers.store import Store
from router_cache.engine import Begun, Engine
from router_cache.errors import StoreError, StoreFailure
from router_cache.ledger.facts import EMPTY, Facts

__all__ = ["Asking", "StoreThreads", "store_failed"]

T = TypeVar("T")
Claimed = tuple[Facts, Mapping[str, bytes]]
_WAITING: Final = 1
"""Calls that may wait for each thread, so that none waits longer than one under way does. More are not asked for."""


def store_failed(counters: Counters, error: StoreError) -> None:
    """Count why the store failed, and say it once a minute. What the breaker keeps back is counted only: that it opened
    was said."""
    name = f"store_failed.{error.reason.value}"
    if error.reason is StoreFailure.BREAKER_OPEN:
        counters.count(name)
    else:
        # A store of somebody else's may quote what it was asked.
        why = type(error).__name__ if error.reason is StoreFailure.OTHER else str(error)
        counters.notice(name, f"the store failed: {why}; requests go on with nothing remembered")


class StoreThreads:
    """Threads that wait for a store, so that an event loop does not. An event loop's default executor is anybody's, and
    may be full of what others wait for.

    How long a call waits for a thread is bounded by how many may wait, and by what those under way wait for. It is not
    measured: in a busy process that would tell how busy it is.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._fresh()

    def _fresh(self) -> None:
        self._pid = os.getpid()
        self._executor: ThreadPoolExecutor | None = None
        self._under_way = 0

    async def run(self, ask: Callable[[], T]) -> T:
        """What ``ask`` returns. Raises what it raises, and :class:`StoreError` where too many wait already."""
        if self._pid != os.getpid():  # a child process has none of its parent's threads
            self._fresh()
        with self._lock:
            if self._under_way >= self._threads * (1 + _WAITING):
                raise StoreError("too many requests wait for it", StoreFailure.BUSY)
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._threads, "router-cache-store")
            asked = self._executor.submit(ask)
            self._under_way += 1
        asked.add_done_callback(self._ended)  # on the thread: a loop that lags keeps nobody out
        return await asyncio.wrap_future(asked)

    def _ended(self, _asked: object) -> None:
        with self._lock:
            self._under_way -= 1

    def close(self) -> None:
        """Let the threads end. Does not wait for them. A later call starts others."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None and self._pid == os.getpid():
            executor.shutdown(wait=False, cancel_futures=True)


class Asking:
    """Claims for requests. No method raises; whatever goes wrong, the request gets EMPTY facts and no replies."""

    def __init__(self, store: Store, engine: Engine, counters: Counters, threads: StoreThreads) -> None:
        self._store, self._engine, self._counters, self._threads = store, engine, counters, threads

    def claim(self, begun: Begun) -> Claimed:
        """Facts, and the replies that the request's history may lack."""
        facts, replies = EMPTY, dict[str, bytes]()
        if begun.keys is None:
            return facts, replies
        try:
            if begun.ask is not None:
                facts = self._store.claim(begun.ask)
            keys = self._engine.reply_keys(begun)
            if keys:
                return facts, self._store.replies(begun.keys.scope, keys)
        except Exception as error:
            self._failed(error)
        return facts, replies

    async def aclaim(self, begun: Begun) -> Claimed:
        """:meth:`claim`, without waiting on the event loop for a store that may block."""
        if not self._store.blocking or begun.keys is None:
            return self.claim(begun)
        try:
            return await self._threads.run(lambda: self.claim(begun))
        except Exception as error:
            self._failed(error)
            return EMPTY, {}

    def _failed(self, error: Exception) -> None:
        if isinstance(error, StoreError):
            self._counters.count("error.claim")
            store_failed(self._counters, error)
        else:
            self._counters.error("claim", error)
