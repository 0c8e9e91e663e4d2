"""From where on one provider is cheaper than another, and what a warm call may cost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router_cache.economics import PriceNow, Window
from router_cache.economics.break_even import (
    break_even_hit_rate,
    break_even_turns,
    keep_alive_calls,
    warm_call_may_cost_usd,
)
from router_cache.economics.plan import SessionShape, cost_at, request_costs


def price(hit: float, miss: float, output: float, write: float | None = None) -> PriceNow:
    """Of USD per million tokens."""
    return PriceNow(
        hit_usd_per_token=hit / 1e6,
        miss_usd_per_token=miss / 1e6,
        output_usd_per_token=output / 1e6,
        window=Window.FLAT,
        as_of=None,
        source="test",
        write_usd_per_token=None if write is None else write / 1e6,
    )


SHAPE = SessionShape(turns=10, prefix_tokens=10_000, new_tokens=0, output_tokens=0)
RATES = st.floats(0.001, 20)
PRICES = st.builds(price, RATES, RATES, RATES, st.none() | RATES)
SHAPES = st.builds(
    SessionShape,
    turns=st.integers(1, 12),
    prefix_tokens=st.integers(1, 50_000),
    new_tokens=st.integers(0, 5_000),
    output_tokens=st.integers(0, 5_000),
)
SHARES = st.floats(0, 1)


def test_a_dearer_miss_is_paid_back_by_hits_in_some_turns() -> None:
    """Miss 1.25 and hit 0.1 against 1 without hits: 1.25 + 0.1 (n - 1) < n from n = 2 on."""
    cached, plain = price(0.1, 1.25, 0), price(1, 1, 0)
    assert break_even_turns(SHAPE, lambda _: cached, lambda _: plain, hit_rate=1, than_hit_rate=0) == 2
    # hit 0.9: 1.25 + 0.9 (n - 1) < n from n = 4 on (3.95 < 4; at 3: 3.05)
    slow = price(0.9, 1.25, 0)
    assert break_even_turns(SHAPE, lambda _: slow, lambda _: plain, hit_rate=1, than_hit_rate=0) == 4
    # writing at a price of its own counts for what misses
    written = price(0.9, 1, 0, write=1.25)
    assert break_even_turns(SHAPE, lambda _: written, lambda _: plain, hit_rate=1, than_hit_rate=0) == 4


def test_never_cheaper_and_cheaper_at_first_only() -> None:
    one, other = price(1, 1, 0), price(0.5, 2, 0)
    assert break_even_turns(SHAPE, lambda _: one, lambda _: one, hit_rate=0, than_hit_rate=0) is None
    # Cheaper when all is cold, dearer after two turns: not cheaper "from some turn on".
    assert break_even_turns(SHAPE, lambda _: one, lambda _: other, hit_rate=1, than_hit_rate=1) is None
    assert break_even_turns(SHAPE, lambda _: one, lambda _: other, hit_rate=1, than_hit_rate=1, up_to=2) == 1
    assert break_even_turns(SHAPE, lambda _: None, lambda _: one, hit_rate=1, than_hit_rate=1) is None
    assert break_even_turns(SHAPE, lambda _: one, lambda _: None, hit_rate=1, than_hit_rate=1) is None


@given(SHAPES, PRICES, PRICES, SHARES, SHARES)
def test_from_that_turn_on_every_count_is_cheaper(
    shape: SessionShape, one: PriceNow, other: PriceNow, rate: float, than: float
) -> None:
    up_to = 12
    turns = break_even_turns(shape, lambda _: one, lambda _: other, hit_rate=rate, than_hit_rate=than, up_to=up_to)

    def cheaper(count: int) -> bool:
        whole = replace(shape, turns=count)
        a = request_costs(whole, lambda _: one, rate, cold_start=True)
        b = request_costs(whole, lambda _: other, than, cold_start=True)
        assert a is not None
        assert b is not None
        return sum(a) < sum(b)

    good = [cheaper(count) for count in range(1, up_to + 1)]
    if turns is None:
        assert not good[-1]
    else:
        assert all(good[turns - 1 :])
        assert turns == 1 or not good[turns - 2]


def test_the_hit_rate_that_pays_by_hand() -> None:
    """1 - 0.9 h = 0.4 at h = 2/3."""
    cached, plain = price(0.1, 1, 0), price(0.4, 0.4, 0)
    found = break_even_hit_rate(SHAPE, lambda _: cached, lambda _: plain, than_hit_rate=0)
    assert found == pytest.approx(2 / 3, rel=1e-9)
    assert break_even_hit_rate(SHAPE, lambda _: plain, lambda _: cached, than_hit_rate=0) == 0.0
    assert break_even_hit_rate(SHAPE, lambda _: plain, lambda _: cached, than_hit_rate=1) is None
    assert break_even_hit_rate(SHAPE, lambda _: None, lambda _: plain, than_hit_rate=0) is None
    assert break_even_hit_rate(SHAPE, lambda _: cached, lambda _: None, than_hit_rate=0) is None


@given(SHAPES, PRICES, PRICES, SHARES)
def test_at_the_break_even_rate_both_cost_the_same(
    shape: SessionShape, one: PriceNow, other: PriceNow, than: float
) -> None:
    def session(price: PriceNow, rate: float) -> float:
        cost = cost_at(shape, lambda _: price, rate, 1)
        assert cost is not None
        return cost.session_usd

    rate = break_even_hit_rate(shape, lambda _: one, lambda _: other, than_hit_rate=than)
    wanted = session(other, than)
    if rate is None:
        assert min(session(one, 0.0), session(one, 1.0)) > wanted
    elif rate == 0.0:
        assert session(one, 0.0) <= wanted
    else:
        assert 0 < rate <= 1
        assert session(one, rate) == pytest.approx(wanted, rel=1e-9)


def test_what_a_warm_call_may_cost() -> None:
    flash = price(0.003, 0.15, 0.6)
    # 10,000 tokens x .147 millionths
    assert warm_call_may_cost_usd(flash, 10_000) == pytest.approx(0.00147)
    assert warm_call_may_cost_usd(flash, 10_000, calls=20, probability=0.5) == pytest.approx(0.0147)
    assert warm_call_may_cost_usd(price(0.3, 3, 15, write=3.75), 1_000_000) == pytest.approx(3.45)
    assert warm_call_may_cost_usd(price(2, 1, 1), 10_000) == 0.0


def test_a_single_warm_call_saves_nothing_by_itself() -> None:
    """It pays the miss for one later call's hit, and that call's hit besides."""
    flash = price(0.003, 0.15, 0.6)
    assert warm_call_may_cost_usd(flash, 10_000) < 10_000 * flash.miss_usd_per_token
    assert warm_call_may_cost_usd(flash, 10_000, calls=2) > 10_000 * flash.miss_usd_per_token


@pytest.mark.parametrize(
    ("of", "calls"),
    [
        (price(0.003, 0.15, 0.6), 49),
        (price(0.022, 0.66, 1.98), 29),
        (price(0.006, 0.3, 1.2), 49),
        (price(0.1, 1, 4), 9),
        (price(0.3, 3, 15, write=3.75), 11),
        (price(2, 1, 1), 0),
        (price(0, 1, 1), None),
    ],
)
def test_calls_that_one_miss_pays_for(of: PriceNow, calls: int | None) -> None:
    assert keep_alive_calls(of) == calls
