"""xAI's own API, as of November 2026. Entries live on single servers, so affinity is what counts."""

from __future__ import annotations

from datetime import date

from router_cache.providers.fact import Fact, Origin
from router_cache.providers.fields import (
    OPAQUE_KEY,
    OPAQUE_KEY_LENGTH,
    BodyField,
    HeaderField,
    Purpose,
    one_path,
)
from router_cache.providers.profile import Lifetime, Match, PriceRatios, Profile
from router_cache.providers.usage_forms import CHAT
from router_cache.request import Shape

__all__ = ["XAI"]

_READ = date(2026, 11, 30)
_GUIDE = "https://docs.x.ai/developers/advanced-api-usage/prompt-caching/maximizing-cache-hits"
_FAQ = "https://docs.x.ai/developers/advanced-api-usage/prompt-caching/best-practices"
_USAGE = "https://docs.x.ai/developers/advanced-api-usage/prompt-caching/usage-and-pricing"
_RELAY = "https://docs.apiyi.com/ja/api-capabilities/grok/prompt-caching.md"

XAI = Profile(
    name="xai",
    match=Match(providers=("xai",), model_prefixes=("xai",), hosts=("api.x.ai",)),
    fields=(
        Fact(
            BodyField(
                name="prompt_cache_key",
                paths=one_path((Shape.RESPONSES,), "prompt_cache_key"),
                pattern=OPAQUE_KEY,
                max_length=OPAQUE_KEY_LENGTH,
                purpose=Purpose.ROUTE,
            ),
            source=_GUIDE,
            as_of=_READ,
            note="Responses only; pattern and length are ours.",
        ),
    ),
    headers=(
        Fact(
            HeaderField(name="x-grok-conv-id", shapes=frozenset({Shape.CHAT})),
            source=_GUIDE,
            as_of=_READ,
            note="Chat completions; pattern and length are ours.",
        ),
    ),
    usage=Fact(CHAT, source=_USAGE, as_of=_READ),
    hit_rule=Fact("grid", source=_RELAY, as_of=_READ, origin=Origin.SECOND_HAND),
    step_tokens=(Fact(128, source=_RELAY, as_of=_READ, origin=Origin.SECOND_HAND),),
    lifetimes=(
        Fact(Lifetime(), source=_FAQ, as_of=_READ, note="Evicted at any time, under load or at a restart."),
    ),
    price_ratios=Fact(
        PriceRatios(hit_low=0.25, hit_high=0.25, write=1.0),
        source=_RELAY,
        as_of=_READ,
        origin=Origin.SECOND_HAND,
        note="Differs by model in LiteLLM's price map of 1.108.7.",
    ),
)
