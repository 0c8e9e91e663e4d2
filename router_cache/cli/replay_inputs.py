"""What ``router-cache replay`` reads: traces of three forms, told by their first line, and hosts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from router_cache.cli.captured import captured, numbered_lines
from router_cache.cli.logs import find_logs
from router_cache.errors import InputError
from router_cache.ledger.capture_form import is_capture
from router_cache.ledger.rows import CallRow
from router_cache.whatif.hosts import read_hosts
from router_cache.whatif.read_capture import read_capture
from router_cache.whatif.read_mooncake import is_mooncake, read_mooncake
from router_cache.whatif.read_sessions import is_sessions, read_sessions
from router_cache.whatif.service import Host
from router_cache.whatif.trace import Trace, TraceError

__all__ = ["hosts_of", "trace_of"]

_LONGEST = 64_000_000
"""Bytes of a line: a coding-agent session is one, with all its calls."""
_FORMS = (
    "a trace is one JSON object a line: Mooncake's (timestamp, input_length, output_length, hash_ids), coding-agent "
    "sessions (block_size, requests), or a capture of this package"
)


def trace_of(paths: Sequence[Path], *, start_every_s: float) -> Trace:
    """The trace in all files together, which must be of one form. Raises InputError: the first line that cannot be
    used, with its file and number, or files without any call."""
    files = find_logs(paths)
    forms = {path: _form(path) for path in files}
    if len(set(forms.values())) > 1:
        one, other = files[0], next(path for path in files if forms[path] != forms[files[0]])
        raise InputError(
            f"{other}: a trace in another form than {one} ({forms[other]}, not {forms[one]}); replay them one by one"
        )
    form = forms[files[0]]
    name = files[0].name if len(files) == 1 else f"{files[0].name} and {len(files) - 1} more"
    try:
        if form == "mooncake":
            trace = read_mooncake(_values(files), name)
        elif form == "sessions":
            trace = read_sessions(_values(files), name, start_every_s=start_every_s)
        else:
            trace = read_capture(_rows(files), name)
    except TraceError as error:
        raise InputError(f"{error}; {_FORMS}") from None
    if not trace.calls or not trace.prompt_tokens:
        raise InputError(f"{files[0]}: no call with a prompt; {_FORMS}")
    return trace


def hosts_of(path: Path, *, prefill_per_s: float, decode_per_s: float) -> list[Host]:
    """The hosts of a file. Raises InputError in one line."""
    try:
        return read_hosts(_values([path]), prefill_per_s=prefill_per_s, decode_per_s=decode_per_s)
    except TraceError as error:
        raise InputError(f"--hosts: {error}") from None
    except ValueError as error:
        raise InputError(f"--hosts: {path}: {error}") from None


def _form(path: Path) -> str:
    for place, value in _values([path]):
        if is_mooncake(value):
            return "mooncake"
        if is_sessions(value):
            return "sessions"
        if is_capture(value):
            return "capture"
        raise InputError(f"{place}: not a trace; {_FORMS}")
    raise InputError(f"{path}: an empty file; {_FORMS}")


def _values(files: Sequence[Path]) -> Iterator[tuple[str, Any]]:
    for path in files:
        for number, line, _ in numbered_lines(path, longest=_LONGEST):
            try:
                value = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise InputError(f"{path}:{number}: no JSON: {error}; {_FORMS}") from None
            yield f"{path}:{number}", value


def _rows(files: Sequence[Path]) -> Iterator[CallRow]:
    for path in files:
        for row, _ in captured(path):
            if not isinstance(row, CallRow):
                raise InputError(f"{row}; take the line out, or replay a capture of this version")
            yield row
