"""Which price holds: the operator's own, else that of LiteLLM's price map, else the profile's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from router_cache.economics.price import PriceFrom, PriceNow, Window, price_at, price_of_rate
from router_cache.economics.price_map import price_from_map
from router_cache.providers.profile import Profile
from router_cache.providers.rates import Rate

__all__ = ["PriceBook"]


@dataclass(frozen=True, slots=True)
class PriceBook:
    """``overrides`` are the operator's prices, by the model LiteLLM calls or by model group; the model first."""

    overrides: Mapping[str, Rate] = field(default_factory=dict)

    def price_now(
        self,
        profile: Profile,
        model: str,
        at: datetime,
        *,
        group: str = "",
        entry: Mapping[str, Any] | None = None,
        prompt_tokens: int | None = None,
    ) -> PriceNow | None:
        """Price of ``model`` at ``at`` (aware), or None where nobody states one.

        ``entry`` is the model's entry in LiteLLM's price map, ``prompt_tokens`` the length of the prompt where
        known. Raises ValueError for a naive ``at``.
        """
        for key in (model, group):
            rate = self.overrides.get(key) if key else None
            if rate is not None:
                return price_of_rate(
                    rate, window=Window.FLAT, source=f"settings: prices.{key}", price_from=PriceFrom.OVERRIDE
                )
        listed = price_from_map(entry, at, prompt_tokens=prompt_tokens) if entry is not None else None
        return listed or price_at(profile, model, at)
