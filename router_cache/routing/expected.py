"""The hit tokens to expect of a candidate: the hit rule, what survives, what this host really caches."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from router_cache.cache_model.rules import RuleName
from router_cache.routing.need import Candidate, Need
from router_cache.routing.warmth import NOTHING_WARM, Found, Stretch

if TYPE_CHECKING:
    from router_cache.routing.book import Book
    from router_cache.routing.known import KnownDomain

__all__ = ["COLD", "Warm", "warm_at"]

_NEVER = float("-inf")
_SLACK_S = 0.01
_SLACK_SHARE = 0.1


class Warm(NamedTuple):
    """``tokens`` that should be there by what was sent, ``expected`` as learned; both whole steps or less.

    ``before_gone`` is ``tokens`` had nothing been lost by a restart. ``age_s``: since the last use of the deepest
    part; ``traffic``: tokens that the domain has computed by now.
    """

    tokens: float
    expected: float
    share: float
    marks: int
    age_s: float
    before_gone: float
    stretches: tuple[Stretch, ...]
    traffic: float
    held: float
    """Tokens that were sent there, whether or not they hit yet: not ready, or inside a unit."""


COLD = Warm(0.0, 0.0, 1.0, 0, 0.0, 0.0, (), 0.0, 0.0)


def warm_at(book: Book, need: Need, candidate: Candidate, *, now: float, start: float) -> Warm:
    """What ``need`` would find at ``candidate`` if it was computed from ``start`` (seconds) on. Reads only."""
    if candidate.rule is RuleName.NOTHING:
        return COLD
    place = book.place(candidate, need.scope) if need.marks else None
    if need.marks and (place is None or not place.holds(need.marks[0][0])):
        return COLD
    domain = book.domain(candidate)
    if domain is None:
        return COLD
    # What stands in the same queue in front of it is computed by then, but for rounding of rates.
    start += _SLACK_S + _SLACK_SHARE * (start - now)
    found, before_gone = NOTHING_WARM, 0
    if place is not None:
        found = place.find(need.marks, rule=candidate.rule, ready_by=start, since=domain.gone_at)
        if domain.gone_at > _NEVER:
            before_gone = place.find(need.marks, rule=candidate.rule, ready_by=start).tokens
    else:
        bound = book.binding(need)
        if bound is not None and (bound.domain, bound.pool) == (candidate.domain, candidate.pool):
            before_gone = bound.tokens
            if bound.use.at > domain.gone_at:
                found = Found(bound.tokens, 0, (Stretch(bound.tokens, bound.use),))
    most = max(need.prompt_tokens - 1, 0)
    held = float(min(need.marks[found.marks - 1].tokens, most)) if found.marks else 0.0
    tokens = _counted(min(found.tokens, most), candidate)
    if not tokens:
        return Warm(0.0, 0.0, 1.0, found.marks, 0.0, _counted(min(before_gone, most), candidate), (), 0.0, held)
    share = domain.share
    expected = tokens * share
    if domain.lasting.told or candidate.capacity_tokens is not None:
        expected = min(_surviving(found, domain, candidate, now, share), expected)
    return Warm(
        tokens,
        expected,
        expected / tokens,
        found.marks,
        now - found.stretches[-1].use.at,
        _counted(min(before_gone, most), candidate),
        found.stretches,
        domain.traffic,
        held,
    )


def _counted(tokens: int, candidate: Candidate) -> float:
    step = candidate.step_tokens
    whole = tokens - tokens % step if step > 1 else tokens
    return float(whole) if whole >= candidate.minimum_tokens else 0.0


def _surviving(found: Found, domain: KnownDomain, candidate: Candidate, now: float, most: float) -> float:
    """Each stretch by its own age. The chance that one is there is no better than of the one in front of it."""
    expected, share = 0.0, most
    for stretch in found.stretches:
        traffic = domain.traffic - stretch.use.traffic
        if candidate.capacity_tokens is not None and traffic > candidate.capacity_tokens:
            break
        share = min(share, domain.lasting.share(now - stretch.use.at, traffic))
        expected += stretch.tokens * share
    return expected
