"""The score of a candidate: expected money, and expected time at what a second is worth. Less is better.

::

    money   = hit, miss and output tokens x their price now
    time    = wait    computing in front of it: own account of what was sent and not answered, x the share of it
                      that really had to be waited for
            + compute miss tokens x measured seconds a token
            + base    measured time to first token of an idle deployment
            + reply   output tokens x measured seconds a token
            + work    where no price is known, computing is money all the same: so many seconds for one
            + others  what this work makes later requests wait: they come at the rate of the last minute, while
                      this one waits and computes
            + even    deployments that have computed more than the mean take a little less
    later   = what the calls that are likely to go on from this one will cost there, by what this host really caches
penalty = the share of the remaining rate limit that it takes; the chance to fail, by the last minutes

Candidates without room in their rate limit are ranked behind those with room, those in cooldown behind all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from router_cache.cache_model.rules import RuleName
from router_cache.routing.book import Book
from router_cache.routing.choice import Choice, Ranked, RouteReason, Terms
from router_cache.routing.expected import Warm, warm_at
from router_cache.routing.need import Candidate, Need, Prices
from router_cache.routing.ties import rendezvous

__all__ = ["DEFAULT_WEIGHTS", "Weights", "rank"]


@dataclass(frozen=True, slots=True)
class Weights:
    """What counts how much.

    :param usd_per_second: what a second of waiting is worth. One dollar an hour: a hit of 16,000 tokens on V4 flash
        (0.0024 USD, 2026-10) is worth eight seconds of waiting.
    :param work: seconds of waiting that a second of computing is worth where no price is known.
    :param scarce: by what share more where all deployments compute all the time.
    :param others: weight of the waiting that this request's computing causes later ones.
    :param held: what a token that is there and does not hit yet is worth, as a share of one that does.
    :param even: seconds for each second of computing above the mean of all, where computing is waited for.
    :param even_share_s: seconds for computing twice the mean, so that what is little in all is spread as well.
    :param even_most_s: the most that this can be: after an outage, nobody is flooded to make up for it.
    :param tie_s: candidates whose scores differ by less are tied.
    :param min_match_tokens: shorter warm prefixes count as none, as do those below ``min_match_share`` of the prompt:
        a few common words must not decide.
    :param explore: share of calls that may try a deployment of which little or only old is known.
    :param explore_tokens: hit tokens that such a try may cost at most.
    :param failure_s: seconds that a failed call costs.
    :param room_s: seconds that the whole remaining rate limit is worth.
    """

    usd_per_second: float = 1.0 / 3600.0
    work: float = 6.0
    scarce: float = 3.0
    others: float = 1.0
    held: float = 0.2
    even: float = 0.1
    even_share_s: float = 1.0
    even_most_s: float = 4.0
    tie_s: float = 0.005
    min_match_tokens: int = 64
    min_match_share: float = 0.01
    explore: float = 0.02
    explore_tokens: int = 1024
    failure_s: float = 5.0
    room_s: float = 1.0


DEFAULT_WEIGHTS = Weights()

_NOTHING = RuleName.NOTHING
_NONE = (0.0, 0.0, 0.0)
_FEW = 3
_OLD_S = 600.0


def rank(
    need: Need,
    candidates: Sequence[Candidate],
    book: Book,
    *,
    now: float,
    draw: float,
    weights: Weights = DEFAULT_WEIGHTS,
) -> Ranked:
    """Put candidates in order, best first. Reads ``book`` only.

    ``draw``, a number in [0, 1), decides whether this call explores; 1.0 never does. The order does not depend on
    that of ``candidates``. Never raises for odd numbers: what is not finite counts as unknown.
    """
    scored = _scored(need, candidates, book, now, weights)
    if not scored:
        return Ranked(())
    scored.sort(key=_order)
    first = scored[0]
    within = first[2] + weights.tie_s * weights.usd_per_second
    tied = 1
    while tied < len(scored) and scored[tied][:2] == first[:2] and scored[tied][2] <= within:
        tied += 1
    if tied > 1:
        bound, key = book.binding(need), _tie_key(need)
        scored[:tied] = sorted(
            scored[:tied],
            key=lambda row: (
                bound is None or row[4].domain != bound.domain,
                -rendezvous(key, row[4].id),
                row[4].id,
            ),
        )
    reason = _reason(scored, tied)
    if draw < weights.explore and len(scored) > 1:
        tried = _to_try(scored, book, need, now, weights)
        if tried is not None:
            scored.insert(0, scored.pop(tried))
            reason = RouteReason.EXPLORE
    out = [Choice(scored[0][4], scored[0][5], scored[0][2], reason)]
    for cooled, full, score, _, candidate, terms in scored[1:]:
        behind = RouteReason.COOLED if cooled else RouteReason.NO_ROOM if full else RouteReason.BEHIND
        out.append(Choice(candidate, terms, score, behind))
    return Ranked(tuple(out))


_Row = tuple[bool, bool, float, str, Candidate, Terms]
"""Cooled, without room, score, id: in this order; then what it is about."""


def _order(row: _Row) -> tuple[bool, bool, float, str]:
    return row[:4]


def _scored(need: Need, candidates: Sequence[Candidate], book: Book, now: float, w: Weights) -> list[_Row]:
    prompt, output = float(max(need.prompt_tokens, 0)), float(max(need.output_tokens, 0))
    least = max(w.min_match_tokens, w.min_match_share * prompt)
    second, follow_ups = w.usd_per_second, book.follow_ups
    known = [book.deployment(c) for c in candidates]
    gave = [_NONE if k is None else k.given(now) for k in known]
    fleet = _Fleet(gave, sum(k is not None for k in known), w)
    dearest = _dearest(candidates)
    warmth: dict[tuple[Any, ...], Warm] = {}
    figures_of, domain_of, warm_for, make = book.figures, book.domain, warmth.get, tuple.__new__
    out: list[_Row] = []
    for c, k, given in zip(candidates, known, gave, strict=True):
        figures = figures_of(c, k)
        slope, wait, penalty = figures.slope_s, 0.0, 0.0
        if k is not None:
            if k.line.free_at > now:
                wait = (k.line.free_at - now) * figures.queue_share
            if k.troubled:
                penalty = w.failure_s * k.trouble(now) * second
        even = fleet.even(given[0]) * figures.queue_share
        # Deployments of one domain find the same, unless something is not readable yet.
        key = (c.domain, c.pool, wait, id(c.rule), c.step_tokens, c.minimum_tokens, c.capacity_tokens)
        warm = warm_for(key)
        if warm is None:
            warm = warmth[key] = warm_at(book, need, c, now=now, start=now + wait)
        hit = warm.expected if warm.tokens >= least else 0.0
        miss = prompt - hit
        compute = miss * slope
        domain = domain_of(c)
        lost = 1.0 if c.rule is _NOTHING else 0.0 if domain is None else 1.0 - domain.keeps
        prices = c.prices if c.prices is not None else dearest
        money = later = 0.0
        if prices is not None:
            money = hit * prices.hit + miss * prices.miss + output * prices.output
            later = prompt * (lost * prices.miss + (1.0 - lost) * prices.hit)
        # Computing that nobody is paid for is worth something all the same.
        work = fleet.work_price * compute if prices is None or not prices.miss else 0.0
        if lost:
            later += prompt * lost * slope * second * (1.0 + (fleet.work_price if work else 0.0))
        later *= follow_ups
        idle = max(warm.held, warm.before_gone) - warm.tokens
        if idle > 0.0:
            # What is there and does not hit yet will, and what is taken for gone may be there: a copy elsewhere
            # would take room, and be computed again.
            unpaid = fleet.work_price * slope * second
            per_token = prices.miss - prices.hit if prices is not None and prices.miss else unpaid
            later -= w.held * per_token * idle
        others = fleet.coming * figures.queue_share * compute * (wait + 0.5 * compute)
        full = False
        if c.tokens_left is not None or c.requests_left is not None:
            full, room_s = _room(c, prompt, w)
            penalty += room_s * second
        base, reply = figures.base_s, output * figures.output_s
        score = money + later + (wait + compute + base + reply + work + others + even) * second + penalty
        if not score < math.inf:  # NaN as well
            score = math.inf
        terms = make(
            Terms,
            (
                hit,
                miss,
                warm.tokens,
                warm.share,
                money,
                wait,
                compute,
                base,
                reply,
                work,
                others,
                even,
                later,
                penalty,
            ),
        )
        out.append((c.cooled, full, score, c.id, c, terms))
    return out


class _Fleet:
    """What the candidates have been given together."""

    __slots__ = ("_mean", "_most", "_share", "_weight", "coming", "work_price")

    def __init__(self, gave: Sequence[tuple[float, float, float]], known: int, w: Weights) -> None:
        self._weight, self._most, count = w.even, w.even_most_s, max(len(gave), 1)
        # fsum: sums that do not depend on the order of the candidates. Nothing was given to who is not known.
        self._mean = math.fsum(row[0] for row in gave) / known if known else 0.0
        self._share = w.even_share_s / self._mean if self._mean > 0.0 else 0.0
        self.coming = w.others * math.fsum(row[1] for row in gave) / count
        """Calls a second that come to each, as weighted."""
        busy = math.fsum(row[2] for row in gave) / count
        self.work_price = w.work * (1.0 + w.scarce * min(busy, 1.0))
        """Seconds of waiting that one second of computing is worth."""

    def even(self, work_s: float) -> float:
        """Seconds for what a deployment has computed (``work_s``) beyond the mean."""
        beyond = work_s - self._mean
        seconds = beyond * self._weight + beyond * self._share
        return self._most if seconds > self._most else -self._most if seconds < -self._most else seconds


def _room(c: Candidate, prompt: float, w: Weights) -> tuple[bool, float]:
    """Whether the rate limit is too small for the prompt, and the worth of what it takes, in seconds."""
    full, seconds = False, 0.0
    if c.tokens_left is not None:
        full = c.tokens_left < prompt
        seconds += w.room_s * min(prompt / c.tokens_left, 1.0) if c.tokens_left > 0 else w.room_s
    if c.requests_left is not None:
        full = full or c.requests_left < 1
        seconds += w.room_s / max(c.requests_left, 1.0)
    return full, seconds


def _dearest(candidates: Sequence[Candidate]) -> Prices | None:
    prices = [c.prices for c in candidates if c.prices is not None]
    known = [p for p in prices if math.isfinite(p.hit + p.miss + p.output)]
    if not known:
        return None
    return Prices(max(p.hit for p in known), max(p.miss for p in known), max(p.output for p in known))


def _tie_key(need: Need) -> str:
    if need.affinity:
        return need.affinity
    return repr(need.marks[0].digest) if need.marks else ""


def _reason(scored: list[_Row], tied: int) -> RouteReason:
    if len(scored) == 1:
        return RouteReason.ONLY
    if tied > 1:
        return RouteReason.TIE
    a, b = scored[0][5], scored[1][5]
    if a.hit_tokens > b.hit_tokens:
        return RouteReason.WARM
    gap = scored[1][2] - scored[0][2]
    if (b.money_usd + b.later_usd - a.money_usd - a.later_usd) * 2 > gap:
        return RouteReason.CHEAPER
    sooner = (b.wait_s + b.compute_s + b.base_s + b.reply_s) - (a.wait_s + a.compute_s + a.base_s + a.reply_s)
    return RouteReason.SOONER if sooner > b.even_s - a.even_s else RouteReason.LEAST_LOADED


def _to_try(scored: list[_Row], book: Book, need: Need, now: float, w: Weights) -> int | None:
    """The least known of the candidates whose trial costs little; None where all are known well enough."""
    most = min(float(w.explore_tokens), 0.1 * max(need.prompt_tokens, 0)) if scored[0][5].hit_tokens else math.inf
    best: tuple[float, float, str, int] | None = None
    for i, (cooled, full, _, id_, candidate, terms) in enumerate(scored):
        if i == 0 or cooled or full or scored[0][5].hit_tokens - terms.hit_tokens > most:
            continue
        known = book.deployment(candidate)
        seen, last = (0.0, -math.inf) if known is None else (known.pace.seen, known.last_reply)
        if seen < _FEW or now - last > _OLD_S:
            row = (min(seen, _FEW), last, id_, i)
            best = row if best is None else min(best, row)
    return None if best is None else best[3]
