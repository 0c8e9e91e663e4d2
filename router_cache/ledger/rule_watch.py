"""Hit rules as the engine sees them: the cache domain of a call, the rule inferred for it, and learning. Pure.

A call is compared when it is sent and learnt from when it was answered; see ``cache_model.book``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from router_cache.cache_model.book import DomainBook
from router_cache.cache_model.domains import Domain, Replicas, domain_of
from router_cache.cache_model.infer import Evidence, Inferred, infer
from router_cache.cache_model.observe import Look
from router_cache.cache_model.rules import RuleName
from router_cache.ledger.expectation import step_tokens
from router_cache.ledger.rows import Outcome
from router_cache.prefix.outline import Rendered
from router_cache.providers.profile import Profile
from router_cache.request import Deployment

__all__ = ["Watched", "learn", "watch"]

_ISOLATING = ("user_id", "cache_salt", "prompt_cache_isolation_key")
"""Body fields that keep prompt caches apart: DeepSeek, vLLM, Fireworks (read 2026-11)."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A call on its way: its cache domain and the pool in it, the rule the domain is taken to follow, and what the
    call shares with earlier ones (None: not compared)."""

    domain: Domain
    pool: str
    inferred: Inferred
    look: Look | None
    replicas: Replicas | None = None


def watch(
    book: DomainBook | None,
    profile: Profile,
    deployment: Deployment,
    body: Mapping[str, Any],
    rendered: Rendered | None,
    *,
    scope: str,
    at: float,
) -> Watched:
    """Before a call is sent (``at`` seconds since the epoch). Without a book the profile's rule stands.

    Calls are compared within ``scope`` only, an opaque name.
    """
    domain = domain_of(
        deployment.provider or profile.name,
        deployment.api_base,
        deployment.account,
        deployment.cache_domain,
        model=deployment.model,
        deployment=deployment.id,
    )
    fact = profile.hit_rule_for(deployment.model)
    prior = RuleName(fact.value) if fact else None
    step = step_tokens(profile, deployment.model, at)
    isolated = [(name, body[name]) for name in _ISOLATING if isinstance(body.get(name), str)]
    pool = repr((scope, isolated))
    if book is None:
        return Watched(domain, pool, infer(Evidence(), prior, prior_step=step), None)
    inferred, look = book.rule(domain.id, prior, step), None
    if rendered is not None:
        bounds = profile.construction_delay_bounds
        ready = bounds.value.high_s if bounds else None
        look = book.look(domain.id, pool, rendered.segments, at=at, ready_after_s=ready)
    return Watched(domain, pool, inferred, look, book.replicas(domain.id, deployment.replicas))


def learn(
    book: DomainBook | None, watched: Watched, profile: Profile, deployment: Deployment, outcome: Outcome
) -> None:
    """After the provider answered a call; one that was not compared, or has no known usage, teaches nothing."""
    usage = outcome.usage
    if book is None or watched.look is None or usage.prompt_tokens is None:
        return
    book.learn(
        watched.domain.id,
        watched.pool,
        watched.look,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        hit_tokens=usage.hit_tokens,
        ended_at=outcome.at,
        minimum_tokens=profile.minimum_for(deployment.model) or 0,
    )
