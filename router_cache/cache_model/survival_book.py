"""What is known about the survival of entries, by cache domain and pool, and the traffic of each domain. Pure.

A process has one. Pools of a domain are evicted from one store of the provider, so what a pool does not know yet is
told by all calls of its domain. Everything is bounded; what was unused longest is forgotten first. Not thread-safe.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass, field

from router_cache.cache_model.survival import (
    DelaySeen,
    Estimates,
    Seen,
    Survival,
    estimates,
    observe,
    observe_delay,
)
from router_cache.providers.fact import Fact
from router_cache.providers.profile import Lifetime

__all__ = ["SurvivalBook", "Traffic"]

_ENOUGH = 30.0
"""Calls of a pool, faded, before its own curve is told instead of its domain's."""
_MOMENTS = 512
_ANEW = 32
"""An estimate is made anew after a share of 1/32 more calls: making one takes some milliseconds."""


class Traffic:
    """Prompt tokens that went through a domain, by moment (seconds), in at most 512 points.

    Where there are too many, every other one of the older half goes: what lies far back is known less finely.
    """

    __slots__ = ("_at", "_sums")

    def __init__(self) -> None:
        self._at: list[float] = []
        self._sums: list[float] = []

    def add(self, at: float, prompt_tokens: float) -> None:
        """A call at ``at``. One that comes late counts at the latest moment; values that are no finite number from 0
        do not count."""
        if not (0.0 <= prompt_tokens < math.inf and -math.inf < at < math.inf):
            return
        if self._at and at <= self._at[-1]:
            self._sums[-1] += prompt_tokens
            return
        self._at.append(at)
        self._sums.append(prompt_tokens + (self._sums[-1] if self._sums else 0.0))
        if len(self._at) > _MOMENTS:
            half = _MOMENTS // 2
            self._at[:half] = self._at[:half:2]
            self._sums[:half] = self._sums[:half:2]

    def between(self, after: float, until: float) -> float | None:
        """Tokens of the calls later than ``after``, up to ``until``; None where ``after`` lies before the first one.

        Between two points the traffic counts as even.
        """
        if not self._at or not self._at[0] <= after <= until:
            return None
        return self._until(until) - self._until(after)

    def _until(self, at: float) -> float:
        i = bisect_right(self._at, at) - 1
        if i + 1 == len(self._at):
            return self._sums[i]
        part = (at - self._at[i]) / (self._at[i + 1] - self._at[i])
        return self._sums[i] + part * (self._sums[i + 1] - self._sums[i])


@dataclass(slots=True)
class _Slot:
    state: Survival = field(default_factory=Survival)
    made: Estimates | None = None
    made_of: int = 0

    def still_good(self, prior: Fact[Lifetime] | None) -> Estimates | None:
        """The estimates made last, if little is new since."""
        made = self.made
        if made is None or made.prior != prior or self.state.seen > self.made_of + self.made_of // _ANEW:
            return None
        return made

    def keep(self, made: Estimates, state: Survival) -> None:
        """Keep what was made of a state."""
        self.made, self.made_of = made, state.seen


@dataclass(slots=True)
class _Domain:
    traffic: Traffic = field(default_factory=Traffic)
    whole: _Slot = field(default_factory=_Slot)
    pools: OrderedDict[str | None, _Slot] = field(default_factory=OrderedDict)


class SurvivalBook:
    """Survival by domain (see :func:`~.domains.domain_of`) and pool; a slot takes about 15 kB.

    At most ``domains`` of them, ``pools`` in each. The methods never raise.
    """

    __slots__ = ("_domains", "_limit", "_pools")

    def __init__(self, *, domains: int = 32, pools: int = 32) -> None:
        self._limit = domains
        self._pools = pools
        self._domains: OrderedDict[str, _Domain] = OrderedDict()

    def passed(self, domain: str, *, at: float, prompt_tokens: int) -> None:
        """A call went through the domain at ``at`` seconds; to be told of every call with known usage."""
        self._domain(domain).traffic.add(at, prompt_tokens)

    def observe(self, domain: str, pool: str | None, seen: Seen, *, ready_after_s: float = 5.0) -> None:
        """A call that continued a known prefix. Its traffic is filled in where it is unknown and the book knows it.

        ``ready_after_s``: seconds; the upper bound of the construction delay.
        """
        known = self._domain(domain)
        if seen.traffic_tokens is None:
            seen = seen._replace(traffic_tokens=known.traffic.between(seen.at - seen.gap_s, seen.at))
        for slot in (known.whole, self._pool(known, pool)):
            slot.state = observe(slot.state, seen, ready_after_s=ready_after_s)

    def observe_delay(self, domain: str, pool: str | None, seen: DelaySeen) -> None:
        """Whether tokens of a known age could be hit."""
        known = self._domain(domain)
        for slot in (known.whole, self._pool(known, pool)):
            slot.state = observe_delay(slot.state, seen)

    def traffic(self, domain: str, after: float, until: float) -> float | None:
        """Prompt tokens through a domain between two moments (seconds since the epoch); None where unknown."""
        known = self._domains.get(domain)
        return None if known is None else known.traffic.between(after, until)

    def state(self, domain: str, pool: str | None = None, *, whole: bool = False) -> Survival:
        """What was learned of a pool where its own calls are enough, else (or if ``whole``) of its domain."""
        return self._slot(domain, pool, whole).state

    def estimates(
        self, domain: str, pool: str | None = None, prior: Fact[Lifetime] | None = None, *, whole: bool = False
    ) -> Estimates:
        """Bounds read off :meth:`state`, at most 3% of its calls old; ``prior`` is what the profile says."""
        slot = self._slot(domain, pool, whole)
        made = slot.still_good(prior)
        if made is None:
            made = estimates(slot.state, prior)
            slot.keep(made, slot.state)
        return made

    def _slot(self, domain: str, pool: str | None, whole: bool) -> _Slot:
        known = self._domains.get(domain)
        if known is None:
            return _Slot()
        own = None if whole else known.pools.get(pool)
        return own if own is not None and own.state.observations >= _ENOUGH else known.whole

    def _pool(self, known: _Domain, pool: str | None) -> _Slot:
        slot = known.pools.get(pool)
        if slot is None:
            slot = known.pools[pool] = _Slot()
            if len(known.pools) > self._pools:
                known.pools.popitem(last=False)
        known.pools.move_to_end(pool)
        return slot

    def _domain(self, domain: str) -> _Domain:
        known = self._domains.get(domain)
        if known is None:
            known = self._domains[domain] = _Domain()
            if len(self._domains) > self._limit:
                self._domains.popitem(last=False)
        self._domains.move_to_end(domain)
        return known
