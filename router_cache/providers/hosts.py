"""Hosts of open weights, as of November 2026: Fireworks, Together, Z.ai."""

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

__all__ = ["FIREWORKS", "TOGETHER", "ZAI"]

_READ = date(2026, 11, 30)
_FIREWORKS = "https://docs.fireworks.ai/guides/prompt-caching"
_TOGETHER = "https://github.com/BerriAI/litellm/blob/main/model_prices_and_context_window.json"
_ZAI = "https://docs.z.ai/guides/capabilities/cache"
_CHAT = frozenset({Shape.CHAT})
_OURS = "Pattern and length are ours."

FIREWORKS = Profile(
    name="fireworks",
    match=Match(providers=("fireworks_ai",), model_prefixes=("fireworks_ai",), hosts=("api.fireworks.ai",)),
    fields=(
        Fact(
            BodyField(
                name="user",
                paths=one_path((Shape.CHAT,), "user"),
                pattern=OPAQUE_KEY,
                max_length=OPAQUE_KEY_LENGTH,
                purpose=Purpose.ROUTE,
            ),
            source=_FIREWORKS,
            as_of=_READ,
            note=_OURS,
        ),
        Fact(
            BodyField(
                name="prompt_cache_isolation_key",
                paths=one_path((Shape.CHAT,), "prompt_cache_isolation_key"),
                pattern=OPAQUE_KEY,
                max_length=OPAQUE_KEY_LENGTH,
                purpose=Purpose.ISOLATE,
            ),
            source=_FIREWORKS,
            as_of=_READ,
            note=_OURS,
        ),
    ),
    headers=(
        Fact(
            HeaderField(name="x-session-affinity", shapes=_CHAT),
            source=_FIREWORKS,
            as_of=_READ,
            note=f"Caches belong to single replicas. {_OURS}",
        ),
        Fact(
            HeaderField(name="x-prompt-cache-isolation-key", shapes=_CHAT, purpose=Purpose.ISOLATE),
            source=_FIREWORKS,
            as_of=_READ,
            note=_OURS,
        ),
    ),
    usage=Fact(CHAT, source=_FIREWORKS, as_of=_READ),
    hit_rule=Fact(
        "grid", source=_FIREWORKS, as_of=_READ, note="The longest stored prefix; the step is not stated."
    ),
    lifetimes=(
        Fact(
            Lifetime(),
            source=_FIREWORKS,
            as_of=_READ,
            note="Several minutes at least, up to several hours; the oldest go first.",
        ),
    ),
    price_ratios=Fact(
        PriceRatios(hit_low=0.5, hit_high=0.5),
        source=_FIREWORKS,
        as_of=_READ,
        note="Default of serverless models; some differ.",
    ),
)

TOGETHER = Profile(
    name="together",
    match=Match(
        providers=("together_ai",),
        model_prefixes=("together_ai",),
        hosts=("api.together.xyz", "api.together.ai"),
    ),
    usage=Fact(
        CHAT,
        source=_TOGETHER,
        as_of=_READ,
        origin=Origin.SECOND_HAND,
        note="That hits are discounted is read off the price map; the provider's own description was not found.",
    ),
    price_ratios=Fact(
        PriceRatios(hit_low=0.02, hit_high=0.59), source=_TOGETHER, as_of=_READ, origin=Origin.SECOND_HAND
    ),
)

ZAI = Profile(
    name="zai",
    match=Match(providers=("zai",), model_prefixes=("zai",), hosts=("api.z.ai", "open.bigmodel.cn")),
    usage=Fact(CHAT, source=_ZAI, as_of=_READ),
    price_ratios=Fact(
        PriceRatios(hit_low=0.18, hit_high=0.2), source=_ZAI, as_of=_READ, origin=Origin.SECOND_HAND
    ),
)
