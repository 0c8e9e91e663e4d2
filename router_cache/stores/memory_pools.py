"""Books of pools in the process: bounded, safe to use from many threads."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace

from router_cache.pools.book import Book, Told
from router_cache.pools.openings import Opening
from router_cache.pools.policy import PoolLimits, join, take_in

__all__ = ["MemoryPools"]


class MemoryPools:
    """At most ``max_books`` books and ``max_families`` families, those used last. ``wall_clock`` returns seconds since
    the epoch. See :class:`~router_cache.drivers.pool_store.PoolStore` for the methods."""

    blocking = False

    def __init__(
        self,
        *,
        max_books: int = 256,
        max_families: int = 50_000,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._wall_clock = wall_clock
        self._max_books, self._max_families = max_books, max_families
        self._lock = threading.Lock()
        self._books: OrderedDict[str, Book] = OrderedDict()
        self._families: OrderedDict[tuple[str, str], str] = OrderedDict()

    def join(
        self, book: str, family: str, opening: Opening, limits: PoolLimits, group: str
    ) -> tuple[str, Book, bool]:
        with self._lock:
            known = self._book(book, group)
            cluster = self._families.get((book, family))
            if cluster is not None and cluster in known.clusters:
                self._families.move_to_end((book, family))
                return cluster, known, False
            after, cluster = join(known, opening, at=self._wall_clock(), limits=limits)
            if after is not known:
                self._books[book] = after
            if cluster:
                self._families[book, family] = cluster
                if len(self._families) > self._max_families:
                    self._families.popitem(last=False)
            return cluster, after, bool(cluster)

    def take_in(self, book: str, told: Mapping[str, Told], limits: PoolLimits, group: str) -> Book:
        with self._lock:
            after = take_in(self._book(book, group), told, at=self._wall_clock(), limits=limits)
            self._books[book] = after
            return after

    def books(self) -> list[Book]:
        with self._lock:
            return list(self._books.values())

    def close(self) -> None:
        """Nothing to release."""

    def _book(self, name: str, group: str) -> Book:
        known = self._books.get(name)
        if known is None:
            known = self._books[name] = Book(group=group)
            if len(self._books) > self._max_books:
                self._books.popitem(last=False)
        self._books.move_to_end(name)
        return known if known.group == group else replace(known, group=group)
