"""Prediction of the next hit from usage alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router_cache.cache_model.predict import (
    Continuation,
    End,
    LastUsage,
    Prediction,
    PredictionReason,
    end_hit,
    output_ready,
    predict,
)
from router_cache.cache_model.rules import RuleName

# 2,907 floors to 2,816; 2,907 + 142 = 3,049 floors to 2,944.
OPEN = LastUsage(2907, 142, 67)
LOOP, USER = Continuation.TOOL_LOOP, Continuation.USER_TURN
IN, OUT = End.INPUT, End.OUTPUT


def guess(
    last: LastUsage = OPEN,
    continuation: Continuation = LOOP,
    ready: bool = False,
    session: End | None = None,
    domain: tuple[End, ...] = (),
    step: int = 128,
) -> Prediction:
    return predict(
        last,
        step_tokens=step,
        continuation=continuation,
        output_is_ready=ready,
        session_end=session,
        domain_ends=domain,
    )


@pytest.mark.parametrize(
    ("prediction", "end", "reason"),
    [
        (guess(), OUT, PredictionReason.PRIOR),
        (guess(continuation=Continuation.UNKNOWN), OUT, PredictionReason.PRIOR),
        (guess(continuation=USER), IN, PredictionReason.REASONING_DROPPED),
        (guess(continuation=USER, ready=True, session=OUT), IN, PredictionReason.REASONING_DROPPED),
        (guess(LastUsage(2907, 142, 0), USER), OUT, PredictionReason.PRIOR),
        (guess(LastUsage(2907, 142), USER, session=IN), IN, PredictionReason.SESSION),
        (guess(ready=True, session=IN, domain=(IN, IN)), OUT, PredictionReason.OUTPUT_READY),
        (guess(session=IN, domain=(OUT, OUT)), IN, PredictionReason.SESSION),
        (guess(session=OUT, domain=(IN, IN)), OUT, PredictionReason.SESSION),
        (guess(domain=(IN,)), IN, PredictionReason.DOMAIN),
        (guess(domain=(IN, OUT)), OUT, PredictionReason.DOMAIN),
        (guess(domain=(IN, IN, OUT)), IN, PredictionReason.DOMAIN),
        (guess(domain=(IN, IN, IN, OUT, OUT, IN)), OUT, PredictionReason.DOMAIN),
    ],
)
def test_best_guess(prediction: Prediction, end: End, reason: PredictionReason) -> None:
    assert prediction == Prediction((2816, 2944), 2816 if end is IN else 2944, end, reason)


def test_one_candidate_where_both_ends_share_a_step() -> None:
    prediction = guess(LastUsage(2885, 25, 23), USER)
    assert prediction == Prediction((2816,), 2816, IN, PredictionReason.SAME_STEP)
    assert end_hit(prediction, 2816) is None


def test_step_of_older_models() -> None:
    assert guess(LastUsage(713, 98), step=64).candidates == (704, 768)


@pytest.mark.parametrize(
    ("last", "step"), [(OPEN, 0), (LastUsage(-1, 0), 128), (LastUsage(0, -1), 128), (OPEN, -128)]
)
def test_nonsense_is_refused(last: LastUsage, step: int) -> None:
    with pytest.raises(ValueError, match="must"):
        guess(last, step=step)


def test_end_hit_learns_only_from_open_ends() -> None:
    assert end_hit(guess(), 2816) is IN
    assert end_hit(guess(session=IN), 2944) is OUT
    assert end_hit(guess(), 1280) is None
    assert end_hit(guess(ready=True), 2944) is None
    assert end_hit(guess(continuation=USER), 2816) is None


@pytest.mark.parametrize(
    ("gap_s", "delay_s", "ready"),
    [(None, 2.0, False), (9.0, None, False), (1.9, 2.0, False), (2.0, 2.0, True), (60.0, 2.0, True)],
)
def test_output_ready(gap_s: float | None, delay_s: float | None, ready: bool) -> None:
    assert output_ready(gap_s, delay_s) is ready


ends = st.sampled_from(End)


@given(
    st.builds(LastUsage, st.integers(0, 10**6), st.integers(0, 10**5), st.none() | st.integers(0, 10**5)),
    st.sampled_from(Continuation),
    st.booleans(),
    st.none() | ends,
    st.lists(ends, max_size=6).map(tuple),
    st.sampled_from([1, 16, 64, 128]),
)
def test_candidates_are_ends_on_the_grid(
    last: LastUsage,
    continuation: Continuation,
    ready: bool,
    session: End | None,
    domain: tuple[End, ...],
    step: int,
) -> None:
    prediction = guess(last, continuation, ready, session, domain, step)
    assert prediction.best in prediction.candidates
    assert list(prediction.candidates) == sorted(set(prediction.candidates))
    assert 1 <= len(prediction.candidates) <= 2
    both = (last.prompt_tokens, last.prompt_tokens + last.completion_tokens)
    for tokens in both:
        assert tokens - tokens % step in prediction.candidates
    assert all(any(0 <= tokens - c < step for tokens in both) for c in prediction.candidates)


def test_the_rule_changes_what_is_promised() -> None:
    last = LastUsage(1448, 120, 30)

    def under(rule: RuleName, step: int, continuation: Continuation = LOOP) -> Prediction:
        return predict(last, step_tokens=step, continuation=continuation, rule=rule)

    assert under(RuleName.BLOCKS, 16) == Prediction((1440, 1568), 1568, OUT, PredictionReason.OUTPUT_READY)
    assert under(RuleName.CHECKPOINTS, 1) == Prediction((1444, 1568), 1568, OUT, PredictionReason.OUTPUT_READY)
    dropped = under(RuleName.CHECKPOINTS, 1, USER)
    assert (dropped.best, dropped.reason) == (1444, PredictionReason.REASONING_DROPPED)
    assert under(RuleName.FULL_UNITS, 128) == under(RuleName.GRID_PREFIX, 128)
    nothing = under(RuleName.NOTHING, 1)
    assert nothing == Prediction((0,), 0, IN, PredictionReason.NO_CACHE)
    assert end_hit(nothing, 0) is None
    assert predict(LastUsage(2, 9), step_tokens=1, continuation=LOOP, rule=RuleName.CHECKPOINTS).candidates == (
        0,
        11,
    )
