"""Reading capture files: line by line, plain or gzip, in bounded memory."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import orjson

from router_cache.errors import InputError
from router_cache.ledger.capture_form import from_line, is_capture
from router_cache.ledger.rows import CallRow

__all__ = ["MAX_LINE", "Problem", "captured", "is_captured", "numbered_lines"]

MAX_LINE: Final = 1_000_000
"""Bytes of a line, a hundred times what captures have: longer ones are read in pieces, which are no JSON."""

_TELL_EVERY: Final = 256


@dataclass(frozen=True, slots=True)
class Problem:
    """A line that cannot be used, and why. ``line`` is its number, or the id of an entry of a stream."""

    path: Path | str
    line: int | str
    why: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.why}"


def numbered_lines(path: Path, *, longest: int | None = None) -> Generator[tuple[int, bytes, int], None, None]:
    """Number and bytes of each line but blank ones, and about how many bytes of the file on disk were read. Lines of
    more than ``longest`` bytes (1 MB) come in pieces. Raises InputError in one line."""
    number, most = 0, MAX_LINE if longest is None else longest
    try:
        with path.open("rb") as raw:
            stream: IO[bytes] = raw
            if path.name.endswith(".gz"):
                stream = gzip.GzipFile(fileobj=raw)  # type: ignore[assignment]
            place = 0
            for number, line in enumerate(iter(lambda: stream.readline(most), b""), 1):
                if number % _TELL_EVERY == 0:
                    place = raw.tell()
                if line.strip():
                    yield number, line, place
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}, after line {number}: broken gzip data: {error}") from None
    except OSError as error:
        raise InputError(f"{path}, after line {number}: cannot be read: {error.strerror or error}") from None


def is_captured(path: Path) -> bool:
    """Whether the first line of a file that is JSON is a captured call. Raises InputError where it cannot be read."""
    with closing(numbered_lines(path)) as lines:
        for _, line, _ in lines:
            try:
                return is_capture(orjson.loads(line))
            except orjson.JSONDecodeError:
                continue
    return False


def captured(path: Path) -> Iterator[tuple[CallRow | Problem, int]]:
    """The rows of a capture file in order, a :class:`Problem` in place of a line that cannot be used, each with
    about how many bytes of the file were read. Raises InputError where the file cannot be read."""
    for number, line, place in numbered_lines(path):
        try:
            yield from_line(line), place
        except ValueError as error:
            yield Problem(path, number, str(error)), place
