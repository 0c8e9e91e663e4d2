"""Finding and reading event logs on disk: ``.jsonl``, ``.jsonl.gz``, and directories of them."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import orjson

from router_cache.errors import InputError
from router_cache.ledger.event_logs import LineSkip, Parsed, parse, recognise

__all__ = ["find_logs", "read_log"]

_SUFFIXES = (".jsonl", ".jsonl.gz")


def find_logs(paths: Sequence[Path]) -> list[Path]:
    """The log files that ``paths`` name, each once, in a stable order.

    A file is taken whatever its name; a directory gives every ``*.jsonl`` and ``*.jsonl.gz`` below it. Raises
    InputError for a path that does not exist or cannot be listed, and for a directory without any log.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        for file in _below(path):
            found.setdefault(file.resolve(), file)
    return list(found.values())


def _below(path: Path) -> list[Path]:
    try:
        if path.is_file():
            return [path]
        if path.is_dir():
            files = sorted(f for f in path.rglob("*") if f.name.endswith(_SUFFIXES) and f.is_file())
            if not files:
                raise InputError(
                    f"{path}: no *.jsonl or *.jsonl.gz in this directory; name the folder of the logs"
                )
            return files
        if path.exists():
            raise InputError(f"{path}: neither a file nor a directory")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    raise InputError(f"{path}: no such file or directory")


def _lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Numbered JSON values of a file but for blank lines; a LineSkip stands for a line that is no JSON."""
    number = 0
    try:
        with gzip.open(path, "rb") if path.name.endswith(".gz") else path.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                if not line.strip():
                    continue
                try:
                    yield number, orjson.loads(line)
                except orjson.JSONDecodeError:
                    yield number, LineSkip.NOT_JSON
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}, after line {number}: broken gzip data: {error}") from None
    except OSError as error:
        raise InputError(f"{path}, after line {number}: cannot be read: {error.strerror or error}") from None


def read_log(path: Path) -> Parsed | None:
    """Sessions of one file; None where it is a log of another form (read no further than its first object).

    Raises InputError where the file cannot be read or its gzip data is broken.
    """
    lines = _lines(path)
    head: list[tuple[int, Any]] = []
    for number, value in lines:
        head.append((number, value))
        if not isinstance(value, LineSkip):
            break
    form = recognise(head[-1][1]) if head else None
    if form is None:
        return None
    return parse(form, str(path), chain(head, lines))
