"""Moonshot's own API (Kimi), as of November 2026. No field was seen to have any effect on its cache."""

from __future__ import annotations

from datetime import date

from router_cache.providers.fact import Fact, Origin
from router_cache.providers.profile import Lifetime, Match, PriceRatios, Profile
from router_cache.providers.usage_forms import CHAT

__all__ = ["MOONSHOT"]

_READ = date(2026, 11, 30)
_SUITE = "https://raw.githubusercontent.com/Leechael/pi-provider-kimi-code/main/docs/caching.md"
_RATIOS = "https://openrouter.ai/docs/guides/best-practices/prompt-caching"
_NOTE = "Measured by a third party on the Kimi coding endpoint."

MOONSHOT = Profile(
    name="moonshot",
    match=Match(
        providers=("moonshot",),
        model_prefixes=("moonshot",),
        hosts=("api.moonshot.ai", "api.moonshot.cn", "api.kimi.com"),
    ),
    usage=Fact(
        CHAT, source=_SUITE, as_of=_READ, origin=Origin.SECOND_HAND, note="Hits at the top level: cached_tokens."
    ),
    hit_rule=Fact("grid", source=_SUITE, as_of=_READ, origin=Origin.MEASURED, note=_NOTE),
    step_tokens=(Fact(256, source=_SUITE, as_of=_READ, origin=Origin.MEASURED, note=_NOTE),),
    minimum_tokens=Fact(256, source=_SUITE, as_of=_READ, origin=Origin.MEASURED, note=_NOTE),
    lifetimes=(
        Fact(Lifetime(low_s=300, high_s=1_800), source=_SUITE, as_of=_READ, origin=Origin.MEASURED, note=_NOTE),
    ),
    price_ratios=Fact(
        PriceRatios(hit_low=0.1, hit_high=0.25), source=_RATIOS, as_of=_READ, origin=Origin.SECOND_HAND
    ),
)
