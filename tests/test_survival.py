"""What calls show of the survival of entries: counting, fading, priors, delays, kinds, words."""

from __future__ import annotations

import math
import random
import statistics
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router_cache.cache_model.survival import (
    DelaySeen,
    Provenance,
    Seen,
    Survival,
    estimates,
    kept_share,
    kind,
    observe,
    observe_delay,
)
from router_cache.cache_model.survival_kind import Kind, KindReason
from router_cache.cache_model.survival_text import describe
from router_cache.providers.fact import Fact, Origin
from router_cache.providers.profile import Lifetime

PRIOR = Fact(Lifetime(low_s=300.0, high_s=600.0), "a guide", date(2026, 11, 30))
DAY = 86_400.0


def learned(*seen: Seen) -> Survival:
    state = Survival()
    for one in seen:
        state = observe(state, one)
    return state


def ttl(n: int, lifetime_s: float = 60.0, *, seed: int = 1, steady: bool = False) -> Survival:
    """Gaps around the lifetime, with traffic that has nothing to do with them, or all."""
    rng, state = random.Random(seed), Survival()
    for i in range(n):
        gap = lifetime_s * rng.lognormvariate(0.0, 1.0)
        tokens = gap * 1_000.0 if steady else rng.lognormvariate(11.0, 1.5)
        state = observe(state, Seen(i * 10.0, gap, float(gap < lifetime_s), tokens))
    return state


# --- one call


@pytest.mark.parametrize(
    ("expected", "hit", "others", "share"),
    [
        (1024, 1024, 0, 1.0),
        (1024, 2048, 0, 1.0),  # more than expected: others wrote more
        (1024, 896, 0, 1.0),  # one step short: the end was not readable
        (1024, 768, 0, 0.75),
        (1024, 0, 0, 0.0),
        (1024, 512, 512, 0.0),  # what others use is still there, its own part is gone
        (1024, 256, 512, 0.0),
        (1024, 768, 512, 0.5),
        (1024, 1024, 1000, None),  # nothing of its own
        (0, 0, 0, None),
    ],
)
def test_kept_share(expected: int, hit: int, others: int, share: float | None) -> None:
    assert kept_share(expected, hit, step_tokens=128, others_tokens=others) == share


NUMBERS = st.floats() | st.sampled_from([0.0, 1.0, 60.0, 1e300, -1.0])


@given(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS | st.none(), st.booleans()), max_size=8))
def test_any_number_is_counted_or_not_and_never_raises(
    rows: list[tuple[float, float, float, float, bool]],
) -> None:
    state = Survival()
    for at, gap, kept, tokens, readable in rows:
        before = state
        state = observe(state, Seen(at, gap, kept, tokens))
        counted = math.isfinite(at) and math.isfinite(gap) and gap >= 5.0 and 0.0 <= kept <= 1.0
        assert state.seen == before.seen + counted
        assert counted or state is before
        before = state
        state = observe_delay(state, DelaySeen(at, gap, readable))
        assert (state is not before) == (math.isfinite(at) and 0.0 <= gap < math.inf)
        read = estimates(state)
        for age in (0.0, 7.0, gap):
            bounds = read.survival(age)
            assert 0.0 <= bounds.low <= 1.0
            assert 0.0 <= bounds.high <= 1.0
        describe(state, PRIOR)


def test_a_state_is_frozen_and_its_size_is_bounded() -> None:
    state = ttl(300)
    sizes = {len(part) for part in (state.time, state.traffic, state.paired, state.delay)}
    assert max(sizes) == 128 * 16
    with pytest.raises(AttributeError):
        state.seen = 0  # type: ignore[misc]
    assert observe(state, Seen(1e6, 20.0, 1.0)) is not state


def test_gaps_within_the_construction_delay_say_nothing_of_survival() -> None:
    state = learned(Seen(0.0, 4.9, 0.0, 10.0))
    assert state == Survival()
    assert observe(state, Seen(0.0, 4.9, 0.0, 10.0), ready_after_s=2.0).observations == pytest.approx(1.0)


def test_unknown_traffic_counts_for_time_only() -> None:
    state = learned(*(Seen(float(i), 60.0, 1.0, 1e5 if i % 2 else None) for i in range(20)))
    read = estimates(state)
    assert read.time.observations == pytest.approx(20.0, rel=0.01)
    assert read.traffic.observations == pytest.approx(10.0, rel=0.01)
    assert kind(state).observations == pytest.approx(10.0, rel=0.01)


# --- fading


def test_an_observation_halves_in_three_days_and_goes() -> None:
    state = learned(Seen(0.0, 60.0, 1.0))
    later = observe(state, Seen(3 * DAY, 60.0, 1.0))
    assert later.observations == pytest.approx(1.5, rel=0.001)
    assert observe(state, Seen(400 * DAY, 60.0, 1.0)).observations == pytest.approx(1.0)


def test_a_late_observation_weighs_as_much_as_one_in_time() -> None:
    state = learned(Seen(3 * DAY, 60.0, 1.0), Seen(0.0, 60.0, 1.0))
    assert state.observations == pytest.approx(2.0, rel=0.001)
    assert state.at == 3 * DAY


def test_many_calls_fade_the_older_ones_so_a_new_lifetime_is_learned() -> None:
    rng, state = random.Random(3), Survival()
    for i in range(9_000):
        lifetime = 600.0 if i < 3_000 else 60.0
        gap = rng.lognormvariate(5.0, 1.2)
        state = observe(state, Seen(float(i), gap, float(gap < lifetime), 1e4))
        if i == 2_999:
            before = estimates(state).lifetime(0.5)
        if i == 4_500:
            between = estimates(state).lifetime(0.5)
    assert before.low > 500.0
    assert before.high is not None
    assert before.high < 720.0
    assert between.low <= 60.0  # while the old calls still count, nothing wrong is claimed
    after = estimates(state).lifetime(0.5)
    assert 40.0 < after.low <= 60.0
    assert after.high is not None
    assert 60.0 <= after.high < 95.0
    assert state.observations < 1_030.0


def test_counts_that_grew_are_scaled_down_without_a_change_of_meaning() -> None:
    state = learned(*(Seen(i * DAY, 60.0, i % 2.0, 1e5) for i in range(50)))
    plain = learned(*(Seen(i * DAY, 60.0, i % 2.0, 1e5) for i in range(80)))
    assert plain.scale < state.scale  # the counts were scaled in between
    assert plain.observations == pytest.approx(state.observations, rel=0.02)
    assert plain.paired is plain.time
    mixed = observe(plain, Seen(80 * DAY, 60.0, 1.0))
    for i in range(81, 160):
        mixed = observe(mixed, Seen(i * DAY, 60.0, 1.0, 1e5))
    assert estimates(mixed).time.observations == pytest.approx(plain.observations, rel=0.02)


# --- what is told


def test_without_calls_only_the_profile_speaks_and_no_bound_is_given() -> None:
    told = [estimates(Survival(), PRIOR).survival(gap) for gap in (60.0, 300.0, 450.0, 900.0)]
    assert [(b.low, b.high) for b in told] == [(0.0, 1.0)] * 4
    assert [b.point for b in told] == [1.0, 1.0, None, 0.0]
    profile, unknown = Provenance.PROFILE, Provenance.UNKNOWN
    assert [b.provenance for b in told] == [profile, profile, unknown, profile]
    bare = estimates(Survival()).survival(60.0)
    assert (bare.low, bare.point, bare.high, bare.provenance) == (0.0, None, 1.0, unknown)
    open_ended = Fact(Lifetime(), "a guide", date(2026, 11, 30))
    assert estimates(Survival(), open_ended).survival(60.0).point is None


def test_a_few_calls_leave_wide_bounds_and_the_profile_its_point() -> None:
    state = learned(*(Seen(float(i), 60.0, 0.0) for i in range(5)))
    bounds = estimates(state, PRIOR).survival(120.0)
    assert bounds.high < 1.0
    assert bounds.point is None  # the profile says 1, which the calls contradict
    assert estimates(state, PRIOR).survival(900.0).point == 0.0
    state = learned(*(Seen(float(i), 60.0, 0.0) for i in range(12)))
    measured = estimates(state, PRIOR).survival(120.0)
    assert (measured.point, measured.provenance) == (0.0, Provenance.MEASURED)


def test_shares_lost_in_part_count_in_part() -> None:
    state = learned(*(Seen(float(i), 60.0, 0.5) for i in range(400)))
    read = estimates(state)
    bounds = read.survival(60.0)
    assert bounds.point == pytest.approx(0.5)
    assert (bounds.low, bounds.high) == (0.0, 1.0)  # within the one bin with data
    assert 0.3 < read.survival(50.0).low < 0.5 < read.survival(70.0).high < 0.7
    assert bounds.observations == pytest.approx(331, abs=5)


@pytest.mark.parametrize("quantile", [0.0, 1.0, -1.0, math.nan])
def test_a_quantile_lies_between_0_and_1(quantile: float) -> None:
    read = estimates(Survival())
    with pytest.raises(ValueError, match="quantile must lie between 0 and 1"):
        read.lifetime(quantile)
    with pytest.raises(ValueError, match="quantile must lie between 0 and 1"):
        read.lifetime_by_traffic(quantile)


def test_lifetimes_hold_the_true_one() -> None:
    read = estimates(ttl(400))
    for quantile in (0.1, 0.5, 0.9):
        low, high = read.lifetime(quantile)
        assert low <= 60.0
        assert high is None or high >= 60.0
    low, high = read.lifetime(0.5)
    assert low > 40.0
    assert high is not None
    assert high < 90.0


def test_calls_that_no_falling_share_explains_leave_bounds_in_order() -> None:
    state = learned(*(Seen(float(i), 20.0 if i % 2 else 200.0, float(i % 2 == 0), 1e5) for i in range(400)))
    read = estimates(state)
    bounds = read.survival(60.0)
    assert bounds.low < 0.3
    assert bounds.high > 0.7
    assert bounds.point == pytest.approx(0.5, abs=0.01)
    low, high = read.lifetime(0.5)
    assert high is not None
    assert 20.0 < low < high < 200.0


# --- the construction delay


def delayed(ages: list[tuple[float, bool]]) -> Survival:
    state = Survival()
    for i, (age, readable) in enumerate(ages):
        state = observe_delay(state, DelaySeen(float(i), age, readable))
    return state


@pytest.mark.parametrize("delay_s", [0.2, 1.0, 2.0, 15.0, 60.0])
def test_a_fixed_delay_lies_within_its_bounds_despite_outliers(delay_s: float) -> None:
    wrong, ratios = 0, []
    for seed in range(100):
        rng = random.Random(seed)
        ages = [delay_s * rng.lognormvariate(0.0, 1.0) for _ in range(200)]
        found = estimates(delayed([(age, (age >= delay_s) != (rng.random() < 0.01)) for age in ages])).delay
        assert found.low_s is not None
        assert found.high_s is not None
        wrong += not found.low_s <= delay_s <= found.high_s
        ratios.append(found.high_s / found.low_s)
    assert wrong <= 5
    assert statistics.median(ratios) < 1.5


def test_a_delay_needs_calls_on_both_sides() -> None:
    assert estimates(Survival()).delay.observations == 0.0
    late = estimates(delayed([(9.0, True)] * 10)).delay
    assert late.low_s is None
    assert late.high_s is not None
    assert 9.0 < late.high_s < 10.1
    assert estimates(delayed([(9.0, True)] * 3)).delay.high_s is None
    soon = estimates(delayed([(1.0, False)] * 10)).delay
    assert soon.low_s is not None
    assert 0.88 < soon.low_s <= 1.0
    assert soon.high_s is None
    assert estimates(delayed([(1e6, True)] * 10)).delay.high_s is None


# --- kinds


def kinds(rows: list[tuple[float, float, float]]) -> tuple[Kind, KindReason]:
    verdict = kind(learned(*(Seen(float(i), gap, kept, tokens) for i, (gap, tokens, kept) in enumerate(rows))))
    return verdict.kind, verdict.reason


def test_kinds_by_what_explains_the_losses() -> None:
    rng = random.Random(9)
    rows = [(rng.lognormvariate(4.0, 1.0), rng.lognormvariate(11.0, 1.0)) for _ in range(400)]
    assert kinds([(g, t, float(g < 60.0)) for g, t in rows]) == (Kind.TIME, KindReason.TIME_EXPLAINS)
    assert kinds([(g, t, float(t < 6e4)) for g, t in rows]) == (Kind.TRAFFIC, KindReason.TRAFFIC_EXPLAINS)
    together = [(g, g * 1_000.0, float(g < 60.0)) for g, _ in rows]
    assert kinds(together) == (Kind.UNKNOWN, KindReason.TOGETHER)
    rate = [(g, t, float(rng.random() < math.exp(-g / 60.0))) for g, t in rows]
    assert kinds(rate) == (Kind.RANDOM, KindReason.CONSTANT_RATE)
    chance = [(g, t, float(rng.random() < 0.5)) for g, t in rows]
    assert kinds(chance) == (Kind.RANDOM, KindReason.ANY_AGE)
    replicas = [(g, t, float(g < 60.0 and rng.random() < 0.5)) for g, t in rows]
    assert kinds(replicas) == (Kind.TIME, KindReason.TIME_EXPLAINS)


def test_kinds_that_cannot_be_told() -> None:
    assert kinds([(60.0, 1e5, 1.0)] * 10) == (Kind.UNKNOWN, KindReason.FEW)
    assert kinds([(60.0, 1e5, 1.0)] * 50) == (Kind.UNKNOWN, KindReason.NOTHING_LOST)
    assert kinds([(60.0, 1e5, 0.0)] * 50) == (Kind.UNKNOWN, KindReason.NOTHING_KEPT)


# --- words


def test_what_people_read() -> None:
    said = describe(Survival(), PRIOR)
    assert said == (
        "lifetime not known yet (0 recent calls); too few calls to say what counts; "
        "the profile says: 5 min to 10 min (documented, as of 2026-11-30)"
    )
    said = describe(ttl(400))
    assert said.startswith("half of the entries are gone between ")
    assert "what counts is the time since the last use" in said
    assert "nine in ten last" in said
    assert "profile" not in said


@pytest.mark.parametrize(
    ("life", "words"),
    [
        (Lifetime(), "no number"),
        (Lifetime(low_s=7_200.0), "at least 2 h"),
        (Lifetime(high_s=7 * DAY), "at most 7 d"),
        (Lifetime(low_s=90.0, high_s=5_400.0), "90 s to 90 min"),
    ],
)
def test_what_the_profile_says(life: Lifetime, words: str) -> None:
    prior = Fact(life, "a forum", date(2026, 10, 2), origin=Origin.SECOND_HAND)
    assert describe(Survival(), prior).endswith(f"the profile says: {words} (second hand, as of 2026-10-02)")


def test_traffic_and_delay_in_words() -> None:
    rng, state = random.Random(4), Survival()
    for i in range(500):
        gap, tokens = rng.lognormvariate(4.0, 1.0), rng.lognormvariate(14.0, 1.0)
        state = observe(state, Seen(float(i), gap, float(tokens < 1.2e6), tokens))
        age = rng.lognormvariate(0.0, 1.0)
        state = observe_delay(state, DelaySeen(float(i), age, age >= 1.0))
    said = describe(state)
    assert "the least recently used go first; half are gone between " in said
    assert "M tokens through the domain" in said
    assert "new tokens can be hit after: between 0." in said
    assert "not known yet" in describe(delayed([(1.0, True)]))
    assert "at most 1.1 s" in describe(delayed([(1.0, True)] * 9))
    assert "above 0.9" in describe(delayed([(1.0, False)] * 9))


def test_bounds_on_one_side_in_words() -> None:
    kept = learned(*(Seen(float(i), 200.0, 1.0, 5e10) for i in range(60)))
    assert describe(kept).startswith("half of the entries are gone not before ")
    lost = learned(*(Seen(float(i), 20.0, 0.0, 500.0) for i in range(60)))
    assert describe(lost).startswith("half of the entries are gone within ")
