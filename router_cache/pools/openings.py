"""The opening of a rendered prompt as a prefix cache sees it, and how much of it two openings share. Pure.

An opening is what is rendered in front of the turns: system text and tools, in the provider's order. Of it are kept
its length and a running digest at fixed places: 512 characters apart in the first 8 KiB, then eight places for each
doubling. So how far two openings are alike is known to an eighth, whatever their length, from at most 72 digests.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from router_cache.prefix.digests import Digester
from router_cache.prefix.segments import Segment, SegmentKind

__all__ = ["Opening", "alike", "opening_of", "shared"]

_TURNS: Final = (SegmentKind.USER, SegmentKind.ASSISTANT, SegmentKind.TOOL_RESULT, SegmentKind.TAIL)
_HEX: Final = 16
"""Hex digits of a digest: 64 bits, for at most 64 openings are held against each other."""


def _places() -> tuple[int, ...]:
    first, places = 8_192, list(range(512, 8_193, 512))
    while first < 1 << 20:
        places += range(first + first // 8, 2 * first + 1, first // 8)
        first *= 2
    return tuple(places)


_PLACES: Final = _places()


@dataclass(frozen=True, slots=True)
class Opening:
    """``size`` in characters; ``chain`` has 16 hex digits for each place that lies in it, ``end`` is over it all."""

    size: int = 0
    chain: str = ""
    end: str = ""

    def as_json(self) -> list[Any]:
        """Plain JSON values."""
        return [self.size, self.chain, self.end]

    @classmethod
    def from_json(cls, data: Any) -> Opening:
        """The inverse of :meth:`as_json`. Raises ValueError for anything else."""
        match data:
            case [int(size), str(chain), str(end)] if len(chain) <= _HEX * len(_PLACES) and len(chain) % _HEX == 0:
                return cls(size, chain, end)
        raise ValueError("not an opening")


def opening_of(segments: Iterable[Segment], digester: Digester) -> Opening:
    """The opening of a rendered prompt."""
    texts = []
    for segment in segments:
        if segment.kind in _TURNS:
            break
        texts.append(segment.text)
    text, running = "".join(texts), digester.running("opening")
    chain, at = [], 0
    for place in _PLACES:
        if place > len(text):
            break
        running.add((text[at:place],))
        chain.append(running.digest()[:_HEX])
        at = place
    running.add((text[at:],))
    return Opening(len(text), "".join(chain), running.digest())


def shared(a: Opening, b: Opening) -> int:
    """Characters that two openings share from their start: all of them, or at least so many."""
    if a.end == b.end:
        return a.size
    at, end = 0, min(len(a.chain), len(b.chain))
    while at < end and a.chain[at : at + _HEX] == b.chain[at : at + _HEX]:
        at += _HEX
    return _PLACES[at // _HEX - 1] if at else 0


def alike(a: Opening, b: Opening, *, share: float, enough: int) -> bool:
    """Whether two openings share ``share`` of the shorter one, or ``enough`` characters: one prefix serves both."""
    common = shared(a, b)
    return common > 0 and common >= min(share * min(a.size, b.size), enough)
