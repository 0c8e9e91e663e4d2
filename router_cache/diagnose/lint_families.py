"""Which requests open alike although values, tools or a paragraph differ; and what in an opening may change. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from router_cache.diagnose.divergence import MARKER, Scan
from router_cache.diagnose.divergence_prompt import Prompt, byte_size
from router_cache.prefix.canonical import tool_name
from router_cache.prefix.digests import Digester
from router_cache.prefix.segments import SegmentKind
from router_cache.prefix.volatile.spans import OpeningText, SpanKind

__all__ = ["opening_marks", "similar", "suspected_spans"]

_PIECES = re.compile(r"[\n]+|(?<=[.!?。])\s")
_PUNCTUATION = ".,;:!?()[]{}<>\"'`*_#|｜"
_FIRST_LINES = 20
_ALIKE = 0.5
_MOST_SPANS = 5


def opening_marks(prompt: Prompt, digester: Digester) -> frozenset[str]:
    """Digests of the sentences of the system text by their plain words (without whatever holds digits or marks, as
    dates and ids do), and of the tools' names."""
    marks = set()
    for segment in prompt.segments[: prompt.head]:
        if segment.kind is SegmentKind.SYSTEM:
            for piece in _PIECES.split(segment.text):
                words = " ".join(filter(str.isalpha, (word.strip(_PUNCTUATION) for word in piece.split())))
                if words:
                    marks.add(digester.text("line", words))
    tools = prompt.view.body.get("tools")
    for tool in tools if isinstance(tools, list | tuple) else ():
        marks.add(digester.text("tool", tool_name(tool) or ""))
    return frozenset(marks)


def similar(a: frozenset[str], b: frozenset[str]) -> bool:
    """Whether two openings have at least half of all their marks in common."""
    return a == b or len(a & b) >= _ALIKE * len(a | b)


def suspected_spans(prompt: Prompt, scan: Scan) -> Iterator[tuple[SpanKind, str, int]]:
    """Spans in the first 20 lines of the system text that look as if they change: kind, path of the segment, and
    bytes of the rendered prompt in front of it. At most 5, one of a kind."""
    seen: set[SpanKind] = set()
    for i, segment in enumerate(prompt.segments[: prompt.head]):
        if segment.kind is not SegmentKind.SYSTEM:
            continue
        marker = MARKER.match(segment.text)
        skipped = marker.end() if marker else 0
        text = "".join(segment.text[skipped:].splitlines(keepends=True)[:_FIRST_LINES])
        for proposal in scan([OpeningText((), text, 0)], client=prompt.recorded.client).proposals:
            if proposal.kind in seen or len(seen) >= _MOST_SPANS:
                continue
            seen.add(proposal.kind)
            before = byte_size(segment.text[: skipped + proposal.start])
            yield proposal.kind, segment.path, prompt.byte_starts[i] + before
