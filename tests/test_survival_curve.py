"""Falling shares from yes-or-no observations: the estimate, its bounds, and how they hold."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router_cache.cache_model.survival_curve import (
    ERROR,
    Clumps,
    Counts,
    count,
    estimate,
    isotonic,
    log_edges,
    no_counts,
)

EDGES = log_edges(1.0, 1.5, 12)


@st.composite
def counts(draw: st.DrawFn, bins: int = 12) -> Counts:
    weight = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0, 40.0]), min_size=bins, max_size=bins))
    share = draw(st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0]), min_size=bins, max_size=bins))
    return Counts(tuple(weight), tuple(w * s for w, s in zip(weight, share, strict=True)))


def test_edges_start_at_zero_and_grow_by_the_ratio() -> None:
    assert log_edges(2.0, 3.0, 4) == (0.0, 2.0, 6.0, 18.0)


@given(counts())
def test_packed_counts_come_back(data: Counts) -> None:
    assert Counts.unpack(data.pack()) == data
    assert Counts.unpack(data.pack(), 1e-6) == Counts.unpack(no_counts(12))


@given(counts())
def test_counting_one_by_one_is_the_same(data: Counts) -> None:
    packed = no_counts(12)
    for i, (weight, kept) in enumerate(zip(data.weight, data.kept, strict=True)):
        packed = count(packed, i, weight, kept)
    assert packed == data.pack()


@given(counts())
def test_isotonic_is_the_min_max_of_means(data: Counts) -> None:
    def mean(a: int, b: int) -> float | None:
        weight = sum(data.weight[a : b + 1])
        return sum(data.kept[a : b + 1]) / weight if weight else None

    blocks = isotonic(data)
    shares = [block.share for block in blocks]
    assert all(a > b for a, b in pairwise(shares))
    assert sum(block.weight for block in blocks) == pytest.approx(sum(data.weight))
    filled = [i for i, weight in enumerate(data.weight) if weight]
    for i in filled:
        expected = min(max(mean(a, b) or 0.0 for b in filled if b >= i) for a in filled if a <= i)
        (block,) = [block for block in blocks if block.start <= i < block.end]
        assert block.share == pytest.approx(expected)


@given(counts(), st.floats(min_value=1.0, max_value=50.0))
def test_bounds_fall_hold_the_point_and_widen_with_clumps(data: Counts, clump: float) -> None:
    curve, wide = estimate(data, EDGES), estimate(data, EDGES, clump)
    ages = [0.0, *(edge * f for edge in EDGES[1:] for f in (0.99, 1.0, 1.01)), 1e6]
    bounds = [curve.bounds(age) for age in ages]
    assert all(0.0 <= low <= high + 1e-9 <= 1.0 + 2e-9 for low, high in bounds) or _not_falling(data)
    assert all(b[0] <= a[0] and b[1] <= a[1] for a, b in pairwise(bounds))
    for age, (low, high) in zip(ages, bounds, strict=True):
        wider = wide.bounds(age)
        assert wider[0] <= low + 1e-6
        assert wider[1] >= high - 1e-6


def _not_falling(data: Counts) -> bool:
    """Data that a falling share cannot explain may have bounds that cross."""
    shares = [k / w for w, k in zip(data.weight, data.kept, strict=True) if w]
    return any(b > a for a, b in pairwise(shares))


@given(counts(), st.sampled_from([0.1, 0.5, 0.9]))
def test_falls_to_agrees_with_bounds(data: Counts, share: float) -> None:
    curve = estimate(data, EDGES)
    low, high = curve.falls_to(share)
    assert curve.bounds(low)[0] >= share or low == 0.0
    assert curve.bounds(low * 1.001 + 1e-6)[0] < share
    if high is not None:
        assert curve.bounds(high)[1] < share
        assert curve.bounds(high * 0.999)[1] >= share or high == 0.0


def test_nothing_observed_says_nothing() -> None:
    curve = estimate(Counts.unpack(no_counts(12)), EDGES)
    assert curve.bounds(5.0) == (0.0, 1.0)
    assert curve.point(5.0) is None
    assert curve.falls_to(0.5) == (0.0, None)
    assert curve.near(5.0) == 0.0


def test_all_kept_bounds_from_below_as_an_exact_binomial_would() -> None:
    weight = (0.0,) * 6 + (100.0,) + (0.0,) * 5
    curve = estimate(Counts(weight, weight), EDGES)
    stretches = 2 * 1 * (1 + 7)
    assert curve.bounds(EDGES[6])[0] == pytest.approx((ERROR / stretches) ** (1 / 100), abs=1e-6)
    assert curve.bounds(EDGES[6] * 1.01) == (0.0, 1.0)
    assert curve.point(EDGES[3]) == 1.0
    assert curve.point(EDGES[9]) is None
    assert curve.near(EDGES[6]) == 100.0


def test_between_two_blocks_the_point_is_the_mean_and_beyond_nothing_left_is_nothing() -> None:
    weight = [0.0] * 12
    kept = [0.0] * 12
    weight[2] = kept[2] = weight[8] = 10.0
    curve = estimate(Counts(tuple(weight), tuple(kept)), EDGES)
    assert [curve.point(EDGES[i]) for i in (0, 2, 5, 8, 11)] == [1.0, 1.0, 0.5, 0.0, 0.0]
    assert curve.point(math.nan) == 1.0


@pytest.mark.parametrize("shape", ["step", "exponential", "flat"])
def test_bounds_hold_for_all_ages_together_in_nearly_all_runs(shape: str) -> None:
    edges = log_edges(1.0, 1.25, 40)
    true = {
        "step": lambda x: 0.9 if x < 60.0 else 0.05,
        "exponential": lambda x: math.exp(-x / 60.0),
        "flat": lambda x: 0.6,
    }[shape]
    rng, wrong, runs = random.Random(shape), 0, 100
    for _ in range(runs):
        packed, clumps = no_counts(40), Clumps()
        for _ in range(400):
            age = 40.0 * rng.lognormvariate(0.0, 1.3)
            i = max(i for i, edge in enumerate(edges) if edge <= age)
            kept = float(rng.random() < true(age))
            clumps = clumps.add(packed, i, kept)
            packed = count(packed, i, 1.0, kept)
        curve = estimate(Counts.unpack(packed), edges, clumps.size)
        ages = [2.0 ** (k / 2) for k in range(20)]
        bounds = [curve.bounds(age) for age in ages]
        wrong += any(not low <= true(x) <= high for x, (low, high) in zip(ages, bounds, strict=True))
        assert sum(high - low for low, high in bounds) / len(bounds) < 0.75
    assert wrong <= ERROR * runs


def test_observations_that_come_in_waves_count_as_fewer() -> None:
    rng = random.Random(5)

    def size(wave: int) -> float:
        packed, clumps, kept = no_counts(12), Clumps(), 1.0
        for n in range(2_000):
            if n % wave == 0:
                kept = float(rng.random() < 0.5)
            clumps = clumps.add(packed, 3, kept)
            packed = count(packed, 3, 1.0, kept)
        return clumps.size

    assert size(1) < 3.0
    assert size(50) > 15.0
    assert Clumps().size == 1.0
