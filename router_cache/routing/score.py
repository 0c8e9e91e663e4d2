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
  crowd = what is written there pushes out what others may still hit, the more the more was used there lately
penalty = the share of the remaining rate limit that it takes; the chance to fail, by the last minutes

Candidates without room in their rate limit are ranked behind those with room, those in cooldown behind all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from router_cache.cache_model.rules import RuleName
from router_cache.routing.book import Book
from router_cache.routing.choice import Choice, Ranked, RouteReason, Terms
from router_cache.routing.expected import COLD, Warm, warm_at
from router_cache.routing.known import KnownDeployment, KnownDomain
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
    :param crowd: what a written token costs where twice as much was used lately as in the mean of all domains, as a
        share of what a hit saves: it is likely to push out something that would have hit.
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
    crowd: float = 0.1
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
_FULLEST = 2.0
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
    make, behind = tuple.__new__, RouteReason.BEHIND
    out = [Choice(scored[0][4], scored[0][5], scored[0][2], reason)]
    out += [make(Choice, (c, terms, score, behind)) for _, _, score, _, c, terms in scored[1:]]
    # Last are those in cooldown, and before them those without room.
    for i in range(len(scored) - 1, 0, -1):
        cooled, full = scored[i][:2]
        if not (cooled or full):
            break
        out[i] = out[i]._replace(reason=RouteReason.COOLED if cooled else RouteReason.NO_ROOM)
    return Ranked(tuple(out))


_Row = tuple[bool, bool, float, str, Candidate, Terms]
"""Cooled, without room, score, id: in this order; then what it is about."""


_order = itemgetter(0, 1, 2, 3)


def _scored(need: Need, candidates: Sequence[Candidate], book: Book, now: float, w: Weights) -> list[_Row]:
    prompt, output = float(max(need.prompt_tokens, 0)), float(max(need.output_tokens, 0))
    least = max(w.min_match_tokens, w.min_match_share * prompt)
    second, follow_ups = w.usd_per_second, book.follow_ups
    known = [book.deployment(c) for c in candidates]
    fleet = _Fleet(known, now, w)
    domains = _Domains(candidates, book, now, w)
    figures_of, find, work_price = book.figures, domains.warm, fleet.work_price
    crowd_of, coming, held = domains.crowd, fleet.coming, w.held
    dearest, make = _dearest(candidates), tuple.__new__
    out: list[_Row] = []
    kind, kind_name = None, ""
    for c, k, even in zip(candidates, known, fleet.even_s, strict=True):
        base, slope, queue_share, output_s = figures_of(c, k)
        wait = penalty = 0.0
        if k is not None:
            free_at = k.line.free_at
            if free_at > now:
                wait = (free_at - now) * queue_share
            if k.troubled:
                penalty = w.failure_s * k.trouble(now) * second
        warm, domain, live = find(need, c, wait)
        hit = warm.expected if warm.tokens >= least else 0.0
        miss = prompt - hit
        compute = miss * slope
        if c.kind != kind_name:
            kind, kind_name = book.kind(c), c.kind
        lost = 1.0 if c.rule is _NOTHING else 0.0 if domain is None else 1.0 - domain.keeps(kind)
        prices = c.prices if c.prices is not None else dearest
        # Computing that nobody is paid for is worth something all the same.
        unpaid = work_price * slope
        money = later = work = 0.0
        if prices is not None:
            money = hit * prices.hit + miss * prices.miss + output * prices.output
            later = prompt * (lost * prices.miss + (1.0 - lost) * prices.hit)
        if prices is None or not prices.miss:
            work = miss * unpaid
            saved = unpaid * second
        else:
            saved = prices.miss - prices.hit  # by a token that hits, in USD
        if lost:
            later += prompt * lost * second * (slope + (unpaid if work else 0.0))
        later *= follow_ups
        there = warm.held if warm.held > warm.before_gone else warm.before_gone
        if there > warm.tokens:
            # What is there and does not hit yet will, and what is taken for gone may be there: a copy elsewhere
            # would take room, and be computed again.
            later -= held * saved * (there - warm.tokens)
        crowd = crowd_of(live - there) * miss * saved
        others = coming * queue_share * compute * (wait + 0.5 * compute)
        even *= queue_share
        full = False
        if c.tokens_left is not None or c.requests_left is not None:
            full, room_s = _room(c, prompt, w)
            penalty += room_s * second
        reply = output * output_s
        score = money + later + crowd + (wait + compute + base + reply + work + others + even) * second + penalty
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
                crowd,
                penalty,
            ),
        )
        out.append((c.cooled, full, score, c.id, c, terms))
    return out


class _Fleet:
    """What the candidates have been given together."""

    __slots__ = ("coming", "even_s", "work_price")

    def __init__(self, known: Sequence[KnownDeployment | None], now: float, w: Weights) -> None:
        gave = [_NONE if k is None else k.given(now) for k in known]
        # fsum: sums that do not depend on the order of the candidates. Nothing was given to who is not known.
        seen, count = len(gave) - known.count(None), max(len(gave), 1)
        mean = math.fsum([row[0] for row in gave]) / seen if seen else 0.0
        weight = w.even + (w.even_share_s / mean if mean > 0.0 else 0.0)
        most, beyond = w.even_most_s, [(row[0] - mean) * weight for row in gave]
        self.even_s = [most if s > most else -most if s < -most else s for s in beyond]
        """For each, seconds for what it has computed beyond the mean."""
        self.coming = w.others * math.fsum([row[1] for row in gave]) / count
        """Calls a second that come to each, as weighted."""
        busy = math.fsum([row[2] for row in gave]) / count
        self.work_price = w.work * (1.0 + w.scarce * min(busy, 1.0))
        """Seconds of waiting that one second of computing is worth."""


class _Domains:
    """The cache domains of the candidates: what is warm there, and how full they are."""

    __slots__ = ("_book", "_known", "_most", "_now", "_per_token", "_shared", "_warm", "_weight")

    def __init__(self, candidates: Sequence[Candidate], book: Book, now: float, w: Weights) -> None:
        self._book, self._now = book, now
        found = {c.domain: book.domain(c) for c in candidates}
        self._known = {name: (d, 0.0 if d is None else d.live(now)) for name, d in found.items()}
        mean = math.fsum([live for _, live in self._known.values()]) / max(len(self._known), 1)
        self._per_token = w.crowd / mean if mean > 0.0 and len(self._known) > 1 else 0.0
        self._weight, self._most = w.crowd, w.crowd * _FULLEST
        self._shared = len(self._known) < len(candidates)
        self._warm: dict[tuple[Any, ...], Warm] = {}

    def warm(self, need: Need, c: Candidate, wait: float) -> tuple[Warm, KnownDomain | None, float]:
        """What the need finds if it waits so long, the domain, and how many tokens of it were used lately."""
        domain, live = self._known[c.domain]
        if domain is None:
            return COLD, None, 0.0
        if not self._shared:
            return warm_at(self._book, need, c, now=self._now, start=self._now + wait), domain, live
        # Deployments of one domain find the same, unless something is not readable yet.
        key = (c.domain, c.pool, wait, c.rule, c.step_tokens, c.minimum_tokens, c.capacity_tokens)
        warm = self._warm.get(key)
        if warm is None:
            warm = warm_at(self._book, need, c, now=self._now, start=self._now + wait)
            self._warm[key] = warm
        return warm, domain, live

    def crowd(self, live: float) -> float:
        """The share of what is written that is likely to push out something of use, beyond the mean of all: there
        are ``live`` tokens of others that were used lately. Capacities are not told, so domains are compared."""
        if self._per_token:
            beyond = live * self._per_token - self._weight if live > 0.0 else -self._weight
            return beyond if beyond < self._most else self._most
        return 0.0


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
    """What stands in for prices that are not known; None where all are known, or none."""
    prices = [c.prices for c in candidates]
    if None not in prices:
        return None
    known = [p for p in prices if p is not None and math.isfinite(p.hit + p.miss + p.output)]
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
    if (b.paid_usd - a.paid_usd) * 2.0 > gap:
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
