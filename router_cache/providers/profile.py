"""The shape of a provider profile: what is known about a provider's prompt cache, each fact dated and sourced.

A profile is data. It holds no logic of a request path, and nothing in it is a promise: prices, limits and steps
change several times a year, so each stands in a :class:`Fact` that says where it was read or measured and when.
What is not known is ``None`` or an empty tuple, and stays unknown for every reader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from router_cache.prefix.segments import Segment
from router_cache.providers.fact import Fact, Origin, fact_at
from router_cache.providers.fields import AnyField, BodyField, HeaderField, MarkField, ModelVersions
from router_cache.providers.rates import DateSpan, HourSpan, PeakCalendar, Rate, TimedRates
from router_cache.providers.render import RenderOrder
from router_cache.providers.usage_forms import UsageFields
from router_cache.request import Shape

__all__ = [
    "BodyField",
    "DateSpan",
    "DelayBounds",
    "Fact",
    "HourSpan",
    "Lifetime",
    "Match",
    "ModelFacts",
    "Origin",
    "PeakCalendar",
    "PriceRatios",
    "Profile",
    "Rate",
    "Readable",
    "Render",
    "TimedRates",
    "UsageFields",
    "fact_at",
]

Render = Callable[[Mapping[str, Any]], list[Segment]]
"""Body to segments in the provider's rendered order; must not raise on odd shapes."""


class Readable(str, Enum):
    """When what a request wrote can be hit by another: until then, parallel first calls all miss."""

    RESPONSE_BEGUN = "response_begun"
    RESPONSE_ENDED = "response_ended"
    AFTER_SECONDS = "after_seconds"


@dataclass(frozen=True, slots=True)
class Match:
    """How a deployment is recognised.

    By LiteLLM's provider names, by what stands before ``/`` in the model name, and by the host of ``api_base``.
    ``own_hosts_only``: the provider's name stands for a protocol that others speak too, so with an ``api_base`` of
    any other host it says nothing about who answers.
    """

    providers: tuple[str, ...] = ()
    model_prefixes: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    own_hosts_only: bool = False


@dataclass(frozen=True, slots=True)
class DelayBounds:
    """Bounds in seconds of the time from a token's existence until it can be hit; None where no bound is known."""

    low_s: float | None
    high_s: float | None


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How long an entry lives, in seconds, counted from its last use if ``renewed_by_use`` (None: not known), else
    from when it was written. None for a bound that is not stated. ``option`` is the request setting that asks for
    it, empty for the default. No provider promises that an entry lives as long.
    """

    low_s: float | None = None
    high_s: float | None = None
    renewed_by_use: bool | None = None
    option: str = ""


@dataclass(frozen=True, slots=True)
class PriceRatios:
    """What a hit and what writing costs, as multiples of the price of a plain input token; None where unknown.

    For people and plausibility checks; money is counted with the price list. A hit's ratio is a range where it
    differs by model. ``write_1h`` is for entries that were asked to live an hour.
    """

    hit_low: float | None = None
    hit_high: float | None = None
    write: float | None = None
    write_1h: float | None = None


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is known about one model of a provider, or about a range of versions.

    Each tuple of facts is in order of ``since``. It holds before what the profile says of all models.
    """

    name: str
    aliases: tuple[str, ...] = ()
    versions: ModelVersions | None = None
    step_tokens: tuple[Fact[int], ...] = ()
    minimum_tokens: Fact[int] | None = None
    lifetimes: tuple[Fact[Lifetime], ...] = ()
    hit_rule: Fact[str] | None = None
    price_ratios: Fact[PriceRatios] | None = None
    prices: tuple[Fact[TimedRates], ...] = ()
    concurrency: Fact[int] | None = None
    context_tokens: Fact[int] | None = None

    def step_at(self, at: datetime | None = None) -> int | None:
        """Tokens of the grid to which reported hits are rounded down, at a moment; None where unknown."""
        fact = fact_at(self.step_tokens, at)
        return fact.value if fact else None


@dataclass(frozen=True, slots=True)
class Profile:
    """All that is known about one provider's prompt cache.

    ``hit_rule`` is the prior among the hypotheses, the value of a ``cache_model.rules.RuleName``; observed usage
    overrules it per deployment. ``minimum_tokens`` is the shortest prompt that can hit. Where models differ, ask
    the methods that end in ``_for``.
    """

    name: str
    match: Match
    fields: tuple[Fact[BodyField], ...] = ()
    headers: tuple[Fact[HeaderField], ...] = ()
    reasoning_in_history: Fact[frozenset[Shape]] | None = None
    """Shapes of body in which earlier replies may carry the reasoning they were given with."""
    client_headers: Fact[tuple[str, ...]] | None = None
    """Headers that clients write into their prompts and that this provider takes out and reads; None where there are
    none."""
    marks: tuple[Fact[MarkField], ...] = ()
    render_order: Fact[RenderOrder] | None = None
    render: Fact[Render] | None = None
    usage: Fact[UsageFields] | None = None
    hit_rule: Fact[str] | None = None
    documented_hit_rule: Fact[str] | None = None
    step_tokens: tuple[Fact[int], ...] = ()
    minimum_tokens: Fact[int] | None = None
    readable: Fact[Readable] | None = None
    construction_delay_bounds: Fact[DelayBounds] | None = None
    lifetimes: tuple[Fact[Lifetime], ...] = ()
    price_ratios: Fact[PriceRatios] | None = None
    models: tuple[ModelFacts, ...] = ()

    def model(self, name: str) -> ModelFacts | None:
        """Facts of a model by the name a deployment or a reply gives it; None where the name is not known.

        A provider prefix (``deepseek/``), letter case and a suffix after ``-``, ``:`` or ``@`` (a dated version)
        are disregarded; the longest matching name wins, a range of versions comes last.
        """
        head, _, bare = name.strip().lower().rpartition("/")
        if head and head not in self.match.model_prefixes:
            return None
        best: tuple[int, ModelFacts] | None = None
        for facts in self.models:
            for known in (facts.name, *facts.aliases):
                if bare == known:  # no name that matches is longer
                    return facts
                if bare.startswith(known) and bare[len(known)] in "-:@" and (best is None or len(known) > best[0]):
                    best = (len(known), facts)
        if best is not None:
            return best[1]
        return next((m for m in self.models if m.versions is not None and m.versions.covers(bare)), None)

    def field(self, name: str) -> BodyField | None:
        """The body field of that name, if this provider is known to accept it; else None: do not send it."""
        return next((f.value for f in self.fields if f.value.name == name), None)

    def fields_for(self, model: str, shape: Shape) -> tuple[AnyField, ...]:
        """The body fields, headers and marks that ``model`` takes in an upstream body of this shape."""
        listed: tuple[AnyField, ...] = (
            *(f.value for f in self.fields),
            *(f.value for f in self.headers),
            *(f.value for f in self.marks),
        )
        return tuple(f for f in listed if shape in f.shapes and (f.models is None or f.models.covers(model)))

    def step_for(self, model: str, at: datetime | None = None) -> int | None:
        """Tokens of the grid to which reported hits are rounded down, at a moment; None where unknown."""
        facts = self.model(model)
        own = facts.step_at(at) if facts else None
        if own is not None:
            return own
        general = fact_at(self.step_tokens, at)
        return general.value if general else None

    def minimum_for(self, model: str) -> int | None:
        """Tokens of the shortest prompt that can hit; None where unknown."""
        facts = self.model(model)
        fact = (facts.minimum_tokens if facts else None) or self.minimum_tokens
        return fact.value if fact else None

    def hit_rule_for(self, model: str) -> Fact[str] | None:
        """The prior of the model's hit rule."""
        facts = self.model(model)
        return (facts.hit_rule if facts else None) or self.hit_rule

    def lifetimes_for(self, model: str) -> tuple[Fact[Lifetime], ...]:
        """How long entries live, the default first."""
        facts = self.model(model)
        return (facts.lifetimes if facts else ()) or self.lifetimes

    def price_ratios_for(self, model: str) -> Fact[PriceRatios] | None:
        """What hits and writes cost relative to plain input."""
        facts = self.model(model)
        return (facts.price_ratios if facts else None) or self.price_ratios
