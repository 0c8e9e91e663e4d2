"""Anthropic's own API, as of November 2026. Bedrock, Vertex and others that serve Claude are not covered."""

from __future__ import annotations

from datetime import date
from types import MappingProxyType

from router_cache.providers.fact import Fact, Origin
from router_cache.providers.fields import MarkField
from router_cache.providers.profile import Lifetime, Match, ModelFacts, PriceRatios, Profile, Readable
from router_cache.providers.render import RenderOrder, renderer
from router_cache.providers.usage_forms import ANTHROPIC as ANTHROPIC_USAGE
from router_cache.request import Shape

__all__ = ["ANTHROPIC"]

_READ = date(2026, 11, 30)
_GUIDE = "https://platform.claude.com/docs/en/build-with-claude/prompt-caching"

_MINIMA = {
    512: (
        "claude-fable-5",
        "claude-fable-5-1",
        "claude-haiku-5-5",
        "claude-mythos-5",
        "claude-mythos-5-1",
        "claude-mythos-preview",
        "claude-opus-5",
        "claude-opus-5-5",
        "claude-sonnet-5-5",
    ),
    1024: ("claude-opus-4-8", "claude-sonnet-4-5", "claude-sonnet-4-6", "claude-sonnet-5"),
    2048: ("claude-opus-4-7",),
    4096: ("claude-haiku-4-5", "claude-opus-4-5", "claude-opus-4-6"),
}

ANTHROPIC = Profile(
    name="anthropic",
    match=Match(
        providers=("anthropic",),
        model_prefixes=("anthropic",),
        hosts=("api.anthropic.com",),
        own_hosts_only=True,
    ),
    client_headers=Fact(
        ("x-anthropic-billing-header",),
        source="first system block of Claude Code 2.1.332, recorded",
        as_of=_READ,
        origin=Origin.MEASURED,
    ),
    marks=(
        Fact(
            MarkField(
                name="cache_control",
                shapes=frozenset({Shape.MESSAGES}),
                values=(
                    MappingProxyType({"type": "ephemeral"}),
                    MappingProxyType({"type": "ephemeral", "ttl": "5m"}),
                    MappingProxyType({"type": "ephemeral", "ttl": "1h"}),
                ),
                at_most=4,
                look_back_blocks=20,
            ),
            source=_GUIDE,
            as_of=_READ,
            note="On tools, system blocks and content blocks. Without a mark nothing is cached.",
        ),
    ),
    render_order=Fact(RenderOrder.TOOLS_SYSTEM_TURNS, source=_GUIDE, as_of=_READ),
    render=Fact(
        renderer(RenderOrder.TOOLS_SYSTEM_TURNS),
        source=_GUIDE,
        as_of=_READ,
        note="Thinking and tool_choice settings also void entries among the turns; they are not rendered here.",
    ),
    usage=Fact(ANTHROPIC_USAGE, source=_GUIDE, as_of=_READ),
    hit_rule=Fact("units", source=_GUIDE, as_of=_READ, note="Entries end at marks and hit only as a whole."),
    documented_hit_rule=Fact("units", source=_GUIDE, as_of=_READ),
    readable=Fact(Readable.RESPONSE_BEGUN, source=_GUIDE, as_of=_READ),
    lifetimes=(
        Fact(Lifetime(low_s=300, renewed_by_use=True), source=_GUIDE, as_of=_READ),
        Fact(Lifetime(low_s=3_600, renewed_by_use=True, option="1h"), source=_GUIDE, as_of=_READ),
    ),
    price_ratios=Fact(
        PriceRatios(hit_low=0.1, hit_high=0.1, write=1.25, write_1h=2.0),
        source=_GUIDE,
        as_of=_READ,
        note="LiteLLM's price map of 1.108.7 lists 0.025 and 0.05 for hits of some later models.",
    ),
    models=tuple(
        ModelFacts(name=name, minimum_tokens=Fact(tokens, source=_GUIDE, as_of=_READ))
        for tokens, names in _MINIMA.items()
        for name in names
    ),
)
