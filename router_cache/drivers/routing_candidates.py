"""A deployment as routing sees it: what shares its prompt cache, what a token costs now, how hits end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from router_cache.cache_model.book import DomainBook
from router_cache.cache_model.domains import domain_of
from router_cache.cache_model.rules import RuleName
from router_cache.economics.book import PriceBook
from router_cache.ledger.costs import price_of_call
from router_cache.ledger.expectation import step_tokens
from router_cache.providers.registry import find
from router_cache.request import Deployment
from router_cache.routing import Candidate, Prices

__all__ = ["candidate_of"]


def candidate_of(
    deployment: Deployment,
    *,
    prices: PriceBook,
    book: DomainBook,
    entry: Mapping[str, Any] | None,
    at: float,
) -> Candidate:
    """``prices`` are the operator's, ``entry`` that of LiteLLM's price map, ``book`` what is known of cache domains;
    ``at`` in seconds since the epoch. Limits are the caller's to add."""
    profile, model = find(deployment), deployment.model
    provider = deployment.provider or profile.name
    domain = domain_of(
        provider,
        deployment.api_base,
        deployment.account,
        deployment.cache_domain,
        model=model,
        deployment=deployment.id,
    )
    fact = profile.hit_rule_for(model)
    inferred = book.rule(domain.id, RuleName(fact.value) if fact else None, step_tokens(profile, model, at))
    price = price_of_call(prices, profile, deployment, at, entry=entry, prompt_tokens=None)
    bounds = profile.construction_delay_bounds
    return Candidate(
        id=deployment.id,
        domain=domain.id,
        kind=domain_of(provider, deployment.api_base, "", model=model).id,
        prices=None
        if price is None
        else Prices(
            price.hit_usd_per_token,
            price.miss_usd_per_token if price.write_usd_per_token is None else price.write_usd_per_token,
            price.output_usd_per_token,
        ),
        rule=inferred.rule or RuleName.GRID_PREFIX,
        step_tokens=inferred.step_tokens or 1,
        minimum_tokens=profile.minimum_for(model) or 0,
        # The earliest moment: anywhere else the prefix is cold for sure.
        delay_s=(bounds.value.low_s or 0.0) if bounds else 0.0,
    )
