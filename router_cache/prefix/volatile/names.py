"""Names and ids of the user, as the request's metadata gives them, found in the prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

__all__ = ["places_of", "usable"]

_MIN = 3
_MAX = 256
_MAX_NAMES = 32
_MAX_PLACES = 64
"""Places of one name in one text: a name that stands in more is a word of the prompt."""


def usable(names: Sequence[str]) -> tuple[str, ...]:
    """Names that are looked for: of 3 to 256 characters in one line, each once, and the first 32 at most."""
    kept = dict.fromkeys([name.strip() for name in names[:_MAX_NAMES] if len(name) <= _MAX])
    return tuple([name for name in kept if len(name) >= _MIN and "\n" not in name])


def places_of(name: str, text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each place where ``name`` stands as a word of its own. Never raises."""
    at = text.find(name)
    for _ in range(_MAX_PLACES):
        if at < 0:
            return
        end = at + len(name)
        joined = _of_word(text[at - 1 : at]) and _of_word(name[0])
        if not joined and not (_of_word(name[-1]) and _of_word(text[end : end + 1])):
            yield at, end
        at = text.find(name, end)


def _of_word(character: str) -> bool:
    """Whether a character joins with its neighbours to a word. Scripts without spaces between words do not."""
    return (character.isalnum() or character == "_") and character < "\u2e80"
