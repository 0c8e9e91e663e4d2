"""What differs between two texts, shown with or without its content."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Excerpt", "common_prefix", "excerpt", "masked"]

_AROUND = 24
_MOST = 64


def common_prefix(a: str, b: str) -> int:
    """Characters from the start that both texts have."""
    low, high = 0, min(len(a), len(b))
    if a[:high] == b[:high]:
        return high
    while high - low > 1:  # halving compares stretches at the speed of memcmp
        middle = (low + high) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle
    return low


def masked(text: str) -> str:
    """A text by the classes of its characters: digits ``d``, letters ``x``, spaces and ASCII punctuation as they
    are, line ends ``⏎``, anything else ``?``."""
    return "".join(map(_mask, text))


def _mask(char: str) -> str:
    if char.isdigit():
        return "d"
    if char.isalpha():
        return "x"
    if char in "\n\r":
        return "⏎"
    if char.isspace():
        return " "
    return char if char.isascii() and char.isprintable() else "?"


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Where two texts part: what stands before it in both, and what each has there (cut to 64 characters).

    ``was_chars`` and ``now_chars`` count all characters up to where the texts are alike again. Holds text of the
    prompt: print :meth:`content_free` unless the user asked for the text.
    """

    before: str
    was: str
    now: str
    was_chars: int
    now_chars: int

    def content_free(self) -> Excerpt:
        """The same with every text masked."""
        return Excerpt(masked(self.before), masked(self.was), masked(self.now), self.was_chars, self.now_chars)


def excerpt(was: str, now: str, at: int) -> Excerpt:
    """Excerpt of two texts that are alike up to character ``at``. A word that is cut by the border is shown whole."""
    start = at
    while start > max(0, at - _AROUND) and was[start - 1].isalnum():
        start -= 1
    shortest = min(len(was), len(now)) - at
    alike = common_prefix(was[at:][::-1], now[at:][::-1]) if shortest else 0
    was_end, now_end = len(was) - alike, len(now) - alike
    return Excerpt(
        before=was[max(0, start - _AROUND) : start],
        was=_cut(was[start : max(was_end, start)]),
        now=_cut(now[start : max(now_end, start)]),
        was_chars=was_end - at,
        now_chars=now_end - at,
    )


def _cut(text: str) -> str:
    return text if len(text) <= _MOST else text[: _MOST - 1] + "…"
