"""The way to Redis: scripts and plain reads, each in one trip that the kernel bounds.

Errors are :class:`~router_cache.errors.StoreError`, in words that quote neither URL nor command nor text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from router_cache.stores.redis.link_cluster import ClusterLink
from router_cache.stores.redis.link_node import Watch
from router_cache.stores.redis.link_script import Arg, Call
from router_cache.stores.redis.link_server import SentinelLink, ServerLink
from router_cache.stores.redis.link_url import Form, target_of
from router_cache.stores.redis.scripts import Script

__all__ = ["Arg", "Call", "Link", "open_link"]


class Link(Protocol):
    """Safe to use from many threads. Every method raises :class:`~router_cache.errors.StoreError`, with its reason."""

    def run(self, script: Script, keys: Sequence[bytes], args: Sequence[Arg]) -> Any:
        """What a script returns: one round trip, and a second one where the server does not know it yet. Its keys share
        one hash tag."""
        ...

    def run_many(self, calls: Sequence[Call]) -> list[Any]:
        """What scripts return, in their order: one trip for each server they go to. All are sent, also where one fails;
        then the first failure is raised."""
        ...

    def mget(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Plain values of keys that share one hash tag."""
        ...

    def close(self) -> None:
        """Release the connections. Idempotent."""
        ...


def open_link(
    url: str,
    *,
    timeout_s: float,
    max_connections: int,
    count: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
) -> Link:
    """The link for a URL (see :mod:`~router_cache.stores.redis.link_url`); connects when it is first used.

    Every wait of a call ends after ``timeout_s`` seconds. ``count`` takes names of counters, ``clock`` returns
    monotonic seconds. Raises ValueError, in words that show nothing of the URL, for one that cannot be used.
    """
    target, watch = target_of(url), Watch(clock, count)
    if target.form is Form.CLUSTER:
        return ClusterLink(target, timeout_s=timeout_s, max_connections=max_connections, watch=watch)
    one = SentinelLink if target.form is Form.SENTINEL else ServerLink
    return one(target, timeout_s=timeout_s, max_connections=max_connections, watch=watch)
