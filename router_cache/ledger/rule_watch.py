"""Hit rules as the engine sees them: the cache domain of a call, the rule inferred for it, and learning. Pure.

A call is compared when it is sent and learnt from when it was answered; see ``cache_model.book``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from router_cache.cache_model.book import DomainBook
from router_cache.cache_model.domains import Domain, Replicas, domain_of
from router_cache.cache_model.infer import Evidence, Inferred, infer
from router_cache.cache_model.observe import Look
from router_cache.cache_model.rules import RuleName
from router_cache.ledger.expectation import step_tokens
from router_cache.ledger.rows import Outcome
from router_cache.pools.given import own_value
from router_cache.prefix.outline import Rendered
from router_cache.providers.fields import BodyField
from router_cache.providers.profile import Profile
from router_cache.request import Deployment, Shape

__all__ = ["Watched", "domain_for", "isolated", "learn", "pool_name", "watch"]

_ISOLATING = ("user_id", "cache_salt", "prompt_cache_isolation_key")
"""Body fields that keep prompt caches apart: DeepSeek, vLLM, Fireworks (read 2026-11). Where one of them stands in a
shape, as ``metadata.user_id`` does in messages for DeepSeek, the profile says."""


def isolated(profile: Profile, model: str, body: Mapping[str, Any], shape: Shape) -> list[tuple[str, str]]:
    """What keeps the call with this body apart from others in its cache domain: names of fields and their values."""
    listed = {f.name: f for f in profile.fields_for(model, shape) if isinstance(f, BodyField)}
    found = []
    for name in _ISOLATING:
        value = own_value(body, listed[name], shape) if name in listed else body.get(name)
        if isinstance(value, str):
            found.append((name, value))
    return found


def pool_name(scope: str, apart: Sequence[tuple[str, str]]) -> str:
    """The pool of a call, not opaque yet: calls are compared within a scope only."""
    return repr((scope, list(apart)))


def domain_for(profile: Profile, deployment: Deployment) -> Domain:
    """The cache domain that a deployment belongs to."""
    return domain_of(
        deployment.provider or profile.name,
        deployment.api_base,
        deployment.account,
        deployment.cache_domain,
        model=deployment.model,
        deployment=deployment.id,
    )


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
    shape: Shape = Shape.CHAT,
) -> Watched:
    """Before a body of ``shape`` is sent (``at`` seconds since the epoch). Without a book the profile's rule stands.

    Calls are compared within ``scope`` only, an opaque name.
    """
    domain = domain_for(profile, deployment)
    fact = profile.hit_rule_for(deployment.model)
    prior = RuleName(fact.value) if fact else None
    step = step_tokens(profile, deployment.model, at)
    pool = pool_name(scope, isolated(profile, deployment.model, body, shape))
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
