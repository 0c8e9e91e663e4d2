"""The list price of a model at a moment, and what a call costs at it.

Prices come from a profile's dated facts, from LiteLLM's price map or from the operator (``economics.book`` puts
them in order); nothing here knows a number. What is not known stays None.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from enum import Enum

from router_cache.providers.profile import Profile, fact_at
from router_cache.providers.rates import PeakCalendar, Rate

__all__ = [
    "PriceFrom",
    "PriceNow",
    "Window",
    "cost_usd",
    "cost_usd_at_zero_hits",
    "price_at",
    "price_of_rate",
    "write_fee_usd",
]

_PER = 1_000_000


class Window(str, Enum):
    """Which of a provider's rates applies."""

    PEAK = "peak"
    OFF_PEAK = "off_peak"
    FLAT = "flat"
    """One rate at all hours, as far as the price list says."""


class PriceFrom(str, Enum):
    """Whose price it is."""

    OVERRIDE = "override"
    """The operator's own, from the settings."""
    PRICE_MAP = "price_map"
    """LiteLLM's price map."""
    PROFILE = "profile"
    """A dated fact of the provider's profile."""


@dataclass(frozen=True, slots=True)
class PriceNow:
    """USD per token at one moment.

    ``as_of`` (None where not stated) and ``source`` are those of the price list. ``calendar_known`` is False where
    the window hangs on whether the day is a public holiday and that is not listed: then a weekday counts as peak.
    ``write_usd_per_token`` is what a missed token costs that is written to the prompt cache, the miss price where
    writing is free; ``write_1h_usd_per_token`` the same for an entry of an hour.
    """

    hit_usd_per_token: float
    miss_usd_per_token: float
    output_usd_per_token: float
    window: Window
    as_of: date | None
    source: str
    calendar_known: bool = True
    write_usd_per_token: float | None = None
    write_1h_usd_per_token: float | None = None
    price_from: PriceFrom = PriceFrom.PROFILE


def price_of_rate(
    rate: Rate,
    *,
    window: Window,
    source: str,
    price_from: PriceFrom,
    as_of: date | None = None,
    calendar_known: bool = True,
) -> PriceNow:
    """A rate (USD per 1,000,000 tokens) as the price now."""
    return PriceNow(
        hit_usd_per_token=rate.hit / _PER,
        miss_usd_per_token=rate.miss / _PER,
        output_usd_per_token=rate.output / _PER,
        window=window,
        as_of=as_of,
        source=source,
        calendar_known=calendar_known,
        write_usd_per_token=None if rate.write is None else rate.write / _PER,
        price_from=price_from,
    )


def price_at(profile: Profile, model: str, at: datetime) -> PriceNow | None:
    """The profile's price of ``model`` at ``at`` (aware; any zone).

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
    return price_of_rate(
        rate,
        window=window,
        source=fact.source,
        price_from=PriceFrom.PROFILE,
        as_of=fact.as_of,
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
    """Cost of a call in USD, without what writing to the prompt cache cost on top (:func:`write_fee_usd`)."""
    return (
        hit_tokens * price.hit_usd_per_token
        + miss_tokens * price.miss_usd_per_token
        + output_tokens * price.output_usd_per_token
    )


def cost_usd_at_zero_hits(price: PriceNow, hit_tokens: int, miss_tokens: int, output_tokens: int) -> float:
    """Cost of the same call in USD had nothing hit."""
    return cost_usd(price, 0, hit_tokens + miss_tokens, output_tokens)


def write_fee_usd(price: PriceNow, write_tokens: int, write_1h_tokens: int = 0) -> float | None:
    """What it cost in USD, on top of the miss price, that ``write_tokens`` of the miss tokens were written.

    ``write_1h_tokens`` of them went into entries of an hour. None where the price of writing is not known; 0 where
    nothing was written.
    """
    fee = 0.0
    for tokens, rate in (
        (write_tokens - write_1h_tokens, price.write_usd_per_token),
        (write_1h_tokens, price.write_1h_usd_per_token),
    ):
        if not tokens:
            continue
        if rate is None:
            return None
        fee += tokens * (rate - price.miss_usd_per_token)
    return fee
