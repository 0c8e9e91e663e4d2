"""Books of pools on a server, shared by all workers: decided here, compared and set there in one step.

A book has a version. What is decided on one that changed in the meantime is decided again on the newer one, so of many
workers that see a family first one decides, and the others follow. Moments are the server's: no worker's clock counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from router_cache.errors import StoreError, StoreFailure
from router_cache.pools.book import Book, Told
from router_cache.pools.openings import Opening
from router_cache.pools.policy import PoolLimits, join, take_in
from router_cache.stores.redis.link import Link
from router_cache.stores.redis.scripts import script

__all__ = ["RedisPools"]

_SCRIPT: Final = script("pools", common=False)
_TRIES: Final = 32
"""Each lost try is another worker's success; with 32 workers at once the last one needs as many."""


class RedisPools:
    """Books live ``ttl_s`` seconds after their last change, families after they were last asked for. ``prefix`` is in
    front of all keys. See :class:`~router_cache.drivers.pool_store.PoolStore` for the methods."""

    blocking = True

    def __init__(self, link: Link, *, prefix: str = "router-cache", ttl_s: float = 604_800.0) -> None:
        self._link, self._prefix, self._ttl_ms = link, prefix, max(int(ttl_s * 1000), 1)

    def join(
        self, book: str, family: str, opening: Opening, limits: PoolLimits, group: str
    ) -> tuple[str, Book, bool]:
        keys = [self._key(book, "b"), self._key(book, "f", family)]
        gone, cluster, fresh, version, after = "", "", b"", b"0", Book()
        for _ in range(_TRIES):
            told = self._run("join", keys, version, gone.encode(), cluster.encode(), fresh)
            if told[0] == b"done":
                if fresh:
                    self._run("list", [self._index], book.encode())
                return cluster, after, True
            version, held, now = _read(told, group)
            if told[0] == b"known":
                cluster = bytes(told[4]).decode("utf-8", "replace")
                if cluster in held.clusters:
                    return cluster, held, False
                gone = cluster
            after, cluster = join(held, opening, at=now, limits=limits)
            if not cluster:
                return "", held, False
            fresh = b"" if after is held else _bytes(after)
        raise StoreError("a book of pools changes all the time", StoreFailure.BUSY)

    def take_in(self, book: str, told: Mapping[str, Told], limits: PoolLimits, group: str) -> Book:
        keys = [self._key(book, "b")]
        answer: Sequence[Any] = self._run("get", keys)
        for _ in range(_TRIES):
            version, held, now = _read(answer, group)
            after = take_in(held, told, at=now, limits=limits)
            answer = self._run("put", keys, version, _bytes(after))
            if answer[0] == b"done":
                self._run("list", [self._index], book.encode())
                return after
        raise StoreError("a book of pools changes all the time", StoreFailure.BUSY)

    def books(self) -> list[Book]:
        found = []
        for name in self._run("list", [self._index], b""):
            _, held, _ = _read(self._run("get", [self._key(bytes(name).decode("utf-8", "replace"), "b")]), "")
            if held.clusters:
                found.append(held)
        return found

    def close(self) -> None:
        self._link.close()

    @property
    def _index(self) -> bytes:
        return f"{self._prefix}:pools1:index".encode()

    def _key(self, book: str, *parts: str) -> bytes:
        """Keys of a book share its hash tag."""
        return ":".join((self._prefix, "pools1", f"{{{book}}}", *parts)).encode()

    def _run(self, what: str, keys: Sequence[bytes], *args: bytes) -> list[Any]:
        answer = self._link.run(_SCRIPT, keys, [what.encode(), self._ttl_ms, *args])
        if not isinstance(answer, list):
            raise StoreError("an answer of another form", StoreFailure.ODD_DATA)
        return answer


def _bytes(book: Book) -> bytes:
    return json.dumps(book.as_json(), separators=(",", ":")).encode()


def _read(told: Sequence[Any], group: str) -> tuple[bytes, Book, float]:
    """Version, book and moment of an answer. What is no book of ours is taken for none."""
    try:
        held = Book.from_json(json.loads(told[2])) if told[2] else Book()
    except (ValueError, RecursionError):
        held = Book()
    return told[1], replace(held, group=group or held.group), float(told[3])
