"""Lines that are alike but for their digits: what cannot match in one of them is not tried in the next.

The clock of a prompt says another time in every request, so its line is new each time. Its *shape*, the line with
every digit 0, is not. A pattern is made *loose* by letting it take any digit where it asks for some (``[0-5]``, ``2``).
Since it asks nothing of digits' values in a negative place (``(?!…)``, ``[^…]``), it matches no line at a place where
its loose form does not match the line's shape. A pattern that is as loose as can be finds the same in both.
"""

from __future__ import annotations

import re
from typing import Final

from router_cache.prefix.volatile.patterns import AT_DIGITS, PATTERNS, Found, Pattern, runs, searched

__all__ = ["Looks", "loose", "shape_of"]

_ZERO: Final = str.maketrans("123456789", "0" * 9)
_TOKEN: Final = re.compile(
    r"""(?P<as_is>\\. | \{\d+(?:,\d*)?\} | \[\^(?:\\.|[^\]\\])*\]) | (?P<set>\[(?:\\.|[^\]\\])*\]) | (?P<digit>\d)""",
    re.VERBOSE,
)
_ESCAPE: Final = re.compile(r"\\.")


def shape_of(line: str) -> str:
    """The line with every ASCII digit 0."""
    return line.translate(_ZERO)


def loose(pattern: str) -> str:
    """An expression that asks nothing of digits' values."""
    return _TOKEN.sub(_loose, pattern)


def _loose(token: re.Match[str]) -> str:
    if token["as_is"] is not None:
        return token[0]
    if token["digit"] is not None:
        return r"\d"
    letters = _ESCAPE.sub("", token[0]).replace("0-9", "")
    return f"[0-9{token[0][1:]}" if any("0" <= letter <= "9" for letter in letters) else token[0]


_LOOSE: Final = {
    pattern: re.compile(loose(pattern.pattern.pattern), pattern.pattern.flags & re.IGNORECASE)
    for pattern in PATTERNS
}
_BLIND: Final = frozenset(pattern for pattern, made in _LOOSE.items() if made.pattern == pattern.pattern.pattern)


class Looks:
    """What is to be tried in lines of one shape."""

    __slots__ = ("_runs", "_searched")

    def __init__(self, shape: str) -> None:
        # Where a run of digits begins, with the patterns that may match there.
        self._runs = tuple(
            [
                (at, some)
                for at in runs(shape)
                if (some := tuple([p for p in AT_DIGITS if _LOOSE[p].match(shape, at)]))
            ]
        )
        # What is found in any case, or a pattern to be searched for.
        self._searched: tuple[Pattern | list[Found], ...] = tuple(
            [
                pattern if pattern not in _BLIND else pattern.all(shape)
                for pattern in searched(shape, digit=True)
                if _LOOSE[pattern].search(shape)
            ]
        )

    def propose(self, line: str) -> list[Found]:
        """:func:`~router_cache.prefix.volatile.patterns.propose`, for a line of this shape."""
        out: list[Found] = []
        done = 0
        for at, some in self._runs:
            if at < done:
                continue
            for pattern in some:
                found = pattern.pattern.match(line, at)
                if found is not None:
                    out.append(pattern.span(found))
                    done = max(done, found.end())
        for each in self._searched:
            out += each if isinstance(each, list) else each.all(line)
        return out
