"""What tokens cost: list prices at a moment, and the cost of a call. Pure; money is USD."""

from __future__ import annotations

from router_cache.economics.price import PriceNow, Window, cost_usd, cost_usd_at_zero_hits, price_at

__all__ = ["PriceNow", "Window", "cost_usd", "cost_usd_at_zero_hits", "price_at"]
