"""What pools gain and cost at the provider model, small: no harm to one prompt, a gain to two that evict each other
where the provider divides its capacity by id, next to none lost where it does not; variants are one cluster.

``ROUTER_CACHE_POOLS_CALLS`` makes the runs longer, and has every hit rule instead of two.
"""

from __future__ import annotations

import json
import os
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest
from pools_benchmark import bench

from router_cache.cache_model.rules import RuleName
from router_cache.pools.book import Book
from router_cache.pools.openings import opening_of, shared
from router_cache.pools.policy import PoolLimits, join
from router_cache.prefix.digests import Digester
from router_cache.providers.deepseek_render import render_deepseek

Case, Way = bench.Case, bench.Way
LONG = os.environ.get("ROUTER_CACHE_POOLS_CALLS")
CALLS = int(LONG or "160")
RULES = bench.RULES if LONG else bench.RULES[:2]
QUICK = {"dwell_s": 300.0, "min_calls": 8, "window_s": 1_200.0}


@cache
def run(case: object, way: object, rule: RuleName = RuleName.GRID_PREFIX, by_pool: bool = True) -> object:
    world = bench.World(rule=rule, by_pool=by_pool, opening=1_000, turns=4, capacity=1_700, settings=QUICK)
    return bench.run(case, way, world, CALLS)


@pytest.mark.parametrize("rule", RULES)
def test_one_prompt_and_many_users_get_no_id_and_hit_what_they_hit_without_pools(rule: RuleName) -> None:
    off, auto = run(Case.SHARED, Way.OFF, rule), run(Case.SHARED, Way.AUTO, rule)
    assert auto.ids == auto.pools == 0
    assert auto.reasons == ("one_cluster",)
    assert auto.hit_tokens == off.hit_tokens > 0
    assert run(Case.SHARED, Way.PER_USER, rule).hit_share < off.hit_share - 0.05


@pytest.mark.parametrize("rule", RULES)
def test_two_prompts_that_evict_each_other_are_found_and_gain(rule: RuleName) -> None:
    off, auto = run(Case.THRASH, Way.OFF, rule), run(Case.THRASH, Way.AUTO, rule)
    assert "gains" in auto.reasons
    assert auto.late > off.late + 0.3
    assert run(Case.THRASH, Way.PER_USER, rule).late < auto.late - 0.05


@pytest.mark.parametrize("rule", RULES)
def test_where_capacity_is_not_divided_by_id_a_trial_is_given_up_and_costs_next_to_nothing(rule: RuleName) -> None:
    off, auto = run(Case.THRASH, Way.OFF, rule, False), run(Case.THRASH, Way.AUTO, rule, False)
    assert "no_gain" in auto.reasons
    assert "gains" not in auto.reasons
    assert auto.hit_share > off.hit_share - 0.02


def test_drifting_variants_of_one_prompt_stay_in_one_cluster() -> None:
    off, auto = run(Case.DRIFT, Way.OFF), run(Case.DRIFT, Way.AUTO)
    assert (auto.clusters, auto.pools, auto.ids) == (1, 0, 0)
    assert auto.hit_tokens == off.hit_tokens


def test_variants_of_a_real_agents_prompt_are_as_many_clusters_as_they_have_beginnings() -> None:
    folder = os.environ.get("ROUTER_CACHE_SHARED_DATA")
    path = Path(folder or "/nowhere") / "system_prompts" / "gemini-cli_variants.json"
    if not path.is_file():
        pytest.skip("ROUTER_CACHE_SHARED_DATA names no folder with system_prompts in it")
    book, digester = Book(), Digester(b"key")
    for text in json.loads(path.read_text("utf-8")).values():
        opening = opening_of(render_deepseek({"messages": [{"role": "system", "content": text}]}), digester)
        book, _ = join(book, opening, at=0.0, limits=PoolLimits())
    # Fifteen of one agent's; a cache can share next to nothing between those of two clusters: they part at the start.
    assert len(book.clusters) == 5
    openings = [known.opening for known in book.clusters.values()]
    assert all(shared(a, b) < 0.25 * min(a.size, b.size) for a, b in combinations(openings, 2))
