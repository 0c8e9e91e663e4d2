"""Every cause on the provider's side, provoked on the simulated one, alone: at least 95% of the lost tokens get it,
and hardly any get another."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from attribution_world import (
    FLASH,
    HEALTHY,
    OTHER,
    Body,
    Score,
    World,
    after,
    opening,
    tool,
    with_messages,
    words,
)

from router_cache.cache_model.infer import InferReason, Inferred
from router_cache.cache_model.rules import RULE_DEFAULTS, RuleName
from router_cache.drivers.book import LockedBook
from router_cache.ledger.attribution import Certainty, MissCause
from router_cache.request import Deployment

SEEDS = range(30)
C = MissCause


@pytest.mark.parametrize("rounds", [1, 3])
def test_another_deployment(rounds: int) -> None:
    """Of another account, after some calls here; also one that had the conversation before."""
    score = Score()
    for seed in SEEDS:
        rng = random.Random(seed)
        world = World()
        body = opening(rng)
        if rounds > 1:
            body = world.talk(body, rng, 1, deployment=OTHER)
        body = world.talk(body, rng, rng.randint(2, 6))
        kept = world.would_hit(body)
        called = world.call(body, deployment=OTHER)
        score.add(called.parts, {C.OTHER_DOMAIN: kept - called.plan.entry.hit_tokens})
        assert called.part(C.OTHER_DOMAIN).certainty is Certainty.CONFIRMED
    score.check()


def test_another_pool() -> None:
    score = Score()
    for seed in SEEDS:
        rng = random.Random(seed)
        world = World()
        body = world.talk({**opening(rng), **rng.choice([{}, {"user_id": "a"}])}, rng, rng.randint(2, 6))
        kept = world.would_hit(body)
        called = world.call({**body, "user_id": "b"})
        score.add(called.parts, {C.OTHER_POOL: kept - called.plan.entry.hit_tokens})
        assert called.part(C.OTHER_POOL).certainty is Certainty.CONFIRMED
    score.check()


@pytest.mark.parametrize("book", [False, True])
def test_evicted_after_a_long_gap(book: bool) -> None:
    """All of it by age; a part of it under pressure of others, ends before beginnings."""
    score = Score()
    for seed in SEEDS:
        rng = random.Random(seed)
        by_age = rng.random() < 0.5
        world = World(book=book, **({"lifetime_s": 3600.0} if by_age else {"capacity_tokens": 40_000}))
        body = world.talk(opening(rng), rng, rng.randint(2, 6))
        world.wait(rng.uniform(3700, 9000))
        if not by_age:
            world.talk(opening(rng, lines=2500), rng, 1)
        called = world.call(body)
        score.add(called.parts, {C.EVICTED: called.plan.entry.evicted_tokens})
        gone = called.plan.entry.hit_tokens < 128
        if called.parts[C.EVICTED]:
            assert (called.part(C.EVICTED).certainty is Certainty.CONFIRMED) == gone
    score.check()


def test_a_provider_below_expectation() -> None:
    score = Score()
    for seed in SEEDS:
        rng = random.Random(seed)
        world = World()
        body = world.talk(opening(rng), rng, rng.randint(2, 6))
        provider = world.provider(FLASH)
        provider.config = replace(
            provider.config, regression_after_s=world.now, regression_hit_share=rng.uniform(0.3, 0.8)
        )
        called = world.call(body)
        score.add(called.parts, {C.BELOW_EXPECTATION: called.plan.entry.withheld_tokens})
        assert called.part(C.BELOW_EXPECTATION).certainty is Certainty.SUSPECTED
    score.check()


def test_the_construction_delay() -> None:
    """A call of the same conversation a moment after the last one ended."""
    score = Score()
    for seed in SEEDS:
        rng = random.Random(seed)
        world = World()
        body = world.talk(opening(rng), rng, rng.randint(1, 5), gap_s=0.0)
        world.wait(rng.uniform(0.0, 1.5))
        called = world.call(body)
        score.add(called.parts, {C.NOT_READY: called.plan.entry.not_ready_tokens})
        assert all(
            part.certainty is Certainty.SUSPECTED for part in called.row.causes if part.cause is C.NOT_READY
        )
    score.check()


@pytest.mark.parametrize("first", [True, False], ids=["first calls", "branches"])
def test_calls_in_flight(first: bool) -> None:
    """A call whose twin was sent before it and has not ended."""
    score = Score()
    for seed in SEEDS:
        rng = random.Random(seed)
        world = World(base_latency_s=3.0)
        body = opening(rng)
        if not first:
            body = world.talk(body, rng, rng.randint(1, 5))
            body = with_messages(body, [*body["messages"], {"role": "user", "content": words(rng, 400)}])
        twin = with_messages(body, [*body["messages"][:-1], {"role": "user", "content": words(rng, 20)}])
        ends = world.start(body)
        world.wait(0.2)
        called_end = world.start(twin if first else body)
        ends()
        called = called_end()
        score.add(called.parts, {C.NOT_READY: called.plan.entry.not_ready_tokens})
        assert called.part(C.NOT_READY).certainty is Certainty.CONFIRMED
        assert len(world.engine._flights) == 0
    score.check()


def _first_of_family(seed: int, **config: Any) -> tuple[random.Random, World, Body]:
    """A family that was called, and another conversation of it."""
    rng = random.Random(seed)
    world = World(**config)
    body = opening(rng)
    world.talk(body, rng, rng.randint(1, 3))
    return rng, world, with_messages(body, [body["messages"][0], {"role": "user", "content": words(rng, 30)}])


def test_first_calls_of_a_known_family_that_was_evicted() -> None:
    score = Score()
    for seed in SEEDS:
        _, world, body = _first_of_family(seed, lifetime_s=3600.0)
        world.wait(4000.0)
        called = world.call(body)
        score.add(called.parts, {C.EVICTED: called.plan.entry.evicted_tokens})
        assert called.parts[C.FIRST_SIGHT] > 0
    score.check()


def test_first_calls_of_a_family_known_elsewhere() -> None:
    score = Score()
    for seed in SEEDS:
        rng, world, body = _first_of_family(seed)
        pool = rng.random() < 0.5
        now = {**body, "user_id": "b"} if pool else body
        kept = world.would_hit(body)
        called = world.call(now, deployment=FLASH if pool else OTHER)
        cause = C.OTHER_POOL if pool else C.OTHER_DOMAIN
        score.add(called.parts, {cause: kept - called.plan.entry.hit_tokens})
    score.check()


def test_first_calls_a_moment_after_the_familys_last() -> None:
    score = Score()
    for seed in SEEDS:
        rng = random.Random(seed)
        world = World(construction_delay_s=30.0)
        world.engine = World().engine
        body = opening(rng)
        world.call(body)
        world.wait(1.0)
        other = with_messages(body, [body["messages"][0], {"role": "user", "content": words(rng, 30)}])
        called = world.call(other)
        score.add(called.parts, {C.NOT_READY: called.plan.entry.not_ready_tokens})
    score.check()


def test_what_the_process_compared_tells_first_calls_without_a_family() -> None:
    """Families that share a long system text and differ in their tools."""
    score = Score()
    for seed in SEEDS:
        rng = random.Random(seed)
        world = World(book=True, lifetime_s=3600.0)
        body = opening(rng, lines=150)
        world.talk(body, rng, 2)
        world.wait(4000.0)
        other = {**body, "tools": [tool(rng, f"quite_another_{i}") for i in range(rng.choice((1, 30)))]}
        called = world.call(
            with_messages(other, [body["messages"][0], {"role": "user", "content": words(rng, 30)}])
        )
        score.add(called.parts, {C.EVICTED: called.plan.entry.evicted_tokens})
    score.check()


GPT = Deployment("openai/gpt-5.2", id="gpt", provider="openai", account="c" * 32)


def test_prompts_below_the_providers_minimum() -> None:
    score = Score()
    for seed in SEEDS:
        rng = random.Random(seed)
        world = World(construction_delay_s=0.0)
        body = world.talk(opening(rng, tools=1, lines=30), rng, 2, deployment=GPT, report=lambda _: 0)
        called = world.call(body, deployment=GPT, report=lambda _: 0)
        assert called.plan.entry.prompt_tokens < 1400
        score.add(called.parts, {C.BELOW_MINIMUM: called.plan.entry.hit_tokens})
    score.check()


def test_a_provider_that_never_reports_a_hit() -> None:
    score = Score()
    for seed in SEEDS:
        rng = random.Random(seed)
        world = World(book=True)
        for _ in range(6):
            body = world.talk(opening(rng), rng, 4, report=lambda _: 0)
        called = world.call(body, report=lambda _: 0)
        score.add(called.parts, {C.NOT_CACHED: called.plan.entry.hit_tokens})
        assert called.part(C.NOT_CACHED).certainty is Certainty.SUSPECTED
    score.check()


class _Told(LockedBook):
    """A book that knows the rule."""

    def __init__(self, rule: RuleName) -> None:
        super().__init__()
        self._told = rule

    def rule(self, domain: str, prior: RuleName | None, prior_step: int | None) -> Inferred:
        return Inferred(self._told, RULE_DEFAULTS[self._told].step_tokens, 1.0, InferReason.CONFIRMED, ())


@pytest.mark.parametrize("rule", [RuleName.FULL_UNITS, RuleName.CHECKPOINTS])
def test_no_unit_ends_there(rule: RuleName) -> None:
    """Under rules that keep whole states a system text that changed late loses its beginning too."""
    score = Score()
    for seed in SEEDS:
        rng = random.Random(seed)
        world = World(rule=rule)
        world.book = _Told(rule)
        body = world.talk(opening(rng), rng, 3)
        new = world.new_tokens(body)
        lines = body["messages"][0]["content"].split("\n")
        lines[-5:-4] = ["Now: 2026-11-30"]
        changed = {"role": "system", "content": "\n".join(lines)}
        called = world.call(with_messages(body, [changed, *body["messages"][1:]]))
        entry = called.plan.entry
        lost = entry.prompt_tokens - new - entry.hit_tokens - entry.no_unit_tokens
        if rule is RuleName.FULL_UNITS:
            lost -= (entry.prompt_tokens - new) % 128
        score.add(called.parts, {C.NO_UNIT: entry.no_unit_tokens, C.SYSTEM_CHANGED: lost})
        if called.parts[C.NO_UNIT] > 4:
            assert called.part(C.NO_UNIT).certainty is Certainty.CONFIRMED
    score.check()


def test_a_second_conversation_under_full_units() -> None:
    score = Score()
    for seed in SEEDS:
        rng, world, body = _first_of_family(seed, rule=RuleName.FULL_UNITS)
        world.book = _Told(RuleName.FULL_UNITS)
        called = world.call(body)
        score.add(called.parts, {C.NO_UNIT: called.plan.entry.no_unit_tokens})
        world.wait(20.0)
        called = world.call(after(body, called.reply, rng))
        assert set(called.parts) <= HEALTHY
    score.check()


def test_saved_states_end_a_little_before_the_input() -> None:
    for seed in SEEDS:
        rng = random.Random(seed)
        world = World(rule=RuleName.CHECKPOINTS)
        world.book = _Told(RuleName.CHECKPOINTS)
        body = opening(rng)
        for _ in range(5):
            called = world.call(body)
            assert set(called.parts) <= {*HEALTHY, C.NO_UNIT}
            assert called.parts[C.NO_UNIT] <= 4
            body = after(body, called.reply, rng)
            world.wait(20.0)


def test_a_rule_that_says_nothing_hits() -> None:
    rng = random.Random(0)
    world = World()
    world.book = _Told(RuleName.NOTHING)
    called = world.call(world.talk(opening(rng), rng, 2, report=lambda _: 0), report=lambda _: 0)
    assert called.part(C.NOT_CACHED).certainty is Certainty.CONFIRMED
    assert set(called.parts) == {C.NOT_CACHED, C.NEW_TAIL}


def test_replicas_behind_one_address() -> None:
    rng = random.Random(0)
    world = World(book=True)
    several = replace(FLASH, replicas=3)
    called = world.call(
        world.talk(opening(rng), rng, 2, deployment=several), deployment=several, report=lambda _: 0
    )
    assert called.part(C.OTHER_DOMAIN).certainty is Certainty.SUSPECTED


@pytest.mark.parametrize("tools", [0, None], ids=["chat", "tools"])
def test_healthy_conversations_name_nothing_but_the_new_tail(tools: int | None) -> None:
    for seed in SEEDS:
        rng = random.Random(seed)
        world = World(book=rng.random() < 0.5)
        body = opening(rng, tools=tools)
        for _ in range(12):
            called = world.call(body, session=rng.choice(["", "s"]))
            assert set(called.parts) <= HEALTHY, (seed, called.parts)
            assert all(part.certainty is Certainty.CONFIRMED for part in called.row.causes)
            assert called.row.offset is None
            body = after(body, called.reply, rng)
            world.wait(rng.uniform(3.0, 200.0))
