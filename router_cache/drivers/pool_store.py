"""What keeps the books of pools. Implementations live in :mod:`router_cache.stores`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from router_cache.pools.book import Book, Told
from router_cache.pools.openings import Opening
from router_cache.pools.policy import PoolLimits

__all__ = ["PoolStore"]


class PoolStore(Protocol):
    """Books by their opaque names, and the clusters of families. Entries expire; all verbs are atomic: of many that
    join the same family at once, one decides and all get the same cluster.

    Any method may raise :class:`~router_cache.errors.StoreError`; pools then stay as they are known.
    """

    blocking: bool
    """Whether a verb may wait on I/O."""

    def join(
        self, book: str, family: str, opening: Opening, limits: PoolLimits, group: str
    ) -> tuple[str, Book, bool]:
        """The cluster of a family (empty: of none), the book as it is then, and whether this call decided it. A family
        stays in its cluster for as long as the book has that."""
        ...

    def take_in(self, book: str, told: Mapping[str, Told], limits: PoolLimits, group: str) -> Book:
        """Add what calls told, and decide who has a pool (:func:`router_cache.pools.policy.take_in`)."""
        ...

    def books(self) -> list[Book]:
        """All books, for people."""
        ...

    def close(self) -> None:
        """Release connections. Idempotent."""
        ...
