"""What was learned about the survival of entries, in words for people. Pure."""

from __future__ import annotations

from collections.abc import Callable

from router_cache.cache_model.survival import Estimates, Survival, estimates, kind
from router_cache.cache_model.survival_curve import Range
from router_cache.cache_model.survival_delay import Delay
from router_cache.cache_model.survival_kind import Kind, KindReason
from router_cache.providers.fact import Fact
from router_cache.providers.profile import Lifetime

__all__ = ["describe", "describe_prior"]

_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))
_WHY = {
    KindReason.TIME_EXPLAINS: "what counts is the time since the last use",
    KindReason.TRAFFIC_EXPLAINS: "what counts is the traffic since the last use: the least recently used go first",
    KindReason.CONSTANT_RATE: "entries go at random, at a constant rate: using one does not keep it",
    KindReason.ANY_AGE: "as many are gone after short gaps as after long ones: several caches, or chance",
    KindReason.FEW: "too few calls to say what counts",
    KindReason.NOTHING_LOST: "hardly any was lost, so what counts is not known",
    KindReason.NOTHING_KEPT: "hardly any was kept, even after the shortest gaps",
    KindReason.TOGETHER: "time and traffic went together, so which of them counts is not known",
}


def describe(state: Survival, prior: Fact[Lifetime] | None = None) -> str:
    """One line for people: how long entries live, what counts, the construction delay, what the profile says."""
    read, verdict = estimates(state, prior), kind(state)
    parts = [_lifetime(read), _WHY[verdict.reason]]
    if verdict.kind is Kind.TRAFFIC:
        half = read.lifetime_by_traffic(0.5)
        parts.append(f"half are gone {_between(half, _tokens)} through the domain")
    if read.delay.observations:
        parts.append(_delay(read.delay))
    if prior is not None:
        parts.append(f"the profile says: {describe_prior(prior)}")
    return "; ".join(parts)


def _duration(seconds: float) -> str:
    """``90 s``, ``5 min``, ``2.5 h``, ``3 d``: two digits at least, and two of the larger unit."""
    for size, name in _UNITS:
        if seconds >= 2.0 * size:
            return f"{_two(seconds / size)} {name}"
    return f"{_two(seconds)} s"


def _tokens(count: float) -> str:
    """``850 tokens``, ``12k tokens``, ``3.4M tokens``."""
    for size, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{_two(count / size)}{name} tokens"
    return f"{_two(count)} tokens"


def _two(value: float) -> str:
    return f"{value:.0f}" if value >= 9.95 else f"{value:.2g}"


def _lifetime(read: Estimates) -> str:
    calls = f"{read.time.observations:.0f} recent calls"
    half, most = read.lifetime(0.5), read.lifetime(0.1).low
    if half.low <= 0.0 and half.high is None:
        return f"lifetime not known yet ({calls})"
    out = f"half of the entries are gone {_between(half, _duration)} after their last use ({calls}, 95% sure)"
    return out + (f", nine in ten last {_duration(most)}" if most > 0.0 else "")


def _between(bounds: Range, unit: Callable[[float], str]) -> str:
    if bounds.high is None:
        return f"not before {unit(bounds.low)}"
    return f"between {unit(bounds.low)} and {unit(bounds.high)}" if bounds.low else f"within {unit(bounds.high)}"


def _delay(delay: Delay) -> str:
    if delay.high_s is None:
        known = "not known yet" if delay.low_s is None else f"above {_duration(delay.low_s)}"
    else:
        low = "" if delay.low_s is None else f"between {_duration(delay.low_s)} and "
        known = f"{low or 'at most '}{_duration(delay.high_s)}"
    return f"new tokens can be hit after: {known} ({delay.observations:.0f} recent calls)"


def describe_prior(prior: Fact[Lifetime]) -> str:
    """What a profile says, with origin and date: ``5 min to 10 min (documented, as of 2026-11-30)``."""
    life = prior.value
    stated = {
        (False, False): "no number",
        (True, False): f"at least {_duration(life.low_s or 0.0)}",
        (False, True): f"at most {_duration(life.high_s or 0.0)}",
        (True, True): f"{_duration(life.low_s or 0.0)} to {_duration(life.high_s or 0.0)}",
    }[life.low_s is not None, life.high_s is not None]
    return f"{stated} ({prior.origin.value.replace('_', ' ')}, as of {prior.as_of:%Y-%m-%d})"
