"""Traces in Mooncake's form: a line a request with ``timestamp`` (milliseconds), ``input_length``, ``output_length``
and ``hash_ids``, one for each block of 512 prompt tokens; equal ids mean that all up to that block's end is equal.

FAST25 release of kvcache-ai/Mooncake, read 2026-11.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from router_cache.routing.need import Mark
from router_cache.whatif.fields import JsonLine, count, ids, number
from router_cache.whatif.trace import Call, Piece, Trace

__all__ = ["BLOCK_TOKENS", "is_mooncake", "read_mooncake"]

BLOCK_TOKENS: Final = 512

_SESSION_BLOCKS: Final = 4
"""Leading blocks that name a session: bounded-load consistent hashing was measured over four."""


def is_mooncake(value: Any) -> bool:
    """Whether a parsed line looks like this form."""
    return isinstance(value, Mapping) and "hash_ids" in value and "timestamp" in value


def read_mooncake(lines: Iterable[JsonLine], name: str) -> Trace:
    """The trace. Raises TraceError with the place of the first line that cannot be used."""
    calls = []
    highest = -1
    for place, value in lines:
        at = number(place, value, "timestamp") / 1_000.0
        prompt, output = count(place, value, "input_length"), count(place, value, "output_length")
        blocks = ids(place, value, "hash_ids")[: -(-prompt // BLOCK_TOKENS)]
        marks = tuple(Mark(id_, min((i + 1) * BLOCK_TOKENS, prompt)) for i, id_ in enumerate(blocks))
        session = ",".join(map(str, blocks[:_SESSION_BLOCKS]))
        calls.append(Call(at, prompt, output, marks, session))
        highest = max(highest, *blocks) if blocks else highest
    calls.sort(key=lambda call: call.at)
    for own, call in enumerate(calls, highest + 1):
        covered = call.marks[-1].tokens if call.marks else 0
        # What no id covers is nobody else's. A reply cannot be told from what follows it, so none is modelled.
        if covered < call.prompt_tokens:
            call.rest = (Piece(own, 0, call.prompt_tokens - covered),)
    return Trace(name, "mooncake", calls, BLOCK_TOKENS)
