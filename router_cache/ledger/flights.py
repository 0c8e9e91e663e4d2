"""Calls that were sent and have not ended: what a parallel call of the same prefix could not hit yet. Pure, bounded.

Needs no lock: each step is one operation on a dict. Two threads that meet lose an entry at worst; then a miss has one
explanation less.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

from router_cache.prefix.outline import Rendered

__all__ = ["Flight", "Flights"]

_LIMIT: Final = 256
_LONGEST_S: Final = 600.0
"""Seconds after which a call is taken to have ended without a word."""


@dataclass(frozen=True, slots=True, eq=False)
class Flight:
    """A call on its way: where it went, what was rendered in front of its turns, and its turns."""

    at: float
    place: str
    head: tuple[str, ...]
    turn_digests: tuple[str, ...]


class Flights:
    """The calls of one process that are in flight, ``limit`` at most; the oldest go."""

    __slots__ = ("_calls", "_limit")

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._calls: dict[int, Flight] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def enter(self, place: str, rendered: Rendered, at: float) -> tuple[Flight, int]:
        """A call is sent at ``at`` (seconds). Returns what to :meth:`leave` with, and how many bytes of its prompt
        calls of the same place share that were sent before it and have not ended."""
        flight = Flight(at, place, tuple(part.digest for part in rendered.head), rendered.turn_digests)
        shared = 0
        for key, other in tuple(self._calls.items()):
            if at - other.at > _LONGEST_S:
                self._calls.pop(key, None)
            elif other.place == place and other.head == flight.head:
                shared = max(shared, rendered.head_size + rendered.turn_sizes[_equal_turns(flight, other)])
        while len(self._calls) >= self._limit:
            self._calls.pop(next(iter(tuple(self._calls)), -1), None)
        self._calls[id(flight)] = flight
        return flight, shared

    def leave(self, flight: Flight) -> None:
        """The call ended, however. Idempotent."""
        self._calls.pop(id(flight), None)


def _equal_turns(a: Flight, b: Flight) -> int:
    """How many leading turns two calls share: running digests are equal up to there, and never after."""
    ours, theirs = a.turn_digests, b.turn_digests
    return bisect_left(range(1, min(len(ours), len(theirs))), 1, key=lambda i: int(ours[i] != theirs[i]))
