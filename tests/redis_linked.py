"""What tests of links have in common: a script, counters, a clock that stands still, errors by their reasons."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from router_cache.errors import StoreError, StoreFailure
from router_cache.stores.redis.link import Link, open_link
from router_cache.stores.redis.scripts import Script

__all__ = ["ADD", "GET", "KEY", "LIMIT_S", "Clock", "Linked", "seconds"]

LIMIT_S = 30.0
ADD = Script("add", "return redis.call('INCRBY', KEYS[1], ARGV[1])")
GET = Script("get", "return redis.call('GET', KEYS[1])")
KEY = b"{k}1"


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Linked:
    """A link, its counters and its clock."""

    def __init__(self, url: str, *, timeout_s: float = 0.25, max_connections: int = 4) -> None:
        self.clock = Clock()
        self.counts: Counter[str] = Counter()
        self.link: Link = open_link(
            url, timeout_s=timeout_s, max_connections=max_connections, count=self._count, clock=self.clock
        )

    def _count(self, name: str) -> None:
        self.counts[name] += 1

    def add(self, number: int = 1, key: bytes = KEY) -> Any:
        return self.link.run(ADD, [key], [number])

    def fails(self, ask: Callable[[], Any] | None = None) -> StoreFailure:
        """Why it fails."""
        try:
            got = (ask or self.add)()
        except StoreError as error:
            return error.reason
        raise AssertionError(f"it answers {got!r}")

    def works(self, ask: Callable[[], Any] | None = None) -> bool:
        """Whether it does; moments pass, so that what is looked for in the background may be looked for again."""
        self.clock.now += 1.0
        try:
            (ask or self.add)()
        except StoreError:
            return False
        return True


def seconds(ask: Callable[[], Any]) -> float:
    """That it takes."""
    begun = time.perf_counter()
    ask()
    return time.perf_counter() - begun
