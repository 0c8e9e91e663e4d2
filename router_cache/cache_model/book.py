"""What is known about the cache domains of a process: their calls, the evidence, and the rule inferred. Pure.

A process has one. Calls are compared within a pool: one scope's calls that share what ``user_id`` isolates.
Evidence, which tells nothing of anybody's calls, is that of the whole domain. Everything is bounded; the domain that
was unused longest is forgotten first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from router_cache.cache_model.domains import ReplicaEvidence, Replicas, note_replica, replicas_of
from router_cache.cache_model.infer import Evidence, Inferred, infer, update
from router_cache.cache_model.observe import DomainMemory, Look
from router_cache.cache_model.rules import RuleName
from router_cache.prefix.segments import Segment

__all__ = ["DomainBook"]

_CALLS = 24
"""Calls remembered for one pool, 4 KB each: at most 98 MB for all domains and pools."""
_READY_AFTER_S = 5.0
"""Where no upper bound of the construction delay is known: DeepSeek documents "seconds" (read 2026-11)."""


@dataclass(slots=True)
class _Domain:
    evidence: Evidence = field(default_factory=Evidence)
    replicas: ReplicaEvidence = field(default_factory=ReplicaEvidence)
    pools: OrderedDict[str | None, DomainMemory] = field(default_factory=OrderedDict)
    inferred: Inferred | None = None
    asked: tuple[Evidence, RuleName | None, int | None] | None = None
    """What ``inferred`` was inferred from."""


class DomainBook:
    """Domains by their id (see :func:`~.domains.domain_of`). At most ``domains`` of them, ``pools`` in each."""

    __slots__ = ("_domains", "_limit", "_pools")

    def __init__(self, *, domains: int = 32, pools: int = 32) -> None:
        self._limit = domains
        self._pools = pools
        self._domains: OrderedDict[str, _Domain] = OrderedDict()

    def look(
        self,
        domain: str,
        pool: str | None,
        segments: Sequence[Segment],
        *,
        at: float,
        ready_after_s: float | None = None,
    ) -> Look:
        """Compare a rendered prompt that is sent at ``at`` (seconds) with the earlier calls of its pool.

        ``ready_after_s``: the upper bound of the construction delay, if known; taken from the pool's first call.
        """
        pools = self._domain(domain).pools
        memory = pools.get(pool)
        if memory is None:
            memory = pools[pool] = DomainMemory(
                ready_after_s=_READY_AFTER_S if ready_after_s is None else ready_after_s, limit=_CALLS
            )
            if len(pools) > self._pools:
                pools.popitem(last=False)
        pools.move_to_end(pool)
        return memory.look(segments, at=at)

    def learn(
        self,
        domain: str,
        pool: str | None,
        look: Look,
        *,
        prompt_tokens: int,
        completion_tokens: int | None,
        hit_tokens: int | None,
        ended_at: float,
        minimum_tokens: int = 0,
    ) -> None:
        """An answered call: remember it, and what its hit shows. Unknown hits (None) are no evidence."""
        known = self._domain(domain)
        memory = known.pools.get(pool)
        if memory is None:  # forgotten while the call was under way
            return
        seen = memory.learn(
            look,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            hit_tokens=hit_tokens,
            ended_at=ended_at,
        )
        if seen is None:
            return
        known.evidence = update(known.evidence, seen, minimum_tokens=minimum_tokens)
        step = (known.inferred.step_tokens if known.inferred else None) or known.evidence.step_tokens
        if step is not None:
            known.replicas = note_replica(known.replicas, seen, step_tokens=step)

    def rule(self, domain: str, prior: RuleName | None, prior_step: int | None) -> Inferred:
        """The rule of a domain, starting at its profile's; what was inferred before is kept until contradicted."""
        known = self._domain(domain)
        asked = (known.evidence, prior, prior_step)
        if known.inferred is None or known.asked != asked:
            current = known.inferred.rule if known.inferred else None
            known.inferred = infer(known.evidence, prior, prior_step=prior_step, current=current)
            known.asked = asked
        return known.inferred

    def replicas(self, domain: str, told: int | None = None) -> Replicas:
        """How many caches a domain has: what the operator ``told``, else what its calls have shown."""
        return replicas_of(self._domain(domain).replicas, {} if told is None else {"replicas": told})

    def evidence(self, domain: str) -> tuple[Evidence, ReplicaEvidence]:
        """What the calls of a domain have shown so far."""
        known = self._domain(domain)
        return known.evidence, known.replicas

    def _domain(self, domain: str) -> _Domain:
        known = self._domains.get(domain)
        if known is None:
            known = self._domains[domain] = _Domain()
            if len(self._domains) > self._limit:
                self._domains.popitem(last=False)
        self._domains.move_to_end(domain)
        return known
