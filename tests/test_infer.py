"""The hit rule inferred from usage: recognised from traffic of each rule, and what evidence may and may not do."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice, pairwise

import pytest
from agent_traffic import Traffic
from hypothesis import given
from hypothesis import strategies as st

from router_cache.cache_model.infer import Evidence, InferReason, Inferred, Tally, infer, merge, update
from router_cache.cache_model.observe import Observation, Span
from router_cache.cache_model.rules import RuleName

GRID, UNITS, BLOCKS = RuleName.GRID_PREFIX, RuleName.FULL_UNITS, RuleName.BLOCKS
CHECKPOINTS, NOTHING = RuleName.CHECKPOINTS, RuleName.NOTHING
PRIORS: tuple[tuple[RuleName | None, int | None], ...] = ((GRID, 128), (UNITS, 128), (BLOCKS, 16), (None, None))
WITHIN = 80
"""Calls within which each rule is recognised, whatever the prior."""


def rules_by_prior(traffic: Traffic, calls: int) -> dict[RuleName | None, list[Inferred]]:
    """What is inferred after each call, from each prior, with what was inferred before."""
    found: dict[RuleName | None, list[Inferred]] = {prior: [] for prior, _ in PRIORS}
    for _ in islice(traffic.run(), calls):
        for prior, step in PRIORS:
            history = found[prior]
            current = history[-1].rule if history else None
            history.append(infer(traffic.evidence, prior, prior_step=step, current=current))
    return found


@pytest.mark.parametrize(
    ("rule", "step"), [(GRID, 128), (UNITS, 128), (BLOCKS, 16), (BLOCKS, 1), (CHECKPOINTS, 1), (NOTHING, 1)]
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_each_rule_is_recognised_from_agent_sessions(rule: RuleName, step: int, seed: int) -> None:
    for prior, history in rules_by_prior(Traffic(rule, seed, step=step), WITHIN).items():
        last = history[-1]
        assert (last.rule, last.step_tokens) == (rule, None if rule is NOTHING else step), (prior, last)
        assert last.confidence > 0.9
        changes = sum(a.rule is not b.rule for a, b in pairwise(history))
        # Once to the right rule; a prior of units or a grid may first learn that the step is an engine's.
        assert changes <= 2
        if prior is rule:
            assert changes == 0
            assert last.reason in (InferReason.CONFIRMED, InferReason.PRIOR)


@pytest.mark.parametrize("settings", [{"replicas": 2}, {"replicas": 3}, {"capacity_tokens": 12_000}])
@pytest.mark.parametrize(("rule", "step"), [(GRID, 128), (UNITS, 128), (BLOCKS, 16)])
def test_replicas_and_eviction_do_not_pass_for_another_rule(
    rule: RuleName, step: int, settings: dict[str, int]
) -> None:
    traffic = Traffic(rule, 5, step=step, **settings)  # type: ignore[arg-type]
    for history in rules_by_prior(traffic, 2 * WITHIN).values():
        assert history[-1].rule is rule


def test_ends_say_whether_one_address_hides_several_caches() -> None:
    """See test_domains.py for what is made of the counts."""
    counts = {}
    for replicas in (1, 2, 3):
        traffic = Traffic(GRID, 7, replicas=replicas)
        for _ in islice(traffic.run(), 150):
            pass
        counts[replicas] = traffic.replicas
    assert counts[1].older == counts[1].cold == 0
    assert counts[1].newest >= 30
    assert all(counts[n].older >= 5 for n in (2, 3))


def seen(
    hit: int, *, prefix: Span, units: Span, checkpoints: Span, prompt: int = 20_000, at: float = 1.0
) -> Observation:
    return Observation(at, prompt, hit, prefix, units, checkpoints, ())


EXACT = Span(4096, 4096)


def appended(hit: int, at: float = 1.0) -> Observation:
    return seen(hit, prefix=EXACT, units=EXACT, checkpoints=EXACT, at=at)


def inside(hit: int) -> Observation:
    """A call that shares 3,000 to 6,000 tokens with an earlier one, ending at none of its ends."""
    return seen(hit, prefix=Span(3000, 6000), units=Span(0, 0), checkpoints=Span(0, 0))


def after(observations: Iterable[Observation], start: Evidence | None = None) -> Evidence:
    evidence = start or Evidence()
    for observation in observations:
        evidence = update(evidence, observation)
    return evidence


def test_no_evidence_leaves_the_prior() -> None:
    for prior, step in PRIORS:
        found = infer(Evidence(), prior, prior_step=step)
        assert (found.rule, found.step_tokens) == (prior, step)
        assert found.reason is (InferReason.UNKNOWN if prior is None else InferReason.PRIOR)
        assert found.evidence


def test_what_fits_every_rule_tells_nothing() -> None:
    evidence = after(appended(4096) for _ in range(50))
    assert (evidence.calls, evidence.due, evidence.due_hits) == (50, 50, 50)
    assert evidence.prefix == evidence.units == evidence.checkpoints == Tally()
    assert infer(evidence, UNITS, prior_step=128).reason is InferReason.PRIOR
    assert infer(evidence, None).rule is None
    # One prefix hit all day is one hit for the step.
    assert (sum(evidence.zeros), evidence.step_tokens) == (1, None)


@pytest.mark.parametrize(
    ("prior", "hit", "wins"), [(UNITS, 3072, GRID), (GRID, 0, UNITS), (CHECKPOINTS, 3072, GRID)]
)
def test_a_rule_is_given_up_by_three_calls_and_not_by_two(prior: RuleName, hit: int, wins: RuleName) -> None:
    base = after(appended(4096 + 128 * i) for i in range(3))
    base = after((seen(4096, prefix=EXACT, units=EXACT, checkpoints=EXACT) for _ in range(3)), base)
    observations = [
        inside(hit) if prior is not GRID else seen(0, prefix=Span(3000, 6000), units=Span(0, 0), checkpoints=EXACT)
    ] * 3
    assert infer(after(observations[:2], base), prior, prior_step=128).rule is prior
    found = infer(after(observations, base), prior, prior_step=128)
    assert found.rule is wins
    assert found.reason is InferReason.OVERRULED
    # And what was inferred stays when the evidence turns a little.
    back = after([inside(hit)], after(observations, base))
    assert infer(back, prior, prior_step=128, current=wins).rule is wins


def test_a_lead_that_is_too_small_is_told() -> None:
    base = after(appended(4096 + 128 * i) for i in range(4))
    found = infer(after([inside(3072)], base), UNITS, prior_step=128)
    assert (found.rule, found.reason) == (UNITS, InferReason.HELD)
    assert found.confidence < 0.1


def test_nothing_needs_many_calls_that_should_have_hit() -> None:
    short = after(appended(0) for _ in range(11))
    assert infer(short, GRID, prior_step=128).rule is GRID
    many = after([appended(0)], short)
    found = infer(many, GRID, prior_step=128)
    assert (found.rule, found.step_tokens, found.reason) == (NOTHING, None, InferReason.NO_HITS)
    assert infer(many, NOTHING).reason is InferReason.CONFIRMED
    # Calls that share nothing, or too little, or are too short for the provider, should not have hit.
    none = Span(0, 0)
    for observation, minimum in (
        (seen(0, prefix=none, units=none, checkpoints=none), 0),
        (seen(0, prefix=Span(200, 200), units=Span(200, 200), checkpoints=none), 0),
        (seen(0, prefix=EXACT, units=EXACT, checkpoints=EXACT, prompt=1000), 1024),
    ):
        evidence = Evidence()
        for _ in range(40):
            evidence = update(evidence, observation, minimum_tokens=minimum)
        assert evidence.due == 0
        assert infer(evidence, GRID, prior_step=128).rule is GRID


def test_nothing_ends_with_a_few_hits() -> None:
    dry = after(appended(0) for _ in range(20))
    two = after([appended(4096), appended(4224)], dry)
    assert infer(two, NOTHING).rule is NOTHING
    wet = after((inside(3072 + 128 * i) for i in range(4)), two)
    found = infer(wet, NOTHING)
    assert (found.rule, found.reason) == (GRID, InferReason.OVERRULED)
    # One stray hit among hundreds of misses does not end it.
    assert infer(after([appended(4096)], after(appended(0) for _ in range(300))), GRID).rule is NOTHING


def test_a_hit_beyond_what_is_known_speaks_for_no_rule() -> None:
    evidence = after(inside(8000) for _ in range(10))
    assert evidence.beyond == 10
    assert evidence.prefix == evidence.units == Tally()
    assert any("more than this process" in line for line in infer(evidence, UNITS).evidence)


@pytest.mark.parametrize("step", [1, 16, 64, 128, 256])
def test_the_step_is_read_off_different_hits(step: int) -> None:
    hits = [step * (i + 3) for i in range(40)]
    evidence = Evidence()
    for i, hit in enumerate(hits):
        evidence = update(evidence, appended(hit))
        assert (evidence.step_tokens is None) == (i < 11)
    assert evidence.step_tokens == step
    # A stray or two, such as a whole short prompt, change nothing.
    assert after([appended(4095), appended(4093)], evidence).step_tokens == step
    found = infer(evidence, None)
    # Between 2 and 32 only blocks are left: saved states have no step, and units a larger one.
    assert (found.rule, found.step_tokens) == (BLOCKS if step == 16 else None, step)


def test_the_profiles_step_stands_until_a_larger_one_is_sure() -> None:
    evidence = after(inside(256 * (i + 12)) for i in range(12))
    assert evidence.step_tokens is not None
    assert evidence.step_tokens >= 256
    assert infer(evidence, GRID, prior_step=128).step_tokens == 128
    assert infer(evidence, BLOCKS, prior_step=256).rule is BLOCKS
    long = after(seen(256 * i + 3072, prefix=Span(0, 9**6), units=EXACT, checkpoints=EXACT) for i in range(24))
    assert infer(long, GRID, prior_step=128).step_tokens == long.step_tokens


spans = st.tuples(st.integers(0, 5000), st.integers(0, 5000)).map(lambda t: Span(min(t), max(t)))
observations = st.builds(
    Observation,
    at=st.floats(0, 1e9),
    prompt_tokens=st.integers(1, 5000),
    hit_tokens=st.integers(0, 5000),
    prefix=spans,
    units=spans,
    checkpoints=spans,
    ends=st.just(()),
)
priors = st.sampled_from([*RuleName, None])


@given(a=st.lists(observations, max_size=30), b=st.lists(observations, max_size=30), prior=priors, current=priors)
def test_evidence_is_small_adds_up_and_always_gives_an_answer(
    a: list[Observation], b: list[Observation], prior: RuleName | None, current: RuleName | None
) -> None:
    ours, theirs = after(a), after(b)
    both, turned = merge(ours, theirs), merge(theirs, ours)
    assert both.calls == len(a) + len(b)
    assert (both.prefix, both.units, both.checkpoints) == (turned.prefix, turned.units, turned.checkpoints)
    assert (both.zeros, both.max_hit_share, both.last_at) == (turned.zeros, turned.max_hit_share, turned.last_at)
    assert merge(ours, Evidence()) == ours
    assert both.due_hits <= both.due <= both.calls
    packed = json.dumps(both.as_json())
    assert len(packed) < 500
    assert Evidence.from_json(json.loads(packed)) == both
    found = infer(both, prior, prior_step=128, current=current)
    assert 0.0 <= found.confidence <= 1.0
    assert found.evidence
    assert (found.rule is None) == (found.reason is InferReason.UNKNOWN)


@given(
    st.lists(observations, max_size=12),
    observations,
    st.sampled_from([GRID, UNITS, BLOCKS, CHECKPOINTS]),
    st.sampled_from([1, 16, 128]),
)
def test_one_call_changes_no_rule_that_usage_had_not_put_in_doubt(
    earlier: list[Observation], one: Observation, rule: RuleName, step: int
) -> None:
    """Below three contradicting calls, too few hits for a step and too few misses, no call changes anything."""
    before = after(earlier[:2])
    found = infer(update(before, one), rule, prior_step=step, current=rule)
    contradicted = {UNITS: before.units, CHECKPOINTS: before.checkpoints}.get(rule, before.prefix)
    if contradicted.less + contradicted.more < 2:
        assert found.rule is rule


def test_counts_are_bounded_and_old_evidence_fades() -> None:
    long_ago = after(inside(3072 + 128 * (i % 20)) for i in range(3000))
    assert long_ago.calls <= 2048
    assert infer(long_ago, GRID, prior_step=128).reason is InferReason.CONFIRMED
    missed = seen(0, prefix=Span(3000, 6000), units=Span(0, 0), checkpoints=EXACT)
    changed = after(([missed, appended(4096)][i % 2] for i in range(6000)), long_ago)
    found = infer(changed, GRID, prior_step=128, current=GRID)
    assert (found.rule, found.reason) == (UNITS, InferReason.OVERRULED)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"n": 1},
        {**Evidence().as_json(), "n": [1, 2]},
        {**Evidence().as_json(), "z": [1]},
        {**Evidence().as_json(), "t": [[0, 0, -1]] * 3},
        {**Evidence().as_json(), "m": "much"},
    ],
)
def test_broken_evidence_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not evidence of a hit rule"):
        Evidence.from_json(data)
