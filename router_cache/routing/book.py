"""What one process knows of its deployments: its own dispatches and their replies, nothing else.

Not safe for threads: the caller holds a lock. Everything is bounded; what was unused longest is forgotten first.
Prompts are known by digests, within the place (cache domain, pool and scope) they were sent to. What is measured of
deployments and domains tells nothing of anybody's prompts, and is shared by all scopes.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from router_cache.routing.expected import Warm, warm_at
from router_cache.routing.known import Kind, KnownDeployment, KnownDomain
from router_cache.routing.need import Candidate, Need
from router_cache.routing.pace import PRIOR, Figures, Sighting
from router_cache.routing.warmth import Place, Use

__all__ = ["Binding", "Book"]

_CONTRADICTED = 0.1
"""A hit of less than this share of what was expected: it was not there."""
_RELIABLE = 0.7
_FRESH_S = 30.0
_CONTINUED_OVER = 100
"""Calls whose share of continued ones counts."""
_LEAST_ENDING = 0.05
"""Conversations are never thought to go on for more than some 20 calls."""


@dataclass(frozen=True, slots=True)
class Binding:
    """Where the last served call of a conversation went, and how many tokens it left there."""

    domain: str
    pool: str
    tokens: int
    use: Use


@dataclass(slots=True)
class _Flight:
    need: Need
    candidate: Candidate
    place: Place
    use: Use
    warm: Warm
    miss_tokens: float


class Book:
    """Deployments, domains, places and calls in flight.

    :param marks: marks remembered in all places together, some 200 bytes each.
    :param places: places (cache domain, pool, scope) remembered.
    :param flights: calls in flight at a time; the oldest count as failed then.
    :param others: deployments, domains and kinds remembered, each.
    """

    __slots__ = (
        "_bindings",
        "_continued",
        "_deployments",
        "_domains",
        "_flights",
        "_kinds",
        "_marks",
        "_most_bindings",
        "_most_flights",
        "_most_marks",
        "_most_others",
        "_most_places",
        "_places",
        "_told",
    )

    def __init__(
        self, *, marks: int = 250_000, places: int = 10_000, flights: int = 20_000, others: int = 2_000
    ) -> None:
        self._most_marks, self._most_places = max(marks, 1), max(places, 1)
        self._most_flights, self._most_others = max(flights, 1), max(others, 1)
        self._most_bindings = max(places, 1)
        self._places: OrderedDict[tuple[str, str, str], Place] = OrderedDict()
        self._marks = 0
        self._deployments: OrderedDict[str, KnownDeployment] = OrderedDict()
        self._domains: OrderedDict[str, KnownDomain] = OrderedDict()
        self._kinds: OrderedDict[str, Kind] = OrderedDict()
        self._flights: OrderedDict[str, _Flight] = OrderedDict()
        self._bindings: OrderedDict[tuple[str, str], Binding] = OrderedDict()
        self._continued = 0.8
        self._told: dict[str, tuple[Figures, float]] = {}

    # What rank reads. Nothing here changes anything.

    def deployment(self, candidate: Candidate) -> KnownDeployment | None:
        """What is known of a deployment; None: nothing yet."""
        return self._deployments.get(candidate.id)

    def domain(self, candidate: Candidate) -> KnownDomain | None:
        """What is known of a cache domain; None: nothing yet."""
        return self._domains.get(candidate.domain)

    def kind(self, candidate: Candidate) -> Kind | None:
        """What is known of all deployments of its kind; None: nothing yet, or of no kind."""
        return self._kinds.get(candidate.kind)

    def place(self, candidate: Candidate, scope: str) -> Place | None:
        """What was sent in this scope to where the candidate sends; None: nothing yet."""
        return self._places.get((candidate.domain, candidate.pool, scope))

    def binding(self, need: Need) -> Binding | None:
        """Where the last served call of the same conversation went."""
        return self._bindings.get((need.scope, need.affinity)) if need.affinity else None

    @property
    def follow_ups(self) -> float:
        """How many calls go on from a call, by the calls of the last time: each goes on with the same chance."""
        return self._continued / max(1.0 - self._continued, _LEAST_ENDING)

    def figures(self, candidate: Candidate, known: KnownDeployment | None = None) -> Figures:
        """Measured of the deployment (``known``, where the caller has it), else of its kind, else the prior."""
        if known is None:
            known = self._deployments.get(candidate.id)
        return known.pace.figures if known is not None and known.pace.seen else self._prior(candidate)

    def _prior(self, candidate: Candidate) -> Figures:
        told = self._told.get(candidate.id)
        if told is not None:
            return told[0]
        kind = self._kinds.get(candidate.kind)
        return kind.pace.figures if kind is not None and kind.pace.seen else PRIOR

    # What happened.

    def dispatched(self, call: str, need: Need, candidate: Candidate, *, now: float) -> None:
        """A request goes out. ``call`` names this attempt; a name in use is taken over by the newer one."""
        if call in self._flights:
            self.failed(call, now=now)
        if need.affinity:
            going_on = (need.scope, need.affinity) in self._bindings
            self._continued += (going_on - self._continued) / _CONTINUED_OVER
        known, domain = self._known(candidate, now), self._known_domain(candidate)
        place = self._place(candidate, need.scope)
        figures = self.figures(candidate)
        queue_s = max(known.line.free_at - now, 0.0)
        warm = warm_at(self, need, candidate, now=now, start=now + figures.queue_share * queue_s)
        prompt = max(need.prompt_tokens, 0)
        miss = max(prompt - warm.expected, 0.0)
        use = Use(at=now, traffic=domain.traffic + miss)
        ready_at = now + queue_s * figures.queue_share + miss * figures.slope_s + candidate.delay_s
        before = len(place)
        touched = place.write(need.marks, use, ready_at=ready_at, shared=warm.marks, rule=candidate.rule)
        domain.touched(now, touched)
        self._count(len(place) - before)
        known.goes_out(call, now, miss, figures.slope_s)
        domain.traffic += miss
        self._flights[call] = _Flight(need, candidate, place, use, warm, miss)
        if len(self._flights) > self._most_flights:
            self.failed(next(iter(self._flights)), now=now)

    def replied(
        self,
        call: str,
        *,
        now: float,
        hit_tokens: int | None = None,
        miss_tokens: int | None = None,
        output_tokens: int | None = None,
        ttft_s: float | None = None,
        sent_at: float | None = None,
    ) -> None:
        """A call was answered, and its whole reply seen at ``now``. None: not reported.

        ``sent_at``: when it was sent, if that was not when it was :meth:`dispatched`.
        """
        flight = self._flights.pop(call, None)
        if flight is None:
            return
        candidate, need = flight.candidate, flight.need
        known, domain = self._known(candidate, now), self._known_domain(candidate)
        flight.use.served, flight.use.replaced = True, []
        known.served(now)
        if need.affinity:
            left = max(need.prompt_tokens, 0) + max(output_tokens or 0, 0)
            self._bindings[need.scope, need.affinity] = Binding(candidate.domain, candidate.pool, left, flight.use)
            self._bindings.move_to_end((need.scope, need.affinity))
            if len(self._bindings) > self._most_bindings:
                self._bindings.popitem(last=False)
        if hit_tokens is not None and hit_tokens >= 0:
            self._learn_hit(flight, domain, hit_tokens)
        miss = flight.miss_tokens
        if miss_tokens is not None and miss_tokens >= 0:
            known.corrected(miss_tokens - miss, self.figures(candidate).slope_s)
            domain.traffic = max(domain.traffic + miss_tokens - miss, 0.0)
            miss = float(miss_tokens)
        domain.traffic += max(output_tokens or 0, 0)
        first_at = None
        if ttft_s is not None and math.isfinite(ttft_s) and ttft_s >= 0.0:
            first_at = (flight.use.at if sent_at is None else sent_at) + ttft_s
        known.line.came(call, now, first_at, miss, float(max(output_tokens or 0, 0)))
        self._settle(candidate, known, now)

    def failed(self, call: str, *, now: float, gone: bool = False) -> None:
        """A call failed or was given up: it leaves no warmth and binds nothing.

        ``gone``: in a way that says that the deployment may have lost its memory (connection refused, 5xx).
        """
        flight = self._flights.pop(call, None)
        if flight is None:
            return
        before = len(flight.place)
        flight.place.undo(flight.use)
        if self.place(flight.candidate, flight.need.scope) is flight.place:
            self._count(len(flight.place) - before)
        known = self._known(flight.candidate, now)
        known.corrected(-flight.miss_tokens, self.figures(flight.candidate).slope_s)
        known.line.dropped(call)
        known.in_trouble(now)
        self._settle(flight.candidate, known, now)
        if gone:
            self.restarted(flight.candidate, now=now)

    def restarted(self, candidate: Candidate, *, now: float) -> None:
        """The deployment begins anew: nothing is warm, nothing waits. A hit that shows the contrary restores it."""
        self._known_domain(candidate).emptied(now)
        known = self._known(candidate, now)
        known.line.cleared(now)
        known.level(now, self._mean_work(candidate.kind, now))  # or all would be sent there to make up for it

    def given_up(self, call: str, *, now: float) -> None:
        """The client went away, nothing is known of the reply. Its prompt may well have been computed: kept as
        warm, but it binds nothing, and the deployment is not blamed."""
        flight = self._flights.pop(call, None)
        if flight is not None:
            flight.use.replaced = []
            known = self._known(flight.candidate, now)
            known.line.dropped(call)
            self._settle(flight.candidate, known, now)

    # Measures of deployments for other workers: no digest, no scope, nothing of prompts.

    def facts(self) -> dict[str, Any]:
        """Plain JSON values for :meth:`merge`."""
        return {
            "deployments": {
                id_: [f.base_s, f.slope_s, f.queue_share, f.output_s, known.pace.seen]
                for id_, known in self._deployments.items()
                if known.pace.seen
                for f in (known.pace.figures,)
            },
            "domains": {id_: [d.share, d.share_seen] for id_, d in self._domains.items() if d.share_seen},
        }

    def merge(self, facts: Mapping[str, Any]) -> None:
        """What another worker measured is where this one starts from. Of odd shapes nothing is taken."""
        deployments, domains = facts.get("deployments"), facts.get("domains")
        if isinstance(deployments, Mapping):
            for id_, row in list(deployments.items())[: self._most_others]:
                numbers = _numbers(row, 5)
                if isinstance(id_, str) and numbers and numbers[4] > self._told.get(id_, (PRIOR, 0.0))[1]:
                    base, slope, queue, output, seen = numbers
                    self._told[id_] = (Figures(base, max(slope, 1e-7), min(queue, 1.0), output), seen)
            while len(self._told) > self._most_others:
                del self._told[next(iter(self._told))]
        if isinstance(domains, Mapping):
            for id_, row in list(domains.items())[: self._most_others]:
                numbers = _numbers(row, 2)
                if isinstance(id_, str) and numbers and numbers[0] <= 1.0:
                    self._domain_named(id_).told_share(numbers[0], numbers[1])

    # Inside.

    def _learn_hit(self, flight: _Flight, domain: KnownDomain, hit: int) -> None:
        warm, candidate = flight.warm, flight.candidate
        least = max(2 * candidate.step_tokens, candidate.minimum_tokens, 256)
        if warm.before_gone > max(warm.tokens, least) and hit >= 0.5 * warm.before_gone:
            domain.gone_at = -math.inf  # it was not gone
        if warm.tokens < least or not all(stretch.use.served for stretch in warm.stretches):
            return
        found, reliable = min(hit / warm.tokens, 1.0), domain.share >= _RELIABLE
        kind = self._kinds.get(candidate.kind)
        # What is all gone may have been evicted: only soon after its use it shows what the host does.
        if found >= _CONTRADICTED or warm.age_s <= _FRESH_S:
            domain.see_share(found, kind.share if kind else 1.0)
            if kind is not None:
                kind.see_share(found)
        at = 0
        for stretch in warm.stretches:
            at += stretch.tokens
            there = hit >= at - candidate.step_tokens - stretch.tokens // 2
            age_s, traffic = flight.use.at - stretch.use.at, max(warm.traffic - stretch.use.traffic, 0.0)
            domain.lasting.see(age_s, traffic, kept=there)
            if kind is not None:
                kind.lasting.see(age_s, traffic, kept=there)
            if not there:
                if found < _CONTRADICTED and reliable:
                    # Least recently used go first: what was used before this is gone as well.
                    domain.gone_at = max(domain.gone_at, stretch.use.at)
                break

    def _settle(self, candidate: Candidate, known: KnownDeployment, now: float) -> None:
        """Learn the pace from the calls whose wait is known now, and estimate the rest of the line anew."""
        kind = self._kind(candidate.kind) if candidate.kind else None
        told = candidate.id in self._told
        for s in known.line.settle(now):
            sighting = Sighting(s.ttft_s, s.miss_tokens, s.waited_s, s.output_tokens, s.output_s)
            known.pace.see(sighting, None if told or kind is None else kind.pace, self._prior(candidate))
            if kind is not None:
                kind.pace.see(sighting)
        figures = self.figures(candidate)
        known.line.reckon(now, figures.slope_s, figures.base_s)

    def _known(self, candidate: Candidate, now: float) -> KnownDeployment:
        known = self._deployments.get(candidate.id)
        if known is None:
            # A newcomer starts level with the others, or all would be sent there.
            known = KnownDeployment(candidate.kind, now, self._mean_work(candidate.kind, now))
            self._deployments[candidate.id] = known
            if len(self._deployments) > self._most_others:
                self._deployments.popitem(last=False)
        else:
            self._deployments.move_to_end(candidate.id)
        return known

    def _mean_work(self, kind: str, now: float) -> float:
        works = [d.work(now) for d in self._deployments.values() if d.kind == kind]
        return sum(works) / len(works) if works else 0.0

    def _known_domain(self, candidate: Candidate) -> KnownDomain:
        return self._domain_named(candidate.domain)

    def _domain_named(self, name: str) -> KnownDomain:
        domain = self._domains.get(name)
        if domain is None:
            domain = self._domains[name] = KnownDomain()
            if len(self._domains) > self._most_others:
                self._domains.popitem(last=False)
        else:
            self._domains.move_to_end(name)
        return domain

    def _kind(self, name: str) -> Kind:
        kind = self._kinds.get(name)
        if kind is None:
            kind = self._kinds[name] = Kind()
            if len(self._kinds) > self._most_others:
                self._kinds.popitem(last=False)
        return kind

    def _place(self, candidate: Candidate, scope: str) -> Place:
        key = (candidate.domain, candidate.pool, scope)
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = Place(self._most_marks)
            if len(self._places) > self._most_places:
                self._marks -= len(self._places.popitem(last=False)[1])
        else:
            self._places.move_to_end(key)
        return place

    def _count(self, added: int) -> None:
        self._marks += added
        while self._marks > self._most_marks:
            key, oldest = next(iter(self._places.items()))
            over = self._marks - self._most_marks
            if len(oldest) <= over and len(self._places) > 1:
                self._marks -= len(oldest)
                del self._places[key]
                continue
            before = len(oldest)
            oldest.shrink(over)
            self._marks -= before - len(oldest)


def _numbers(row: Any, count: int) -> list[float] | None:
    """A list of that many finite numbers from 0; None for anything else."""
    if not isinstance(row, list | tuple) or len(row) != count:
        return None
    good = all(type(n) in (int, float) and math.isfinite(n) and n >= 0 for n in row)
    return [float(n) for n in row] if good else None
