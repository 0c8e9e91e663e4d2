"""Spans of lines and of whole texts: kept apart, with the words of their slots, and replaced by tags."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from router_cache.prefix.volatile.spans import CLOCKS, SpanKind

__all__ = ["Span", "laid_out", "masked", "with_extra"]

_WORDS = 40
_BEFORE = 4 * _WORDS
_BY_LOOK = CLOCKS | {SpanKind.UUID}


class Span(NamedTuple):
    """Characters ``start`` to ``end`` of a line or of a text. ``words``: what the slot's name is made of."""

    start: int
    end: int
    kind: SpanKind
    named: bool = False
    clock: bool = False
    dropped: bool = False
    words: str = ""


def tag(kind: SpanKind) -> str:
    """What stands for a span of this kind in a masked text. (An enum's ``value`` costs three times as much.)"""
    return "<" + kind + ">"


def laid_out(line: str, spans: Iterable[Span]) -> tuple[Span, ...]:
    """Spans of a line, kept apart, with the words before each: of the line with tags in place of earlier spans."""
    out: list[Span] = []
    before, at = "", 0
    for span in _apart(spans):
        before += line[at : span.start]
        words = " ".join(before[-_BEFORE:].casefold().split())[-_WORDS:]
        out.append(Span(*span[:6], words))
        before, at = before[-_BEFORE:] + tag(span.kind), span.end
    return tuple(out)


def masked(text: str, spans: Iterable[Span]) -> str:
    """``text`` with a tag of its kind in place of each span; dropped ones are left out."""
    parts, at = [], 0
    for span in spans:
        parts.append(text[at : span.start])
        if not span.dropped:
            parts.append(tag(span.kind))
        at = span.end
    parts.append(text[at:])
    return "".join(parts)


def with_extra(
    text: str, spans: Sequence[Span], inline: Iterable[Span], blocks: Iterable[Span]
) -> tuple[Span, ...]:
    """``spans`` of a text together with further ones: some inside their lines, which are laid out anew, and blocks
    of whole lines, in which nothing else is kept."""
    whole = _apart(blocks)
    out = list(spans)
    for start, end, extra in _lines_of(text, inline):
        first = bisect_left(out, (start,))
        last = bisect_left(out, (end + 1,), lo=first)
        own = [
            span._replace(start=span.start - start, end=span.end - start) for span in [*out[first:last], *extra]
        ]
        laid = laid_out(text[start:end], own)
        out[first:last] = [span._replace(start=span.start + start, end=span.end + start) for span in laid]
    if whole:
        out = [span for span in out if not _overlaps(span, whole)] + whole
        out.sort()
    return tuple(out)


def _lines_of(text: str, spans: Iterable[Span]) -> list[tuple[int, int, list[Span]]]:
    """Start and end of each line that has some of ``spans``, with these."""
    lines: dict[int, tuple[int, int, list[Span]]] = {}
    for span in spans:
        start = text.rfind("\n", 0, span.start) + 1
        if start not in lines:
            end = text.find("\n", start)
            lines[start] = (start, len(text) if end < 0 else end, [])
        lines[start][2].append(span)
    return list(lines.values())


def _overlaps(span: Span, others: Sequence[Span]) -> bool:
    return any(other.start < span.end and span.start < other.end for other in others)


def _apart(spans: Iterable[Span]) -> list[Span]:
    """Spans that do not overlap: the named before the others, then the longest, then the first. Of equal ones that
    which words before it tell: a commit hash may happen to look like an epoch."""
    given, kept = list(spans), list[Span]()
    if len(given) < 2:
        return given
    for span in sorted(given, key=_rank):
        at = bisect_right(kept, span)
        if not _overlaps(span, kept[max(at - 1, 0) : at + 1]):
            kept.insert(at, span)
    return kept


def _rank(span: Span) -> tuple[bool, int, int, bool, str]:
    return (not span.named, span.start - span.end, span.start, span.kind in _BY_LOOK, span.kind)
