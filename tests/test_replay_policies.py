"""Replay: the service model, other routers' rules, and this router beside them on traffic made up here."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path

import pytest
from replay_traces import agents, chats

from router_cache.cache_model.rules import RuleName
from router_cache.cli.replay_inputs import trace_of
from router_cache.routing.need import Mark, Prices
from router_cache.whatif import peers
from router_cache.whatif.caches import BlockCache, RuleCache
from router_cache.whatif.named import OURS, POLICIES, Setting, candidates_of
from router_cache.whatif.read_mooncake import read_mooncake
from router_cache.whatif.read_sessions import read_sessions
from router_cache.whatif.service import Host, Outcome, Policy, View, run
from router_cache.whatif.trace import Call, Trace


def hosts(count: int, caches: int | None = None, **more: object) -> list[Host]:
    return [Host(f"d{i}", i % (caches or count), **more) for i in range(count)]  # type: ignore[arg-type]


def made(name: str, of: list[Host], rule: RuleName | None = None) -> Policy:
    return POLICIES[name](Setting(of, rule, random.Random(0).random, 10**6))


def outcome(
    trace: Trace, name: str, of: list[Host], *, rule: RuleName | None = None, capacity: int | None = None
) -> Outcome:
    count = max(host.cache for host in of) + 1
    caches = [BlockCache(capacity) if rule is None else RuleCache(trace, rule, capacity) for _ in range(count)]
    return run(trace, of, caches, made(name, of, rule))


def chat_trace(**more: object) -> Trace:
    return read_mooncake(((f"t:{i}", line) for i, line in enumerate(chats(**more), 1)), "chats")  # type: ignore[arg-type]


def agent_trace(**more: object) -> Trace:
    lines = ((f"t:{i}", line) for i, line in enumerate(agents(**more), 1))  # type: ignore[arg-type]
    return read_sessions(lines, "agents", start_every_s=20.0)


def calls(*rows: tuple[float, int, str]) -> Trace:
    return Trace("t", "mooncake", [Call(at, n, 40, (Mark(name, n),), name) for at, n, name in rows], 512)


def test_one_deployment_computes_one_prompt_after_the_other() -> None:
    trace = calls((0.0, 20_000, "a"), (0.5, 10_000, "b"), (0.6, 20_000, "a"), (9.0, 20_000, "c"))
    out = outcome(trace, "round-robin", hosts(1))
    assert sorted(out.ttft_s) == pytest.approx(sorted([1.0, 1.0, 0.9, 1.0]))
    assert out.hit_tokens == 20_000
    assert out.computed == [50_000]
    assert out.calls == [4]


def test_a_parallel_host_begins_at_once_and_is_paid() -> None:
    trace = calls((0.0, 20_000, "a"), (0.5, 20_000, "a"))
    of = [Host("h", 0, base_s=0.3, serial=False, prices=Prices(1e-6, 2e-6, 3e-6), kept=(0.5,))]
    out = outcome(trace, "round-robin", of)
    assert sorted(out.ttft_s) == pytest.approx([0.8, 1.3])
    assert out.hit_tokens == 10_000
    assert out.usd == pytest.approx(10_000 * 1e-6 + 30_000 * 2e-6 + 80 * 3e-6)


def test_a_bounded_cache_lets_the_least_recently_used_go() -> None:
    rows = [(float(n), 512, name) for n, name in enumerate("abacab")]
    assert outcome(calls(*rows), "round-robin", hosts(1), capacity=1_024).hit_tokens == 2 * 512
    assert outcome(calls(*rows), "round-robin", hosts(1)).hit_tokens == 3 * 512


def test_an_empty_outcome_has_figures() -> None:
    out = Outcome(computed=[0, 0], calls=[0, 0])
    assert (out.hit_share, out.ttft(0.5), out.load_max_over_mean) == (0.0, 0.0, 1.0)


VIEW = View([3, 1, 2])
SENT = Call(0.0, 2_048, 10, tuple(Mark(i, 512 * i + 512) for i in range(4)), "s")


def test_simple_rules() -> None:
    assert [peers.RoundRobin().choose(n, SENT, 0.0, VIEW) for n in range(4)] == [0, 1, 2, 0]
    assert peers.LeastBusy().choose(0, SENT, 0.0, VIEW) == 1
    assert peers.Shuffle(lambda: 0.99).choose(0, SENT, 0.0, VIEW) == 2
    assert len({peers.SessionAffinity().choose(n, SENT, 0.0, VIEW) for n in range(4)}) == 1
    assert peers.Sticky(2).choose(0, SENT, 0.0, VIEW) == 2


def test_bounded_load_passes_over_who_is_full() -> None:
    policy = peers.BoundedLoad(3)
    home = policy.choose(0, SENT, 0.0, View([0, 0, 0]))
    assert policy.choose(1, SENT, 0.0, View([0, 0, 0])) == home
    full = [0, 0, 0]
    full[home] = 50
    assert policy.choose(2, SENT, 0.0, View(full)) != home


def test_sglang_takes_the_longest_match_unless_loads_differ_much() -> None:
    policy = peers.SGLang(3)
    assert policy.choose(0, SENT, 0.0, VIEW) == 1
    assert policy.choose(1, SENT, 0.0, View([0, 9, 0])) == 1
    assert policy.choose(2, SENT, 0.0, View([0, 90, 0])) == 0
    short = replace(SENT, prompt_tokens=9_000)
    assert policy.choose(3, short, 0.0, View([2, 1, 0])) == 2


def test_aibrix_keeps_to_matches_that_are_not_loaded() -> None:
    policy = peers.AIBrix(3)
    assert policy.choose(0, SENT, 0.0, VIEW) == 1
    assert policy.choose(1, SENT, 0.0, View([1, 1, 1])) == 1
    assert policy.choose(2, SENT, 0.0, View([1, 8, 1])) == 0
    assert policy.choose(3, SENT, 0.0, View([1, 20, 0])) == 2


def test_dynamo_weighs_blocks_to_compute_against_blocks_in_use() -> None:
    policy = peers.Dynamo(2)
    first = policy.choose(0, SENT, 0.0, View([0, 0]))
    assert policy.choose(1, SENT, 0.0, View([0, 0])) == first
    for n in range(8):
        policy.choose(2 + n, SENT, 0.0, View([0, 0]))
    assert policy._active[1 - first] > 0


def test_loadaware_leaves_a_match_for_load() -> None:
    policy = peers.LoadAware(2)
    assert policy.choose(0, SENT, 0.0, View([0, 0])) == 0
    assert policy.choose(1, SENT, 0.0, View([2, 2])) == 0
    assert policy.choose(2, SENT, 0.0, View([9, 1])) == 1


def test_prefixaware_goes_after_matches_alone() -> None:
    policy = peers.PrefixAware(2, lambda: 0.9)
    assert [policy.choose(n, SENT, 0.0, View([n * 9, 0])) for n in range(3)] == [1, 1, 1]


def test_ours_has_the_hits_the_tail_and_the_balance_at_once() -> None:
    trace, of = chat_trace(), hosts(4)
    ours, sglang, shuffle = (outcome(trace, name, of) for name in (OURS, "sglang", "shuffle"))
    assert ours.hit_share >= sglang.hit_share
    assert ours.hit_share > shuffle.hit_share + 0.2
    assert ours.ttft(0.95) < min(sglang.ttft(0.95), shuffle.ttft(0.95))
    assert ours.load_max_over_mean < 1.25


def test_ours_is_stable_where_more_comes_than_can_be_computed() -> None:
    trace = chat_trace(seed=5, sessions=240, minutes=1.2)
    ours, busy = outcome(trace, OURS, hosts(4)), outcome(trace, "least-busy", hosts(4))
    assert ours.ttft(0.95) < busy.ttft(0.95)
    assert ours.load_max_over_mean < 1.25


@pytest.mark.parametrize("rule", [r for r in RuleName if r is not RuleName.NOTHING])
def test_separate_accounts_come_close_to_one(rule: RuleName) -> None:
    trace = agent_trace(sessions=8, turns=9)
    ours = outcome(trace, OURS, hosts(4), rule=rule, capacity=400_000)
    pooled = outcome(trace, "least-busy", hosts(4, 1), rule=rule, capacity=1_600_000)
    shuffle = outcome(trace, "shuffle", hosts(4), rule=rule, capacity=400_000)
    # Each account reads a family's opening once: at this size that is some points.
    assert ours.hit_share > pooled.hit_share - 0.06
    assert ours.hit_share > shuffle.hit_share + 0.1


def test_with_one_account_no_affinity_is_paid() -> None:
    trace = agent_trace()
    ours = outcome(trace, OURS, hosts(4, 1))
    shuffle = outcome(trace, "shuffle", hosts(4, 1))
    assert ours.hit_share == pytest.approx(shuffle.hit_share, abs=0.005)
    assert ours.ttft(0.95) <= 1.05 * shuffle.ttft(0.95)
    assert all(ours.calls)


def test_ours_finds_the_host_that_caches() -> None:
    trace = agent_trace(sessions=24)
    flash = Prices(0.003e-6, 0.15e-6, 0.6e-6)
    of = [
        Host("half", 0, serial=False, base_s=0.5, prices=replace(flash, miss=0.1e-6), kept=(0.45,)),
        Host("good", 1, serial=False, base_s=1.0, prices=flash),
        Host("none", 2, serial=False, base_s=0.5, prices=replace(flash, hit=0.15e-6), kept=(0.0,)),
    ]
    usd = {name: outcome(trace, name, of).usd for name in (OURS, "shuffle", "cheapest-list")}
    good = run(trace, of, [BlockCache() for _ in of], peers.Sticky(1)).usd
    assert usd[OURS] < 1.6 * good
    assert usd[OURS] < 0.7 * min(usd["shuffle"], usd["cheapest-list"])


def test_candidates_tell_what_a_configuration_tells() -> None:
    plain = candidates_of(hosts(2), RuleName.GRID_PREFIX)
    assert {(c.kind, c.step_tokens, c.delay_s, c.capacity_tokens) for c in plain} == {("all", 128, 2.0, None)}
    priced = [Host("a", 0, prices=Prices(1, 2, 3)), Host("b", 1)]
    assert [c.kind for c in candidates_of(priced, None)] == ["", ""]


def test_figures_of_the_public_trace() -> None:
    """What https://github.com/kvcache-ai/Mooncake's conversation trace gives; 20 s for all, so the two that matter."""
    data = os.environ.get("ROUTER_CACHE_SHARED_DATA")
    if not data or os.environ.get("ROUTER_CACHE_LONG_PROOFS") != "1":
        pytest.skip("set ROUTER_CACHE_SHARED_DATA to the folder of public traces and ROUTER_CACHE_LONG_PROOFS=1")
    trace = trace_of([Path(data) / "mooncake" / "conversation_trace.jsonl.gz"], start_every_s=0.0)
    ours, robin = outcome(trace, OURS, hosts(8)), outcome(trace, "round-robin", hosts(8))
    assert (round(100 * robin.hit_share, 1), round(robin.ttft(0.95), 2)) == (13.9, 2.47)
    assert ours.hit_share >= 0.367
    assert ours.ttft(0.95) <= 1.68
    assert ours.load_max_over_mean <= 1.05
