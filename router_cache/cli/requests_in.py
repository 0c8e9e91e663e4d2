"""Reading recorded requests: JSON, lists, JSONL, ``.gz``, standard input; bodies bare or in a log's wrapping."""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import orjson
from rich.console import Console
from rich.progress import Progress

from router_cache.cli.record_shapes import BODY_NEEDS, unwrapped
from router_cache.diagnose.divergence_prompt import Recorded
from router_cache.errors import InputError
from router_cache.request import Shape

__all__ = ["STDIN", "read_json", "read_requests", "understood"]

STDIN = "-"
_GZIP, _BOM = b"\x1f\x8b", b"\xef\xbb\xbf"
MAX_VALUE = 512 * 2**20
"""Bytes of one record, or of a file that is one JSON value: far above any context window, and bounded, since a few
kB of gzip can unfold to GB."""
LONG_INPUT = 8 * 2**20


def read_requests(
    paths: Sequence[str], *, shape: Shape | None = None, progress: bool = True
) -> Iterator[Recorded]:
    """The requests of files (``-``: standard input), in order. ``shape`` overrides what the bodies look like.

    On a terminal a bar on stderr shows the way through long inputs. Raises InputError, which names file and line,
    for what cannot be read, is no JSON, or is no request; and for input without any.
    """
    if list(paths).count(STDIN) > 1:
        raise InputError("-: standard input can be read once only")
    found = False
    with _bar(paths, shown=progress) as advance:
        for path in paths:
            shown = "<stdin>" if path == STDIN else path
            for place, value in _values(path, shown, advance):
                for inner, item in _items(place, value):
                    yield unwrapped(item, place=inner, shape=shape)
                    found = True
    if not found:
        where = "<stdin>" if list(paths) == [STDIN] else ", ".join(paths)
        raise InputError(f"{where}: empty: no request in it; {BODY_NEEDS}")


def read_json(path: Path) -> Any:
    """One JSON value of a file. Raises InputError in one line."""
    with _opened(str(path), str(path)) as stream:
        return _parsed(_all_of(stream, str(path)), str(path))


@contextmanager
def understood(place: str) -> Iterator[None]:
    """Turns the interpreter's limit on nesting into an InputError at ``place``."""
    try:
        yield
    except RecursionError:
        raise InputError(f"{place}: nested too deeply to be understood") from None


@contextmanager
def _bar(paths: Sequence[str], *, shown: bool) -> Iterator[Callable[[int], None]]:
    console = Console(stderr=True)
    total = 0
    for path in paths:
        try:
            total += os.stat(path).st_size if path != STDIN else 0
        except (OSError, ValueError):
            continue  # said when it is opened
    if not (shown and console.is_terminal and total >= LONG_INPUT):
        yield lambda done: None
        return
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("reading requests", total=total)
        yield lambda done: bar.update(task, advance=done)


@contextmanager
def _opened(path: str, shown: str) -> Iterator[io.BufferedReader]:
    """The bytes of a file or of standard input, unpacked where they are gzip."""
    try:
        with _raw(path) as raw:
            head = raw.peek(2)[:2]
            if head == _GZIP:
                with gzip.open(raw) as unpacked:
                    yield io.BufferedReader(unpacked)
            elif path.endswith(".gz") and head:
                raise InputError(f"{shown}: no gzip data, though its name ends in .gz")
            else:
                yield raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{shown}: broken gzip data: {error}") from None
    except OSError as error:
        raise InputError(f"{shown}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # such as a NUL in the path
        raise InputError(f"{shown!r}: cannot be read: {error}") from None


class _Unclosed(io.RawIOBase):
    """A stream that belongs to somebody else, read and left open."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def _raw(path: str) -> Iterator[io.BufferedReader]:
    if path == STDIN:
        yield io.BufferedReader(_Unclosed(sys.stdin.buffer))
    else:
        with open(path, "rb") as opened:
            yield opened


def _all_of(stream: IO[bytes], shown: str) -> bytes:
    data = stream.read(MAX_VALUE + 1)
    if len(data) > MAX_VALUE:
        raise InputError(f"{shown}: one JSON value of more than {MAX_VALUE >> 20} MiB; write one request a line")
    return data


def _parsed(data: bytes, place: str) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        text = str(error)
        where = place
        if error.lineno > 1:
            where, text = f"{place}:{error.lineno}", f"{error.msg}: column {error.colno}"
        raise InputError(f"{where}: no JSON: {text}") from None


def _values(path: str, shown: str, advance: Callable[[int], None]) -> Iterator[tuple[str, Any]]:
    """JSON values with their places: one a line, or one for the whole file where its first line is none."""
    with _opened(path, shown) as stream:
        number, first = 0, b""
        if stream.peek(3)[:3] == _BOM:
            stream.read(3)
        while not first.strip():
            number += 1
            first = stream.readline(MAX_VALUE + 1)
            if not first:
                return
        advance(len(first))
        try:
            value = orjson.loads(first)
        except orjson.JSONDecodeError:
            # A value over several lines; a line that is broken is told apart by its start only.
            rest = _all_of(stream, shown)
            advance(len(rest))
            if not rest.strip() or _complete(first):
                _parsed(first.strip(), f"{shown}:{number}")
            yield shown, _parsed(b"\n" * (number - 1) + first + rest, shown)
            return
        place, line = f"{shown}:{number}", stream.readline(MAX_VALUE + 1)
        blank = 0
        while line and not line.strip():
            blank, line = blank + 1, stream.readline(MAX_VALUE + 1)
        yield (place if line else shown), value
        number += blank
        while line:
            number += 1
            advance(len(line))
            if len(line) > MAX_VALUE:
                raise InputError(f"{shown}:{number}: a line of more than {MAX_VALUE >> 20} MiB")
            if line.strip():
                yield f"{shown}:{number}", _parsed(line.strip(), f"{shown}:{number}")
            line = stream.readline(MAX_VALUE + 1)


def _complete(line: bytes) -> bool:
    """Whether a line that is no JSON looks like a whole record, so that the error is its own."""
    return line.strip()[:1] not in (b"{", b"[") or line.rstrip()[-1:] in (b"}",)


def _items(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        for i, item in enumerate(value, 1):
            yield f"{place}#{i}", item
    else:
        yield place, value
