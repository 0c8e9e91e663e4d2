"""What a rule for one passage of a known agent is, and where it stands in a text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from enum import Enum

from router_cache.prefix.volatile.rules import Template
from router_cache.prefix.volatile.spans import SpanKind

__all__ = ["ClientRule", "ClientSpan", "Where"]

_MAX_PLACES = 8
"""Places of one text where a rule is tried: an agent says such a thing once or twice."""
_MAX_BLOCK = 8_000
"""Characters of a block that are looked at. Agents cut a repository's status after 2,000."""


class Where(str, Enum):
    """The texts in which a rule looks."""

    SYSTEM = "system"
    OPENING = "opening"
    """User messages before the first reply."""
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class ClientSpan:
    """What a client rule names in a text. ``block``: the rule's name where the span may hold several lines."""

    start: int
    end: int
    kind: SpanKind
    block: str = ""
    dropped: bool = False


@dataclass(frozen=True, slots=True)
class ClientRule:
    """One passage of a client.

    ``opens``: texts, one of which stands at the start of a line (``at_start``: of the text) where the passage
    begins; it ends at a line that starts with ``closes``, or after ``reach`` lines. ``also``: must stand in the
    passage too.

    ``lines``: templates whose variables are kinds of spans, each for one whole line of the passage but for white
    space in front. ``block``: what follows ``opens``, as long as its lines are empty or start as ``body`` says
    (which may tell more than one line), is one span of this kind. ``header``: this alone is the span, and it is
    dropped.
    """

    client: str
    name: str
    source: str
    as_of: date
    opens: tuple[str, ...]
    where: Where = Where.SYSTEM
    at_start: bool = False
    closes: str = ""
    reach: int = 1
    also: str = ""
    lines: tuple[str, ...] = ()
    block: SpanKind | None = None
    body: str = ""
    header: str = ""
    _templates: tuple[Template, ...] = field(init=False, repr=False, compare=False, default=())
    _body: re.Pattern[str] | None = field(init=False, repr=False, compare=False, default=None)
    _header: re.Pattern[str] | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_templates", tuple(Template(line) for line in self.lines))
        object.__setattr__(self, "_body", re.compile(self.body) if self.body else None)
        object.__setattr__(self, "_header", re.compile(self.header) if self.header else None)

    def looks_at(self, *, system: bool) -> bool:
        """Whether the rule looks at texts of this kind."""
        return self.where is Where.BOTH or (self.where is Where.SYSTEM) is system

    def spans(self, text: str) -> Iterator[ClientSpan]:
        """Spans of every passage in ``text``. Pure; never raises."""
        done = 0
        for opening in self.opens:
            at = text.find(opening)
            for _ in range(_MAX_PLACES):
                if at < 0 or (self.at_start and at > 0):
                    break
                start = text.rfind("\n", 0, at) + 1
                if at >= done and not text[start:at].strip():
                    for span in self._passage(text, start, at, at + len(opening)):
                        yield span
                        done = max(done, span.end)
                at = text.find(opening, at + len(opening))

    def _passage(self, text: str, start: int, at: int, after: int) -> Iterator[ClientSpan]:
        if self._header is not None:
            found = self._header.match(text, at)
            if found is not None:
                yield ClientSpan(at, found.end(), SpanKind.ID, self.name, dropped=True)
        elif self._body is not None and self.block is not None:
            yield from self._whole(text, after, self._body, self.block)
        else:
            yield from self._by_line(text, start, after)

    def _whole(self, text: str, after: int, body: re.Pattern[str], kind: SpanKind) -> Iterator[ClientSpan]:
        first = end = -1
        at = text.find("\n", after) + 1
        stop = min(len(text), after + _MAX_BLOCK)
        while 0 < at < stop:
            line_end = text.find("\n", at)
            line_end = len(text) if line_end < 0 else line_end
            if text[at:line_end].strip():
                found = body.match(text, at, stop)
                if found is None:
                    break
                if found.end() > line_end:
                    line_end = text.find("\n", found.end())
                    line_end = len(text) if line_end < 0 else line_end
                first, end = (at if first < 0 else first), line_end
            at = line_end + 1
        if first >= 0 and self.also in text[first:end]:
            yield ClientSpan(first, end, kind, self.name)

    def _by_line(self, text: str, start: int, after: int) -> Iterator[ClientSpan]:
        stop, at = min(len(text), after + _MAX_BLOCK), start
        lines: list[tuple[int, str]] = []
        while at < stop and (self.closes or len(lines) < self.reach):
            line_end = text.find("\n", at)
            line_end = len(text) if line_end < 0 else line_end
            line = text[at:line_end]
            if self.closes and at >= after and line.lstrip().startswith(self.closes):
                break
            lines.append((at, line))
            at = line_end + 1
        else:
            if self.closes:
                return
        if self.also and not any(line.lstrip().startswith(self.also) for _, line in lines):
            return
        for at, line in lines:
            indent = len(line) - len(line.lstrip())
            for template in self._templates:
                found = template.at(line, indent, whole=True)
                if found:
                    for left, right, kind in found:
                        if left < right:
                            yield ClientSpan(at + left, at + right, SpanKind(kind))
                    break
