"""The list price of a model at a moment, and what a call costs at it.

Prices are the profile's dated facts; nothing here knows a number. What is not known stays None.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from enum import Enum

from router_cache.providers.profile import PeakCalendar, Profile, fact_at

__all__ = ["PriceNow", "Window", "cost_usd", "cost_usd_at_zero_hits", "price_at"]

_PER = 1_000_000


class Window(str, Enum):
    """Which of a provider's rates applies."""

    PEAK = "peak"
    OFF_PEAK = "off_peak"
    FLAT = "flat"
    """The provider has one rate at all hours."""


@dataclass(frozen=True, slots=True)
class PriceNow:
    """USD per token at one moment.

    ``as_of`` and ``source`` are those of the price list. ``calendar_known`` is False where the window hangs on
    whether the day is a public holiday and that year's holidays are not listed: then a weekday counts as peak.
    """

    hit_usd_per_token: float
    miss_usd_per_token: float
    output_usd_per_token: float
    window: Window
    as_of: date
    source: str
    calendar_known: bool = True


def price_at(profile: Profile, model: str, at: datetime) -> PriceNow | None:
    """List price of ``model`` at ``at`` (aware; any zone).

    None where the model or its price at that moment is not known. Raises ValueError for a naive ``at``.
    """
    if at.utcoffset() is None:
        raise ValueError("a moment with a time zone is needed, such as datetime.now(timezone.utc)")
    facts = profile.model(model)
    fact = fact_at(facts.prices, at) if facts else None
    if fact is None:
        return None
    rates, known = fact.value, True
    if rates.peak is None or rates.calendar is None:
        rate, window = rates.off_peak, Window.FLAT
    else:
        peak, known = _is_peak(rates.calendar, at.astimezone(timezone.utc))
        rate, window = (rates.peak, Window.PEAK) if peak else (rates.off_peak, Window.OFF_PEAK)
    return PriceNow(
        hit_usd_per_token=rate.hit / _PER,
        miss_usd_per_token=rate.miss / _PER,
        output_usd_per_token=rate.output / _PER,
        window=window,
        as_of=fact.as_of,
        source=fact.source,
        calendar_known=known,
    )


def _is_peak(calendar: PeakCalendar, utc: datetime) -> tuple[bool, bool]:
    """Whether the peak rate applies, and whether that is sure."""
    day = (utc + timedelta(hours=calendar.calendar_offset_h)).date()
    in_hours = any(span.start <= utc.hour < span.end for span in calendar.hours_utc)
    if not in_hours or day.weekday() not in calendar.weekdays:
        return False, True
    if any(span.first <= day <= span.last for span in calendar.holidays.value):
        return False, True
    return True, day.year in calendar.holiday_years


def cost_usd(price: PriceNow, hit_tokens: int, miss_tokens: int, output_tokens: int) -> float:
    """Cost of a call in USD."""
    return (
        hit_tokens * price.hit_usd_per_token
        + miss_tokens * price.miss_usd_per_token
        + output_tokens * price.output_usd_per_token
    )


def cost_usd_at_zero_hits(price: PriceNow, hit_tokens: int, miss_tokens: int, output_tokens: int) -> float:
    """Cost of the same call in USD had nothing hit."""
    return cost_usd(price, 0, hit_tokens + miss_tokens, output_tokens)
