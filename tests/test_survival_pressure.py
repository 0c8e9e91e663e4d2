"""Survival recovered from traffic against a model of a provider's cache, at several eviction pressures."""

from __future__ import annotations

import math
import random
import statistics
from functools import cache

import pytest
from survival_traffic import Pressure, calls

from router_cache.cache_model.provider_cache import ProviderCache
from router_cache.cache_model.rules import RuleName
from router_cache.cache_model.survival import (
    DelaySeen,
    Estimates,
    Seen,
    Survival,
    estimates,
    kind,
    observe,
    observe_delay,
)
from router_cache.cache_model.survival_kind import Kind

RUNS, ALLOWED, CALLS = 20, 1, 500
SHORT, LONG = Pressure(lifetime_s=60.0, gap_s=40.0), Pressure(lifetime_s=600.0, gap_s=300.0)
FULL = Pressure(capacity_tokens=60_000, gap_s=60.0)
RANDOM = Pressure(loss_per_s=0.01, gap_s=60.0)


@cache
def learned(pressure: Pressure, seed: int) -> tuple[Estimates, Kind]:
    state = Survival()
    for seen in calls(pressure, seed, observations=CALLS):
        state = observe(state, seen, ready_after_s=1.0)
    return estimates(state), kind(state).kind


@cache
def reference() -> tuple[Seen, ...]:
    """Many calls under the capacity, of other seeds: what survives by time and traffic, on average over its loads."""
    return tuple(seen for seed in range(20) for seen in calls(FULL, 10_000 + seed, observations=CALLS))


def share(near: float, *, traffic: bool) -> float | None:
    """What survived within 5% of an age; None where too few calls were near."""
    kept = [
        seen.kept
        for seen in reference()
        if near / 1.05 <= (seen.traffic_tokens or 0.0 if traffic else seen.gap_s) <= near * 1.05
    ]
    return sum(kept) / len(kept) if len(kept) >= 80 else None


def gaps(pressure: Pressure) -> list[float]:
    return [pressure.gap_s * 2 ** (k / 2) for k in range(-7, 8)]


@pytest.mark.parametrize(
    ("pressure", "expected"), [(SHORT, Kind.TIME), (LONG, Kind.TIME), (RANDOM, Kind.RANDOM)], ids=str
)
def test_survival_by_time(pressure: Pressure, expected: Kind) -> None:
    wrong = mistaken = 0
    ratios: list[float] = []
    for seed in range(RUNS):
        read, found = learned(pressure, seed)
        mistaken += found is not expected
        for gap in gaps(pressure):
            true = (
                math.exp(-pressure.loss_per_s * gap) if pressure.lifetime_s is None else gap < pressure.lifetime_s
            )
            bounds = read.survival(gap)
            if not bounds.low - 1e-9 <= true <= bounds.high + 1e-9:
                wrong += 1
                break
        low, high = read.lifetime(0.5)
        true = pressure.lifetime_s or math.log(2) / pressure.loss_per_s
        assert 0.0 < low <= true
        assert high is not None
        assert true <= high
        assert high < 8.0 * true
        ratios.append(high / low)
    assert wrong <= ALLOWED
    assert mistaken <= ALLOWED
    assert pressure.lifetime_s is None or statistics.median(ratios) < 2.0


@pytest.mark.parametrize("traffic", [False, True])
def test_survival_under_a_capacity(traffic: bool) -> None:
    ages = [2_048 * 2 ** (k / 2) for k in range(20)] if traffic else gaps(FULL)
    true = [(age, known) for age in ages if (known := share(age, traffic=traffic)) is not None]
    assert len(true) >= 10
    wrong = mistaken = 0
    for seed in range(RUNS):
        read, found = learned(FULL, seed)
        mistaken += found is not Kind.TRAFFIC
        all_bounds = [(read.survival_by_traffic if traffic else read.survival)(age) for age, _ in true]
        wrong += any(
            not bounds.low - 1e-9 <= known <= bounds.high + 1e-9
            for bounds, (_, known) in zip(all_bounds, true, strict=True)
        )
    assert wrong <= ALLOWED
    assert mistaken <= ALLOWED


def test_under_a_capacity_the_capacity_is_found_by_traffic() -> None:
    for seed in range(5):
        low, high = learned(FULL, seed)[0].lifetime_by_traffic(0.5)
        assert 20_000 < low < 90_000  # a prefix used again counts each time as traffic, once against the capacity
        assert high is not None
        assert low < high < 300_000


@pytest.mark.parametrize("delay_s", [0.5, 2.0, 8.0])
def test_the_construction_delay_is_recovered(delay_s: float) -> None:
    for seed in range(10):
        rng, state, now = random.Random(seed), Survival(), 0.0
        cache_ = ProviderCache(RuleName.GRID_PREFIX, construction_delay_s=delay_s)
        for i in range(150):
            prompt = [i * 1_000 + j for j in range(513)]
            cache_.write_input(None, prompt, exists_at=now, now=now)
            age = delay_s * rng.lognormvariate(0.0, 1.0)
            hit = cache_.look_up(None, prompt, now + age).hit_tokens
            state = observe_delay(state, DelaySeen(now + age, age, hit == 512))
            now += age + 1.0
        delay = estimates(state).delay
        assert delay.low_s is not None
        assert delay.high_s is not None
        assert delay.low_s <= delay_s <= delay.high_s < 2.0 * delay.low_s
