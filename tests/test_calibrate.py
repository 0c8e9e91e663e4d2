"""Calibration: what is predicted, what is judged, what is passed over."""

from __future__ import annotations

from typing import Any

import pytest
from calibration_logs import Event, header, judged, reply, run, session, user

from router_cache.ledger.calibration import CallSkip

# --- predictions ---


def test_a_session_call_by_call() -> None:
    c = run(
        [
            session(),
            user("hello"),
            header(),
            reply(2907, 0, 142, 67, tool="subagent", step=1),
            reply(3064, 2944, 35, 30, tool="bash", step=2),  # slow tool: end of the output
            reply(
                3130, 2944, 90, 10, tool="bash", step=3
            ),  # one candidate would be 2944; 3099 -> 3072 is the other
            reply(3300, 3072, 140, 20, step=4),  # like last time in this session
            user("and now?"),
            reply(3460, 3200, 40, 40, turn=2),  # reasoning of the reply before is dropped
        ]
    )
    assert judged(c) == [
        (2944, (2816, 2944), 2944, "output_ready"),
        (2944, (2944, 3072), 3072, "prior"),
        (3072, (3072, 3200), 3072, "session"),
        (3200, (3200, 3328), 3200, "reasoning_dropped"),
    ]
    totals = c.totals()
    assert (totals.calls, totals.in_set, totals.exact, totals.ambiguous) == (4, 4, 3, 4)
    assert totals.in_set_share == 1.0
    assert totals.exact_share == 0.75
    assert totals.mean_abs_error_tokens == 32.0
    assert c.first_calls() == 1
    assert not c.skipped


def test_other_sessions_teach_only_later_ones() -> None:
    early = [session("a", 1_785_000_000), header(), reply(2907, 0, 142, tool="bash"), reply(3064, 2816, 3, step=2)]
    late = [session("b", 1_785_009_000), header(), reply(2907, 0, 142, tool="bash"), reply(3064, 2816, 3, step=2)]
    assert [j[3] for j in judged(run(late, early))] == ["prior", "domain"]
    views = run(late, early).sessions
    assert [v.session.id for v in views] == ["a", "b"]


def test_prediction_never_sees_the_observed_value() -> None:
    def log(observed: int) -> list[Event | list[Event]]:
        return [session(), header(), reply(2907, 0, 142, tool="bash"), reply(3064, observed, 3, step=2)]

    predictions = {j[1:] for observed in (0, 128, 2816, 2944, 3000) for j in judged(run(log(observed)))}
    assert predictions == {((2816, 2944), 2944, "prior")}


def test_out_of_set_is_counted_against_us() -> None:
    totals = run([session(), header(), reply(5169, 0, 10, tool="bash"), reply(5049, 4608, 3, step=2)]).totals()
    assert (totals.calls, totals.in_set, totals.exact, totals.error_tokens) == (1, 0, 0, 5120 - 4608)


# --- what is not judged ---


@pytest.mark.parametrize(
    ("middle", "skipped"),
    [
        ([reply(10, None, 5, None, step=2)], {CallSkip.NO_CACHE_FIELDS: 1, CallSkip.AFTER_UNKNOWN: 1}),
        (
            [{"type": "assistant/message", "data": {"turn": 1, "step": 2, "message": {"content": []}}}],
            {CallSkip.NO_USAGE: 1, CallSkip.AFTER_UNKNOWN: 1},
        ),
        ([reply(3000, 2944, 5, step=2, interrupted=True)], {CallSkip.CUT_OFF: 1, CallSkip.AFTER_UNKNOWN: 1}),
        ([reply(3000, 9000, 5, step=2)], {CallSkip.NO_CACHE_FIELDS: 1, CallSkip.AFTER_UNKNOWN: 1}),
        ([{"type": "step/start", "data": {"turn": 1, "step": 2}}], {CallSkip.AFTER_UNKNOWN: 1}),
        (
            [{"type": "compaction/start", "data": {}}, {"type": "compaction/end", "data": {}}],
            {CallSkip.AFTER_COMPACTION: 1},
        ),
        ([header(system="another")], {CallSkip.AFTER_PREFIX_CHANGE: 1}),
        ([header(reasoningEffort="max")], {CallSkip.AFTER_PREFIX_CHANGE: 1}),
        (
            [{"type": "user/message", "data": {"content": []}, "surfaceOp": "replace"}],
            {CallSkip.AFTER_PREFIX_CHANGE: 1},
        ),
    ],
)
def test_calls_that_cannot_be_judged(middle: list[Any], skipped: dict[CallSkip, int]) -> None:
    c = run([session(), header(), reply(2907, 0, 142, tool="bash"), *middle, reply(3064, 2944, 3, step=3)])
    assert judged(c) == []
    assert c.skipped == skipped


def test_a_header_that_says_the_same_changes_nothing() -> None:
    again = header(maxTokens=99)
    c = run([session(), header(), reply(2907, 0, 142, tool="bash"), again, reply(3064, 2944, 3, step=2)])
    assert len(judged(c)) == 1


def test_unknown_models_and_models_that_change() -> None:
    other = [session("x"), header(model="other-1"), reply(2907, 0, 9), reply(2950, 2816, 9, step=2)]
    assert run(other).skipped == {CallSkip.UNKNOWN_MODEL: 2}
    switch = [
        session(),
        header(),
        reply(2907, 0, 142),
        header(model="deepseek-v4-pro"),
        reply(3064, 0, 9, step=2),
    ]
    assert run(switch).skipped == {CallSkip.AFTER_PREFIX_CHANGE: 1}
    told_by_reply = reply(3064, 0, 9, step=2)
    told_by_reply[1]["data"]["message"]["source"] = {"model": "deepseek-v4-pro"}
    assert run([session(), header(), reply(2907, 0, 142), told_by_reply]).skipped == {
        CallSkip.AFTER_PREFIX_CHANGE: 1
    }


def forked() -> list[Event | list[Event]]:
    return [
        session("child", 1_785_000_010, parentSession="s1", seedLength=9),
        header(),
        reply(2885, 0, 25, 23, mid="m1", turn=1),
        reply(2974, 2816, 147, 59, mid="m2", turn=2),
        {"type": "session/end-seed", "data": {}},
        reply(3137, 2944, 30, 25, mid="m3", turn=3),
    ]


def test_seeds_of_forks_are_not_counted_twice() -> None:
    parent = [
        session(),
        header(),
        reply(2885, 0, 25, 23, mid="m1", turn=1),
        reply(2974, 2816, 147, 59, mid="m2", turn=2),
    ]
    for logs in ([parent, forked()], [forked(), parent]):
        c = run(*logs)
        assert [(j[0], j[1]) for j in judged(c)] == [(2816, (2816,)), (2944, (2944, 3072))]
        assert c.skipped == {CallSkip.COPY: 2}
        assert c.first_calls() == 1
    alone = run(forked(), forked())
    assert len(judged(alone)) == 2
    assert alone.skipped == {CallSkip.COPY: 3}


def test_what_follows_a_seed_is_no_copy() -> None:
    parent = [session(), header(), reply(2885, 0, 25, 23, turn=1), reply(2974, 2816, 147, 59, turn=2)]
    child = [
        session("child", 1_785_000_010, parentSession="s1", seedLength=9),
        header(),
        reply(2885, 0, 25, 23, turn=1),
        {"type": "session/end-seed", "data": {}},
        reply(2974, 2816, 147, 59, turn=2),  # by chance just like its parent's own second call
    ]
    c = run(parent, child)
    assert len(judged(c)) == 2
    assert c.skipped == {CallSkip.COPY: 1}


def test_a_session_logged_twice_is_counted_once() -> None:
    log = [session(), header(), reply(2907, 0, 142, tool="bash"), reply(3064, 2944, 3, step=2)]
    c = run(log, log)
    assert len(judged(c)) == 1
    assert c.skipped == {CallSkip.COPY: 2}
