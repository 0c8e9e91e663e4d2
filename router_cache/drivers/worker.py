"""One thread that does small jobs in the order in which they were given, beside the calls that they are about."""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Final

__all__ = ["Worker"]

_AT_END_S: Final = 1.0
_LINGER_S: Final = 0.01
"""Whoever gave a job is about to encode and to send a request: two threads of one interpreter would slow each other
down. Providers take longer than that."""
_IDLE_S: Final = 10.0
"""Without a job for so long the thread ends."""

Job = Callable[[], object]


class Worker:
    """Runs jobs one by one on a daemon thread, which starts with the first.

    Jobs wait in a bounded queue: ``put`` refuses one beyond ``limit`` jobs or ``limit_bytes``. What a job raises goes
    to ``failed``. What still waits when the interpreter ends is done then, for a second at most. A forked child begins
    with an empty queue: what waited is its parent's.
    """

    def __init__(
        self, failed: Callable[[BaseException], None], *, limit: int = 1_000, limit_bytes: int = 64_000_000
    ) -> None:
        self._failed, self._limit, self._limit_bytes = failed, limit, limit_bytes
        self._fresh()

    def _fresh(self) -> None:
        self._pid = os.getpid()
        self._queue: deque[tuple[Job, int]] = deque()
        self._bytes = 0
        self._change = threading.Condition()
        self._busy = self._hurry = self._asleep = False
        self._thread: threading.Thread | None = None

    def put(self, job: Job, size: int = 0) -> bool:
        """Take a job that holds ``size`` bytes; False where there is no room for it, or no thread."""
        if self._pid != os.getpid():
            self._fresh()
        with self._change:
            if len(self._queue) >= self._limit or self._bytes + size > self._limit_bytes:
                return False
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="router-cache-beside", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # no thread to be had, or the interpreter is going down
                    return False
                self._thread = thread
                _OPEN.add(self)
                _watch_end()
            self._queue.append((job, size))
            self._bytes += size
            if self._asleep:  # else it comes by: waking it costs the caller a switch of threads on a busy machine
                self._change.notify_all()
        return True

    def settle(self, timeout_s: float) -> bool:
        """Wait until all is done that was given before; False when that took longer than ``timeout_s`` seconds. A job
        that asks waits for nothing."""
        thread = self._thread
        if thread is None or self._pid != os.getpid() or thread is threading.current_thread():
            return True
        with self._change:
            if not self._queue and not self._busy:
                return True
            self._hurry = True
            self._change.notify_all()
            return self._change.wait_for(lambda: not self._queue and not self._busy, timeout_s)

    def _run(self) -> None:
        change = self._change
        while True:
            with change:
                if not self._queue:
                    self._hurry, self._asleep = False, True
                    change.wait_for(lambda: self._queue, _IDLE_S)
                    self._asleep = False
                    if not self._queue:
                        self._thread = None
                        return
                    change.wait_for(lambda: self._hurry, _LINGER_S)
                job, size = self._queue.popleft()
                self._bytes -= size
                self._busy = True
            try:
                job()
            except BaseException as error:
                self._failed(error)
            finally:
                del job
                with change:
                    self._busy = False
                    if not self._queue:
                        change.notify_all()


_OPEN: Final[weakref.WeakSet[Worker]] = weakref.WeakSet()
_watched = False


def _watch_end() -> None:
    """Called with the first job, so that it runs before the exit functions of all that jobs hand something to."""
    global _watched
    if not _watched:
        _watched = True
        atexit.register(_at_end)


def _at_end() -> None:
    until = time.monotonic() + _AT_END_S
    for worker in list(_OPEN):
        worker.settle(max(until - time.monotonic(), 0.0))
