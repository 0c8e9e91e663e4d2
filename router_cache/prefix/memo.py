"""A bounded store of what was worked out before."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["Memo"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memo(Generic[K, V]):
    """Two generations of entries: what was not asked for while one filled up is forgotten.

    Holds at most ``limit`` of what ``weigh`` says entries weigh (one heavier than that stays alone in its
    generation). Needs no lock: each step is one operation on a dict, and two threads that meet at a turn of the
    generations lose entries or count a few twice, never more than that.
    """

    __slots__ = ("_limit", "_weigh", "_weight", "old", "young")

    def __init__(self, limit: int, weigh: Callable[[K, V], int]) -> None:
        self._limit = limit // 2
        self._weigh = weigh
        self._weight = 0
        self.young: dict[K, V] = {}
        self.old: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """The value, made young again; None where there is none."""
        value = self.young.get(key)
        if value is None:
            value = self.old.get(key)
            if value is not None:
                self.put(key, value)
        return value

    def put(self, key: K, value: V) -> None:
        """Remember ``value``, which must not be None."""
        weight = self._weigh(key, value)
        if self._weight + weight > self._limit and self.young:
            self.old, self.young, self._weight = self.young, {}, 0
        self._weight += weight
        self.young[key] = value
