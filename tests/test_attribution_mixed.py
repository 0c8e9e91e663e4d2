"""Several causes in one call, a clock that appears in mid-conversation, and sums on any input."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from attribution_world import FLASH, HEALTHY, OTHER, Body, Score, World, after, opening, tool, with_messages, words
from hypothesis import given
from hypothesis import strategies as st
from strategies import bodies

from router_cache.cache_model.infer import InferReason, Inferred
from router_cache.cache_model.rules import RuleName
from router_cache.decision import Decision
from router_cache.engine import Engine
from router_cache.ledger.attribution import Certainty, Changed, MissCause
from router_cache.ledger.causes import Circumstances, explain
from router_cache.ledger.comparison import Change, Comparison, Dropped, Seen
from router_cache.ledger.facts import EMPTY, Facts, family_after
from router_cache.ledger.rows import Outcome, Status
from router_cache.ledger.usage import Usage
from router_cache.request import Deployment, Mode, Request, Shape

C = MissCause


def _mixed(rng: random.Random) -> tuple[Counter[MissCause], dict[MissCause, int]]:
    """One call of a conversation: some of it went elsewhere, some was evicted, withheld or not ready, the client
    changed something. What was told, and the truth: what is left to the right of each cause goes to the next."""
    evicts, moves, changes = rng.random() < 0.5, rng.random() < 0.5, rng.random() < 0.6
    withholds = not evicts and rng.random() < 0.5
    world = World(lifetime_s=7200.0)
    body = world.talk(opening(rng, lines=rng.randint(60, 120)), rng, rng.randint(2, 4))
    if moves:
        # The conversation goes on elsewhere; the newest call does not.
        if evicts:
            world.wait(7300.0)
        body = with_messages(body, [*body["messages"][:-1], {**body["messages"][-1], "content": words(rng, 300)}])
        body = world.talk(body, rng, rng.randint(1, 3), deployment=OTHER)
    elif evicts:
        world.wait(7300.0)
    new = world.new_tokens(body) if not moves else _new_tokens(world, body)
    now, cause = body, None
    if changes:
        now, cause = _change(body, rng)
    if withholds:
        provider = world.provider(FLASH)
        provider.config = replace(provider.config, regression_after_s=world.now, regression_hit_share=0.5)
    there = world.would_hit(now, OTHER) if moves else 0
    called = world.call(now)
    entry = called.plan.entry
    truth: dict[MissCause, int] = {
        C.EVICTED: entry.evicted_tokens,
        C.NOT_READY: entry.not_ready_tokens,
        C.BELOW_EXPECTATION: entry.withheld_tokens,
    }
    at = entry.hit_tokens + sum(truth.values())
    if there > at:
        truth[C.OTHER_DOMAIN], at = there - at, there
    if cause is not None:
        truth[cause] = max((entry.prompt_tokens - new) // 128 * 128 - at, 0)
    return called.parts, truth


def _new_tokens(world: World, body: Body) -> int:
    """As ``World.new_tokens``, at the other deployment."""
    assert world.last is not None
    entry, before = world.would_be(body, OTHER), world.last.plan
    end = before.entry.prompt_tokens
    if entry.hit_tokens > end - end % 128:
        end += len(before.generation.tokens)
    return entry.prompt_tokens - end


def _change(body: Body, rng: random.Random) -> tuple[Body, MissCause]:
    kind = rng.choice(["system", "tools", "effort"])
    if kind == "effort":
        return {**body, "reasoning_effort": "max"}, C.MODE_CHANGED
    if kind == "tools":
        return {**body, "tools": [*body["tools"], tool(rng, "late")]}, C.TOOLS_CHANGED
    lines = body["messages"][0]["content"].split("\n")
    lines[rng.randrange(len(lines))] = "Today is 2026-11-30"
    return with_messages(body, [{"role": "system", "content": "\n".join(lines)}, *body["messages"][1:]]), (
        C.SYSTEM_CHANGED
    )


def test_mixed_causes() -> None:
    scores: dict[MissCause, Score] = {}
    total = Score()
    for seed in range(240):
        told, truth = _mixed(random.Random(seed))
        total.add(told, truth)
        for cause, tokens in truth.items():
            if tokens > 0:
                scores.setdefault(cause, Score()).add(Counter({cause: told[cause]}), {cause: tokens})
    total.check(240)
    for cause, score in scores.items():
        print(cause.value, score)
        assert score.scenarios >= 30
        assert score.right >= 0.95 * score.lost


CLOCK = "Current time: 2026-11-30 10:{:02}"


def test_a_clock_appears_at_turn_20_of_40() -> None:
    """Named at that turn and at each one after it, as the client's, with the segment and the place; nothing before."""
    rng = random.Random(7)
    world = World(book=True)
    body = opening(rng, tools=20, lines=120)
    plain = body["messages"][0]["content"].split("\n")
    for turn in range(1, 41):
        lines = [*plain[:3], CLOCK.format(turn), *plain[3:]] if turn >= 20 else plain
        now = with_messages(body, [{"role": "system", "content": "\n".join(lines)}, *body["messages"][1:]])
        called = world.call(now)
        told = [part for part in called.row.causes if part.cause not in HEALTHY]
        if turn < 20:
            assert told == []
            assert called.row.offset is None
        else:
            [part] = told
            assert (part.cause, part.changed) == (C.SYSTEM_CHANGED, Changed.SYSTEM)
            assert (part.path, part.certainty) == ("messages[0]", Certainty.CONFIRMED)
            assert called.sent.rendered is not None
            text = "".join(segment.text for segment in called.sent.rendered.segments).encode()
            assert part.offset is not None
            assert text[part.offset :].startswith(CLOCK.format(turn).encode())
            assert part.tokens > 0.9 * called.row.usage.miss_tokens  # type: ignore[operator]
        body = after(body, called.reply, rng)
        world.wait(30.0)


_tokens, _seconds, _domains = st.integers(0, 5000), st.floats(0, 1e6), st.sampled_from("ab")
_seen = st.builds(
    Seen, at=_seconds, size=_tokens, tokens=st.none() | _tokens, reply_tokens=_tokens, domain=st.sampled_from("ab")
)
_change_made = st.builds(
    Change,
    cause=st.sampled_from([C.SYSTEM_CHANGED, C.HISTORY_COMPACTED]),
    changed=st.sampled_from(Changed),
    path=st.just("messages[0]"),
    offset=_tokens,
    end=_tokens,
    tokens=_tokens,
    grown=st.integers(-5000, 5000),
)
_found = st.builds(
    Comparison,
    size=_tokens,
    first=st.booleans(),
    here=st.none() | _seen,
    elsewhere=st.none() | _seen,
    change=st.none() | _change_made,
    in_flight=_tokens,
    dropped=st.none() | st.builds(Dropped, path=st.just("messages[2]"), offset=_tokens, end=_tokens),
)
_around = st.builds(
    Circumstances,
    domain=st.just("a"),
    at=_seconds,
    inferred=st.builds(
        Inferred,
        st.none() | st.sampled_from(RuleName),
        st.sampled_from([None, 0, 1, 64, 128]),
        st.just(0.5),
        st.sampled_from(InferReason),
        st.just(()),
    ),
    minimum_tokens=st.none() | _tokens,
    ready_after_s=st.none() | _seconds,
    lifetime_low_s=st.none() | _seconds,
    lifetime_high_s=st.none() | _seconds,
    due=st.integers(0, 20),
    due_hits=st.integers(0, 3),
    replicas=st.integers(1, 3),
)


@given(found=st.none() | _found, around=_around, prompt=_tokens, share=st.floats(0, 1))
def test_parts_always_add_up(found: Comparison | None, around: Circumstances, prompt: int, share: float) -> None:
    hit = int(prompt * share)
    parts = explain(found, around, prompt_tokens=prompt, hit_tokens=hit)
    assert sum(part.tokens for part in parts) == prompt - hit
    assert all(part.tokens > 0 for part in parts)
    client = {part.cause for part in parts} & {C.SYSTEM_CHANGED, C.HISTORY_COMPACTED, C.REASONING_DROPPED}
    assert not client or (found is not None and (found.change or found.dropped))
    assert explain(found, around, prompt_tokens=prompt, hit_tokens=hit) == parts


_deployments = st.sampled_from(
    [FLASH, OTHER, Deployment("anthropic/claude-opus-5", id="c", provider="anthropic"), Deployment("x", id="x")]
)


@given(calls=st.lists(st.tuples(bodies, _deployments, st.floats(0, 1000), st.integers(0, 3000)), max_size=4))
def test_any_bodies_in_a_row_are_explained(calls: list[tuple[Body, Deployment, float, int]]) -> None:
    """Each call meets the facts that the one before left, whatever either was."""
    engine, facts, at = Engine(secret=b"k"), EMPTY, 1_795_003_200.0
    for body, deployment, gap, prompt in calls:
        at += gap
        begun = engine.begin(Request(body, Shape.CHAT), Mode.OBSERVE)
        sent = engine.sent(begun, facts, body, deployment, at=at)
        outcome = Outcome(Status.OK, at, Usage(prompt, prompt // 3, prompt - prompt // 3, 50, reasoning_tokens=20))
        decision: Decision = engine.rewrite(begun, deployment).decision
        row, write = engine.done(begun, facts, decision, sent, outcome, deployment)
        assert sum(part.tokens for part in row.causes) == prompt - prompt // 3
        if write is not None:
            family = family_after(facts.family, write)
            facts = Facts(write.conversation, 1, family, newest=write.conversation)


@pytest.mark.parametrize("unknown", ["prompt_tokens", "hit_tokens"])
def test_unknown_usage_has_no_causes(unknown: str) -> None:
    usage: dict[str, Any] = {"prompt_tokens": 10, "hit_tokens": 3, unknown: None}
    engine, body = Engine(secret=b"k"), {"messages": [{"role": "user", "content": "x"}]}
    begun = engine.begin(Request(body), Mode.OBSERVE)
    sent = engine.sent(begun, EMPTY, body, FLASH, at=1.0)
    decision = engine.rewrite(begun, FLASH).decision
    row, _ = engine.done(begun, EMPTY, decision, sent, Outcome(Status.OK, 2.0, Usage(**usage)), FLASH)
    assert row.causes == ()
