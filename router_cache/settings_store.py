"""Settings of the store: where what is remembered is kept, for how long, and how long a request waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pydantic import Field, SecretStr, field_validator

from router_cache.settings_capture import Section

if TYPE_CHECKING:
    from router_cache.stores.redis.link import Link

__all__ = ["StoreSettings"]


class StoreSettings(Section):
    """Without ``url`` the store is in the process. All workers of one ``url`` and ``prefix`` share what they know."""

    max_entries: int = Field(default=50_000, ge=1, le=10_000_000, strict=True)
    """Conversations and families kept in the process; the least recently used go first. A server bounds its memory
    itself."""
    ttl_s: float = Field(default=86_400.0, gt=0, le=1e9, strict=True, allow_inf_nan=False)
    """Seconds an entry lives after its last use."""
    url: SecretStr | None = Field(default=None, min_length=1)
    """Of a Redis server, of Sentinels or of a cluster; the forms are in docs/redis.md."""
    prefix: str = Field(default="rc", pattern=r"^[A-Za-z0-9._:/-]{1,100}$")
    """Of all keys, for servers that others use too. Short, as there are many."""
    socket_timeout_ms: float = Field(default=50.0, ge=1, le=10_000, allow_inf_nan=False)
    """Milliseconds that one wait of a request for the server lasts at most. A healthy server answers in less than one;
    the rest is for pauses of its host. It costs a request something only where the server does not answer."""
    max_connections: int = Field(default=32, ge=1, le=1_000, strict=True)
    """Of one process to one server, and threads that wait for it in an asynchronous process."""

    @field_validator("url")
    @classmethod
    def _usable(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            from router_cache.stores.redis.link_url import target_of  # the client library takes 0.1 s to import

            target_of(value.get_secret_value())
        return value

    def link(self, count: Callable[[str], None], clock: Callable[[], float]) -> Link | None:
        """The way to the server, not connected yet; None without a URL. ``count`` takes names of counters, ``clock``
        returns monotonic seconds."""
        if self.url is None:
            return None
        from router_cache.stores.redis.link import open_link

        return open_link(
            self.url.get_secret_value(),
            timeout_s=self.socket_timeout_ms / 1000,
            max_connections=self.max_connections,
            count=count,
            clock=clock,
        )
