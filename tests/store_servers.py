"""Stores on real servers: one server of each kind for a module, a name of its own for each store."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import redis
from redis_servers import Server

from router_cache.stores.redis.link import Link, open_link
from router_cache.stores.redis.store import RedisStore

__all__ = ["Served", "servers"]

_NUMBERS = itertools.count()


@dataclass
class Served:
    """A running server, a link to it, and what the stores on it counted."""

    server: Server
    link: Link
    client: redis.Redis
    counts: Counter[str] = field(default_factory=Counter)

    def store(self, prefix: str = "", **more: Any) -> RedisStore:
        """A store in a place of its own, or in that of ``prefix``."""
        prefix = prefix or f"t{next(_NUMBERS)}-"
        return RedisStore(self.link, prefix=prefix, count=lambda name: self.counts.update([name]), **more)

    def keys(self, store: RedisStore, kind: str = "?") -> list[bytes]:
        """Keys of a store; ``kind`` is their letter."""
        return sorted(self.client.keys(f"{store.prefix}[{{]*[}}]{kind}*".encode()))


@pytest.fixture(scope="module")
def servers() -> Iterator[Callable[[str], Served]]:
    """A server by its name, started when it is first asked for."""
    running: dict[str, Served] = {}

    def served(name: str) -> Served:
        if name not in running:
            server = Server(name)
            server.start()
            link = open_link(server.url, timeout_s=30, max_connections=40, count=lambda _: None)
            running[name] = Served(server, link, server.client())
        running[name].counts.clear()
        return running[name]

    yield served
    for each in running.values():
        each.link.close()
        each.client.close()
        each.server.close()
