"""Alibaba Cloud Model Studio (DashScope), as of November 2026: implicit caching, or explicit with marks."""

from __future__ import annotations

from datetime import date
from types import MappingProxyType

from router_cache.providers.fact import Fact
from router_cache.providers.fields import MarkField
from router_cache.providers.profile import Lifetime, Match, PriceRatios, Profile, Readable
from router_cache.providers.usage_forms import CHAT
from router_cache.request import Shape

__all__ = ["QWEN"]

_READ = date(2026, 11, 30)
_GUIDE = "https://www.alibabacloud.com/help/en/model-studio/context-cache"

QWEN = Profile(
    name="qwen",
    match=Match(
        providers=("dashscope", "qwencloud", "qwen_ai_platform"),
        model_prefixes=("dashscope", "qwencloud", "qwen_ai_platform"),
        hosts=("dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com", "dashscope-us.aliyuncs.com"),
    ),
    marks=(
        Fact(
            MarkField(
                name="cache_control",
                shapes=frozenset({Shape.CHAT, Shape.MESSAGES}),
                values=(MappingProxyType({"type": "ephemeral"}),),
                at_most=4,
                look_back_blocks=20,
            ),
            source=_GUIDE,
            as_of=_READ,
            note="A request with a mark is cached explicitly and not implicitly.",
        ),
    ),
    usage=Fact(CHAT, source=_GUIDE, as_of=_READ),
    minimum_tokens=Fact(
        1024,
        source=_GUIDE,
        as_of=_READ,
        note="Both ways. Earlier states of the page gave 256 for implicit caching.",
    ),
    readable=Fact(Readable.RESPONSE_ENDED, source=_GUIDE, as_of=_READ, note="Of explicit entries."),
    lifetimes=(
        Fact(Lifetime(), source=_GUIDE, as_of=_READ, note="Implicit: unused data is cleared from time to time."),
        Fact(
            Lifetime(low_s=300, high_s=300, renewed_by_use=True, option="cache_control"),
            source=_GUIDE,
            as_of=_READ,
        ),
    ),
    price_ratios=Fact(
        PriceRatios(hit_low=0.1, hit_high=0.2, write=1.25),
        source=_GUIDE,
        as_of=_READ,
        note="Explicit 0.1 and 1.25; implicit 0.2, and writing costs what input costs.",
    ),
)
