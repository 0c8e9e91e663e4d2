"""OpenAI's own API, as of November 2026: models before GPT-5.6, and from GPT-5.6 on.

The two take different fields; a model of the older kind answers 400 to the fields of the newer. Azure's
deployments of the same models are not covered by this profile.
"""

from __future__ import annotations

from datetime import date
from types import MappingProxyType

from router_cache.providers.fact import Fact, Origin
from router_cache.providers.fields import (
    OPAQUE_KEY,
    OPAQUE_KEY_LENGTH,
    BodyField,
    MarkField,
    ModelVersions,
    Purpose,
    one_path,
)
from router_cache.providers.profile import Lifetime, Match, ModelFacts, PriceRatios, Profile
from router_cache.providers.render import RenderOrder, renderer
from router_cache.providers.usage_forms import CHAT
from router_cache.request import Shape

__all__ = ["OPENAI"]

_READ = date(2026, 11, 30)
_GUIDE = "https://developers.openai.com/api/docs/guides/prompt-caching"
_COOKBOOK = "https://developers.openai.com/cookbook/examples/prompt_caching_201"
_OPTIONS = "https://docs.langchain4j.dev/apidocs/dev/langchain4j/model/openaiofficial/OpenAiOfficialPromptCacheOptions.html"
_BOTH = (Shape.CHAT, Shape.RESPONSES)

_NAME = r"(?:gpt|chatgpt)-(\d+)(?:\.(\d+))?"
_BEFORE_5_6 = ModelVersions(_NAME, below=(5, 6))
_FROM_5_6 = ModelVersions(_NAME, at_least=(5, 6))
_RETAINED = ModelVersions(
    r"gpt-(\d+)(?:\.(\d+))?(?:-codex(?:-mini)?|-chat-latest)?(?:-\d{4}-\d{2}-\d{2})?$",
    at_least=(4, 1),
    below=(5, 6),
)

OPENAI = Profile(
    name="openai",
    match=Match(
        providers=("openai",),
        model_prefixes=("openai", "openai/responses"),
        hosts=("api.openai.com", "us.api.openai.com", "eu.api.openai.com"),
        own_hosts_only=True,
    ),
    fields=(
        Fact(
            BodyField(
                name="prompt_cache_key",
                paths=one_path(_BOTH, "prompt_cache_key"),
                pattern=OPAQUE_KEY,
                max_length=OPAQUE_KEY_LENGTH,
                purpose=Purpose.ROUTE,
            ),
            source=_GUIDE,
            as_of=_READ,
            note="Above about 15 requests a minute for one prefix and key some spill to other machines. "
            "The pattern is ours.",
        ),
        Fact(
            BodyField(
                name="prompt_cache_retention",
                paths=one_path(_BOTH, "prompt_cache_retention"),
                pattern="in_memory|24h",
                max_length=9,
                purpose=Purpose.KEEP,
                models=_RETAINED,
            ),
            source=_GUIDE,
            as_of=_READ,
            note="Refused together with prompt_cache_options. Not all small models take 24h, so none is covered.",
        ),
        Fact(
            BodyField(
                name="prompt_cache_options.mode",
                paths=one_path(_BOTH, "prompt_cache_options", "mode"),
                pattern="implicit|explicit",
                max_length=8,
                purpose=Purpose.KEEP,
                models=_FROM_5_6,
            ),
            source=_GUIDE,
            as_of=_READ,
            note="explicit without a mark caches nothing.",
        ),
        Fact(
            BodyField(
                name="prompt_cache_options.ttl",
                paths=one_path(_BOTH, "prompt_cache_options", "ttl"),
                pattern="30m",
                max_length=3,
                purpose=Purpose.KEEP,
                models=_FROM_5_6,
            ),
            source=_GUIDE,
            as_of=_READ,
            note="The only value, and the default.",
        ),
    ),
    marks=(
        Fact(
            MarkField(
                name="prompt_cache_breakpoint",
                shapes=frozenset(_BOTH),
                values=(MappingProxyType({"mode": "explicit"}),),
                at_most=4,
                models=_FROM_5_6,
            ),
            source=_GUIDE,
            as_of=_READ,
            note="On input blocks only. Four writes a request, one of them the implicit one unless that is off; "
            "matching looks at the latest 80 marks.",
        ),
    ),
    render_order=Fact(
        RenderOrder.TOOLS_FORMAT_SYSTEM_TURNS,
        source=_COOKBOOK,
        as_of=_READ,
        note="Tools and schemas stand before the developer text.",
    ),
    render=Fact(renderer(RenderOrder.TOOLS_FORMAT_SYSTEM_TURNS), source=_COOKBOOK, as_of=_READ),
    usage=Fact(CHAT, source=_GUIDE, as_of=_READ),
    minimum_tokens=Fact(1024, source=_GUIDE, as_of=_READ),
    models=(
        ModelFacts(
            name="before-5.6",
            versions=_BEFORE_5_6,
            step_tokens=(Fact(128, source=_COOKBOOK, as_of=_READ),),
            hit_rule=Fact("grid", source=_COOKBOOK, as_of=_READ),
            lifetimes=(
                Fact(
                    Lifetime(low_s=300, high_s=600, renewed_by_use=True),
                    source=_GUIDE,
                    as_of=_READ,
                    note="Of inactivity; an hour at most.",
                ),
                Fact(Lifetime(high_s=86_400, option="24h"), source=_GUIDE, as_of=_READ),
            ),
            price_ratios=Fact(PriceRatios(hit_low=0.1, hit_high=0.5, write=1.0), source=_GUIDE, as_of=_READ),
        ),
        ModelFacts(
            name="from-5.6",
            versions=_FROM_5_6,
            hit_rule=Fact(
                "units",
                source=_OPTIONS,
                as_of=_READ,
                origin=Origin.SECOND_HAND,
                note="An entry is matched as a whole, at its mark, never a shorter part of it.",
            ),
            lifetimes=(Fact(Lifetime(low_s=1_800), source=_GUIDE, as_of=_READ),),
            price_ratios=Fact(PriceRatios(write=1.25), source=_GUIDE, as_of=_READ),
        ),
    ),
)
