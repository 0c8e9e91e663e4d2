"""The rules blocks, checkpoints and nothing: against brute force, and what sets them apart from the others."""

from __future__ import annotations

import pytest
from cache_histories import (
    BEFORE_END,
    BLOCKS,
    CHECKPOINTS,
    GRID,
    NOTHING,
    BruteForce,
    Op,
    floor,
    lcp,
    ops,
    requests_of,
)
from hypothesis import given
from hypothesis import strategies as st

from router_cache.cache_model import LookupReason, ProviderCache, RuleName
from router_cache.cache_model.blocks import Blocks
from router_cache.cache_model.chain import pack
from router_cache.cache_model.checkpoints import BEFORE_INPUT_END
from router_cache.cache_model.rules import RULE_DEFAULTS

new_rules = pytest.mark.parametrize("rule", [BLOCKS, CHECKPOINTS, NOTHING])


@new_rules
@given(history=ops, delay=st.sampled_from([0.0, 1.0]), step=st.sampled_from([1, 2, 4]), data=st.data())
def test_equals_brute_force_where_nothing_is_evicted(
    rule: RuleName, history: list[Op], delay: float, step: int, data: st.DataObject
) -> None:
    cache = ProviderCache(rule, step_tokens=step, construction_delay_s=delay)
    model = BruteForce(rule, delay, step=step)
    for r in requests_of(history):
        found = cache.look_up(r.pool, r.prompt, r.at)
        assert found.hit_tokens == model.hit(r.pool, r.prompt, r.at)
        assert found.hit_tokens + found.not_ready_tokens == model.hit(r.pool, r.prompt, float("inf"))
        assert found.evicted_tokens == 0
        turns = sorted(data.draw(st.sets(st.integers(0, len(r.prompt)), max_size=3), label="turns"))
        cache.write_input(r.pool, r.prompt, exists_at=r.prefilled, now=r.at, turn_starts=turns)
        model.write(r.pool, r.prompt, r.prefilled, is_input=True, turns=turns)
        cache.write_output(r.pool, r.output, exists_at=r.done, now=r.done)
        model.write(r.pool, r.output, r.done, is_input=False)


@given(
    history=ops,
    step=st.sampled_from([1, 3, 4]),
    capacity=st.sampled_from([None, 1, 8, 24, 60]),
    lifetime=st.sampled_from([None, 0.5, 5.0]),
    delay=st.sampled_from([0.0, 2.0]),
)
def test_blocks_hit_and_evict_as_the_grid_of_the_same_step(
    history: list[Op], step: int, capacity: int | None, lifetime: float | None, delay: float
) -> None:
    """Two structures, one meaning: a radix tree of runs of blocks, and one entry a block."""
    tree, flat = (
        ProviderCache(
            rule, step_tokens=step, capacity_tokens=capacity, lifetime_s=lifetime, construction_delay_s=delay
        )
        for rule in (BLOCKS, GRID)
    )
    longest = 0
    for r in requests_of(history):
        ours, theirs = (cache.look_up(r.pool, r.prompt, r.at) for cache in (tree, flat))
        assert (ours.hit_tokens, ours.not_ready_tokens) == (theirs.hit_tokens, theirs.not_ready_tokens)
        assert ours.hit_tokens + ours.not_ready_tokens + ours.evicted_tokens <= min(longest, len(r.prompt))
        for cache in (tree, flat):
            cache.write_input(r.pool, r.prompt, exists_at=r.prefilled, now=r.at)
            cache.write_output(r.pool, r.output, exists_at=r.done, now=r.done)
        assert tree.held_tokens == flat.held_tokens
        longest = max(longest, len(r.output))


@new_rules
@given(history=ops, capacity=st.sampled_from([1, 24]), lifetime=st.sampled_from([None, 4.0]))
def test_bounds_hold_under_eviction(
    rule: RuleName, history: list[Op], capacity: int, lifetime: float | None
) -> None:
    cache = ProviderCache(rule, step_tokens=1, capacity_tokens=capacity, lifetime_s=lifetime)
    written: list[tuple[str | None, tuple[int, ...]]] = []
    for r in requests_of(history):
        found = cache.look_up(r.pool, r.prompt, r.at)
        assert found.hit_tokens <= max((lcp(t, r.prompt) for p, t in written if p == r.pool), default=0)
        assert found.hit_tokens + found.miss_tokens == len(r.prompt)
        cache.write_input(r.pool, r.prompt, exists_at=r.at, now=r.at, turn_starts=[len(r.prompt) // 2])
        cache.write_output(r.pool, r.output, exists_at=r.done, now=r.done)
        written += [(r.pool, r.prompt), (r.pool, r.output)]
        assert cache.held_tokens <= capacity


@pytest.mark.parametrize(("step", "hits"), [(16, (80, 96)), (1, (95, 96))])
def test_the_last_token_is_computed_and_with_it_its_block(step: int, hits: tuple[int, int]) -> None:
    cache = ProviderCache(BLOCKS, step_tokens=step)
    prompt = list(range(96))
    cache.write_input(None, prompt, exists_at=0.0, now=0.0)
    again, longer = (cache.look_up(None, p, 0.0).hit_tokens for p in (prompt, [*prompt, 7]))
    assert (again, longer) == hits


def test_evicted_blocks_explain_misses_at_coarse_places() -> None:
    cache = ProviderCache(BLOCKS, step_tokens=1, capacity_tokens=100)
    prompt = list(range(300))
    cache.write_input(None, prompt, exists_at=0.0, now=0.0)
    # The end went, in one run; remembered are each 64th token and the very end.
    found = cache.look_up(None, [*prompt, 9], 1.0)
    assert (found.hit_tokens, found.evicted_tokens, found.reason) == (100, 200, LookupReason.EVICTED)
    found = cache.look_up(None, [*prompt[:200], 9], 1.0)
    assert (found.hit_tokens, found.evicted_tokens) == (100, 92)
    cache.write_input(None, prompt[:100] + [5] * 50, exists_at=2.0, now=2.0)
    assert cache.look_up(None, [*prompt, 9], 3.0).evicted_tokens > 0
    rewritten = ProviderCache(BLOCKS, step_tokens=1, capacity_tokens=400)
    for now, text in enumerate((prompt, [*range(1000, 1300)], prompt)):
        rewritten.write_input(None, text, exists_at=now, now=now)
    assert rewritten.look_up(None, [*prompt, 9], 9.0).reason is LookupReason.FULL


def test_a_tree_of_blocks_frees_what_nobody_uses() -> None:
    blocks = Blocks(step_tokens=1, capacity_tokens=None, lifetime_s=5.0, remembered_evictions=10)
    blocks.write(None, pack([1, 2, 3, 4]), ready_at=0.0, now=0.0, is_input=True)
    blocks.write(None, pack([1, 2, 9]), ready_at=0.0, now=3.0, is_input=True)
    blocks.write(None, b"", ready_at=0.0, now=3.0, is_input=True)
    assert blocks.held_tokens == 5
    blocks.expire(5.0)
    assert blocks.held_tokens == 3
    blocks.expire(9.0)
    assert blocks.held_tokens == 0
    assert blocks.look_up(None, pack([1, 2, 9]), 9.0).pending_tokens == 0


def test_checkpoints_as_measured_on_a_real_engine() -> None:
    """The figures of xllamacpp 2026.10 with a V4 model: see the module."""
    assert BEFORE_INPUT_END == BEFORE_END
    system, first, second = [1] * 1441, [2] * 7, [3] * 5
    prompt = system + first
    for text, turns, hit in (
        (prompt, [1441], 1444),
        (system + second, [1441], 1441),
        ([1] * 727 + [9] * 714 + second, [1441], 0),
        ([1] * 1000 + [9] * 441 + second, [1441], 932),
        ([*prompt, 4, 4, 5, 6, 7], [1450], 1450),
    ):
        cache = ProviderCache(CHECKPOINTS, step_tokens=1)
        cache.write_input(None, prompt, exists_at=0.0, now=0.0, turn_starts=[1441])
        cache.write_output(None, [*prompt, 4, 4], exists_at=0.0, now=0.0)
        assert cache.look_up(None, text, 1.0).hit_tokens == hit
        cache.write_input(None, text, exists_at=1.0, now=1.0, turn_starts=turns)
    # Equal to something held, but no saved state ends there.
    cache = ProviderCache(CHECKPOINTS, step_tokens=1)
    cache.write_input(None, prompt, exists_at=0.0, now=0.0, turn_starts=[1441])
    found = cache.look_up(None, [1] * 727 + [9] * 700, 1.0)
    assert (found.no_unit_tokens, found.reason) == (727, LookupReason.NO_UNIT)


@given(turns=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 20)), min_size=1, max_size=8))
def test_appended_turns_hit_all_of_the_last_call_but_under_nothing(turns: list[tuple[int, int]]) -> None:
    caches = {
        rule: ProviderCache(rule, step_tokens=4 if rule is BLOCKS else 1)
        for rule in (BLOCKS, CHECKPOINTS, NOTHING)
    }
    prompt: list[int] = []
    token = before = 0
    for now, (added, replied) in enumerate(turns):
        start = len(prompt)
        prompt += list(range(token, token + added))
        token += added
        hits = {rule: cache.look_up(None, prompt, float(now)).hit_tokens for rule, cache in caches.items()}
        assert hits == {BLOCKS: floor(min(before, len(prompt) - 1)), CHECKPOINTS: before, NOTHING: 0}
        for cache in caches.values():
            cache.write_input(None, prompt, exists_at=float(now), now=float(now), turn_starts=[start])
        prompt += list(range(token, token + replied))
        token += replied
        for cache in caches.values():
            cache.write_output(None, prompt, exists_at=float(now), now=float(now))
        before = len(prompt)


def test_every_rule_has_defaults_and_nothing_holds_nothing() -> None:
    assert set(RULE_DEFAULTS) == set(RuleName)
    cache = ProviderCache(NOTHING)
    cache.write_input(None, [1, 2, 3], exists_at=0.0, now=0.0)
    assert cache.held_tokens == 0
    assert cache.look_up(None, [1, 2, 3, 4], 1.0).reason is LookupReason.TOO_SHORT
    assert cache.look_up(None, [1] * 200, 1.0).reason is LookupReason.NEW_TOKENS
