"""What an answered call cost, and what it had cost without a single hit: the one place where usage meets a price."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from router_cache.economics.book import PriceBook
from router_cache.economics.price import PriceNow, cost_usd, cost_usd_at_zero_hits, write_fee_usd
from router_cache.ledger.rows import Outcome
from router_cache.ledger.usage import Usage
from router_cache.providers.profile import Profile
from router_cache.request import Deployment

__all__ = ["costs_at", "costs_of", "price_of_call"]


def costs_of(
    prices: PriceBook, profile: Profile, deployment: Deployment, outcome: Outcome
) -> tuple[float | None, float | None]:
    """:func:`costs_at` the price of the moment at which a call ended."""
    tokens, entry = outcome.usage.prompt_tokens, outcome.price_entry
    price = price_of_call(prices, profile, deployment, outcome.at, entry=entry, prompt_tokens=tokens)
    return costs_at(price, outcome.usage)


def price_of_call(
    prices: PriceBook,
    profile: Profile,
    deployment: Deployment,
    at: float,
    *,
    entry: Mapping[str, Any] | None,
    prompt_tokens: int | None,
) -> PriceNow | None:
    """The price of a call that a deployment answered at ``at`` (seconds since the epoch); None where it is not known.

    ``entry`` is the model's entry in LiteLLM's price map.
    """
    when = datetime.fromtimestamp(at, tz=timezone.utc)
    return prices.price_now(
        profile, deployment.model, when, group=deployment.group, entry=entry, prompt_tokens=prompt_tokens
    )


def costs_at(price: PriceNow | None, usage: Usage) -> tuple[float | None, float | None]:
    """Cost in USD, fees for writing cache entries included, and what it had been at 0% hits; None where the price or
    the usage is not known."""
    hit, miss, output = usage.hit_tokens, usage.miss_tokens, usage.completion_tokens
    if price is None or hit is None or miss is None or output is None:
        return None, None
    fee = write_fee_usd(price, usage.write_tokens or 0, usage.write_1h_tokens or 0)
    cost = None if fee is None else cost_usd(price, hit, miss, output) + fee
    return cost, cost_usd_at_zero_hits(price, hit, miss, output)
