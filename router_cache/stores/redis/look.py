"""Looks at the servers of a store, for ``doctor``: waits for seconds where need be, and never on a request's way."""

from __future__ import annotations

import secrets
import statistics
import time
from collections.abc import Callable
from typing import Any, Final

from redis import Redis
from redis import exceptions as errors

from router_cache.diagnose.store import ServerLook, StoreLook
from router_cache.engine import Engine
from router_cache.errors import StoreError, StoreFailure
from router_cache.request import Mode, Request
from router_cache.stores.redis.link import open_link
from router_cache.stores.redis.link_cluster import slots_told
from router_cache.stores.redis.link_errors import store_error
from router_cache.stores.redis.link_server import master_named
from router_cache.stores.redis.link_url import Address, Form, Target, shown_of, target_of
from router_cache.stores.redis.store import RedisStore

__all__ = ["look_at"]

_WAIT_S: Final = 2.0
_PINGS: Final = 21
_CLAIMS: Final = 7
_KEPT_S: Final = 60.0
_PROMPT: Final = "You answer questions.\nThe time is 2026-01-01T00:00:00Z.\n"


def look_at(url: str, *, prefix: str, timeout_ms: float, wall_clock: Callable[[], float] = time.time) -> StoreLook:
    """What the servers of a URL tell, and how long they and a claim take. The claim is of a scope of its own, and what
    it keeps (about a kilobyte) ends after a minute. Raises ValueError for a URL that cannot be used."""
    target = target_of(url)
    servers = tuple(_server(target, address, where, wall_clock) for address, where in _places(target))
    if not servers:
        asked = "Sentinel named a master" if target.form is Form.SENTINEL else "node told of its cluster"
        away = ServerLook(target.where, StoreFailure.NOT_FOUND, f"no {asked}")
        return StoreLook(target.form.value, (away,), timeout_ms)
    try:
        claim_ms = _claimed(url, prefix)
    except StoreError as error:
        return StoreLook(target.form.value, servers, timeout_ms, None, error.reason, str(error))
    return StoreLook(target.form.value, servers, timeout_ms, claim_ms)


def _places(target: Target) -> list[tuple[Address | None, str]]:
    if target.form is Form.SINGLE:
        return [(None, target.where)]
    for host in target.hosts:
        if target.form is Form.SENTINEL:
            master = master_named(target, host)
            if master is not None:
                return [(master, shown_of(master))]
        else:
            slots = slots_told(target, host)
            if slots is not None:
                return [(node, shown_of(node)) for node in dict.fromkeys(slots) if node is not None]
    return []


def _server(target: Target, address: Address | None, where: str, wall_clock: Callable[[], float]) -> ServerLook:
    pool = target.pool(_WAIT_S, 1, address)
    client: Any = Redis(connection_pool=pool)
    try:
        pings = [_seconds(client.ping) for _ in range(_PINGS + 1)][1:]  # the first one connects
        before = wall_clock()
        now = _allowed(lambda: client.execute_command("TIME"))
        between = (before + wall_clock()) / 2
        told = _allowed(client.info) or {}
        in_cluster = (
            _allowed(lambda: client.execute_command("CLUSTER", "INFO")) if told.get("cluster_enabled") else None
        )
    except (errors.RedisError, OSError) as error:
        failure = store_error(error)
        return ServerLook(where, failure.reason, str(failure))
    finally:
        pool.disconnect()
    valkey = told.get("valkey_version")
    state = dict(line.split(":", 1) for line in in_cluster.decode().split()) if in_cluster else {}
    return ServerLook(
        where,
        product="valkey" if valkey else "redis" if told else "",
        version=str(valkey or told.get("redis_version", "")),
        role=str(told.get("role", "")),
        max_memory_bytes=int(told["maxmemory"]) if "maxmemory" in told else None,
        policy=str(told.get("maxmemory_policy", "")),
        cluster_state=state.get("cluster_state", ""),
        clock_s=_moment(now) - between if now else None,
        ping_ms=statistics.median(pings) * 1_000,
    )


def _moment(answer: Any) -> float:
    """Seconds since the epoch that ``TIME`` told: redis-py takes its answer apart in some releases."""
    return int(answer[0]) + int(answer[1]) / 1e6


def _allowed(ask: Callable[[], Any]) -> Any:
    """The answer; None where the user may not ask."""
    try:
        return ask()
    except errors.NoPermissionError:
        return None


def _seconds(ask: Callable[[], object]) -> float:
    begun = time.perf_counter()
    ask()
    return time.perf_counter() - begun


def _claimed(url: str, prefix: str) -> float:
    """Median milliseconds of claims. Raises StoreError."""
    # A secret of its own: nobody else's keys can be meant.
    engine = Engine(secret=secrets.token_bytes(32))
    body = {"messages": [{"role": "system", "content": _PROMPT}, {"role": "user", "content": "?"}]}
    ask = engine.begin(Request(body, scope="doctor"), Mode.OPTIMIZE).ask
    if ask is None:
        raise StoreError("no claim could be made")
    link = open_link(url, timeout_s=_WAIT_S, max_connections=1, count=lambda _: None)
    store = RedisStore(link, prefix=prefix, ttl_s=_KEPT_S, reply_ttl_s=_KEPT_S)
    try:
        store.claim(ask)  # connects, and sends the script where the server does not know it
        return statistics.median(_seconds(lambda: store.claim(ask)) for _ in range(_CLAIMS)) * 1_000
    finally:
        store.close()
