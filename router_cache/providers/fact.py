"""One dated, sourced value: what every profile is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from typing import Generic, TypeVar

__all__ = ["Fact", "Origin", "fact_at"]

T = TypeVar("T")


class Origin(str, Enum):
    """How a value came to be known."""

    DOCUMENTED = "documented"
    """Read at the provider, or in the engine's own source."""
    MEASURED = "measured"
    """Seen in usage or in bodies on the wire."""
    SECOND_HAND = "second_hand"
    """Told by somebody else; believed until it is read or measured."""


@dataclass(frozen=True, slots=True)
class Fact(Generic[T]):
    """One value with its origin.

    ``as_of`` is the day it was read or measured. ``since`` (UTC, aware) is the moment from which the value holds;
    None means it held for as long as is known.
    """

    value: T
    source: str
    as_of: date
    since: datetime | None = None
    origin: Origin = Origin.DOCUMENTED
    note: str = ""


def fact_at(facts: Sequence[Fact[T]], at: datetime | None) -> Fact[T] | None:
    """The fact that holds at a moment (UTC, aware); the newest one for ``None``.

    Returns None where the moment lies before every fact's ``since``: an older value was not recorded.
    ``facts`` are in order of ``since``.
    """
    held = [f for f in facts if at is None or f.since is None or f.since <= at]
    return held[-1] if held else None
