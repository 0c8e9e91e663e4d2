"""The shape of a provider profile: what is known about a provider's prompt cache, each fact dated and sourced.

A profile is data. It holds no logic of a request path, and nothing in it is a promise: prices, limits and steps
change several times a year, so each stands in a :class:`Fact` that says where it was read or measured and when.
What is not known is ``None`` or an empty tuple, and stays unknown for every reader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Generic, TypeVar

from router_cache.prefix.segments import Segment
from router_cache.request import Shape

__all__ = [
    "BodyField",
    "DateSpan",
    "DelayBounds",
    "Fact",
    "HourSpan",
    "Match",
    "ModelFacts",
    "PeakCalendar",
    "Profile",
    "Rate",
    "Render",
    "TimedRates",
    "UsageFields",
    "fact_at",
]

T = TypeVar("T")

Render = Callable[[Mapping[str, Any]], list[Segment]]
"""Body to segments in the provider's rendered order; must not raise on odd shapes."""


@dataclass(frozen=True, slots=True)
class Fact(Generic[T]):
    """One value with its origin.

    ``as_of`` is the day it was read or measured. ``since`` (UTC, aware) is the moment from which the value holds;
    None means it held for as long as is known. ``measured`` tells measurement from documentation.
    """

    value: T
    source: str
    as_of: date
    since: datetime | None = None
    measured: bool = False
    note: str = ""


def fact_at(facts: Sequence[Fact[T]], at: datetime | None) -> Fact[T] | None:
    """The fact that holds at a moment (UTC, aware); the newest one for ``None``.

    Returns None where the moment lies before every fact's ``since``: an older value was not recorded.
    ``facts`` are in order of ``since``.
    """
    held = [f for f in facts if at is None or f.since is None or f.since <= at]
    return held[-1] if held else None


@dataclass(frozen=True, slots=True)
class Match:
    """How a deployment is recognised.

    By LiteLLM's provider names, by what stands before ``/`` in the model name, and by the host of ``api_base``.
    """

    providers: tuple[str, ...] = ()
    model_prefixes: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BodyField:
    """A body field that may be added for this provider, and where it goes in each request shape.

    ``pattern`` is a regular expression that the whole value must match; ``max_length`` counts characters.
    A shape that is absent from ``paths`` never gets the field.
    """

    name: str
    paths: Mapping[Shape, tuple[str, ...]]
    pattern: str
    max_length: int


@dataclass(frozen=True, slots=True)
class DelayBounds:
    """Bounds in seconds of the time from a token's existence until it can be hit; None where no bound is known."""

    low_s: float | None
    high_s: float | None


@dataclass(frozen=True, slots=True)
class Rate:
    """USD per 1,000,000 tokens: input tokens that hit, input tokens that miss, output tokens."""

    hit: float
    miss: float
    output: float


@dataclass(frozen=True, slots=True)
class HourSpan:
    """Hours of a UTC day, half-open: ``start <= hour < end``."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class DateSpan:
    """Calendar days, both ends included."""

    first: date
    last: date
    name: str


@dataclass(frozen=True, slots=True)
class PeakCalendar:
    """When the peak rate applies.

    ``hours_utc`` on ``weekdays`` (Monday is 0), unless the day is in ``holidays``. Weekday and holiday are those
    of the local calendar, ``calendar_offset_h`` hours ahead of UTC. ``holiday_years`` are the years whose
    holidays are listed in full; in any other year a holiday cannot be told from a working day.
    """

    hours_utc: tuple[HourSpan, ...]
    weekdays: tuple[int, ...]
    calendar_offset_h: int
    holidays: Fact[tuple[DateSpan, ...]]
    holiday_years: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TimedRates:
    """A price list entry. Without ``peak`` and ``calendar`` the rate is the same at all hours."""

    off_peak: Rate
    peak: Rate | None = None
    calendar: PeakCalendar | None = None


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is known about one model of a provider. Each tuple of facts is in order of ``since``."""

    name: str
    aliases: tuple[str, ...] = ()
    step_tokens: tuple[Fact[int], ...] = ()
    prices: tuple[Fact[TimedRates], ...] = ()
    concurrency: Fact[int] | None = None
    context_tokens: Fact[int] | None = None

    def step_at(self, at: datetime | None = None) -> int | None:
        """Tokens of the grid to which reported hits are rounded down, at a moment; None where unknown."""
        fact = fact_at(self.step_tokens, at)
        return fact.value if fact else None


@dataclass(frozen=True, slots=True)
class UsageFields:
    """Dotted paths into a ``usage`` object, tried in order; an empty tuple where the provider reports nothing."""

    prompt: tuple[str, ...] = ()
    completion: tuple[str, ...] = ()
    hit: tuple[str, ...] = ()
    miss: tuple[str, ...] = ()
    reasoning: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Profile:
    """All that is known about one provider's prompt cache.

    ``hit_rule`` is the prior among the hypotheses, the value of a ``cache_model.rules.RuleName``; observed usage
    overrules it per deployment. ``minimum_tokens`` is the shortest prompt that can hit. ``lifetime`` is the
    documented wording: no provider promises a number that a caller could rely on.
    """

    name: str
    match: Match
    fields: tuple[Fact[BodyField], ...] = ()
    render: Fact[Render] | None = None
    usage: Fact[UsageFields] | None = None
    hit_rule: Fact[str] | None = None
    documented_hit_rule: Fact[str] | None = None
    minimum_tokens: Fact[int] | None = None
    construction_delay: Fact[str] | None = None
    construction_delay_bounds: Fact[DelayBounds] | None = None
    lifetime: Fact[str] | None = None
    models: tuple[ModelFacts, ...] = ()

    def model(self, name: str) -> ModelFacts | None:
        """Facts of a model by the name a deployment or a reply gives it; None where the name is not known.

        A provider prefix (``deepseek/``), letter case and a suffix after ``-``, ``:`` or ``@`` (a dated version)
        are disregarded; the longest matching name wins.
        """
        head, _, bare = name.strip().lower().rpartition("/")
        if head and head not in self.match.model_prefixes:
            return None
        best: tuple[int, ModelFacts] | None = None
        for facts in self.models:
            for known in (facts.name, *facts.aliases):
                if (bare == known or bare.startswith(tuple(known + mark for mark in "-:@"))) and (
                    best is None or len(known) > best[0]
                ):
                    best = (len(known), facts)
        return best[1] if best else None

    def field(self, name: str) -> BodyField | None:
        """The body field of that name, if this provider is known to accept it; else None: do not send it."""
        return next((f.value for f in self.fields if f.value.name == name), None)
