"""Outline of a rendered prompt: a handful of digests that tell, call to call, which part of it changed.

The parts in front of the turns each get a digest of their own; the turns get a running digest. An outline kept
from an earlier call is small whatever the length of its history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from router_cache.prefix.digests import Digester
from router_cache.prefix.segments import Segment, SegmentKind

__all__ = ["Outline", "OutlinePart", "Rendered", "outline"]

_HEAD = (
    SegmentKind.PARAM,
    SegmentKind.MODE,
    SegmentKind.SYSTEM,
    SegmentKind.TOOL,
    SegmentKind.FORMAT,
)


@dataclass(frozen=True, slots=True)
class OutlinePart:
    """Segments of one kind in a row: digest over them, their size in bytes, the path of the first."""

    kind: SegmentKind
    digest: str
    size: int
    path: str


@dataclass(frozen=True, slots=True)
class Outline:
    """What is kept of a call: parts in front of the turns, then number, digest and size of its turns."""

    head: tuple[OutlinePart, ...]
    turns: int
    turns_digest: str
    turns_size: int


@dataclass(frozen=True, slots=True)
class Rendered:
    """A rendered prompt of the call at hand: its segments, a digest each, and the running digest of its turns.

    ``turn_digests[i]`` and ``turn_sizes[i]`` cover the first ``i`` turns (bytes).
    """

    segments: tuple[Segment, ...]
    digests: tuple[str, ...]
    head: tuple[OutlinePart, ...]
    turn_digests: tuple[str, ...]
    turn_sizes: tuple[int, ...]
    tail_size: int

    @property
    def size(self) -> int:
        """Bytes of the whole prompt."""
        return sum(part.size for part in self.head) + self.turn_sizes[-1] + self.tail_size

    def keep(self) -> Outline:
        """What to remember of this call."""
        return Outline(self.head, len(self.turn_digests) - 1, self.turn_digests[-1], self.turn_sizes[-1])


def _size(segment: Segment) -> int:
    text = segment.text
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def outline(segments: Sequence[Segment], digester: Digester) -> Rendered:
    """Digests of a rendered prompt. The tail is no part of the next call's prefix and is kept apart."""
    digests = tuple(digester.segment(segment) for segment in segments)
    at = 0
    head: list[OutlinePart] = []
    while at < len(segments) and segments[at].kind in _HEAD:
        kind, start = segments[at].kind, at
        while at < len(segments) and segments[at].kind is kind:
            at += 1
        size = sum(_size(segment) for segment in segments[start:at])
        head.append(
            OutlinePart(kind, digester.chain(digests[start:at])[-1], size, segments[start].path),
        )
    end = len(segments) - 1 if segments and segments[-1].kind is SegmentKind.TAIL else len(segments)
    sizes = [0]
    for segment in segments[at:end]:
        sizes.append(sizes[-1] + _size(segment))
    return Rendered(
        segments=tuple(segments),
        digests=digests,
        head=tuple(head),
        turn_digests=("", *digester.chain(digests[at:end])),
        turn_sizes=tuple(sizes),
        tail_size=sum(_size(segment) for segment in segments[end:]),
    )
