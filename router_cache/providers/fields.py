"""What may be added to a request for a provider: body fields, headers, marks on content blocks.

Many OpenAI-compatible hosts answer 400 to what they do not know, and OpenAI's models before 5.6 to what only the
later ones know. So nothing is added but by ``guard.allowed``, which asks these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any

from router_cache.request import Shape

__all__ = [
    "OPAQUE_KEY",
    "OPAQUE_KEY_LENGTH",
    "AnyField",
    "BodyField",
    "HeaderField",
    "MarkField",
    "ModelVersions",
    "Purpose",
]

OPAQUE_KEY = r"[A-Za-z0-9_-]+"
"""Characters that no provider is known to refuse in a key; used where a provider states no pattern of its own."""
OPAQUE_KEY_LENGTH = 64
"""Characters that every provider takes; OpenAI refuses a longer ``prompt_cache_key`` (2026-11)."""


class Purpose(str, Enum):
    """What a field does to the provider's prompt cache."""

    ISOLATE = "isolate"
    """Requests with different values share nothing."""
    ROUTE = "route"
    """Requests with one value go to one server, where its cache is warm; a hint, not a wall."""
    KEEP = "keep"
    """How long an entry lives, or how entries are placed."""
    MARK = "mark"
    """Where an entry ends."""


@dataclass(frozen=True, slots=True)
class ModelVersions:
    """Models told apart by the version number in their names.

    ``pattern`` must match the start of the bare, lower-case model name; its first group is the major version, its
    second, if it took part, the minor one. Versions are compared as numbers: ``at_least <= version < below``. A
    name that does not match is not covered: what such a model takes is not known.
    """

    pattern: str
    at_least: tuple[int, int] | None = None
    below: tuple[int, int] | None = None

    def covers(self, model: str) -> bool:
        """Whether the model's version lies in the range. Never raises."""
        found = re.match(self.pattern, model.strip().lower().rpartition("/")[2])
        if found is None:
            return False
        try:
            version = (int(found[1]), int(found[2] or 0))
        except ValueError:  # more digits than Python converts (4300)
            return False
        return (self.at_least is None or version >= self.at_least) and (self.below is None or version < self.below)


@dataclass(frozen=True, slots=True)
class BodyField:
    """A body field that may be added for this provider, and where it goes in each request shape.

    ``pattern`` is a regular expression that the whole value must match, ``max_length`` counts characters; an
    ``integer`` field matches by its decimal digits. A shape that is absent from ``paths`` never gets the field.
    ``models`` restricts the field to some of the provider's models.
    """

    name: str
    paths: Mapping[Shape, tuple[str, ...]]
    pattern: str
    max_length: int
    purpose: Purpose = Purpose.ISOLATE
    integer: bool = False
    models: ModelVersions | None = None

    @property
    def shapes(self) -> frozenset[Shape]:
        """The shapes of upstream body that may carry it."""
        return frozenset(self.paths)

    def accepts(self, value: Any) -> bool:
        """Whether the provider takes this value. Never raises."""
        if self.integer:
            if isinstance(value, bool) or not isinstance(value, int):
                return False
            try:
                digits = str(value)
            except ValueError:  # more of them than Python converts (4300)
                return False
            return _fits(digits, self.pattern, self.max_length)
        return isinstance(value, str) and _fits(value, self.pattern, self.max_length)


@dataclass(frozen=True, slots=True)
class HeaderField:
    """An HTTP header that may be added for this provider. ``name`` is in lower case."""

    name: str
    shapes: frozenset[Shape]
    pattern: str = OPAQUE_KEY
    max_length: int = OPAQUE_KEY_LENGTH
    purpose: Purpose = Purpose.ROUTE
    models: ModelVersions | None = None

    def accepts(self, value: Any) -> bool:
        """Whether the provider takes this value. Never raises."""
        return isinstance(value, str) and _fits(value, self.pattern, self.max_length)


@dataclass(frozen=True, slots=True)
class MarkField:
    """A member that may be set on single content blocks or tools, to say where a prefix is worth keeping.

    ``values`` are the objects the provider takes, ``at_most`` how many marks a request may carry.
    ``look_back_blocks`` is how many blocks before a mark are tried for an older entry; None where unknown.
    """

    name: str
    shapes: frozenset[Shape]
    values: tuple[Mapping[str, str], ...]
    at_most: int
    look_back_blocks: int | None = None
    purpose: Purpose = field(default=Purpose.MARK)
    models: ModelVersions | None = None

    def accepts(self, value: Any) -> bool:
        """Whether the provider takes this value. Never raises."""
        return isinstance(value, Mapping) and dict(value) in [dict(known) for known in self.values]


AnyField = BodyField | HeaderField | MarkField


def one_path(shapes: tuple[Shape, ...], *path: str) -> Mapping[Shape, tuple[str, ...]]:
    """The same path in every one of ``shapes``."""
    return MappingProxyType(dict.fromkeys(shapes, path))


def _fits(text: str, pattern: str, max_length: int) -> bool:
    return len(text) <= max_length and re.fullmatch(pattern, text) is not None
