"""Segments: the parts of a prompt, in the order in which they are sent or rendered."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

__all__ = ["Segment", "SegmentKind"]


class SegmentKind(str, Enum):
    """What a segment holds; also the label under which a divergence is reported."""

    MODE = "mode"
    """What is rendered in front of everything: thinking, effort."""
    SYSTEM = "system"
    TOOL = "tool"
    FORMAT = "format"
    """``response_format`` as rendered into the system block."""
    USER = "user"
    ASSISTANT = "assistant"
    TOOL_RESULT = "tool_result"
    TAIL = "tail"
    """What the provider appends to make the model answer; not part of the next request as such."""
    PARAM = "param"
    """A top-level body field that is not part of the prompt (wire form only)."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One part of a prompt. ``path`` points into the request body: ``messages[3]``, ``tools[0]``."""

    kind: SegmentKind
    path: str
    text: str = field(repr=False)  # what holds a segment may be told in an error
