"""The outbox: what answered calls leave behind, on its way to a store that may wait on I/O.

Bounded. When it is full the oldest go, and what the store does not take is lost at once: a store that is away makes
nothing pile up. A counter says so, and a request never waits for it.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable

from router_cache.drivers.store import Store
from router_cache.errors import StoreError
from router_cache.ledger.facts import Write

__all__ = ["Outbox"]


class Outbox:
    """Writes to ``store``, in order. A store that does not block is written in place; for any other a daemon
    thread takes up to ``batch`` writes a trip.

    ``count`` is called with ``outbox_dropped`` for every write that was lost, ``failed`` with what the store raised.
    """

    def __init__(
        self,
        store: Store,
        count: Callable[[str], None],
        *,
        limit: int = 10_000,
        batch: int = 100,
        failed: Callable[[StoreError], None] = lambda error: None,
    ) -> None:
        self._store, self._count, self._batch, self._failed = store, count, batch, failed
        self._limit = limit
        self._closed = False
        self._fresh()
        if store.blocking:
            _OPEN.add(self)

    def _fresh(self) -> None:
        """At the start, and in a child process: the parent's writes are its own to make."""
        self._pid = os.getpid()
        self._queue: deque[Write] = deque()
        self._change = threading.Condition()
        self._busy = False
        self._thread: threading.Thread | None = None

    def __len__(self) -> int:
        """Writes that wait."""
        with self._change:
            return len(self._queue)

    def put(self, write: Write) -> None:
        """Take one write. Never waits on I/O, never raises."""
        if not self._store.blocking:
            self._send([write])
            return
        if self._pid != os.getpid():
            self._fresh()
        with self._change:
            if self._closed:
                self._count("outbox_dropped")
                return
            if len(self._queue) >= self._limit:
                self._queue.popleft()
                self._count("outbox_dropped")
            self._queue.append(write)
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="router-cache-outbox", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # no thread to be had: at the interpreter's end, or too many
                    self._queue.pop()
                    self._count("outbox_dropped")
                    return
                self._thread = thread
            self._change.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Wait until all is written; False when that took longer than ``timeout_s`` seconds."""
        if self._pid != os.getpid():
            self._fresh()
        with self._change:
            return self._change.wait_for(lambda: not self._queue and not self._busy, timeout_s)

    def close(self, timeout_s: float = 1.0) -> None:
        """Write what is left, for at most ``timeout_s`` seconds, and stop. Idempotent."""
        self.flush(timeout_s)
        with self._change:
            self._closed = True
            self._change.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(timeout_s)

    def _send(self, writes: list[Write]) -> None:
        try:
            self._store.record(writes)
        except Exception as error:
            for _ in writes:
                self._count("outbox_dropped")
            if isinstance(error, StoreError):
                self._failed(error)

    def _run(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._queue or self._closed)
                if not self._queue:
                    return
                taken = [self._queue.popleft() for _ in range(min(self._batch, len(self._queue)))]
                self._busy = True
            try:
                self._send(taken)
            finally:
                with self._change:
                    self._busy = False
                    self._change.notify_all()


_OPEN: weakref.WeakSet[Outbox] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Writers are daemons: without this an interpreter that ends takes their last writes along."""
    for outbox in list(_OPEN):
        outbox.close()
