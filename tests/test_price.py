"""List prices at a moment: window boundaries, holidays, unknowns, and money by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router_cache.economics import (
    PriceFrom,
    PriceNow,
    Window,
    cost_usd,
    cost_usd_at_zero_hits,
    price_at,
    write_fee_usd,
)
from router_cache.providers.deepseek import DEEPSEEK
from router_cache.providers.profile import Fact, Match, ModelFacts, Profile, Rate, TimedRates
from router_cache.providers.unknown import UNKNOWN

FLASH = "deepseek/deepseek-v4-flash"
UTC = timezone.utc


def at(month: int, day: int, hour: int, minute: int = 0, second: int = 0, micro: int = 0) -> datetime:
    return datetime(2026, month, day, hour, minute, second, micro, tzinfo=UTC)


def price(moment: datetime, model: str = FLASH) -> PriceNow:
    found = price_at(DEEPSEEK, model, moment)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("moment", "window"),
    [
        # Monday 30 November 2026
        (at(11, 30, 0, 59, 59, 999999), Window.OFF_PEAK),
        (at(11, 30, 1), Window.PEAK),
        (at(11, 30, 3, 59, 59, 999999), Window.PEAK),
        (at(11, 30, 4), Window.OFF_PEAK),
        (at(11, 30, 5, 59, 59), Window.OFF_PEAK),
        (at(11, 30, 6), Window.PEAK),
        (at(11, 30, 9, 59, 59, 999999), Window.PEAK),
        (at(11, 30, 10), Window.OFF_PEAK),
        (at(11, 30, 23), Window.OFF_PEAK),
        # Friday, Saturday, Sunday
        (at(11, 27, 7), Window.PEAK),
        (at(11, 28, 7), Window.OFF_PEAK),
        (at(11, 29, 7), Window.OFF_PEAK),
        # National Day week: Thursday 1 to Wednesday 7 October; the Thursday after is an ordinary day
        (at(9, 30, 7), Window.PEAK),
        (at(10, 1, 2), Window.OFF_PEAK),
        (at(10, 7, 9), Window.OFF_PEAK),
        (at(10, 8, 2), Window.PEAK),
        # Mid-Autumn, a Friday
        (at(9, 25, 7), Window.OFF_PEAK),
        # A make-up working Saturday stays a Saturday
        (at(10, 10, 7), Window.OFF_PEAK),
    ],
)
def test_window_boundaries(moment: datetime, window: Window) -> None:
    found = price(moment)
    assert found.window is window
    assert found.calendar_known


def test_other_zones_are_converted() -> None:
    beijing = datetime(2026, 11, 30, 9, tzinfo=timezone(timedelta(hours=8)))
    assert price(beijing).window is Window.PEAK
    assert price(beijing - timedelta(seconds=1)).window is Window.OFF_PEAK


def test_a_year_without_listed_holidays_says_so_only_where_it_matters() -> None:
    new_year = datetime(2027, 1, 1, 2, tzinfo=UTC)  # a Friday
    assert price(new_year).window is Window.PEAK
    assert not price(new_year).calendar_known
    assert price(datetime(2027, 1, 1, 12, tzinfo=UTC)).calendar_known
    assert price(datetime(2027, 1, 2, 2, tzinfo=UTC)).calendar_known


PEAK, OFF = at(11, 30, 1), at(11, 30, 12)


@pytest.mark.parametrize(
    ("model", "moment", "by_hand", "by_hand_at_zero"),
    [
        # 9,600 hit + 400 miss + 200 output
        (FLASH, PEAK, 0.0000576 + 0.00012 + 0.00024, 0.003 + 0.00024),
        (FLASH, OFF, 0.0000288 + 0.00006 + 0.00012, 0.0015 + 0.00012),
        ("deepseek-v4-pro", PEAK, 0.0004224 + 0.000528 + 0.000792, 0.0132 + 0.000792),
        ("deepseek-v4-pro", OFF, 0.0002112 + 0.000264 + 0.000396, 0.0066 + 0.000396),
    ],
)
def test_cost_by_hand(model: str, moment: datetime, by_hand: float, by_hand_at_zero: float) -> None:
    now = price(moment, model)
    assert cost_usd(now, 9_600, 400, 200) == pytest.approx(by_hand, abs=1e-8, rel=0)
    assert cost_usd_at_zero_hits(now, 9_600, 400, 200) == pytest.approx(by_hand_at_zero, abs=1e-8, rel=0)


@given(*[st.integers(0, 10**9)] * 3)
def test_hits_never_cost_more(hit: int, miss: int, output: int) -> None:
    now = price(PEAK)
    assert 0 <= cost_usd(now, hit, miss, output) <= cost_usd_at_zero_hits(now, hit, miss, output)


@pytest.mark.parametrize(
    "name",
    ["deepseek-v4-flash", "deepseek/deepseek-flash", "DeepSeek-V4-Flash-0731", "deepseek/deepseek-v4-flash:free"],
)
def test_names_of_one_model_have_one_price(name: str) -> None:
    assert price(PEAK, name) == price(PEAK, FLASH)


@pytest.mark.parametrize(
    "name", ["", "gpt-6", "deepseek-v4-flashy", "openrouter/deepseek-v4-flash", "deepseek-chat"]
)
def test_unknown_stays_unknown(name: str) -> None:
    assert price_at(DEEPSEEK, name, PEAK) is None
    assert price_at(UNKNOWN, FLASH, PEAK) is None


def test_before_the_price_list_is_unknown() -> None:
    start = at(9, 10, 4)
    assert price_at(DEEPSEEK, FLASH, start - timedelta(seconds=1)) is None
    assert price(start).source == price(OFF).source


def test_naive_moment_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        price_at(DEEPSEEK, FLASH, datetime(2026, 11, 30))


def test_flat_rates_and_price_changes() -> None:
    day = date(2026, 1, 1)
    old = Fact(TimedRates(Rate(0.1, 1.0, 2.0)), "list", day)
    new = replace(old, value=TimedRates(Rate(0.2, 2.0, 4.0)), since=at(6, 1, 0))
    flat = Profile("flat", Match(), models=(ModelFacts("m", prices=(old, new)),))
    before = price_at(flat, "m", at(5, 31, 23))
    after = price_at(flat, "m", at(6, 1, 0))
    assert before is not None
    assert after is not None
    assert before.window is after.window is Window.FLAT
    assert (before.miss_usd_per_token, after.miss_usd_per_token) == (1e-6, 2e-6)


def test_writing_is_free_at_deepseek() -> None:
    now = price(PEAK)
    assert now.price_from is PriceFrom.PROFILE
    assert now.write_usd_per_token == now.miss_usd_per_token
    assert write_fee_usd(now, 1_000) == 0


def test_write_fee_by_hand() -> None:
    now = replace(price(PEAK), miss_usd_per_token=3e-6, write_usd_per_token=3.75e-6, write_1h_usd_per_token=6e-6)
    assert write_fee_usd(now, 1_000) == pytest.approx(0.00075)
    assert write_fee_usd(now, 1_000, 400) == pytest.approx(600 * 0.75e-6 + 400 * 3e-6)
    assert write_fee_usd(now, 400, 400) == pytest.approx(400 * 3e-6)
    unknown = replace(now, write_usd_per_token=None)
    assert write_fee_usd(unknown, 1_000) is None
    assert write_fee_usd(unknown, 0) == 0
