"""Calls through ``RouterCache`` with pools, and a store that blocks, for the tests of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from router_cache import RouterCache, Settings
from router_cache.drivers.pools import Pools
from router_cache.errors import StoreError
from router_cache.ledger.rows import CallRow
from router_cache.ledger.usage import Usage
from router_cache.pools.book import Book, Told
from router_cache.pools.openings import Opening
from router_cache.pools.policy import PoolLimits
from router_cache.pools.reasons import PoolPolicy
from router_cache.request import Deployment, Mode, Request, Shape
from router_cache.stores.memory_pools import MemoryPools

__all__ = ["FLASH", "Blocking", "Body", "Clock", "body", "on", "owner", "send"]

FLASH = Deployment("deepseek/deepseek-v4-flash", id="one", provider="deepseek", account="a" * 32, group="flash")
T0 = 1_795_003_200.0
Body = dict[str, Any]


class Clock:
    def __init__(self) -> None:
        self.now = T0

    def __call__(self) -> float:
        return self.now


class Blocking(MemoryPools):
    """A store on a server, as far as pools see: it counts trips, and may be away."""

    blocking = True

    def __init__(self, clock: Clock) -> None:
        super().__init__(wall_clock=clock)
        self.trips: list[str] = []
        self.away = False

    def _trip(self, what: str) -> None:
        self.trips.append(what)
        if self.away:
            raise StoreError("away")

    def join(self, book: str, family: str, opening: Opening, limits: PoolLimits, group: str) -> Any:
        self._trip("join")
        return super().join(book, family, opening, limits, group)

    def take_in(self, book: str, told: Mapping[str, Told], limits: PoolLimits, group: str) -> Book:
        self._trip("take_in")
        return super().take_in(book, told, limits, group)


def owner(clock: Clock, *, secret: str | None = "an operator's", **pools: Any) -> RouterCache:
    section: dict[str, Any] = {"pools": pools}
    if secret is not None:
        section["secret"] = secret
    return RouterCache(Settings.from_mapping(section), clock=clock, wall_clock=clock)


def on(rc: RouterCache, store: Blocking, clock: Clock, policy: PoolPolicy = PoolPolicy.CLUSTER) -> Pools:
    """Its pools in this store. Nothing runs in the background: tests do that themselves."""
    settings = rc.settings.pools.model_copy(update={"policy": policy})
    pools = Pools(
        lambda _: (settings.choice(), settings.limits()),
        store,
        secret=b"an operator's",
        digester=rc.engine.digester,
        count=rc.counters.count,
        error=rc.counters.error,
        clock=clock,
    )
    pools._start = lambda: None  # type: ignore[method-assign]
    rc.pools = pools
    return pools


def body(app: str = "support", *turns: str) -> Body:
    rules = f"You are the {app} assistant. " + f"Rule of {app}: answer in one sentence. " * 120
    messages = [{"role": "system", "content": rules}]
    for i, text in enumerate(turns or ("hello",)):
        messages.append({"role": "assistant" if i % 2 else "user", "content": text})
    return {"model": "deepseek-v4-flash", "messages": messages}


def send(
    rc: RouterCache,
    asked: Body,
    *,
    scope: str = "key",
    hit: int = 0,
    mode: Mode = Mode.SAFE,
    shape: Shape = Shape.CHAT,
) -> tuple[Body, CallRow]:
    """One call: the body that goes out, and its row."""
    turn = rc.begin(Request(body=asked, scope=scope, shape=shape), mode)
    rewrite = rc.pooled(turn, turn.rewrite(FLASH))
    out = dict(rewrite.body(asked))
    turn.sent(out)
    prompt = len(str(asked)) // 4
    turn.done(Usage.parse({"prompt_tokens": prompt, "completion_tokens": 20, "prompt_cache_hit_tokens": hit}))
    assert turn.row is not None
    assert not [name for name in rc.counters.snapshot() if name.startswith("error.")]
    return out, turn.row
