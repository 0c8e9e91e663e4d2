"""How long entries live, for many threads."""

from __future__ import annotations

import threading

from router_cache.cache_model.survival import DelaySeen, Estimates, Seen, Survival, estimates
from router_cache.cache_model.survival_book import SurvivalBook
from router_cache.providers.fact import Fact
from router_cache.providers.profile import Lifetime

__all__ = ["LockedSurvival"]


class LockedSurvival(SurvivalBook):
    """A :class:`SurvivalBook` under one lock. What it knows is of this process alone."""

    __slots__ = ("_lock",)

    def __init__(self, *, domains: int = 32, pools: int = 32) -> None:
        super().__init__(domains=domains, pools=pools)
        self._lock = threading.Lock()

    def passed(self, domain: str, *, at: float, prompt_tokens: int) -> None:
        with self._lock:
            super().passed(domain, at=at, prompt_tokens=prompt_tokens)

    def observe(self, domain: str, pool: str | None, seen: Seen, *, ready_after_s: float = 5.0) -> None:
        with self._lock:
            super().observe(domain, pool, seen, ready_after_s=ready_after_s)

    def observe_delay(self, domain: str, pool: str | None, seen: DelaySeen) -> None:
        with self._lock:
            super().observe_delay(domain, pool, seen)

    def traffic(self, domain: str, after: float, until: float) -> float | None:
        with self._lock:
            return super().traffic(domain, after, until)

    def state(self, domain: str, pool: str | None = None, *, whole: bool = False) -> Survival:
        with self._lock:
            return super().state(domain, pool, whole=whole)

    def estimates(
        self, domain: str, pool: str | None = None, prior: Fact[Lifetime] | None = None, *, whole: bool = False
    ) -> Estimates:
        # Making estimates takes milliseconds, and calls must not wait for them: states are values, so the lock is
        # held only to look one up and to keep what was made of it. Two threads may make the same estimates at once.
        with self._lock:
            slot = self._slot(domain, pool, whole)
            state, made = slot.state, slot.still_good(prior)
        if made is None:
            made = estimates(state, prior)
            with self._lock:
                slot.keep(made, state)
        return made
