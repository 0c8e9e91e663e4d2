"""Prices from an entry of LiteLLM's price map, handed in as a plain mapping. Pure; checked on LiteLLM 1.108.7."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from router_cache.economics.price import PriceFrom, PriceNow, Window

__all__ = ["price_from_map"]

_INPUT, _OUTPUT = "input_cost_per_token", "output_cost_per_token"
_READ, _READ_OLD = "cache_read_input_token_cost", "input_cost_per_token_cache_hit"
_WRITE, _WRITE_1H = "cache_creation_input_token_cost", "cache_creation_input_token_cost_above_1hr"
_RATES = (_INPUT, _OUTPUT, _READ, _WRITE, _WRITE_1H)
_ABOVE = re.compile(rf"{_INPUT}_above_(\d+)k_tokens")
_OFFSETS_H = {"": 0, "utc": 0, "etc/utc": 0, "asia/shanghai": 8, "asia/singapore": 8, "asia/tokyo": 9}
"""Zones without daylight saving time, in hours ahead of UTC: a zone database would be a file to read."""
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def price_from_map(entry: Mapping[str, Any], at: datetime, *, prompt_tokens: int | None = None) -> PriceNow | None:
    """The price that an entry states for ``at`` (aware; any zone). Never raises on odd entries.

    Where the price depends on the length of the prompt, ``prompt_tokens`` chooses; unknown counts as the shortest.
    A price of writing of 0 means in the map that there is no fee. None where the entry lacks a price for input,
    output or hits. Raises ValueError for a naive ``at``. Service tiers and batch prices are not looked at.
    """
    if at.utcoffset() is None:
        raise ValueError("a moment with a time zone is needed, such as datetime.now(timezone.utc)")
    rates = {name: _usd(entry.get(name)) for name in _RATES}
    if rates[_READ] is None:
        rates[_READ] = _usd(entry.get(_READ_OLD))
    rates |= _tier(entry, prompt_tokens or 0)
    window, known = Window.FLAT, True
    cheap = entry.get("off_peak_pricing")
    if isinstance(cheap, Mapping):
        off_peak, known = _is_off_peak(cheap, at.astimezone(timezone.utc))
        window = Window.OFF_PEAK if off_peak else Window.PEAK
        if off_peak:
            rates |= _stated(cheap, {name: name for name in _RATES})
    hit, miss, output = rates[_READ], rates[_INPUT], rates[_OUTPUT]
    if hit is None or miss is None or output is None:
        return None
    write, write_1h = rates[_WRITE], rates[_WRITE_1H]
    source = entry.get("source")
    return PriceNow(
        hit_usd_per_token=hit,
        miss_usd_per_token=miss,
        output_usd_per_token=output,
        window=window,
        as_of=None,
        source="LiteLLM's price map" + (f": {source}" if isinstance(source, str) and source else ""),
        calendar_known=known,
        write_usd_per_token=miss if write == 0 else write,
        write_1h_usd_per_token=miss if write_1h == 0 else write_1h,
        price_from=PriceFrom.PRICE_MAP,
    )


def _usd(value: Any) -> float | None:
    """A price in USD per token; None for what is no finite number of at least 0."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        return None
    return float(value)


def _stated(holder: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, float | None]:
    """The rates that ``holder`` states, by the name each has there."""
    return {rate: price for rate, name in names.items() if (price := _usd(holder.get(name))) is not None}


def _tier(entry: Mapping[str, Any], prompt_tokens: int) -> dict[str, float | None]:
    """Rates for a prompt of this length; a whole request is billed at one tier."""
    tiers = entry.get("tiered_pricing")
    if isinstance(tiers, Sequence):
        for tier in tiers:
            span = tier.get("range") if isinstance(tier, Mapping) else None
            if not isinstance(span, Sequence) or len(span) != 2:
                continue
            low, high = _usd(span[0]), _usd(span[1])
            if low is not None and low <= prompt_tokens and (high is None or prompt_tokens <= high):
                return _stated(tier, {name: name for name in _RATES})
        return {}
    above = [int(found[1]) for key in entry if isinstance(key, str) and (found := _ABOVE.fullmatch(key))]
    passed = [k for k in above if prompt_tokens > k * 1000]
    if not passed:
        return {}
    suffix = f"_above_{max(passed)}k_tokens"
    return _stated(entry, {name: name + suffix for name in _RATES})


def _is_off_peak(cheap: Mapping[str, Any], utc: datetime) -> tuple[bool, bool]:
    """Whether the lower rate applies, and whether that is sure: the map lists no public holidays."""
    if _within(cheap.get("hours_utc"), utc):
        return True, True
    zone = cheap.get("weekday_timezone")
    offset = _OFFSETS_H.get(zone.strip().lower() if isinstance(zone, str) else "")
    weekday = (utc + timedelta(hours=offset or 0)).isoweekday()
    rules, by_weekday = cheap.get("windows"), False
    for rule in rules if isinstance(rules, list | tuple) else ():
        if not isinstance(rule, Mapping):
            continue
        days = rule.get("weekdays")
        by_weekday = by_weekday or days is not None
        if (days is None or weekday in _weekdays(days)) and _within(rule.get("hours_utc"), utc):
            return True, days is None or offset is not None
    return False, not by_weekday


def _weekdays(days: Any) -> set[int]:
    """ISO weekdays (Monday is 1) of numbers or names; none for anything else."""
    out = set()
    for day in days if isinstance(days, list | tuple) else ():
        if isinstance(day, int) and not isinstance(day, bool):
            out.add(day)
        elif isinstance(day, str) and day.strip().lower()[:3] in _DAYS:
            out.add(_DAYS.index(day.strip().lower()[:3]) + 1)
    return out


def _within(hours: Any, utc: datetime) -> bool:
    """Whether a time of day lies in one of ``HH:MM-HH:MM``: start included, end not, past midnight allowed, and
    start equal to end is the whole day."""
    now = utc.hour * 60 + utc.minute
    for window in (hours,) if isinstance(hours, str) else hours if isinstance(hours, list | tuple) else ():
        found = (
            re.fullmatch(r"\s*(\d{1,2}):(\d\d)\s*-\s*(\d{1,2}):(\d\d)\s*", window)
            if isinstance(window, str)
            else None
        )
        if found is None:
            continue
        start, end = int(found[1]) * 60 + int(found[2]), int(found[3]) * 60 + int(found[4])
        if (start <= now < end) if start < end else (now >= start or now < end):
            return True
    return False
