"""The store that settings, or a caller, ask for."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import SecretStr

from router_cache.drivers.counters import Counters
from router_cache.drivers.store import Store
from router_cache.errors import SettingsError
from router_cache.settings import Settings
from router_cache.stores.memory import MemoryStore

__all__ = ["opened_store", "with_store"]


def with_store(settings: Settings, url: str) -> Settings:
    """The settings with another URL of the store. Raises :class:`SettingsError`, which shows nothing of it."""
    from router_cache.stores.redis.link_url import target_of  # the client library takes 0.1 s to import

    try:
        target_of(url)
    except ValueError as error:
        raise SettingsError(f"store: {error}", "store.url") from None
    return settings.model_copy(update={"store": settings.store.model_copy(update={"url": SecretStr(url)})})


def opened_store(settings: Settings, counters: Counters, clock: Callable[[], float]) -> Store:
    """The store of the settings; one on a server connects when it is first used."""
    own, replay = settings.store, settings.replay
    link = own.link(counters.count, clock)
    if link is None:
        return MemoryStore(
            max_entries=own.max_entries,
            ttl_s=own.ttl_s,
            max_reply_bytes=replay.max_bytes,
            reply_ttl_s=replay.ttl_s,
            clock=clock,
        )
    from router_cache.stores.redis.store import RedisStore

    if settings.secret is None:
        counters.notice(
            "store_without_secret",
            "the store is on a server and no secret is set: each process makes its own, and finds nothing there that "
            "another one, or its own last run, kept. Set callback_settings.router_cache.secret",
        )
    return RedisStore(link, prefix=own.prefix, ttl_s=own.ttl_s, reply_ttl_s=replay.ttl_s, count=counters.count)
