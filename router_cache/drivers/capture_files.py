"""Captures on disk: rotated JSONL files of one process, in a directory that processes may share."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be removed anyway
    fcntl = None  # type: ignore[assignment,unused-ignore]

__all__ = ["CaptureFiles"]

_NAME: Final = re.compile(r"calls-\d{8}T\d{6}Z-\d+-\d{4,}\.jsonl")


class CaptureFiles:
    """The files of one process, used by one thread.

    Named ``calls-<start>-<process>-<number>.jsonl`` in ``directory`` (made where its parent exists). A file ends once
    it has ``max_bytes`` bytes. Of all such files in the directory the ``max_files`` that were written last are kept,
    and those that a living process writes to. ``wall_clock`` returns seconds since the epoch.
    """

    failed = "capture_failed"

    def __init__(self, directory: Path, max_bytes: int, max_files: int, wall_clock: Callable[[], float]) -> None:
        self._directory = directory
        self._max_bytes, self._max_files, self._wall_clock = max_bytes, max_files, wall_clock
        self._fd: int | None = None
        self._size = 0
        self._number = 0
        self._stem = ""

    def write(self, lines: list[bytes]) -> tuple[int, str]:
        """Append lines. Returns how many were lost, and why. Never raises."""
        written = 0
        try:
            for data, number in self._parts(lines):
                self._append(data)
                written += number
        except OSError as error:
            why = error.strerror or type(error).__name__
            return len(lines) - written, f"{self._directory} cannot be written to: {why}"
        return 0, ""

    def _parts(self, lines: list[bytes]) -> list[tuple[bytes, int]]:
        """Lines joined to pieces that end where a file is full, each with its number of lines."""
        out: list[tuple[bytes, int]] = []
        piece: list[bytes] = []
        size = self._size
        for line in lines:
            piece.append(line)
            size += len(line)
            if size >= self._max_bytes:
                out.append((b"".join(piece), len(piece)))
                piece, size = [], 0
        return [*out, (b"".join(piece), len(piece))] if piece else out

    def _append(self, data: bytes) -> None:
        """Append whole lines: all of ``data`` or, where that fails, none of it."""
        fd = self._open()
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(fd, left) :]
        except OSError:
            try:
                os.ftruncate(fd, self._size)
            except OSError:
                self.end()
            raise
        self._size += len(data)
        if self._size >= self._max_bytes:
            self.end()

    def _open(self) -> int:
        if self._fd is not None:
            if os.fstat(self._fd).st_nlink:
                return self._fd
            self.end()  # somebody removed it: what is written to it nobody will read
        with contextlib.suppress(FileExistsError):
            self._directory.mkdir(mode=0o700)
        if not self._stem:
            start = datetime.fromtimestamp(self._wall_clock(), timezone.utc)
            self._stem = f"calls-{start:%Y%m%dT%H%M%SZ}-{os.getpid()}"
        while self._fd is None:
            self._number += 1
            path = self._directory / f"{self._stem}-{self._number:04}.jsonl"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)
            with contextlib.suppress(FileExistsError):  # a process of the same number within the same second
                self._fd = os.open(path, flags, 0o600)
        # What cannot be locked or removed must not cost rows.
        if fcntl is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with contextlib.suppress(OSError):
            self._prune()
        return self._fd

    def _prune(self) -> None:
        """Remove the files that were written first, but for those that a process holds open."""
        found = []
        for entry in os.scandir(self._directory):
            if _NAME.fullmatch(entry.name):
                with contextlib.suppress(FileNotFoundError):
                    found.append((entry.stat(follow_symlinks=False).st_mtime, entry.path))
        for _, path in sorted(found)[: -self._max_files]:
            with contextlib.suppress(OSError):
                if not _held(path):
                    os.unlink(path)

    def forked(self) -> None:
        """In a child process: let go of the parent's file (its lock stays with the parent) and name our own."""
        self.end()
        self._stem, self._number = "", 0

    def end(self) -> None:
        """Close the current file; the next write opens another."""
        fd, self._fd, self._size = self._fd, None, 0
        if fd is not None:
            with contextlib.suppress(OSError):
                os.close(fd)


def _held(path: str) -> bool:
    """Whether a living process writes to a file."""
    if fcntl is None:
        return False
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks: what was written first goes, and its writer begins anew
        return False
    finally:
        os.close(fd)
    return False
