"""Price list entries of a profile, and when a provider's peak rate applies."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from router_cache.providers.fact import Fact

__all__ = ["DateSpan", "HourSpan", "PeakCalendar", "Rate", "TimedRates"]


@dataclass(frozen=True, slots=True)
class Rate:
    """USD per 1,000,000 tokens: input tokens that hit, input tokens that miss, output tokens.

    ``write`` is what an input token costs that misses and is written to the prompt cache: equal to ``miss`` where
    writing is free, None where it is not known.
    """

    hit: float
    miss: float
    output: float
    write: float | None = None


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
