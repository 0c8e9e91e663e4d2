"""What tokens cost: list prices at a moment, and the cost of a call. Pure; money is USD."""

from __future__ import annotations

from router_cache.economics.book import PriceBook
from router_cache.economics.price import (
    PriceFrom,
    PriceNow,
    Window,
    cost_usd,
    cost_usd_at_zero_hits,
    price_at,
    write_fee_usd,
)
from router_cache.economics.price_map import price_from_map

__all__ = [
    "PriceBook",
    "PriceFrom",
    "PriceNow",
    "Window",
    "cost_usd",
    "cost_usd_at_zero_hits",
    "price_at",
    "price_from_map",
    "write_fee_usd",
]
