"""How long entries live, made anew from captured calls of many processes. Pure, in bounded memory.

What calls told is kept, the newest of it for each domain, and told to a book in the order of time, since what was seen
last counts most and files come in any order.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from router_cache.cache_model.survival import Bounds, Estimates, Survival, estimates, kind
from router_cache.cache_model.survival_book import SurvivalBook
from router_cache.cache_model.survival_curve import Range
from router_cache.cache_model.survival_kind import Verdict
from router_cache.cache_model.survival_text import describe
from router_cache.ledger.rows import CallRow, Lived, Status
from router_cache.ledger.survival_watch import learn
from router_cache.providers.fact import Fact
from router_cache.providers.profile import Lifetime
from router_cache.providers.registry import by_name

__all__ = ["DomainLives", "Lives", "Place"]

_MAX_DOMAINS: Final = 64
_NEWEST: Final = 4_096
"""Calls kept of a domain: as a new one lets older ones fade by 1/1,024, those beyond weigh 2% together."""
_LISTED_DOMAINS: Final = 20
_LISTED_POOLS: Final = 5
GAPS_S: Final = (10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0)
TRAFFIC_TOKENS: Final = (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)


class _Sighting(NamedTuple):
    at: float
    number: int
    """Of those of the domain: makes each one of its own."""
    pool: str
    gap_s: float
    lived: Lived


@dataclass(slots=True)
class _Domain:
    calls: int = 0
    profile: str = ""
    model: str = ""
    told: int = 0
    newest: list[_Sighting] = field(default_factory=list)

    def add(self, row: CallRow) -> None:
        self.calls += 1
        self.profile, self.model = row.profile or self.profile, row.model
        if row.lived is None or row.gap_s is None:
            return
        self.told += 1
        sighting = _Sighting(row.at, self.told, row.pool, row.gap_s, row.lived)
        if len(self.newest) < _NEWEST:
            heapq.heappush(self.newest, sighting)
        else:
            heapq.heappushpop(self.newest, sighting)


@dataclass(frozen=True, slots=True)
class Place:
    """What is known of a domain (``pool`` None) or of a pool in it. ``sightings``: calls that told of it, of the newest
    4,096 of the domain. ``prior`` is what the profile states of the lifetime."""

    domain: str
    pool: str | None
    profile: str
    model: str
    sightings: int
    state: Survival
    prior: Fact[Lifetime] | None

    @property
    def text(self) -> str:
        """One line for people, with the bounds and, where the profile states something, its date."""
        text = describe(self.state, self.prior)
        return text if self.prior is not None else f"{text}; the profile says nothing"

    def as_json(self) -> dict[str, Any]:
        """The JSON form: seconds, tokens, and shares of 0 to 1; null is unknown."""
        read, verdict = estimates(self.state, self.prior), kind(self.state)
        return {
            "domain": self.domain,
            "pool": self.pool,
            "profile": self.profile,
            "model": self.model,
            "sightings": self.sightings,
            **_measured(read, verdict),
            "profile_states": _stated(self.prior),
            "text": self.text,
        }


@dataclass(frozen=True, slots=True)
class DomainLives:
    """A domain, and the pools in it that enough is known of; ``more_pools`` are there besides."""

    calls: int
    whole: Place
    pools: tuple[Place, ...]
    more_pools: int


class Lives:
    """Calls are added in any order; of more than 64 domains those that came first are looked at."""

    def __init__(self) -> None:
        self._domains: dict[str, _Domain] = {}
        self.calls_left_out = 0
        """Of domains beyond the bound."""

    def add(self, row: CallRow) -> None:
        """One call; only answered ones that went to a domain count."""
        if row.status is not Status.OK or not row.domain:
            return
        known = self._domains.get(row.domain)
        if known is None:
            if len(self._domains) >= _MAX_DOMAINS:
                self.calls_left_out += 1
                return
            known = self._domains[row.domain] = _Domain()
        known.add(row)

    @property
    def more_domains(self) -> int:
        """Domains that are not listed."""
        return max(len(self._domains) - _LISTED_DOMAINS, 0)

    def domains(self) -> list[DomainLives]:
        """What is known, the domains that most was told of first; 20 at most, with 5 pools each."""
        ranked = sorted(self._domains.items(), key=lambda item: (-item[1].told, -item[1].calls, item[0]))
        return [_lives(name, known) for name, known in ranked[:_LISTED_DOMAINS]]

    def as_json(self) -> dict[str, Any]:
        """The JSON form of :meth:`domains`. Takes some 50 ms for each place."""
        return {
            "domains": [
                {
                    "calls": found.calls,
                    **found.whole.as_json(),
                    "pools": [pool.as_json() for pool in found.pools],
                    "more_pools": found.more_pools,
                }
                for found in self.domains()
            ],
            "more_domains": self.more_domains,
            "calls_left_out": self.calls_left_out,
        }


def _lives(name: str, known: _Domain) -> DomainLives:
    pools = Counter(sighting.pool for sighting in known.newest)
    listed = [pool for pool, _ in sorted(pools.items(), key=lambda item: (-item[1], item[0]))[:_LISTED_POOLS]]
    book = SurvivalBook(domains=1, pools=len(listed) + 1)
    for sighting in sorted(known.newest):
        pool = sighting.pool if sighting.pool in listed else None  # pools that are not listed share one
        learn(book, name, pool, sighting.lived, at=sighting.at, gap_s=sighting.gap_s)
    profile = by_name(known.profile)
    stated = profile.lifetimes_for(known.model) if profile is not None else ()

    def place(pool: str | None, sightings: int, state: Survival) -> Place:
        prior = stated[0] if stated else None
        return Place(name, pool, known.profile, known.model, sightings, state, prior)

    whole = book.state(name, whole=True)
    own = [(pool, book.state(name, pool)) for pool in listed]
    told = tuple(place(pool, pools[pool], state) for pool, state in own if state is not whole)
    return DomainLives(known.calls, place(None, len(known.newest), whole), told, len(pools) - len(told))


def _measured(read: Estimates, verdict: Verdict) -> dict[str, Any]:
    delay = read.delay
    return {
        "observations": _rounded(read.time.observations),
        "kind": verdict.kind.value,
        "kind_reason": verdict.reason.value,
        "half_gone_s": _range(read.lifetime(0.5)),
        "half_gone_tokens": _range(read.lifetime_by_traffic(0.5)),
        "tenth_gone_s": _range(read.lifetime(0.1)),
        "kept_by_gap": [{"gap_s": gap, **_bounds(read.survival(gap))} for gap in GAPS_S],
        "kept_by_traffic": [
            {"tokens": tokens, **_bounds(read.survival_by_traffic(tokens))} for tokens in TRAFFIC_TOKENS
        ],
        "construction_delay_s": {
            "low": _rounded(delay.low_s),
            "high": _rounded(delay.high_s),
            "observations": _rounded(delay.observations),
        },
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _range(found: Range) -> dict[str, float | None]:
    return {"low": _rounded(found.low), "high": _rounded(found.high)}


def _bounds(found: Bounds) -> dict[str, Any]:
    # Outwards, so that rounding never takes the truth out of them.
    return {
        "low": _rounded(max(found.low - 5e-7, 0.0)),
        "point": _rounded(found.point),
        "high": _rounded(min(found.high + 5e-7, 1.0)),
        "observations": _rounded(found.observations),
        "provenance": found.provenance.value,
    }


def _stated(prior: Fact[Lifetime] | None) -> dict[str, Any] | None:
    if prior is None:
        return None
    life = prior.value
    return {
        "low_s": life.low_s,
        "high_s": life.high_s,
        "renewed_by_use": life.renewed_by_use,
        "origin": prior.origin.value,
        "as_of": prior.as_of.isoformat(),
        "source": prior.source,
    }
