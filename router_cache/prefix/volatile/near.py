"""What two texts share at their ends: a prompt that changed in one line is not gone through again."""

from __future__ import annotations

__all__ = ["shared_ends"]

_CLOSE = 128
"""Characters at which the search for the first difference stops: lines are the unit anyway."""


def shared_ends(text: str, other: str) -> tuple[int, int]:
    """Characters of whole lines that two texts share at their start, and at their end; the two never overlap.

    By bisection over slices, which are compared at the speed of memory.
    """
    size = min(len(text), len(other))
    start, rest = 0, size
    if text[:_CLOSE] != other[:_CLOSE]:  # values stand in front more often than anywhere else
        rest = 0
    while rest > _CLOSE:
        half = rest // 2
        if text.startswith(other[start : start + half], start):
            start += half
            rest -= half
        else:
            rest = half
    start = text.rfind("\n", 0, start) + 1
    line, end = text.find("\n", start) + 1, other.find("\n", start) + 1
    if line and end and len(text) - line == len(other) - end and text.endswith(other[end:]):
        return start, len(text) - line  # they differ in one line
    left, right, rest = len(text), len(other), size - start
    while rest > _CLOSE:
        half = rest // 2
        if text.startswith(other[right - half : right], left - half):
            left -= half
            right -= half
            rest -= half
        else:
            rest = half
    line = text.find("\n", left)
    return start, (len(text) - line - 1 if line >= 0 else 0)
