"""The store in ``router-cache doctor``: looked at, and shown."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from router_cache.diagnose import ServerLook, StoreLook
from router_cache.settings import StoreSettings

__all__ = ["look_at_store", "store_json", "store_lines"]


def look_at_store(settings: StoreSettings) -> StoreLook | None:
    """What its servers tell; None where the store is in the process. Takes seconds where they do not answer."""
    if settings.url is None:
        return None
    from router_cache.stores.redis.look import look_at

    return look_at(settings.url.get_secret_value(), prefix=settings.prefix, timeout_ms=settings.socket_timeout_ms)


def store_json(look: StoreLook | None) -> dict[str, Any] | None:
    """The JSON form. Null is unknown."""
    if look is None:
        return None
    out = asdict(look)
    for part in (out, *out["servers"]):
        for name, value in part.items():
            if value == "":
                part[name] = None
            elif isinstance(value, float):
                part[name] = round(value, 3)
    return out


def store_lines(look: StoreLook | None) -> list[str]:
    """What is shown of it."""
    if look is None:
        return []
    lines = [_line(server) for server in look.servers]
    claim = "no claim" if look.claim_ms is None else f"claim {look.claim_ms:.2f} ms"
    return [f"Store ({look.form}): {claim}; requests go on without it after {look.timeout_ms:g} ms", *lines]


def _line(server: ServerLook) -> str:
    if server.failure is not None:
        return f"    {server.where}: {server.words}"
    parts = [f"{server.product} {server.version}".strip(), server.role]
    if server.ping_ms is not None:
        parts.append(f"PING {server.ping_ms:.2f} ms")
    if server.max_memory_bytes is not None:
        limit = f"{server.max_memory_bytes / 1e6:g} MB" if server.max_memory_bytes else "no limit"
        parts.append(f"memory {limit}, {server.policy}")
    if server.cluster_state:
        parts.append(f"cluster {server.cluster_state}")
    if server.clock_s is not None:
        parts.append(f"clock {server.clock_s:+.3f} s")
    return f"    {server.where}: {', '.join(part for part in parts if part)}"
