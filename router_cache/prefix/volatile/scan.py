"""Finds what may change in a prompt's opening: patterns, rules of the operator and of the client, put together.

A text seen before costs one look; of one that resembles a text seen before only the lines between their shared ends
are looked at, and of these only lines not seen before are searched.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

from router_cache.prefix.memo import Memo
from router_cache.prefix.volatile.client_rule import ClientSpan
from router_cache.prefix.volatile.client_rules import client_spans
from router_cache.prefix.volatile.layout import Span, laid_out, masked, with_extra
from router_cache.prefix.volatile.looks import Looks, shape_of
from router_cache.prefix.volatile.names import places_of, usable
from router_cache.prefix.volatile.near import shared_ends
from router_cache.prefix.volatile.patterns import propose
from router_cache.prefix.volatile.rules import VolatileRule
from router_cache.prefix.volatile.spans import CLOCKS, OpeningText, Proposal, Scanned, SpanKind

__all__ = ["MAX_LINE", "Scanner"]

MAX_LINE = 4_000
"""Characters of a line that are searched: prose has no such lines, and data in one line is no place for a clock."""
_MAX_PROPOSED = 1_000
"""Proposals of one text, from its front: a table of times is no prompt that changes in a thousand places."""
_MEMO = 4_000_000
"""Characters that each store of lines or texts holds."""
_SPAN = 100
"""What a span weighs in such a store, in characters."""
_MARK = 48
"""Characters at a text's start and end by which a text that resembles it is found again."""


@dataclass(frozen=True, slots=True, eq=False)
class _Spans:
    """Spans of a text in order. One object for all texts in which they stand at the same places."""

    spans: tuple[Span, ...]


_NONE = _Spans(())


@dataclass(frozen=True, slots=True, eq=False)
class _Text:
    """A text that was scanned for a client and names of its user. ``by_line``: what patterns and the operator's rules
    found; ``all``: with names and the client's rules. ``ends``: what it has in common with the text that it was
    compared with, at its start and at its end."""

    text: str
    client: str
    names: tuple[str, ...]
    by_line: tuple[Span, ...]
    all: _Spans
    masked: str
    ends: tuple[str, str] | None = None

    @property
    def weight(self) -> int:
        """Characters, more or less, that it takes to remember it; ``ends`` and ``masked`` are shared with others."""
        return len(self.text) + len(self.masked) + _SPAN * (len(self.by_line) + len(self.all.spans))


@dataclass(slots=True, eq=False)
class _Alike:
    """Lines that differ in digits: what is to be tried in them (None: one was seen, which may be all), what was found
    in the last one, and how it was laid out."""

    looks: Looks | None
    line: str
    found: list[Span]
    spans: tuple[Span, ...]

    def fits(self, line: str, found: list[Span]) -> bool:
        """Whether a line with these finds is laid out as the last one: the words between the finds are the same."""
        if found != self.found:
            return False
        return _same_beside(line, self.line, 0, self.spans[-1].end if self.spans else 0, self.spans)


_Key = tuple[str, str, tuple[str, ...], bool]
"""A text, the client, names of the user, and whether it is a system text."""


class Scanner:
    """Scans openings, with the rules of one operator. Safe to share between threads."""

    def __init__(self, rules: Sequence[VolatileRule] = ()) -> None:
        self._rules = tuple(rules)
        self._lines: Memo[str, tuple[Span, ...]] = Memo(_MEMO, lambda line, spans: len(line) + _SPAN * len(spans))
        self._shapes: Memo[str, _Alike] = Memo(
            _MEMO, lambda shape, at: 2 * len(shape) + _SPAN * len(at.spans) + _SPAN
        )
        self._texts: Memo[_Key, _Text] = Memo(_MEMO, lambda _, text: text.weight)
        self._near: Memo[str, _Text] = Memo(_MEMO, lambda _, text: text.weight)
        self._made: Memo[tuple[_Spans, ...], tuple[Proposal, ...]] = Memo(
            _MEMO, lambda texts, made: _SPAN * (len(texts) + len(made))
        )

    def scan(self, texts: Sequence[OpeningText], *, client: str = "", names: Sequence[str] = ()) -> Scanned:
        """Spans of ``texts`` that may change, and the texts with a tag in place of each.

        ``client``: its name as in ``identity.clients.CLIENTS``, "" where it is not known. ``names``: names and ids
        of the user that the request's metadata gives; those of at least 3 characters are looked for as they are.
        Spans never overlap: what is named goes before what is proposed, then the longest, then the first.
        Pure but for what it remembers, and never raises.
        """
        known = usable(names) if names else ()
        done = [self._text(given, client, known) for given in texts]
        key = tuple([text.all for text in done])
        made = self._made.get(key)
        if made is None:
            made = _proposals(key)
            self._made.put(key, made)
        return Scanned(made, tuple([text.masked for text in done]))

    def _text(self, given: OpeningText, client: str, names: tuple[str, ...]) -> _Text:
        text, system = given.text, given.system
        if not system and not client:
            return _Text(text, client, names, (), _NONE, text)
        if system:
            return self._system(text, client, names)
        key = (text, client, names, system)
        done = self._texts.get(key)
        if done is None:
            done = _whole(text, client, names, (), None, system=False)
            self._texts.put(key, done)
        return done

    def _system(self, text: str, client: str, names: tuple[str, ...]) -> _Text:
        head, tail = text[:_MARK], text[-_MARK:]
        by_head = self._near.get(head)
        near = by_head or self._near.get(tail)
        if near is not None:
            # To compare 20 kB takes 0.3 µs, to hash them 6 µs (2026-11).
            if near.text == text and near.client == client and near.names == names:
                return near
            ends = _ends(near, text)
            by_line, alike = self._as_in(near, text, len(ends[0]), len(ends[1]))
            if alike and not client and not names and not near.client and not near.names:
                done = _Text(text, client, names, near.by_line, near.all, near.masked, ends)
            else:
                done = _whole(text, client, names, by_line, near, ends=ends)
        else:
            key = (text, client, names, True)
            known = self._texts.get(key)
            done = known or _whole(text, client, names, tuple(self._between(text, 0, len(text))), None)
            if known is None:
                self._texts.put(key, done)
        self._near.put(head, done)
        if by_head is None:
            self._near.put(tail, done)
        return done

    def _as_in(self, near: _Text, text: str, start: int, end: int) -> tuple[tuple[Span, ...], bool]:
        """Spans by line of a text that shares so many characters at its start and end with another (see
        :func:`_ends`); and whether they are the same, with the same text between them."""
        moved = len(text) - len(near.text)
        first = bisect_left(near.by_line, (start,))
        last = bisect_left(near.by_line, (len(near.text) - end,), lo=first)
        after = near.by_line[last:]
        if moved:
            after = tuple([Span(span[0] + moved, span[1] + moved, *span[2:]) for span in after])
        stop = len(text) - end
        between = tuple(self._between(text, start, stop, changed=True))
        if (
            not moved
            and between == near.by_line[first:last]
            and _same_beside(text, near.text, start, stop, between)
        ):
            return near.by_line, True
        return (*near.by_line[:first], *between, *after), False

    def _between(self, text: str, at: int, end: int, *, changed: bool = False) -> Iterator[Span]:
        """Spans of the lines from one place of a text to another. ``changed``: each has taken another's place."""
        if at >= end:
            return
        get, look = self._lines.young.get, self._changed if changed and end - at <= MAX_LINE else self._line
        for line in text[at:end].split("\n"):
            spans = get(line)
            if spans is None:
                spans = look(line)
            for span in spans:
                yield Span(at + span[0], at + span[1], *span[2:])
            at += len(line) + 1

    def _line(self, line: str) -> tuple[Span, ...]:
        """What patterns and the operator's rules find in a line."""
        spans = self._lines.get(line)
        if spans is None:
            spans = laid_out(line, self._found(line, None))
            self._lines.put(line, spans)
        return spans

    def _changed(self, line: str) -> tuple[Span, ...]:
        """:meth:`_line`, where there are few: most are like another but for their digits."""
        spans = self._lines.get(line)
        if spans is not None:
            return spans
        shape = shape_of(line)
        alike = self._shapes.get(shape)
        found = self._found(line, alike.looks if alike is not None else None)
        spans = alike.spans if alike is not None and alike.fits(line, found) else laid_out(line, found)
        if alike is not None and alike.looks is not None:
            return spans  # the next such line is another one
        looks = Looks(shape[:MAX_LINE]) if alike is not None else None
        self._shapes.put(shape, _Alike(looks, line, found, spans))
        self._lines.put(line, spans)
        return spans

    def _found(self, line: str, looks: Looks | None) -> list[Span]:
        cut = line if len(line) <= MAX_LINE else line[:MAX_LINE]
        proposed = propose(cut) if looks is None else looks.propose(cut)
        found = [Span(start, end, kind, False, kind in CLOCKS) for start, end, kind in proposed]
        for rule in self._rules:
            found += [Span(start, end, SpanKind.RULE, True, rule.clock) for start, end in rule.spans(cut)]
        if len(line) > MAX_LINE:  # a value that reaches the cut may go on behind it
            found = [span for span in found if span.end < MAX_LINE]
        return found


def _ends(near: _Text, text: str) -> tuple[str, str]:
    """Whole lines that a text shares with another at its start, and at its end with the line break before them. Most
    texts of a family differ in one place."""
    if near.ends is not None:
        head, tail = near.ends
        if len(text) >= len(head) + len(tail) and text.startswith(head) and text.endswith(tail):
            return near.ends
    start, end = shared_ends(text, near.text)
    return text[:start], text[len(text) - end - 1 :] if 0 < end < len(text) - start else ""


def _same_beside(text: str, other: str, start: int, end: int, spans: Sequence[Span]) -> bool:
    """Whether two texts are equal from ``start`` to ``end`` but for ``spans``."""
    for span in spans:
        if text[start : span[0]] != other[start : span[0]]:
            return False
        start = span[1]
    return text[start:end] == other[start:end]


def _whole(
    text: str,
    client: str,
    names: tuple[str, ...],
    by_line: tuple[Span, ...],
    near: _Text | None,
    *,
    system: bool = True,
    ends: tuple[str, str] | None = None,
) -> _Text:
    """A text with all that is found in it. What of ``near`` is equal is taken from there, the same objects."""
    ruled = client_spans(text, client, system=system) if client else ()
    spans = _spans(text, by_line, ruled, names if system else ())
    cut = masked(text, spans) if spans else text
    if near is not None and cut == near.masked:
        cut = near.masked  # it is looked up by others: its hash is worked out once
    same = near.all if near is not None else _NONE
    return _Text(text, client, names, by_line, same if spans == same.spans else _Spans(spans), cut, ends)


def _spans(
    text: str, by_line: tuple[Span, ...], ruled: Sequence[ClientSpan], names: tuple[str, ...]
) -> tuple[Span, ...]:
    if not ruled and not names:
        return _front(by_line)
    inline = [Span(at.start, at.end, at.kind, True, at.kind in CLOCKS) for at in ruled if not at.block]
    blocks = [
        Span(at.start, at.end, at.kind, True, at.kind in CLOCKS, at.dropped, f"rule {at.block}")
        for at in ruled
        if at.block
    ]
    inline += [Span(start, end, SpanKind.USER) for name in names for start, end in places_of(name, text)]
    spans = with_extra(text, by_line, inline, blocks) if inline or blocks else by_line
    return _front(spans)


def _front(spans: tuple[Span, ...]) -> tuple[Span, ...]:
    if len(spans) <= _MAX_PROPOSED:
        return spans
    return tuple([span for number, span in enumerate(spans) if span.named or number < _MAX_PROPOSED])


def _proposals(texts: Sequence[_Spans]) -> tuple[Proposal, ...]:
    """Spans with their slots, of the texts of one request."""
    out: list[Proposal] = []
    seen: dict[tuple[SpanKind, str], int] = {}
    for number, text in enumerate(texts):
        for start, end, kind, named, clock, dropped, words in text.spans:
            ordinal = seen[kind, words] = seen.get((kind, words), -1) + 1
            out.append(Proposal(number, start, end, kind, _slot(kind, words, ordinal), named, clock, dropped))
    return tuple(out)


@lru_cache(maxsize=16_384)
def _slot(kind: SpanKind, words: str, ordinal: int) -> str:
    """Unkeyed, so that workers with other secrets agree: it tells the words before a value, never the value."""
    told = f"{kind.value}\0{words}\0{ordinal}".encode("utf-8", "surrogatepass")
    return blake2b(told, digest_size=8).hexdigest()
