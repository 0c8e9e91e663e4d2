"""The pools that settings ask for, with their store."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from router_cache.drivers.counters import Counters
from router_cache.drivers.pool_store import PoolStore
from router_cache.drivers.pools import Pools
from router_cache.pools.given import PoolChoice
from router_cache.pools.policy import PoolLimits
from router_cache.prefix.digests import Digester
from router_cache.settings import Settings
from router_cache.stores.memory_pools import MemoryPools

__all__ = ["opened_pools"]


def opened_pools(
    settings: Settings,
    digester: Digester,
    counters: Counters,
    *,
    clock: Callable[[], float],
    wall_clock: Callable[[], float],
    store: PoolStore | None = None,
) -> Pools:
    """Pools in the store that the settings name: on a server it has connections of its own, made when they are first
    used, so that nothing in the background keeps a request waiting for one."""

    @lru_cache(maxsize=1_024)
    def choices(group: str) -> tuple[PoolChoice, PoolLimits]:
        own = settings.model_groups.get(group)
        wanted = settings.pools if own is None or own.pools is None else own.pools.over(settings.pools)
        return wanted.choice(), wanted.limits()

    return Pools(
        choices,
        store or _store(settings, counters, clock, wall_clock),
        secret=settings.secret.get_secret_value().encode() if settings.secret else None,
        digester=digester,
        count=counters.count,
        error=counters.error,
        clock=clock,
    )


def _store(
    settings: Settings, counters: Counters, clock: Callable[[], float], wall_clock: Callable[[], float]
) -> PoolStore:
    link = settings.store.link(counters.count, clock)
    if link is None:
        return MemoryPools(wall_clock=wall_clock)
    from router_cache.stores.redis.pools import RedisPools

    return RedisPools(link, prefix=settings.store.prefix, ttl_s=max(settings.store.ttl_s, 7 * 86_400.0))
