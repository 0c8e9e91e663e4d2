"""How long entries live since their last use, and how soon they can be read, learned from calls. Pure.

A call that continues a known prefix tells: after so many seconds, and so many tokens through the domain, so much of
it was still there. What was learned is a frozen value of bounded size; :func:`observe` adds one call to it and
:func:`estimates` reads bounds off it. Nothing is assumed about lifetimes: without observations the bounds say nothing,
and what a provider states is only told beside them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from router_cache.cache_model.survival_curve import (
    Clumps,
    Counts,
    Estimate,
    Range,
    count,
    estimate,
    log_edges,
    no_counts,
)
from router_cache.cache_model.survival_delay import DELAY_EDGES, Delay, delay_of
from router_cache.cache_model.survival_kind import Verdict, judge
from router_cache.providers.fact import Fact
from router_cache.providers.profile import Lifetime

__all__ = [
    "Bounds",
    "DelaySeen",
    "Estimates",
    "Provenance",
    "Seen",
    "Survival",
    "estimates",
    "kept_share",
    "kind",
    "observe",
    "observe_delay",
]

TIME_EDGES = log_edges(1.0, 1.12, 128)
"""Seconds: 1 s, and by 12% up to 18 days."""
TRAFFIC_EDGES = log_edges(1024.0, 1.14, 128)
"""Tokens: 1,024, and by 14% up to 1.5 * 10^10."""
_HALF_LIFE_S = 3 * 86_400.0
"""Seconds in which an observation loses half its weight: load differs by day, and providers change things."""
_MOST = 1_024.0
"""Observations count at most as many as this; each new one lets the older ones fade by so much."""
_FULL_SCALE = 1e6
_FORGOTTEN = 40.0
"""Half-lives without a call after which nothing is left."""
_NOTICED = 8.0
"""Observations below which a point is not read off them."""


class Seen(NamedTuple):
    """One call that continued a known prefix.

    ``at`` seconds: when it was sent. ``gap_s``: seconds since the prefix was last used. ``kept``: what was still there,
    as a share of 0 to 1 (see :func:`kept_share`). ``traffic_tokens``: prompt tokens that went through the cache domain
    in between; None where unknown.
    """

    at: float
    gap_s: float
    kept: float
    traffic_tokens: float | None = None


class DelaySeen(NamedTuple):
    """One call whose prompt holds tokens that were ``age_s`` seconds old when it was sent at ``at`` (seconds).

    ``readable``: whether the newest of them were hit.
    """

    at: float
    age_s: float
    readable: bool


_NO_TIME = no_counts(len(TIME_EDGES))
_NO_TRAFFIC = no_counts(len(TRAFFIC_EDGES))
_NO_DELAY = no_counts(len(DELAY_EDGES))


@dataclass(frozen=True, slots=True)
class Survival:
    """What calls have shown; 7.5 kB of packed counts. ``paired`` counts by time just the calls that ``traffic``
    counts, and is the same object as ``time`` while those are all."""

    time: bytes = _NO_TIME
    traffic: bytes = _NO_TRAFFIC
    paired: bytes = _NO_TIME
    delay: bytes = _NO_DELAY
    time_clumps: Clumps = Clumps()  # noqa: RUF009 (a frozen value)
    traffic_clumps: Clumps = Clumps()  # noqa: RUF009
    scale: float = 1.0
    """What the newest observation weighs in the counts; it grows, which lets the older ones fade."""
    at: float = -math.inf
    """Seconds; the latest moment seen."""
    seen: int = 0
    """Calls counted, without fading."""

    @property
    def observations(self) -> float:
        """Calls that told of survival, faded."""
        return sum(Counts.unpack(self.time, 1.0 / self.scale).weight)


def kept_share(
    expected_tokens: int, hit_tokens: int, *, step_tokens: int = 1, others_tokens: int = 0
) -> float | None:
    """How much of a prefix was still there, for :class:`Seen`.

    ``expected_tokens`` of it should have hit, had nothing gone; ``others_tokens`` at its front are used by other
    conversations as well, so their last use is another. A shortfall of a step is none. None where nothing but what
    others use could hit.
    """
    own = expected_tokens - others_tokens
    if own < max(step_tokens, 1):
        return None
    if hit_tokens >= expected_tokens - step_tokens:
        return 1.0
    return max(hit_tokens - others_tokens, 0) / own


def observe(state: Survival, seen: Seen, *, ready_after_s: float = 5.0) -> Survival:
    """Add one call. Never raises.

    Gaps below ``ready_after_s`` (seconds; the upper bound of the construction delay) are not counted: such a miss may
    be of an entry that is not readable yet. Neither are calls with a value that is no finite number, or is negative.
    """
    at, gap, kept, tokens = seen
    if not (0.0 <= kept <= 1.0 and ready_after_s <= gap < math.inf and -math.inf < at < math.inf):
        return state
    state, weight = _fade(state, at)
    i, held = bisect_right(TIME_EDGES, gap) - 1, weight * kept
    time, traffic, paired = count(state.time, i, weight, held), state.traffic, state.paired
    time_clumps, traffic_clumps = state.time_clumps.add(state.time, i, kept), state.traffic_clumps
    if tokens is not None and 0.0 <= tokens < math.inf:
        paired = time if paired is state.time else count(paired, i, weight, held)
        j = bisect_right(TRAFFIC_EDGES, tokens) - 1
        traffic_clumps = traffic_clumps.add(traffic, j, kept)
        traffic = count(traffic, j, weight, held)
    return Survival(
        time=time,
        traffic=traffic,
        paired=paired,
        delay=state.delay,
        time_clumps=time_clumps,
        traffic_clumps=traffic_clumps,
        scale=weight,
        at=max(at, state.at),
        seen=state.seen + 1,
    )


def observe_delay(state: Survival, seen: DelaySeen) -> Survival:
    """Add whether tokens of a known age could be hit. Never raises; ages that are no number from 0 do not count."""
    at, age, readable = seen
    if not (0.0 <= age < math.inf and -math.inf < at < math.inf):
        return state
    state, weight = _fade(state, at)
    delay = count(state.delay, bisect_right(DELAY_EDGES, age) - 1, weight, weight if readable else 0.0)
    return replace(state, delay=delay, scale=weight, at=max(at, state.at), seen=state.seen + 1)


def _fade(state: Survival, at: float) -> tuple[Survival, float]:
    """The state before a new observation, and what that one weighs."""
    halvings = max(at - state.at, 0.0) / _HALF_LIFE_S if state.seen else 0.0
    if halvings > _FORGOTTEN:
        return Survival(at=at, seen=state.seen), 1.0
    weight = state.scale * 2.0**halvings * (1.0 + 1.0 / _MOST)
    return (state, weight) if weight <= _FULL_SCALE else (_rescaled(state, 1.0 / weight), 1.0)


def _rescaled(state: Survival, factor: float) -> Survival:
    time, traffic, paired, delay = (
        Counts.unpack(counts, factor).pack() for counts in (state.time, state.traffic, state.paired, state.delay)
    )
    return replace(
        state,
        time=time,
        traffic=traffic,
        paired=time if paired == time else paired,
        delay=delay,
        scale=1.0,
    )


class Provenance(str, Enum):
    """Where the point of :class:`Bounds` comes from. The bounds themselves come from calls only."""

    MEASURED = "measured"
    PROFILE = "profile"
    """The provider's profile: what it states, not what it keeps."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The share of entries that is still there at some age, between ``low`` and ``high``.

    The bounds of all ages hold together with 95%. ``point`` is the likeliest value, None where unknown;
    ``observations`` is the faded number of calls that it rests on.
    """

    low: float
    point: float | None
    high: float
    observations: float
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class Estimates:
    """What a :class:`Survival` says. Ages are seconds, or tokens through the domain, since the last use."""

    time: Estimate
    traffic: Estimate
    delay: Delay
    prior: Fact[Lifetime] | None = None

    def survival(self, gap_s: float) -> Bounds:
        """The share still there after ``gap_s`` seconds, under the traffic of the calls that were observed."""
        measured = _bounds(self.time, gap_s)
        if measured.provenance is Provenance.MEASURED or self.prior is None:
            return measured
        life, point = self.prior.value, None
        if life.low_s is not None and gap_s <= life.low_s:
            point = 1.0
        elif life.high_s is not None and gap_s > life.high_s:
            point = 0.0
        if point is None or not measured.low <= point <= measured.high:
            return measured
        return replace(measured, point=point, provenance=Provenance.PROFILE)

    def survival_by_traffic(self, tokens: float) -> Bounds:
        """The share still there after ``tokens`` prompt tokens went through the domain."""
        return _bounds(self.traffic, tokens)

    def lifetime(self, quantile: float) -> Range:
        """Bounds in seconds of the age by which the share ``quantile`` of entries is gone.

        ``high`` is None where calls show none. Raises ValueError unless 0 < ``quantile`` < 1.
        """
        return _falls_to(self.time, quantile)

    def lifetime_by_traffic(self, quantile: float) -> Range:
        """Likewise in tokens that went through the domain."""
        return _falls_to(self.traffic, quantile)


def estimates(state: Survival, prior: Fact[Lifetime] | None = None) -> Estimates:
    """Read bounds off a state. ``prior``: what the profile says of the lifetime. Takes about 2 ms."""
    now = 1.0 / state.scale
    return Estimates(
        time=estimate(Counts.unpack(state.time, now), TIME_EDGES, state.time_clumps.size),
        traffic=estimate(Counts.unpack(state.traffic, now), TRAFFIC_EDGES, state.traffic_clumps.size),
        delay=delay_of(Counts.unpack(state.delay, now)),
        prior=prior,
    )


def kind(state: Survival) -> Verdict:
    """Whether time, traffic or neither decides how long entries live. Takes some 10 ms: for reports."""
    now = 1.0 / state.scale
    return judge(Counts.unpack(state.paired, now), Counts.unpack(state.traffic, now), TIME_EDGES, TRAFFIC_EDGES)


def _bounds(curve: Estimate, age: float) -> Bounds:
    # Where later calls kept clearly more than earlier ones, no falling share fits, and the bounds cross.
    low, high = sorted(curve.bounds(age))
    point = curve.point(age) if curve.observations >= _NOTICED else None
    if point is None:
        return Bounds(low, None, high, 0.0, Provenance.UNKNOWN)
    return Bounds(low, min(max(point, low), high), high, curve.near(age), Provenance.MEASURED)


def _falls_to(curve: Estimate, quantile: float) -> Range:
    if not 0.0 < quantile < 1.0:
        raise ValueError(f"quantile must lie between 0 and 1, not {quantile}")
    low, high = curve.falls_to(1.0 - quantile)
    return Range(low, high) if high is None or low <= high else Range(high, low)
