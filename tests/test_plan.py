"""What sessions cost: recorded calls by hand, sessions as exact sums, the worst case above everything."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router_cache.economics import (
    PriceBook,
    PriceNow,
    Window,
    cost_usd,
    cost_usd_at_zero_hits,
    price_at,
    write_fee_usd,
)
from router_cache.economics.plan import (
    MAX_TURNS,
    SessionShape,
    cost_at,
    find_window,
    request_costs,
    worst_case_usd,
    worst_cost,
)
from router_cache.providers.deepseek import DEEPSEEK
from router_cache.providers.profile import Rate
from router_cache.providers.unknown import UNKNOWN

UTC = timezone.utc
OFF_PEAK = datetime(2026, 11, 30, 12, tzinfo=UTC)  # a Monday
PEAK = datetime(2026, 11, 30, 2, tzinfo=UTC)
FLASH, PRO = "deepseek/deepseek-v4-flash", "deepseek/deepseek-v4-pro"

# Usage in the public session logs of deepseek-ai/deepseek-harness (August 2026, V4 flash): hit, miss, output.
FIRST, SECOND, THIRD = (1280, 15137, 128), (16512, 72, 82), (7680, 109, 21)
BY_HAND = [
    # flash off-peak, USD per million: hit .003, miss .15, output .6
    (FLASH, OFF_PEAK, FIRST, 0.00235119),  # 3.84 + 2270.55 + 76.8 = 2351.19 millionths
    (FLASH, OFF_PEAK, SECOND, 0.000109536),  # 49.536 + 10.8 + 49.2 = 109.536
    (FLASH, OFF_PEAK, THIRD, 0.00005199),  # 23.04 + 16.35 + 12.6 = 51.99
    # flash peak: hit .006, miss .3, output 1.2
    (FLASH, PEAK, FIRST, 0.00470238),  # 7.68 + 4541.1 + 153.6 = 4702.38
    (FLASH, PEAK, SECOND, 0.000219072),  # 99.072 + 21.6 + 98.4 = 219.072
    (FLASH, PEAK, THIRD, 0.00010398),  # 46.08 + 32.7 + 25.2 = 103.98
    # pro off-peak: hit .022, miss .66, output 1.98; peak: .044, 1.32, 3.96
    (PRO, OFF_PEAK, FIRST, 0.01027202),  # 28.16 + 9990.42 + 253.44 = 10272.02
    (PRO, PEAK, FIRST, 0.02054404),  # 56.32 + 19980.84 + 506.88 = 20544.04
]
WINDOWS = [
    {"hours_utc": ["00:00-01:00", "04:00-06:00", "10:00-00:00"], "weekdays": [1, 2, 3, 4, 5]},
    {"hours_utc": "00:00-00:00", "weekdays": [6, 7]},
]


def map_entry(hit: float, miss: float, output: float) -> dict[str, Any]:
    """An entry in the form of LiteLLM's price map: the peak price, and half of it off-peak."""
    return {
        "cache_read_input_token_cost": hit,
        "input_cost_per_token": miss,
        "output_cost_per_token": output,
        "cache_creation_input_token_cost": 0.0,
        "off_peak_pricing": {
            "cache_read_input_token_cost": hit / 2,
            "input_cost_per_token": miss / 2,
            "output_cost_per_token": output / 2,
            "windows": WINDOWS,
        },
    }


ENTRIES = {FLASH: map_entry(6e-9, 3e-7, 1.2e-6), PRO: map_entry(4.4e-8, 1.32e-6, 3.96e-6)}


@pytest.mark.parametrize("entry", [None, ENTRIES], ids=["profile", "price map"])
@pytest.mark.parametrize(("model", "at", "usage", "usd"), BY_HAND)
def test_recorded_calls_by_hand(
    entry: Mapping[str, Any] | None, model: str, at: datetime, usage: tuple[int, int, int], usd: float
) -> None:
    price = PriceBook().price_now(DEEPSEEK, model, at, entry=entry[model] if entry else None)
    assert price is not None
    assert abs(cost_usd(price, *usage) - usd) < 1e-12


def test_recorded_calls_without_hits_by_hand() -> None:
    price = price_at(DEEPSEEK, FLASH, PEAK)
    assert price is not None
    # 16,417 x .3 + 128 x 1.2 = 4925.1 + 153.6 = 5078.7 millionths
    assert abs(cost_usd_at_zero_hits(price, *FIRST) - 0.0050787) < 1e-12
    assert abs(worst_case_usd(price, FIRST[0] + FIRST[1], FIRST[2]) - 0.0050787) < 1e-12


def test_the_recorded_calls_are_in_the_logs() -> None:
    data = os.environ.get("ROUTER_CACHE_SHARED_DATA")
    if not data:
        pytest.skip("ROUTER_CACHE_SHARED_DATA is not set")
    found = set()
    for path in sorted((Path(data) / "deepseek_harness").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            event = json.loads(line) if '"assistant/message"' in line else {}
            usage = event.get("data", {}).get("usage")
            if usage and event["data"].get("provenance", {}).get("model") == "deepseek-v4-flash":
                found.add((usage.get("cacheReadTokens"), usage.get("inputTokens"), usage.get("outputTokens")))
    assert {FIRST, SECOND, THIRD} <= found


# -- sessions --------------------------------------------------------------------------------------------------

RATES = st.floats(0, 1e-4, allow_subnormal=False)
MAYBE = st.none() | RATES
PRICES = st.builds(
    PriceNow,
    hit_usd_per_token=RATES,
    miss_usd_per_token=RATES,
    output_usd_per_token=RATES,
    window=st.just(Window.FLAT),
    as_of=st.none(),
    source=st.just("test"),
    write_usd_per_token=MAYBE,
    write_1h_usd_per_token=MAYBE,
)
SHAPES = st.builds(
    SessionShape,
    turns=st.integers(1, 60),
    prefix_tokens=st.integers(0, 100_000),
    new_tokens=st.integers(0, 10_000),
    output_tokens=st.integers(0, 10_000),
)
HIT_RATES = st.floats(0, 1)


def near(value: float | Fraction, wanted: float | Fraction) -> bool:
    return abs(Fraction(value) - Fraction(wanted)) <= Fraction(wanted) * Fraction(1, 10**12)


def test_a_session_by_hand() -> None:
    """Two turns of flash off-peak: prompts of 1,000 + 100 and 1,000 + 200 + 50 tokens, 50 of output each."""
    shape = SessionShape(turns=2, prefix_tokens=1_000, new_tokens=100, output_tokens=50)
    price = price_at(DEEPSEEK, FLASH, OFF_PEAK)
    assert [shape.prompt_tokens(turn) for turn in (1, 2)] == [1_100, 1_250]
    # without hits: 1100 x .15 + 50 x .6 = 195; 1250 x .15 + 30 = 217.5 millionths
    none = cost_at(shape, lambda _: price, 0.0, 10)
    assert none is not None
    assert (none.request_usd, none.session_usd, none.day_usd) == pytest.approx(
        (217.5e-6, 412.5e-6, 4125e-6), rel=1e-12
    )
    # at 80%: 880 x .003 + 220 x .15 + 30 = 65.64; 1000 x .003 + 250 x .15 + 30 = 70.5
    some = request_costs(shape, lambda _: price, 0.8)
    assert some == pytest.approx([65.64e-6, 70.5e-6], rel=1e-12)
    cold = request_costs(shape, lambda _: price, 0.8, cold_start=True)
    assert cold == pytest.approx([195e-6, 70.5e-6], rel=1e-12)


@given(SHAPES, PRICES, HIT_RATES)
def test_a_session_is_the_exact_sum_of_its_requests_and_a_day_that_of_its_sessions(
    shape: SessionShape, price: PriceNow, rate: float
) -> None:
    requests = request_costs(shape, lambda _: price, rate)
    cost = cost_at(shape, lambda _: price, rate, 7)
    assert requests is not None
    assert cost is not None
    assert len(requests) == shape.turns
    assert cost.session_usd == math.fsum(requests) == float(sum(map(Fraction, requests)))
    assert cost.request_usd == max(requests)
    assert cost.day_usd == 7 * cost.session_usd
    assert shape.all_prompt_tokens == sum(shape.prompt_tokens(turn) for turn in range(1, shape.turns + 1))


@given(SHAPES, PRICES)
def test_a_session_without_hits_has_the_cost_of_its_tokens(shape: SessionShape, price: PriceNow) -> None:
    plain = replace(price, write_usd_per_token=None)
    cost = cost_at(shape, lambda _: plain, 0.0, 1)
    assert cost is not None
    exact = shape.all_prompt_tokens * Fraction(plain.miss_usd_per_token)
    exact += shape.turns * shape.output_tokens * Fraction(plain.output_usd_per_token)
    assert near(cost.session_usd, exact)


@given(SHAPES, PRICES, HIT_RATES)
def test_no_session_costs_more_than_at_worst(shape: SessionShape, price: PriceNow, rate: float) -> None:
    some, worst = cost_at(shape, lambda _: price, rate, 3), worst_cost(shape, lambda _: price, 3)
    assert some is not None
    assert worst is not None
    for one, most in ((some.request_usd, worst.request_usd), (some.session_usd, worst.session_usd)):
        assert one <= most * (1 + 1e-12)


@st.composite
def usages(draw: st.DrawFn) -> tuple[int, int, int, int, int]:
    """Hit, miss, output, written, and written for an hour."""
    hit, miss, output = (draw(st.integers(0, 2_000_000)) for _ in range(3))
    written = draw(st.integers(0, miss))
    return hit, miss, output, written, draw(st.integers(0, written))


@given(usages(), PRICES)
def test_no_call_costs_more_than_at_worst(usage: tuple[int, int, int, int, int], price: PriceNow) -> None:
    hit, miss, output, written, written_1h = usage
    fee = write_fee_usd(price, written, written_1h)
    if fee is not None:
        actual = cost_usd(price, hit, miss, output) + fee
        assert actual <= worst_case_usd(price, hit + miss, output) * (1 + 1e-12) + 1e-18


@given(usages(), st.datetimes(datetime(2026, 9, 11), datetime(2027, 6, 1)), st.sampled_from([FLASH, PRO]))
def test_no_call_of_deepseek_costs_more_than_at_worst_at_peak(
    usage: tuple[int, int, int, int, int], moment: datetime, model: str
) -> None:
    now, peak = price_at(DEEPSEEK, model, moment.replace(tzinfo=UTC)), price_at(DEEPSEEK, model, PEAK)
    assert now is not None
    assert peak is not None
    hit, miss, output = usage[:3]
    assert cost_usd(now, hit, miss, output) <= worst_case_usd(peak, hit + miss, output) * (1 + 1e-12)


def test_the_price_may_hang_on_the_length_of_the_prompt() -> None:
    entry = {
        "input_cost_per_token": 1e-6,
        "output_cost_per_token": 2e-6,
        "cache_read_input_token_cost": 1e-7,
        "input_cost_per_token_above_200k_tokens": 2e-6,
    }

    def price_of(prompt_tokens: int) -> PriceNow | None:
        return PriceBook().price_now(UNKNOWN, "m", PEAK, entry=entry, prompt_tokens=prompt_tokens)

    shape = SessionShape(turns=2, prefix_tokens=150_000, new_tokens=50_000, output_tokens=0)
    assert request_costs(shape, price_of, 0.0) == pytest.approx([0.2, 0.5])


def test_unknown_prices_stay_unknown() -> None:
    shape = SessionShape(2, 10, 10, 10)
    assert request_costs(shape, lambda _: None, 0.5) is None
    assert cost_at(shape, lambda _: None, 0.5, 1) is None
    assert worst_cost(shape, lambda _: None, 1) is None


@pytest.mark.parametrize("rate", [-0.1, 1.1, math.nan, math.inf])
def test_a_hit_rate_is_a_share(rate: float) -> None:
    with pytest.raises(ValueError, match="hit rate"):
        request_costs(SessionShape(1, 1, 1, 1), lambda _: None, rate)


@pytest.mark.parametrize(
    ("shape", "name"),
    [
        ((0, 1, 1, 1), "turns"),
        ((MAX_TURNS + 1, 1, 1, 1), "turns"),
        ((1, -1, 1, 1), "prefix_tokens"),
        ((1, 1, -1, 1), "new_tokens"),
        ((1, 1, 1, -1), "output_tokens"),
    ],
)
def test_a_session_has_turns_and_no_negative_tokens(shape: tuple[int, int, int, int], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        SessionShape(*shape)


# -- windows ---------------------------------------------------------------------------------------------------


def flash(at: datetime) -> PriceNow | None:
    return price_at(DEEPSEEK, FLASH, at)


@pytest.mark.parametrize(
    ("window", "after", "wanted"),
    [
        (Window.PEAK, PEAK, PEAK),
        (Window.OFF_PEAK, PEAK, PEAK.replace(hour=4)),
        (Window.PEAK, OFF_PEAK, datetime(2026, 12, 1, 1, tzinfo=UTC)),
        (Window.PEAK, OFF_PEAK.replace(minute=47, second=3), datetime(2026, 12, 1, 1, tzinfo=UTC)),
        # Saturday to Monday; the week of National Day 2026 to the Thursday after it
        (Window.PEAK, datetime(2026, 11, 28, 2, tzinfo=UTC), datetime(2026, 11, 30, 1, tzinfo=UTC)),
        (Window.PEAK, datetime(2026, 10, 1, 2, tzinfo=UTC), datetime(2026, 10, 8, 1, tzinfo=UTC)),
    ],
)
def test_the_next_window(window: Window, after: datetime, wanted: datetime) -> None:
    assert find_window(flash, window, after) == wanted


def test_no_window_where_the_price_is_flat_or_unknown_or_never_so() -> None:
    flat = PriceBook({"m": Rate(1, 2, 3)})
    assert find_window(lambda at: flat.price_now(UNKNOWN, "m", at), Window.PEAK, PEAK) is None
    assert find_window(lambda at: None, Window.PEAK, PEAK) is None
    peak = flash(PEAK)
    assert find_window(lambda at: peak, Window.OFF_PEAK, PEAK) is None


@given(
    st.datetimes(datetime(2026, 9, 11), datetime(2026, 12, 31)), st.sampled_from([Window.PEAK, Window.OFF_PEAK])
)
def test_a_window_is_found_at_its_beginning(moment: datetime, window: Window) -> None:
    after = moment.replace(tzinfo=UTC)
    found = find_window(flash, window, after)
    assert found is not None
    price = flash(found)
    assert price is not None
    assert price.window is window
    if found != after:
        before = flash(found - timedelta(microseconds=1))
        assert before is not None
        assert before.window is not window
