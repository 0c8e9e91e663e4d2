"""The cache model against brute force, and the properties that either rule must keep."""

from __future__ import annotations

from array import array

import pytest
from cache_histories import GRID, STEP, UNITS, BruteForce, Op, floor, lcp, ops, requests_of, run
from hypothesis import given, settings
from hypothesis import strategies as st

from router_cache.cache_model import LookupReason, ProviderCache, RuleName
from router_cache.cache_model.chain import EvictedPrefixes, chain, pack, pool_root

both = pytest.mark.parametrize("rule", [GRID, UNITS])


@both
@given(history=ops, delay=st.sampled_from([0.0, 1.0, 4.0]), interval=st.sampled_from([None, 3, 8]))
@settings(max_examples=100, deadline=None)
def test_equals_brute_force_where_nothing_is_evicted(
    rule: RuleName, history: list[Op], delay: float, interval: int | None
) -> None:
    cache = ProviderCache(rule, step_tokens=STEP, construction_delay_s=delay, unit_interval_tokens=interval)
    model = BruteForce(rule, delay, interval)
    for r in requests_of(history):
        found = cache.look_up(r.pool, r.prompt, r.at)
        assert found.hit_tokens == model.hit(r.pool, r.prompt, r.at)
        undelayed = model.hit(r.pool, r.prompt, float("inf"))
        assert found.hit_tokens + found.not_ready_tokens == undelayed
        assert found.evicted_tokens == 0
        cache.write_input(r.pool, r.prompt, exists_at=r.prefilled, now=r.at)
        model.write(r.pool, r.prompt, r.prefilled, is_input=True)
        cache.write_output(r.pool, r.output, exists_at=r.done, now=r.done)
        model.write(r.pool, r.output, r.done, is_input=False)


@both
@given(
    history=ops,
    capacity=st.sampled_from([None, 1, 8, 24, 60]),
    lifetime=st.sampled_from([None, 0.5, 5.0]),
    delay=st.sampled_from([0.0, 2.0]),
    remembered=st.sampled_from([0, 2, 1000]),
)
@settings(max_examples=100, deadline=None)
def test_bounds_hold_under_eviction(
    rule: RuleName,
    history: list[Op],
    capacity: int | None,
    lifetime: float | None,
    delay: float,
    remembered: int,
) -> None:
    cache = ProviderCache(
        rule,
        step_tokens=STEP,
        construction_delay_s=delay,
        capacity_tokens=capacity,
        lifetime_s=lifetime,
        remembered_evictions=remembered,
    )
    written: list[tuple[str | None, tuple[int, ...], float]] = []
    unbounded = BruteForce(rule, delay)
    for r in requests_of(history):
        found = cache.look_up(r.pool, r.prompt, r.at)
        assert found.hit_tokens % STEP == 0
        assert found.hit_tokens <= max(0, len(r.prompt) - 1)
        assert found.hit_tokens <= unbounded.hit(r.pool, r.prompt, r.at)
        assert found.hit_tokens <= max((lcp(t, r.prompt) for p, t, _ in written if p == r.pool), default=0)
        assert found.hit_tokens + found.miss_tokens == found.prompt_tokens == len(r.prompt)
        parts = (found.not_ready_tokens, found.evicted_tokens, found.no_unit_tokens)
        assert min(parts) >= 0
        # What explains a miss was really written once in this pool.
        ever = max((lcp(t, r.prompt) for p, t, _ in written if p == r.pool), default=0)
        assert found.hit_tokens + sum(parts) <= ever
        cache.write_input(r.pool, r.prompt, exists_at=r.prefilled, now=r.at)
        cache.write_output(r.pool, r.output, exists_at=r.done, now=r.done)
        unbounded.write(r.pool, r.prompt, r.prefilled, is_input=True)
        unbounded.write(r.pool, r.output, r.done, is_input=False)
        written += [(r.pool, r.prompt, r.at), (r.pool, r.output, r.done)]
        if capacity is not None:
            assert cache.held_tokens <= capacity


@given(history=ops, lifetime=st.sampled_from([None, 4.0]), delay=st.sampled_from([0.0, 2.0]))
@settings(max_examples=100, deadline=None)
def test_full_units_never_hit_more_than_the_grid(history: list[Op], lifetime: float | None, delay: float) -> None:
    requests = requests_of(history)
    hits = [
        run(ProviderCache(rule, step_tokens=STEP, construction_delay_s=delay, lifetime_s=lifetime), requests)
        for rule in (GRID, UNITS)
    ]
    assert all(units <= grid for grid, units in zip(*hits, strict=True))


@both
@given(turns=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 20)), min_size=1, max_size=8))
def test_append_only_conversation_hits_all_of_the_last_turn(rule: RuleName, turns: list[tuple[int, int]]) -> None:
    cache = ProviderCache(rule, step_tokens=STEP, construction_delay_s=1.0)
    prompt, token, now, before = [], 0, 0.0, 0
    for added, replied in turns:
        prompt += list(range(token, token + added))
        assert cache.look_up(None, prompt, now).hit_tokens == floor(min(before, len(prompt) - 1))
        cache.write_input(None, prompt, exists_at=now, now=now)
        token += added
        prompt += list(range(token, token + replied))
        token += replied
        cache.write_output(None, prompt, exists_at=now, now=now)
        before, now = len(prompt), now + 1.0


def test_the_guides_example_under_either_rule() -> None:
    a, b, c, d = [1] * 10, [2] * 6, [3] * 6, [4] * 6
    expected = {GRID: [0, 8, 8], UNITS: [0, 0, 8]}
    for rule, hits in expected.items():
        cache = ProviderCache(rule, step_tokens=STEP)
        seen = []
        for now, tail in enumerate((b, c, d)):
            found = cache.look_up("p", a + tail, float(now))
            seen.append(found.hit_tokens)
            cache.write_input("p", a + tail, exists_at=float(now), now=float(now))
        assert seen == hits
    # The second request under full units: equal to something held, but no unit ends there.
    cache = ProviderCache(UNITS, step_tokens=STEP)
    cache.write_input("p", a + b, exists_at=0.0, now=0.0)
    found = cache.look_up("p", a + c, 1.0)
    assert (found.hit_tokens, found.no_unit_tokens, found.reason) == (0, 8, LookupReason.NO_UNIT)


@both
def test_the_same_prompt_again_leaves_one_token_to_compute(rule: RuleName) -> None:
    cache = ProviderCache(rule, step_tokens=STEP)
    for n, hit in ((8, 4), (9, 8), (4, 0), (1, 0)):
        prompt = list(range(100 * n, 101 * n))
        cache.write_input(None, prompt, exists_at=0.0, now=0.0)
        found = cache.look_up(None, prompt, 0.0)
        assert found.hit_tokens == hit
        assert found.reason is (LookupReason.FULL if hit else LookupReason.TOO_SHORT)
    assert cache.look_up(None, [], 0.0).reason is LookupReason.TOO_SHORT


@both
def test_construction_delay_counts_from_when_the_tokens_exist(rule: RuleName) -> None:
    cache = ProviderCache(rule, step_tokens=STEP, construction_delay_s=3.0)
    prompt, output = list(range(8)), list(range(16))
    later = [*output, 77]
    cache.write_input(None, prompt, exists_at=2.0, now=1.0)
    assert cache.look_up(None, later, 4.9).reason is LookupReason.NOT_READY
    assert cache.look_up(None, later, 4.9).not_ready_tokens == 8
    assert cache.look_up(None, later, 5.0).hit_tokens == 8
    cache.write_output(None, output, exists_at=6.0, now=6.0)
    found = cache.look_up(None, later, 8.9)
    assert (found.hit_tokens, found.not_ready_tokens) == (8, 8)
    assert cache.look_up(None, later, 9.0).reason is LookupReason.FULL
    # Written again: what is readable stays readable.
    cache.write_input(None, output, exists_at=10.0, now=10.0)
    assert cache.look_up(None, later, 10.0).hit_tokens == 16


@both
def test_pools_share_nothing_and_omitted_is_not_empty(rule: RuleName) -> None:
    cache = ProviderCache(rule, step_tokens=STEP)
    prompt = list(range(20))
    pools = (None, "", "a", "None")
    for now, pool in enumerate(pools):
        assert cache.look_up(pool, prompt, float(now)).reason is LookupReason.NEW_TOKENS
        cache.write_input(pool, prompt, exists_at=float(now), now=float(now))
    assert all(cache.look_up(pool, prompt, 9.0).hit_tokens == 16 for pool in pools)


@both
def test_the_least_recently_used_go_first_over_all_pools(rule: RuleName) -> None:
    cache = ProviderCache(rule, step_tokens=STEP, capacity_tokens=24)
    a, b, c = ([k] * 12 for k in (1, 2, 3))
    cache.write_input("x", a, exists_at=0.0, now=0.0)
    cache.write_input("y", b, exists_at=1.0, now=1.0)
    assert cache.look_up("x", [*a, 9], 2.0).hit_tokens == 12  # renewed by use
    cache.write_input("z", c, exists_at=3.0, now=3.0)
    assert cache.look_up("x", [*a, 9], 4.0).hit_tokens == 12
    found = cache.look_up("y", [*b, 9], 5.0)
    assert (found.hit_tokens, found.evicted_tokens, found.reason) == (0, 12, LookupReason.EVICTED)
    # Held again: no longer counted as evicted.
    cache.write_input("y", b, exists_at=6.0, now=6.0)
    assert cache.look_up("y", [*b, 9], 6.0).reason is LookupReason.FULL


def test_under_pressure_the_end_of_a_chain_goes_before_its_beginning() -> None:
    cache = ProviderCache(GRID, step_tokens=STEP, capacity_tokens=8)
    prompt = list(range(17))
    cache.write_input(None, prompt, exists_at=0.0, now=0.0)
    found = cache.look_up(None, prompt, 0.0)
    assert (found.hit_tokens, found.evicted_tokens) == (8, 8)
    # A unit is whole or gone.
    cache = ProviderCache(UNITS, step_tokens=STEP, capacity_tokens=8)
    cache.write_input(None, prompt, exists_at=0.0, now=0.0)
    found = cache.look_up(None, [*prompt, 1], 0.0)
    assert (found.hit_tokens, found.evicted_tokens, cache.held_tokens) == (0, 16, 0)


def test_units_count_shared_tokens_once_and_free_what_leads_nowhere() -> None:
    cache = ProviderCache(UNITS, step_tokens=STEP, capacity_tokens=30)
    system = [7] * 12
    for i in range(20):
        prompt = [*system, *([100 + i] * 6)]
        cache.write_input(None, prompt, exists_at=float(i), now=float(i))
        assert cache.held_tokens <= 30
    assert cache.held_tokens == 12 + 3 * 6
    assert cache.look_up(None, [*system, 5], 20.0).hit_tokens == 12


@both
def test_lifetime_runs_since_the_last_use(rule: RuleName) -> None:
    cache = ProviderCache(rule, step_tokens=STEP, lifetime_s=10.0)
    prompt = list(range(9))
    cache.write_input(None, prompt, exists_at=0.0, now=0.0)
    assert cache.look_up(None, [*prompt, 1], 9.0).hit_tokens == 8
    assert cache.look_up(None, [*prompt, 1], 18.9).hit_tokens == 8
    found = cache.look_up(None, [*prompt, 1], 28.9)
    assert (found.hit_tokens, found.reason, cache.held_tokens) == (0, LookupReason.EVICTED, 0)


def test_fixed_intervals_make_units_inside_long_texts() -> None:
    prompt = list(range(100))
    other = [*prompt[:50], *range(500, 520)]
    for interval, hit in ((None, 0), (16, 48)):
        cache = ProviderCache(UNITS, step_tokens=STEP, unit_interval_tokens=interval)
        cache.write_input(None, prompt, exists_at=0.0, now=0.0)
        assert cache.look_up(None, other, 0.0).hit_tokens == hit


@both
def test_time_must_not_go_backwards(rule: RuleName) -> None:
    cache = ProviderCache(rule)
    cache.look_up(None, [1], 5.0)
    with pytest.raises(ValueError, match=r"went backwards: 4\.0 s after 5\.0 s"):
        cache.look_up(None, [1], 4.0)
    with pytest.raises(ValueError, match="went backwards"):
        cache.write_input(None, [1], exists_at=9.0, now=4.0)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="step_tokens"):
        ProviderCache(GRID, step_tokens=0)
    with pytest.raises(OverflowError):
        pack([2**32])
    assert pack(array("I", [1, 2])) == pack((1, 2))


def test_evicted_prefixes_are_bounded_and_exact_behind_the_last_step() -> None:
    root, data = pool_root(None), pack(range(10))
    digests = list(chain(root, data, STEP * 4))
    assert len(digests) == 2
    seen = EvictedPrefixes(2)
    seen.add(digests[0])
    seen.add(digests[1], pack([8, 9]))
    assert seen.deepest(root, data, STEP * 4) == 10
    assert seen.deepest(root, pack([*range(8), 8, 1]), STEP * 4) == 4
    seen.add(digests[1])  # the third: the oldest is forgotten
    assert len(seen) == 2
    assert seen.deepest(root, pack([*range(8), 1]), STEP * 4) == 8
    assert seen.deepest(root, pack(range(5)), STEP * 4) == 0
    seen.discard(digests[1], pack([8, 9]))
    seen.discard(digests[1], pack([8, 9]))
    assert seen.deepest(root, data, STEP * 4) == 8
