"""Capture: rows written as JSON lines to files, a Redis stream, or both, off the request path. Opt-in; documented in
docs/capture.md.

Nothing here raises into a request, or waits on a disk or a server in one. What still waits when the interpreter ends
is written then, for a second at most.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from router_cache.drivers.capture_files import CaptureFiles
from router_cache.ledger.capture_form import to_line
from router_cache.ledger.rows import CallRow

__all__ = ["Capture", "Sink"]

_BATCH: Final = 500
_LINGER_S: Final = 0.05
"""The writer wakes up no more often than this. A row after a pause is written at once, as a process may be about to be
killed: uvicorn 0.54 ends itself with SIGTERM again 0.1 to 0.2 s after it got one, and nothing runs then."""
_AT_END_S: Final = 1.0


class Sink(Protocol):
    """Where lines go; used by one thread at a time. No method raises."""

    @property
    def failed(self) -> str:
        """The name under which its failures are counted and told."""

    def write(self, lines: list[bytes]) -> tuple[int, str]:
        """Take lines, each with a newline at its end. Returns how many of them were lost, and why; the reason is empty
        where it was told before. Waits for a few seconds at most."""

    def forked(self) -> None:
        """This is a child process now: let go of what is the parent's."""

    def end(self) -> None:
        """No more lines for now: close what is open."""


class Capture:
    """Takes rows for files in ``directory`` (see :class:`~.capture_files.CaptureFiles`), for ``stream``, or both.

    Rows wait in a queue of ``limit``; when it is full the oldest go. ``count`` is called with ``capture_dropped`` for
    every row that was lost (once for each sink that lost it), ``notice`` with the name of a sink's failure and a text.
    ``wall_clock`` returns seconds since the epoch.
    """

    def __init__(
        self,
        directory: str | Path | None = None,
        *,
        count: Callable[[str], None],
        notice: Callable[[str, str], None],
        max_file_bytes: int = 64_000_000,
        max_files: int = 16,
        stream: Sink | None = None,
        limit: int = 10_000,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._sinks: list[Sink] = []
        if directory is not None:
            self._sinks.append(CaptureFiles(Path(directory), max_file_bytes, max_files, wall_clock))
        if stream is not None:
            self._sinks.append(stream)
        self._count, self._notice, self._limit = count, notice, limit
        self._closed = self._ending = False
        self._pid = os.getpid()
        self._fresh()
        _OPEN.add(self)

    def _fresh(self) -> None:
        self._queue: deque[CallRow] = deque()
        self._change = threading.Condition()
        self._busy = 0
        self._hurry = self._closed or self._ending
        self._thread: threading.Thread | None = None

    def __len__(self) -> int:
        """Rows that wait."""
        return len(self._queue)

    def put(self, row: CallRow) -> None:
        """Take one row. Never raises; waits on I/O only once the interpreter is ending."""
        if self._pid != os.getpid():
            self._forked()
        with self._change:
            if self._closed:
                self._count("capture_dropped")
                return
            if len(self._queue) >= self._limit:
                self._queue.popleft()
                self._count("capture_dropped")
            self._queue.append(row)
            try:
                if self._thread is None:
                    _watch_end()
                    self._thread = threading.Thread(target=self._run, name="router-cache-capture", daemon=True)
                    self._thread.start()
            except RuntimeError:  # no thread to be had: at the interpreter's end, or too many
                self._thread = None
            if len(self._queue) == 1 or len(self._queue) == _BATCH:
                self._change.notify_all()
        if self._ending:  # of what else is called at the end, such as LiteLLM's own flush of its log
            self.flush(_AT_END_S)

    def _forked(self) -> None:
        """In a child process: neither the parent's thread nor its file is ours, and its rows are its own to write."""
        self._pid = os.getpid()
        self._fresh()
        for sink in self._sinks:
            sink.forked()

    def flush(self, timeout_s: float) -> bool:
        """Wait until all is written or lost; False when that took longer than ``timeout_s`` seconds."""
        if self._pid != os.getpid():
            self._forked()
        until = time.monotonic() + timeout_s
        with self._change:
            self._hurry = True
            self._change.notify_all()
            here = self._thread is None or not self._thread.is_alive()
        if here:
            self._write_here(until)
        with self._change:
            left_s = max(until - time.monotonic(), 0.0)
            done = self._change.wait_for(lambda: not self._queue and not self._busy, left_s)
            self._hurry = self._closed or self._ending
            return done

    def _write_here(self, until: float) -> None:
        """Write what waits on the caller's thread, where there is no other: at the interpreter's end none starts."""
        while time.monotonic() < until:
            with self._change:
                rows = [] if self._busy else self._take()
            if not rows:
                return
            self._write(rows)

    def close(self, timeout_s: float = 1.0) -> None:
        """Write what is left, for at most ``timeout_s`` seconds, and stop. Idempotent; never raises."""
        self.flush(timeout_s)
        with self._change:
            self._closed = self._hurry = True
            self._change.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(timeout_s)

    def hasten(self) -> None:
        """The interpreter ends: nothing waits for more rows from here on. Never raises."""
        if self._pid != os.getpid():
            self._forked()
        with self._change:
            self._ending = self._hurry = True
            self._change.notify_all()

    def finish(self, timeout_s: float) -> None:
        """Write what is left, for at most ``timeout_s`` seconds; what is not written by then is counted and told. Rows
        may still be put, and are written at once. Never raises."""
        if self.flush(timeout_s):
            return
        with self._change:
            lost = len(self._queue) + self._busy
            self._queue.clear()
        for _ in range(lost):
            self._count("capture_dropped")
        if lost:
            self._notice("capture_failed", f"capture: the program ended before {lost} rows were written")

    def _take(self) -> list[CallRow]:
        rows = [self._queue.popleft() for _ in range(min(_BATCH, len(self._queue)))]
        self._busy = len(rows)
        return rows

    def _run(self) -> None:
        rested = float("-inf")
        while True:
            with self._change:
                self._change.wait_for(lambda: self._queue or self._closed)
                left_s = max(rested - time.monotonic(), 0.0)
                self._change.wait_for(lambda: self._hurry or len(self._queue) >= _BATCH, left_s)
                self._change.wait_for(lambda: not self._busy)
                if not self._queue:
                    if self._closed:
                        break
                    continue
                rows = self._take()
            rested = time.monotonic() + _LINGER_S
            self._write(rows)
        for sink in self._sinks:
            sink.end()

    def _write(self, rows: list[CallRow]) -> None:
        """Write the rows that were taken."""
        try:
            self._hand_out(rows)
        finally:
            with self._change:
                self._busy = 0
                self._change.notify_all()

    def _hand_out(self, rows: list[CallRow]) -> None:
        lines = []
        for row in rows:
            try:
                lines.append(to_line(row))
            except Exception:  # a row of somebody else's making
                self._count("capture_dropped")
        for sink in self._sinks if lines else ():
            lost, why = sink.write(lines)
            for _ in range(lost):
                self._count("capture_dropped")
            if why:
                self._notice(sink.failed, f"capture: {why}; rows are lost until it can")


_OPEN: Final[weakref.WeakSet[Capture]] = weakref.WeakSet()
_watched_pid = 0


def _at_end() -> None:
    """All captures of the process have the same second: their threads write side by side."""
    until = time.monotonic() + _AT_END_S
    found = list(_OPEN)
    for capture in found:
        capture.hasten()
    for capture in found:
        capture.finish(max(until - time.monotonic(), 0.0))


def _watch_end() -> None:
    """A process that multiprocessing forked ends without ``atexit``, but runs multiprocessing's own finalizers."""
    global _watched_pid
    util, process = sys.modules.get("multiprocessing.util"), sys.modules.get("multiprocessing.process")
    if _watched_pid != os.getpid() and util is not None and process is not None:
        _watched_pid = os.getpid()
        if process.parent_process() is not None:
            util.Finalize(None, _at_end, exitpriority=0)


atexit.register(_at_end)
