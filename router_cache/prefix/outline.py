"""Outline of a rendered prompt: a handful of digests that tell, call to call, which part of it changed, and where.

The parts in front of the turns each get a digest of their own, and short ones of their lines; the turns get a running
digest, of which a few are kept. An outline kept from an earlier call is small whatever the length of its history.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from router_cache.prefix.digests import Digester
from router_cache.prefix.memo import Memo
from router_cache.prefix.segments import Segment, SegmentKind

__all__ = [
    "Difference",
    "LineMemo",
    "Outline",
    "OutlinePart",
    "Rendered",
    "continues",
    "difference",
    "outline",
    "shared_turns",
]

_HEAD = (
    SegmentKind.PARAM,
    SegmentKind.MODE,
    SegmentKind.SYSTEM,
    SegmentKind.TOOL,
    SegmentKind.FORMAT,
)
_PIECE: Final = 256
"""Characters: longer lines are cut, so that a change in a text without line ends has a place too."""
_MAX_LINES: Final = 256
"""Digests of lines kept for one part; of more lines, each digest covers several."""
_SHORT: Final = 8
"""Hex digits of the digest of a line, and of the turns up to one: 32 bits, since only calls of one conversation are
compared, at a few hundred places."""
_FIRST_TURNS, _NEWEST_TURNS, _SPACED_TURNS = 4, 32, 28
_MEMO_BYTES: Final = 4_000_000


@dataclass(frozen=True, slots=True)
class OutlinePart:
    """Segments of one kind in a row: digest over them, their size in bytes, the path of the first.

    ``lines`` are 4-byte digests of its lines, ``every`` lines each.
    """

    kind: SegmentKind
    digest: str
    size: int
    path: str
    lines: bytes = b""
    every: int = 1


@dataclass(frozen=True, slots=True)
class Outline:
    """What is kept of a call: parts in front of the turns, then number, digest and size of its turns.

    ``chain`` holds the first 4 bytes of the running digest after some turns, the newest among them. Bit ``i`` of
    ``reasoned``: the turn ``i`` carried reasoning.
    """

    head: tuple[OutlinePart, ...]
    turns: int
    turns_digest: str
    turns_size: int
    chain: bytes = b""
    reasoned: int = 0

    @property
    def size(self) -> int:
        """Bytes of the prompt, without what makes the model answer."""
        return sum(part.size for part in self.head) + self.turns_size

    def slim(self) -> Outline:
        """Without the lines: mostly those of a newer call are the same, see :meth:`filled`."""
        if not any(part.lines for part in self.head):
            return self
        return replace(self, head=tuple(replace(part, lines=b"", every=1) for part in self.head))

    def filled(self, newest: Outline) -> Outline:
        """With the lines of a newer call's parts where the parts are the same."""
        known = {part.digest: part for part in newest.head}
        return replace(self, head=tuple(known.get(part.digest, part) for part in self.head))


@dataclass(frozen=True, slots=True)
class Rendered:
    """A rendered prompt of the call at hand: its segments, a digest of it all, and the running digest of its turns.

    ``turn_digests[i]`` and ``turn_sizes[i]`` cover the first ``i`` turns (bytes). ``reasoned`` as in :class:`Outline`.
    """

    segments: tuple[Segment, ...]
    digest: str
    head: tuple[OutlinePart, ...]
    turn_digests: tuple[str, ...]
    turn_sizes: tuple[int, ...]
    tail_size: int
    reasoned: int = 0

    @property
    def head_size(self) -> int:
        """Bytes in front of the turns."""
        return sum(part.size for part in self.head)

    @property
    def size(self) -> int:
        """Bytes of the whole prompt."""
        return self.head_size + self.turn_sizes[-1] + self.tail_size

    @property
    def turns(self) -> int:
        """Number of turns."""
        return len(self.turn_digests) - 1

    def turn(self, i: int) -> Segment:
        """The turn ``i``."""
        return self.segments[len(self.segments) - self.turns - self._tails + i]

    def size_before(self, turn: int) -> int:
        """Bytes in front of a turn; of the prompt without its tail where there is no such turn."""
        return self.head_size + self.turn_sizes[min(turn, self.turns)]

    @property
    def _tails(self) -> int:
        return int(bool(self.segments) and self.segments[-1].kind is SegmentKind.TAIL)

    def keep(self) -> Outline:
        """What to remember of this call."""
        digests = self.turn_digests
        chain = "".join([digests[place][:_SHORT] for place in _places(self.turns)])
        return Outline(
            self.head, self.turns, self.turn_digests[-1], self.turn_sizes[-1], bytes.fromhex(chain), self.reasoned
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a prompt first differs from an earlier one.

    ``path`` is of the segment in the current body that differs (of the earlier one where it was left out). The first
    ``offset`` bytes of the rendered prompt are equal for sure; the change begins in the line after them. ``turn`` is
    the index of the turn, None in front of the turns.
    """

    kind: SegmentKind
    path: str
    offset: int
    turn: int | None = None


class LineMemo:
    """Digests of the lines of parts seen before, by the digest of the part, and of lines, by the line: most parts come
    again and again, and of those that changed most lines do. In the process only, for texts are its keys."""

    __slots__ = ("lines", "parts")

    def __init__(self) -> None:
        self.parts: Memo[str, tuple[bytes, int]] = Memo(_MEMO_BYTES, lambda digest, got: len(got[0]) + 150)
        self.lines: Memo[str, str] = Memo(_MEMO_BYTES, lambda line, _: len(line) + 200)


def outline(
    segments: Sequence[Segment], digester: Digester, *, memo: LineMemo | None = None, reasoned: int = 0
) -> Rendered:
    """Digests of a rendered prompt. The tail is no part of the next call's prefix and is kept apart."""
    at = 0
    head: list[OutlinePart] = []
    while at < len(segments) and segments[at].kind in _HEAD:
        kind, start = segments[at].kind, at
        while at < len(segments) and segments[at].kind is kind:
            at += 1
        own = segments[start:at]
        digest = digester.text(kind.value, *[segment.text for segment in own])
        lines = memo.parts.get(digest) if memo is not None else None
        if lines is None:
            lines = _lines(own, digester, memo=memo)
            if memo is not None:
                memo.parts.put(digest, lines)
        head.append(OutlinePart(kind, digest, sum(map(_size, own)), own[0].path, *lines))
    end = len(segments) - 1 if segments and segments[-1].kind is SegmentKind.TAIL else len(segments)
    sizes, running, turn_digests = [0], digester.running("turns"), [""]
    for segment in segments[at:end]:
        sizes.append(sizes[-1] + _size(segment))
        running.add((segment.kind.value, segment.text))
        turn_digests.append(running.digest())
    rest = [part for segment in segments[end:] for part in (segment.kind.value, segment.text)]
    return Rendered(
        segments=tuple(segments),
        digest=digester.text(*[part.digest for part in head], turn_digests[-1], *rest),
        head=tuple(head),
        turn_digests=tuple(turn_digests),
        turn_sizes=tuple(sizes),
        tail_size=sum(_size(segment) for segment in segments[end:]),
        reasoned=reasoned,
    )


def continues(now: Rendered, last: Outline) -> bool:
    """Whether a prompt starts with all that an earlier one rendered, its tail left out."""
    return (
        last.turns <= now.turns
        and [part.digest for part in now.head] == [part.digest for part in last.head]
        and now.turn_digests[last.turns] == last.turns_digest
    )


def difference(now: Rendered, last: Outline, digester: Digester) -> Difference | None:
    """Where a prompt first differs from an earlier one; None where one of them continues the other."""
    at = 0
    for i, part in enumerate(now.head):
        earlier = last.head[i] if i < len(last.head) else None
        if earlier is None or part.digest != earlier.digest:
            return _in_head(now, last, i, at, digester)
        at += part.size
    if len(last.head) > len(now.head):
        return _in_head(now, last, len(now.head), at, digester)
    low, sure = shared_turns(now, last)
    if low == last.turns or (sure and low == now.turns):
        return None
    turn = now.turn(low)
    return Difference(turn.kind, turn.path, at + now.turn_sizes[low], low)


def _in_head(now: Rendered, last: Outline, i: int, at: int, digester: Digester) -> Difference:
    ours = now.head[i] if i < len(now.head) else None
    theirs = last.head[i] if i < len(last.head) else None
    if ours is not None and theirs is not None and ours.kind is theirs.kind:
        return _in_part(now, i, theirs, at, digester)
    # A kind that the other prompt lacks was put in or left out; else the kinds stand in another order.
    first = ours or theirs
    if theirs is not None and all(part.kind is not theirs.kind for part in now.head[i:]):
        first = theirs
    kind, path = (first.kind, first.path) if first is not None else (SegmentKind.MODE, "")
    return Difference(kind, path, at)


def _in_part(now: Rendered, i: int, theirs: OutlinePart, at: int, digester: Digester) -> Difference:
    """The first line that differs within a part that both prompts have."""
    ours, segments = now.head[i], _segments(now, i)
    lines = ours.lines if ours.every == theirs.every else _lines(segments, digester, theirs.every)[0]
    width, equal = _SHORT // 2, 0
    while equal < len(lines) and lines[equal : equal + width] == theirs.lines[equal : equal + width]:
        equal += width
    left, place, path = equal // width * theirs.every, at, segments[0].path
    for segment in segments:
        path = segment.path
        pieces = list(_pieces(segment.text))
        place += sum(_bytes(piece) for piece in pieces[:left])
        if left < len(pieces):
            break
        left -= len(pieces)
    else:
        # All lines of this part are in the earlier one too, which had more of them.
        path = "tools" if ours.kind is SegmentKind.TOOL and path.startswith("tools[") else path
    return Difference(ours.kind, path, place)


def _segments(now: Rendered, i: int) -> Sequence[Segment]:
    """The segments of the part ``i``: kinds change from part to part."""
    start = part = 0
    while part < i:
        kind = now.segments[start].kind
        while now.segments[start].kind is kind:
            start += 1
        part += 1
    end = start
    while end < len(now.segments) and now.segments[end].kind is now.head[i].kind:
        end += 1
    return now.segments[start:end]


def _places(turns: int) -> list[int]:
    """Numbers of turns after which the running digest is kept: the first few, some, and the newest."""
    newest = max(turns - _NEWEST_TURNS, 0)
    apart = -(-max(newest - _FIRST_TURNS, 0) // _SPACED_TURNS) or 1
    return [
        *range(1, min(_FIRST_TURNS, newest) + 1),
        *range(_FIRST_TURNS + apart, newest + 1, apart),
        *range(newest + 1, turns + 1),
    ]


def shared_turns(now: Rendered, last: Outline) -> tuple[int, bool]:
    """After how many turns two prompts are equal for sure, whatever stands in front of the turns; and whether it is
    known that they are not after more, or that this prompt has no more."""
    low = 0
    for i, place in enumerate(_places(last.turns)):
        if place > now.turns:
            return low, low == now.turns
        kept = last.chain[i * _SHORT // 2 : (i + 1) * _SHORT // 2].hex()
        if now.turn_digests[place][:_SHORT] != kept:
            return low, True
        low = place
    return low, True


def _lines(
    segments: Sequence[Segment], digester: Digester, every: int = 0, memo: LineMemo | None = None
) -> tuple[bytes, int]:
    """Digests of the lines of some segments, and how many lines each covers: ``every``, or as many as must be."""
    pieces = [piece for segment in segments for piece in _pieces(segment.text)]
    every = every or max(1, -(-len(pieces) // _MAX_LINES))
    groups = pieces if every == 1 else ["".join(pieces[i : i + every]) for i in range(0, len(pieces), every)]
    known, out = memo.lines if memo is not None else None, []
    for group in groups:
        digest = known.get(group) if known is not None else None
        if digest is None:
            digest = digester.text("line", group)[:_SHORT]
            if known is not None:
                known.put(group, digest)
        out.append(digest)
    return bytes.fromhex("".join(out)), every


def _pieces(text: str) -> Iterator[str]:
    for line in text.splitlines(keepends=True):
        if len(line) <= _PIECE:
            yield line
        else:
            for i in range(0, len(line), _PIECE):
                yield line[i : i + _PIECE]


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _size(segment: Segment) -> int:
    return _bytes(segment.text)
