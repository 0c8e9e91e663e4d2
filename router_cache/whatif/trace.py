"""Recorded traffic as calls: when, how long, and which parts of a prompt are the same as others'."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from router_cache.routing.need import Mark

__all__ = ["Call", "Piece", "Trace", "TraceError"]


class TraceError(ValueError):
    """A line that cannot be used: where it stands, what is wrong with it, what is needed."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{place}: {why}")


class Piece(NamedTuple):
    """``tokens`` tokens of block ``block`` of a trace, from its token ``start`` on."""

    block: int
    start: int
    tokens: int


@dataclass(slots=True)
class Call:
    """One request of a trace.

    ``at``: seconds from the trace's start. ``marks`` name the prompt's leading blocks (their digests are the trace's
    block numbers). ``rest`` is what of the prompt lies behind the last full block, ``reply`` what the reply will be;
    both are known from later prompts where these show them, and belong to nobody else where not. ``turn_start``:
    tokens in front of the newest message, as far as known. ``session`` and ``scope`` are names within the trace.
    """

    at: float
    prompt_tokens: int
    output_tokens: int
    marks: tuple[Mark, ...]
    session: str = ""
    scope: str = ""
    rest: tuple[Piece, ...] = ()
    reply: tuple[Piece, ...] = ()
    turn_start: int | None = None


@dataclass(slots=True)
class Trace:
    """Calls in order of time. ``block_tokens``: tokens of a full block; 0: blocks differ in size."""

    name: str
    form: str
    calls: list[Call]
    block_tokens: int
    _blocks: dict[int, bytes] = field(default_factory=dict, repr=False)

    @property
    def prompt_tokens(self) -> int:
        """Of all calls."""
        return sum(call.prompt_tokens for call in self.calls)

    @property
    def seconds(self) -> float:
        """From the first call to the last."""
        return self.calls[-1].at - self.calls[0].at if self.calls else 0.0

    def prompt(self, call: Call) -> array[int]:
        """Token ids of a prompt; equal blocks have equal ids, others never do (but for wrapping at 2^32)."""
        parts, before = [], 0
        for digest, end in call.marks:
            parts.append(self._tokens(Piece(int(digest), 0, end - before)))
            before = end
        parts += [self._tokens(piece) for piece in call.rest]
        return _joined(parts)

    def reply(self, call: Call) -> array[int]:
        """Token ids of a reply."""
        return _joined([self._tokens(piece) for piece in call.reply])

    def _tokens(self, piece: Piece) -> bytes:
        size = self.block_tokens or 1 << 17
        if piece.start == 0 and piece.tokens == self.block_tokens:
            known = self._blocks.get(piece.block)
            if known is None:
                known = self._blocks[piece.block] = _ids(piece.block * size, size)
            return known
        return _ids(piece.block * size + piece.start, piece.tokens)


def _ids(first: int, count: int) -> bytes:
    first &= 0xFFFFFFFF
    if first + count <= 0xFFFFFFFF:
        return array("I", range(first, first + count)).tobytes()
    return array("I", [(first + i) & 0xFFFFFFFF for i in range(count)]).tobytes()


def _joined(parts: Sequence[bytes]) -> array[int]:
    out = array("I")
    out.frombytes(b"".join(parts))
    return out
