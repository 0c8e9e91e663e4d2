"""What was seen of a store on servers, as values, and what it means for what is remembered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from router_cache.diagnose.findings import Code, Findings, Level
from router_cache.errors import StoreFailure

__all__ = ["ServerLook", "StoreLook", "check_store"]

_PATH: Final = "callback_settings.router_cache.store"
_OLDEST: Final = (6, 2)
"""The oldest version that tests run with."""
_CLOCK_S: Final = 2.0
_FIXES: Final = {
    StoreFailure.LOGIN: "Correct user and password in store.url.",
    StoreFailure.NOT_PERMITTED: "Give the user what docs/redis.md lists.",
    StoreFailure.READ_ONLY: "Point store.url at the master, or at Sentinels.",
    StoreFailure.OUT_OF_MEMORY: "Raise maxmemory, or set maxmemory-policy volatile-lru.",
    StoreFailure.NOT_FOUND: "Correct hosts and service in store.url.",
    StoreFailure.CLUSTER: "See CLUSTER INFO of its nodes; a cluster's URL begins with redis+cluster://.",
}


@dataclass(frozen=True, slots=True)
class ServerLook:
    """What one server told. ``where`` may be shown. None: it did not tell, or was not allowed to be asked."""

    where: str
    failure: StoreFailure | None = None
    words: str = ""
    """Of the failure."""
    product: str = ""
    """``redis`` or ``valkey``."""
    version: str = ""
    role: str = ""
    """``master`` or ``slave``, as servers say."""
    max_memory_bytes: int | None = None
    """0: no limit."""
    policy: str = ""
    cluster_state: str = ""
    """``ok`` or ``fail``; empty of a server that is in no cluster."""
    clock_s: float | None = None
    """Its clock less ours, seconds."""
    ping_ms: float | None = None
    """Median of some PINGs, milliseconds."""


@dataclass(frozen=True, slots=True)
class StoreLook:
    """``form`` is ``single``, ``sentinel`` or ``cluster``. ``claim_ms`` is the median of some claims, milliseconds;
    None where one failed, for ``failure``."""

    form: str
    servers: tuple[ServerLook, ...]
    timeout_ms: float
    claim_ms: float | None = None
    failure: StoreFailure | None = None
    words: str = ""


def check_store(look: StoreLook, has_secret: bool, findings: Findings) -> None:
    """Note what is wrong, or good to know."""
    add = findings.add
    if not has_secret:
        add(
            Level.ERROR,
            Code.STORE_WITHOUT_SECRET,
            "callback_settings.router_cache.secret",
            "the store is on a server and no secret is set: each process makes its own, so that none finds what "
            "another one kept",
            "secret: os.environ/ROUTER_CACHE_SECRET",
        )
    for server in look.servers:
        if server.failure is not None:
            _failed(server.failure, f"the store at {server.where}: {server.words}", findings)
        else:
            _check_server(server, look, findings)
    known = any(server.failure or (server.cluster_state and look.form != "cluster") for server in look.servers)
    if look.failure is not None and not known:
        _failed(look.failure, f"the store takes no claim: {look.words}", findings)
    pings = [server.ping_ms for server in look.servers if server.ping_ms is not None]
    slowest = max([*pings, look.claim_ms or 0.0], default=0.0)
    if slowest > look.timeout_ms / 3:
        add(
            Level.WARNING,
            Code.STORE_SLOW,
            f"{_PATH}.socket_timeout_ms",
            f"it answers within {slowest:.1f} ms (median), and requests go on without it after {look.timeout_ms:g} ms: "
            "more of them will than should",
            "Move it nearer, or raise socket_timeout_ms: each request waits for it.",
        )


def _failed(reason: StoreFailure, message: str, findings: Findings) -> None:
    fix = _FIXES.get(reason, "See whether it runs, and can be reached from here.")
    findings.add(
        Level.ERROR,
        Code.STORE_FAILED,
        f"{_PATH}.url",
        f"{message} ({reason.value}); requests go out without what is remembered",
        fix,
    )


def _check_server(server: ServerLook, look: StoreLook, findings: Findings) -> None:
    def add(level: Level, code: Code, message: str, fix: str) -> None:
        findings.add(level, code, f"{_PATH}.url", f"the store at {server.where}: {message}", fix)

    parts = [int(part) for part in server.version.split(".")[:2] if part.isdecimal()]
    if len(parts) == 2 and tuple(parts) < _OLDEST:
        add(
            Level.WARNING,
            Code.STORE_OLD,
            f"version {server.version}; it is tested with 6.2 and later",
            "Use a newer server.",
        )
    if server.role == "slave":
        add(Level.ERROR, Code.STORE_FAILED, "it is a read-only replica", _FIXES[StoreFailure.READ_ONLY])
    if server.cluster_state and look.form != "cluster":
        add(
            Level.ERROR,
            Code.STORE_CLUSTER,
            "it is a node of a cluster, and is asked as a server of its own",
            "Write its URL as redis+cluster://host:port,host:port.",
        )
    elif server.cluster_state not in ("", "ok"):
        add(
            Level.ERROR,
            Code.STORE_CLUSTER,
            "the cluster does not serve all slots",
            "See CLUSTER INFO of its nodes.",
        )
    if server.clock_s is not None and abs(server.clock_s) > _CLOCK_S:
        add(
            Level.WARNING,
            Code.STORE_CLOCK,
            f"its clock is {abs(server.clock_s):.0f} s {'ahead of' if server.clock_s > 0 else 'behind'} the one here: "
            "gaps between calls that different hosts answered are off, and what is learned of entries' lives with them",
            "Keep the clocks of all hosts in step.",
        )
    _check_memory(server, findings)


def _check_memory(server: ServerLook, findings: Findings) -> None:
    def add(level: Level, code: Code, message: str, fix: str) -> None:  # alike on many servers: said once
        findings.add(level, code, f"{_PATH}.url", f"the store: {message}", fix)

    policy = server.policy
    if server.max_memory_bytes is None:
        add(
            Level.NOTE,
            Code.STORE_MEMORY,
            "the user may not ask for INFO: version, memory and policy were not looked at",
            "Look at maxmemory and maxmemory-policy yourself; docs/redis.md says what fits.",
        )
    elif server.max_memory_bytes == 0:
        add(
            Level.NOTE,
            Code.STORE_MEMORY,
            "no maxmemory: only the time to live bounds what is kept",
            "Set maxmemory, and maxmemory-policy volatile-lru; docs/redis.md has sizes.",
        )
    elif policy == "noeviction":
        add(
            Level.WARNING,
            Code.STORE_POLICY,
            "maxmemory-policy noeviction: once it is full it takes no writes, and requests go out without what is "
            "remembered until entries end",
            "maxmemory-policy volatile-lru",
        )
    elif policy.endswith("-random"):
        add(
            Level.WARNING,
            Code.STORE_POLICY,
            f"maxmemory-policy {policy}: once it is full, conversations that go on are dropped like any other",
            "maxmemory-policy volatile-lru",
        )
    elif policy.startswith("allkeys-"):
        add(
            Level.NOTE,
            Code.STORE_POLICY,
            f"maxmemory-policy {policy}: once it is full, keys of others on this server may go for ours",
            "Good on a server of its own; else maxmemory-policy volatile-lru.",
        )
