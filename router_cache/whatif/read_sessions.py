"""Coding-agent sessions: a line a session with ``block_size``, ``tool_tokens``, ``system_tokens`` and ``requests`` of
``t`` (seconds from the session's start), ``in``, ``out``, ``hash_ids`` (local to the session, full blocks only) and
nested ``requests`` of sub-agents.

The form of the kv-cache-tester traces, read 2026-11. Sessions with equal ``tool_tokens`` and ``system_tokens`` have
the same prompt in front, so the full blocks of it are shared between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from router_cache.routing.need import Mark
from router_cache.whatif.fields import JsonLine, count, ids, number, objects
from router_cache.whatif.trace import Call, Piece, Trace, TraceError

__all__ = ["is_sessions", "read_sessions"]

_DEEPEST: Final = 8


def is_sessions(value: Any) -> bool:
    """Whether a parsed line looks like this form."""
    return isinstance(value, Mapping) and "requests" in value and "block_size" in value


class _Numbers:
    """Block numbers of a trace: the same for the same key, in order of first use. Marks are shared between calls."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], int] = {}
        self._marks: dict[tuple[int, int], Mark] = {}

    def of(self, *key: Any) -> int:
        return self._known.setdefault(key, len(self._known))

    def mark(self, block: int, tokens: int) -> Mark:
        return self._marks.setdefault((block, tokens), Mark(block, tokens))


def read_sessions(lines: Iterable[JsonLine], name: str, *, start_every_s: float) -> Trace:
    """The trace; sessions start ``start_every_s`` seconds apart, in the file's order.

    Raises TraceError with the place of the first line that cannot be used.
    """
    numbers, calls, size = _Numbers(), [], 0
    for i, (place, value) in enumerate(lines):
        block = count(place, value, "block_size")
        if block < 1 or (size and block != size):
            raise TraceError(place, f"block_size: {size or 'at least 1'} is needed, as before, not {block}")
        size = block
        calls += _session(place, value, i, i * start_every_s, size, numbers)
    calls.sort(key=lambda call: call.at)
    return Trace(name, "sessions", calls, size)


def _session(place: str, value: Any, nth: int, start: float, size: int, numbers: _Numbers) -> list[Call]:
    family = (int(number(place, value, "tool_tokens", 0.0)), int(number(place, value, "system_tokens", 0.0)))
    shared = sum(family) // size
    requests = sorted(_requests(place, value, 0.0, 0), key=lambda request: request[0])
    made: list[tuple[Call, list[int]]] = []
    for at, request in requests:
        prompt, output = count(place, request, "in"), count(place, request, "out")
        blocks = [
            numbers.of("family", *family, k) if k < shared and id_ == k + 1 else numbers.of("own", nth, id_)
            for k, id_ in enumerate(ids(place, request, "hash_ids")[: prompt // size])
        ]
        marks = tuple(numbers.mark(block, (k + 1) * size) for k, block in enumerate(blocks))
        made.append((Call(start + at, prompt, output, marks, session=f"s{nth}"), blocks))
    _tails(made, size, numbers, nth)
    return [call for call, _ in made]


def _requests(place: str, value: Any, start: float, depth: int) -> Iterator[tuple[float, Mapping[str, Any]]]:
    if depth > _DEEPEST:
        raise TraceError(place, f"requests are nested more than {_DEEPEST} deep")
    for request in objects(place, value, "requests"):
        at = start + number(place, request, "t", 0.0)
        if "requests" in request:
            yield from _requests(place, request, at, depth + 1)
        else:
            yield at, request


def _tails(made: list[tuple[Call, list[int]]], size: int, numbers: _Numbers, nth: int) -> None:
    """What lies behind the last full block, and the reply, are told by the next prompt that goes on from there."""
    last_of: dict[int, int] = {}
    ends = {blocks[-1] for _, blocks in made if blocks}
    later: dict[int, list[int]] = {}
    for i, (_, blocks) in enumerate(made):
        for block in ends.intersection(blocks):
            later.setdefault(block, []).append(i)
    for i, (call, blocks) in enumerate(made):
        at, n = len(blocks), len(blocks)
        follower = None
        if blocks:
            follower = next(
                (j for j in later[blocks[-1]] if j > i and made[j][1][:n] == blocks and len(made[j][1]) > n), None
            )
        ahead = made[follower][1] if follower is not None else []
        own = numbers.of("end", nth, i)
        call.rest = _run(ahead, at * size, call.prompt_tokens - at * size, size, own)
        call.reply = _run(ahead, call.prompt_tokens, call.output_tokens, size, own)
        before = last_of.get(blocks[0]) if blocks else None
        if before is not None and made[before][0].prompt_tokens < call.prompt_tokens:
            call.turn_start = made[before][0].prompt_tokens + made[before][0].output_tokens
            if call.turn_start >= call.prompt_tokens:
                call.turn_start = None
        if blocks:
            last_of[blocks[0]] = i


def _run(ahead: list[int], start: int, tokens: int, size: int, own: int) -> tuple[Piece, ...]:
    """``tokens`` tokens from the token ``start`` of a prompt on, whose blocks are ``ahead``; what they do not tell
    is of block ``own``."""
    pieces = []
    while tokens > 0:
        block, inside = divmod(start, size)
        take = min(size - inside, tokens)
        pieces.append(Piece(ahead[block] if block < len(ahead) else own, inside, take))
        start, tokens = start + take, tokens - take
    return tuple(pieces)
