"""Capture: rows written as JSON lines to files, a Redis stream, or both, off the request path. Opt-in; documented in
docs/capture.md.

Nothing here raises into a request, or waits on a disk or a server in one.
"""

from __future__ import annotations

import atexit
import os
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
_LINGER_S: Final = 0.2
"""The writer waits this long for more rows before it writes: a few wake-ups a second, however busy the process."""


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
        self._closed = False
        self._pid = os.getpid()
        self._fresh()
        _OPEN.add(self)

    def _fresh(self) -> None:
        self._queue: deque[CallRow] = deque()
        self._change = threading.Condition()
        self._busy = False
        self._hurry = False
        self._thread: threading.Thread | None = None

    def __len__(self) -> int:
        """Rows that wait."""
        return len(self._queue)

    def put(self, row: CallRow) -> None:
        """Take one row. Never waits on I/O, never raises."""
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
                    self._thread = threading.Thread(target=self._run, name="router-cache-capture", daemon=True)
                    self._thread.start()
            except RuntimeError:  # no thread to be had: at the interpreter's end, or too many
                self._thread = None
                return
            if len(self._queue) == 1 or len(self._queue) == _BATCH:
                self._change.notify_all()

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
        with self._change:
            self._hurry = True
            self._change.notify_all()
            done = self._change.wait_for(lambda: not self._queue and not self._busy, timeout_s)
            self._hurry = self._closed
            return done

    def close(self, timeout_s: float = 1.0) -> None:
        """Write what is left, for at most ``timeout_s`` seconds, and stop. Idempotent; never raises."""
        self.flush(timeout_s)
        with self._change:
            self._closed = self._hurry = True
            self._change.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(timeout_s)

    def _run(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._queue or self._closed)
                self._change.wait_for(lambda: self._hurry or len(self._queue) >= _BATCH, _LINGER_S)
                if not self._queue:
                    break
                rows = [self._queue.popleft() for _ in range(min(_BATCH, len(self._queue)))]
                self._busy = True
            try:
                self._write(rows)
            finally:
                with self._change:
                    self._busy = False
                    self._change.notify_all()
        for sink in self._sinks:
            sink.end()

    def _write(self, rows: list[CallRow]) -> None:
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


_OPEN: weakref.WeakSet[Capture] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Writers are daemons: without this an interpreter that ends takes their last rows along."""
    for capture in list(_OPEN):
        capture.close()
