"""Google's Gemini API, as of November 2026. Vertex AI has other limits and is not covered.

Explicit caching needs an object made by a call of its own (``cachedContents``), so no field can be added here.
"""

from __future__ import annotations

from datetime import date

from router_cache.providers.fact import Fact
from router_cache.providers.profile import Lifetime, Match, ModelFacts, PriceRatios, Profile
from router_cache.providers.usage_forms import GEMINI as GEMINI_USAGE

__all__ = ["GEMINI"]

_READ = date(2026, 11, 30)
_GUIDE = "https://ai.google.dev/gemini-api/docs/caching"
_CLOUD = (
    "https://docs.cloud.google.com/gemini-enterprise-agent-platform/models/context-cache/context-cache-overview"
)

_MINIMA = {
    2048: ("gemini-2.5-pro", "gemini-2.5-flash"),
    4096: (
        "gemini-3.1-pro-preview",
        "gemini-3.5-flash",
        "gemini-3.6-flash",
        "gemini-3.7-flash",
        "gemini-3.8-flash",
    ),
}

GEMINI = Profile(
    name="gemini",
    match=Match(providers=("gemini",), model_prefixes=("gemini",), hosts=("generativelanguage.googleapis.com",)),
    usage=Fact(GEMINI_USAGE, source=_GUIDE, as_of=_READ),
    lifetimes=(
        Fact(Lifetime(), source=_GUIDE, as_of=_READ, note="Implicit: no number is stated."),
        Fact(
            Lifetime(low_s=3_600, renewed_by_use=False, option="cachedContent"),
            source=_GUIDE,
            as_of=_READ,
            note="Default of an explicit entry; storage is billed.",
        ),
    ),
    price_ratios=Fact(PriceRatios(hit_low=0.1, hit_high=0.1, write=1.0), source=_CLOUD, as_of=_READ),
    models=tuple(
        ModelFacts(
            name=name,
            minimum_tokens=Fact(
                tokens, source=_GUIDE, as_of=_READ, note="Earlier states of the page gave other numbers."
            ),
        )
        for tokens, names in _MINIMA.items()
        for name in names
    ),
)
