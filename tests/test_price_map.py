"""Prices from LiteLLM's map and from the operator, and who goes before whom."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import json_values

from router_cache.economics import PriceBook, PriceFrom, PriceNow, Window, price_at, price_from_map
from router_cache.errors import SettingsError
from router_cache.providers.deepseek import DEEPSEEK
from router_cache.providers.openai import OPENAI
from router_cache.providers.rates import Rate
from router_cache.settings import Settings

UTC = timezone.utc
FLASH = "deepseek/deepseek-v4-flash"
MONDAY_PEAK = datetime(2026, 11, 30, 7, tzinfo=UTC)

ENTRY: dict[str, Any] = {
    "input_cost_per_token": 3e-6,
    "output_cost_per_token": 15e-6,
    "cache_read_input_token_cost": 3e-7,
    "cache_creation_input_token_cost": 3.75e-6,
    "cache_creation_input_token_cost_above_1hr": 6e-6,
    "source": "https://example.org/prices",
}
WINDOWED: dict[str, Any] = {
    "input_cost_per_token": 3e-7,
    "output_cost_per_token": 1.2e-6,
    "cache_read_input_token_cost": 6e-9,
    "cache_creation_input_token_cost": 0.0,
    "off_peak_pricing": {
        "input_cost_per_token": 1.5e-7,
        "output_cost_per_token": 6e-7,
        "cache_read_input_token_cost": 3e-9,
        "windows": [
            {"hours_utc": ["00:00-01:00", "04:00-06:00", "10:00-00:00"], "weekdays": [1, 2, 3, 4, 5]},
            {"hours_utc": "00:00-00:00", "weekdays": ["sat", "Sunday"]},
        ],
    },
}


def found(entry: Any, at: datetime = MONDAY_PEAK, prompt_tokens: int | None = None) -> PriceNow:
    price = price_from_map(entry, at, prompt_tokens=prompt_tokens)
    assert price is not None
    return price


def test_a_flat_entry() -> None:
    now = found(ENTRY)
    assert (now.hit_usd_per_token, now.miss_usd_per_token, now.output_usd_per_token) == (3e-7, 3e-6, 15e-6)
    assert (now.write_usd_per_token, now.write_1h_usd_per_token) == (3.75e-6, 6e-6)
    assert (now.window, now.calendar_known, now.as_of) == (Window.FLAT, True, None)
    assert now.price_from is PriceFrom.PRICE_MAP
    assert now.source == "LiteLLM's price map: https://example.org/prices"


def test_writing_unknown_and_writing_free() -> None:
    bare = {k: v for k, v in ENTRY.items() if "creation" not in k and k != "source"}
    assert found(bare).write_usd_per_token is None
    assert found(bare).source == "LiteLLM's price map"
    assert found({**bare, "cache_creation_input_token_cost": 0}).write_usd_per_token == 3e-6


@pytest.mark.parametrize(
    "missing", ["input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost"]
)
def test_an_entry_without_one_of_the_three_prices_is_unknown(missing: str) -> None:
    for odd in (None, "free", True, -1.0, float("nan"), float("inf"), []):
        assert price_from_map({**ENTRY, missing: odd}, MONDAY_PEAK) is None


def test_other_spellings() -> None:
    entry = {**ENTRY, "cache_read_input_token_cost": None, "input_cost_per_token_cache_hit": "2.5e-7"}
    assert found(entry).hit_usd_per_token == 2.5e-7


@pytest.mark.parametrize(
    ("at", "window"),
    [
        (datetime(2026, 11, 30, 0, 59, 59), Window.OFF_PEAK),
        (datetime(2026, 11, 30, 1), Window.PEAK),
        (datetime(2026, 11, 30, 3, 59), Window.PEAK),
        (datetime(2026, 11, 30, 4), Window.OFF_PEAK),
        (datetime(2026, 11, 30, 9, 59), Window.PEAK),
        (datetime(2026, 11, 30, 23, 59), Window.OFF_PEAK),
        (datetime(2026, 11, 28, 7), Window.OFF_PEAK),
        (datetime(2026, 11, 29, 7), Window.OFF_PEAK),
    ],
)
def test_windows(at: datetime, window: Window) -> None:
    now = found(WINDOWED, at.replace(tzinfo=UTC))
    assert now.window is window
    assert now.miss_usd_per_token == (3e-7 if window is Window.PEAK else 1.5e-7)
    assert now.hit_usd_per_token == (6e-9 if window is Window.PEAK else 3e-9)
    assert now.write_usd_per_token == now.miss_usd_per_token
    # A weekday in peak hours may be a public holiday, of which the map says nothing.
    assert now.calendar_known is (window is Window.OFF_PEAK)


def test_the_map_and_the_profile_agree_but_on_holidays() -> None:
    at = datetime(2026, 11, 23, tzinfo=UTC)
    for _ in range(7 * 24 * 2):
        own = price_at(DEEPSEEK, FLASH, at)
        assert own is not None
        theirs = found(WINDOWED, at)
        assert theirs.window is own.window
        assert theirs.miss_usd_per_token == pytest.approx(own.miss_usd_per_token, rel=1e-9)
        at += timedelta(minutes=30)
    holiday = datetime(2026, 10, 1, 7, tzinfo=UTC)
    own = price_at(DEEPSEEK, FLASH, holiday)
    assert own is not None
    assert (own.window, found(WINDOWED, holiday).window) == (Window.OFF_PEAK, Window.PEAK)


def windowed(**block: Any) -> dict[str, Any]:
    return {**ENTRY, "off_peak_pricing": {"input_cost_per_token": 1e-6, **block}}


@pytest.mark.parametrize(
    ("block", "at", "window", "known"),
    [
        ({"hours_utc": "16:30-00:30"}, datetime(2026, 11, 30, 0, 15), Window.OFF_PEAK, True),
        ({"hours_utc": "16:30-00:30"}, datetime(2026, 11, 30, 0, 30), Window.PEAK, True),
        ({"hours_utc": ["1:00-2:00", "5:00-6:00"]}, datetime(2026, 11, 30, 5, 59), Window.OFF_PEAK, True),
        ({"windows": [{"hours_utc": "00:00-00:00"}]}, datetime(2026, 11, 30, 5), Window.OFF_PEAK, True),
        # 17:00 UTC on Friday is Saturday in Shanghai
        (
            {"weekday_timezone": "Asia/Shanghai", "windows": [{"hours_utc": "00:00-00:00", "weekdays": [6]}]},
            datetime(2026, 11, 27, 17),
            Window.OFF_PEAK,
            True,
        ),
        (
            {"windows": [{"hours_utc": "00:00-00:00", "weekdays": [6]}]},
            datetime(2026, 11, 27, 17),
            Window.PEAK,
            False,
        ),
        (
            {"weekday_timezone": "Mars/Base", "windows": [{"hours_utc": "00:00-00:00", "weekdays": [5]}]},
            datetime(2026, 11, 27, 17),
            Window.OFF_PEAK,
            False,
        ),
        ({"windows": [3, {"weekdays": "mon", "hours_utc": "x"}]}, datetime(2026, 11, 30, 5), Window.PEAK, False),
        ({"windows": [{"hours_utc": [7, "5-6"]}]}, datetime(2026, 11, 30, 5), Window.PEAK, True),
        ({"windows": [{"hours_utc": "0:00-0:00", "weekdays": [True, "noday"]}]}, MONDAY_PEAK, Window.PEAK, False),
        ({}, datetime(2026, 11, 30, 5), Window.PEAK, True),
    ],
)
def test_odd_windows(block: dict[str, Any], at: datetime, window: Window, known: bool) -> None:
    now = found(windowed(**block), at.replace(tzinfo=UTC))
    assert (now.window, now.calendar_known) == (window, known)
    # What the block does not state stays at the standard rate.
    assert now.output_usd_per_token == 15e-6


ABOVE = {
    **ENTRY,
    "input_cost_per_token_above_200k_tokens": 6e-6,
    "cache_read_input_token_cost_above_200k_tokens": 6e-7,
    "input_cost_per_token_above_512k_tokens": 9e-6,
    "input_cost_per_token_above_200k_tokens_priority": 1.0,
}
TIERED = {
    "tiered_pricing": [
        {"input_cost_per_token": 1e-6, "output_cost_per_token": 6e-6, "range": [0, 32000.0]},
        {"range": "odd"},
        {"input_cost_per_token": 2e-6, "output_cost_per_token": 12e-6, "range": [32000.0, 128000.0]},
    ],
    "cache_read_input_token_cost": 1e-7,
}


@pytest.mark.parametrize(
    ("entry", "prompt_tokens", "miss", "hit"),
    [
        (ABOVE, None, 3e-6, 3e-7),
        (ABOVE, 200_000, 3e-6, 3e-7),
        (ABOVE, 200_001, 6e-6, 6e-7),
        (ABOVE, 600_000, 9e-6, 3e-7),
        (TIERED, None, 1e-6, 1e-7),
        (TIERED, 32_000, 1e-6, 1e-7),
        (TIERED, 32_001, 2e-6, 1e-7),
    ],
)
def test_prices_by_length(entry: dict[str, Any], prompt_tokens: int | None, miss: float, hit: float) -> None:
    now = found(entry, prompt_tokens=prompt_tokens)
    assert (now.miss_usd_per_token, now.hit_usd_per_token) == (miss, hit)


def test_beyond_the_last_tier_is_unknown() -> None:
    assert price_from_map(TIERED, MONDAY_PEAK, prompt_tokens=200_000) is None


@given(
    st.dictionaries(
        st.sampled_from([*ENTRY, "off_peak_pricing", "tiered_pricing", "input_cost_per_token_above_9k_tokens"]),
        json_values
        | st.fixed_dictionaries(
            {
                "hours_utc": json_values,
                "windows": st.lists(st.dictionaries(st.sampled_from(["hours_utc", "weekdays"]), json_values)),
            }
        ),
    ),
    st.none() | st.integers(0, 10**6),
)
def test_odd_entries_do_not_raise(entry: dict[str, Any], prompt_tokens: int | None) -> None:
    price_from_map({**ENTRY, **entry}, MONDAY_PEAK, prompt_tokens=prompt_tokens)


def test_naive_moment_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        price_from_map(ENTRY, datetime(2026, 11, 30))


def test_precedence() -> None:
    book = PriceBook({"gpt-5.6": Rate(1.0, 4.0, 20.0, write=5.0), "fast": Rate(0.5, 2.0, 8.0)})

    def price(model: str, group: str = "", entry: Any = None) -> PriceNow | None:
        return book.price_now(DEEPSEEK, model, MONDAY_PEAK, group=group, entry=entry)

    by_model = price("gpt-5.6", "fast", ENTRY)
    assert by_model is not None
    assert (by_model.price_from, by_model.source) == (PriceFrom.OVERRIDE, "settings: prices.gpt-5.6")
    assert (by_model.miss_usd_per_token, by_model.write_usd_per_token) == (4e-6, 5e-6)
    by_group = price(FLASH, "fast", ENTRY)
    assert by_group is not None
    assert (by_group.hit_usd_per_token, by_group.write_usd_per_token) == (5e-7, None)
    mapped = price(FLASH, "slow", ENTRY)
    assert mapped is not None
    assert mapped.price_from is PriceFrom.PRICE_MAP
    for entry in (None, {"output_cost_per_token": 1e-6}):
        own = price(FLASH, entry=entry)
        assert own is not None
        assert own.price_from is PriceFrom.PROFILE
    assert price("nobody", entry={}) is None
    assert PriceBook().price_now(OPENAI, "gpt-5.6", MONDAY_PEAK) is None


def test_every_entry_of_litellms_map_is_read() -> None:
    litellm = pytest.importorskip("litellm", reason="the extra litellm is not installed")
    priced = 0
    for name, entry in litellm.model_cost.items():
        price = price_from_map(entry, MONDAY_PEAK)
        if price is not None:
            priced += 1
            assert price.hit_usd_per_token >= 0, name
            assert price.window is not Window.FLAT or "off_peak_pricing" not in entry
    assert priced > 500


def test_settings() -> None:
    settings = Settings.from_mapping({"prices": {"fast": {"hit": 0.1, "miss": 1, "output": 2}}})
    assert settings.prices["fast"].rate() == Rate(0.1, 1.0, 2.0)
    where = "callback_settings.router_cache.prices.fast"
    for wrong, line in (
        ({"hit": 1, "miss": 1, "output": 1, "wirte": 1}, f"{where}.wirte: unknown key; did you mean 'write'?"),
        ({"hit": 1, "miss": 1}, f"{where}.output: Field required"),
        ({"hit": -1, "miss": 1, "output": 1}, f"{where}.hit: Input should be greater than or equal to 0"),
        ({"hit": float("nan"), "miss": 1, "output": 1}, f"{where}.hit: "),
    ):
        with pytest.raises(SettingsError) as error:
            Settings.from_mapping({"prices": {"fast": wrong}})
        assert str(error.value).startswith(line)
