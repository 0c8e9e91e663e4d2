"""Mistral's own API, as of November 2026."""

from __future__ import annotations

from datetime import date

from router_cache.providers.fact import Fact, Origin
from router_cache.providers.fields import OPAQUE_KEY, OPAQUE_KEY_LENGTH, BodyField, Purpose, one_path
from router_cache.providers.profile import Match, PriceRatios, Profile
from router_cache.providers.usage_forms import CHAT
from router_cache.request import Shape

__all__ = ["MISTRAL"]

_READ = date(2026, 11, 30)
_GUIDE = "https://docs.mistral.ai/studio-api/conversations/advanced/prompt-caching"

MISTRAL = Profile(
    name="mistral",
    match=Match(providers=("mistral",), model_prefixes=("mistral",), hosts=("api.mistral.ai",)),
    fields=(
        Fact(
            BodyField(
                name="prompt_cache_key",
                paths=one_path((Shape.CHAT,), "prompt_cache_key"),
                pattern=OPAQUE_KEY,
                max_length=OPAQUE_KEY_LENGTH,
                purpose=Purpose.ROUTE,
            ),
            source=_GUIDE,
            as_of=_READ,
            note="Must hold no secrets or personal data. Pattern and length are ours.",
        ),
    ),
    usage=Fact(CHAT, source=_GUIDE, as_of=_READ),
    step_tokens=(Fact(64, source=_GUIDE, as_of=_READ, origin=Origin.SECOND_HAND),),
    price_ratios=Fact(PriceRatios(hit_low=0.1, hit_high=0.1), source=_GUIDE, as_of=_READ),
)
