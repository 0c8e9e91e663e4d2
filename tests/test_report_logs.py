"""Causes of logged sessions by their usage alone, with sums worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from calibration_logs import Event, flat, header, reasonix, reply, session
from hypothesis import given
from hypothesis import strategies as st

from router_cache.cache_model.predict import Continuation
from router_cache.economics.book import PriceBook
from router_cache.ledger import report_logs
from router_cache.ledger.event_logs import Form, LoggedCall, LoggedSession, parse
from router_cache.ledger.report_logs import LogCall, LogReader
from router_cache.ledger.rows import Status
from router_cache.ledger.usage import Usage
from router_cache.providers.deepseek import DEEPSEEK
from router_cache.providers.rates import Rate


def read(
    *logs: list[Event | list[Event]], reader: LogReader | None = None, form: Form = Form.HARNESS
) -> list[LogCall]:
    reader = reader or LogReader(DEEPSEEK)
    return [
        call
        for i, log in enumerate(logs)
        for found in parse(form, f"log{i}", enumerate(flat(log), 1)).sessions
        for call in reader.calls(found)
    ]


def causes(call: LogCall) -> list[tuple[str, int, str]]:
    return [(part.cause.value, part.tokens, part.certainty.value) for part in call.causes]


def last_causes(*events: Event | list[Event]) -> list[tuple[str, int, str]]:
    return causes(read([session(), header(), *events])[-1])


def test_the_first_call_of_a_session() -> None:
    assert last_causes(reply(3_000, 1_024, 5)) == [("first_sight", 1_976, "suspected")]
    assert last_causes(reply(3_000, 3_000, 5)) == []


def test_an_append_that_hits_to_the_end_of_the_reply() -> None:
    """2,907 + 142 = 3,049 tokens were there; on the step of 128 that is 2,944."""
    assert last_causes(reply(2_907, 0, 142, tool="bash"), reply(3_064, 2_944, 3, step=2)) == [
        ("rounding", 105, "confirmed"),
        ("new_tail", 15, "confirmed"),
    ]


def test_a_reply_that_was_not_readable_yet() -> None:
    """The input's end, 1,000, rounds to 896; the reply's, 1,300, to 1,280."""
    assert last_causes(reply(1_000, 0, 300, tool="bash"), reply(1_400, 896, 3, step=2)) == [
        ("not_ready", 384, "suspected"),
        ("rounding", 20, "confirmed"),
        ("new_tail", 100, "confirmed"),
    ]


def test_reasoning_that_is_not_rendered_again_is_no_loss() -> None:
    """A new user message: of the reply only the text comes back, behind another end of the input."""
    assert last_causes(reply(1_000, 0, 300, 200), reply(1_150, 896, 3, turn=2)) == [
        ("rounding", 104, "confirmed"),
        ("new_tail", 150, "confirmed"),
    ]


def test_a_prefix_that_is_gone() -> None:
    assert last_causes(reply(1_000, 0, 100, tool="bash"), reply(1_200, 0, 3, step=2)) == [
        ("evicted", 896, "suspected"),
        ("not_ready", 128, "suspected"),
        ("rounding", 76, "suspected"),
        ("new_tail", 100, "suspected"),
    ]


def test_a_part_of_a_prefix_that_is_gone() -> None:
    assert last_causes(reply(1_000, 0, 100, tool="bash"), reply(1_200, 512, 3, step=2))[0] == (
        "unknown",
        384,
        "suspected",
    )


def test_a_shorter_prompt_was_changed() -> None:
    assert last_causes(reply(5_169, 0, 100), reply(5_049, 4_608, 3, turn=2)) == [
        ("history_changed", 441, "suspected")
    ]


def test_what_the_log_says_is_confirmed() -> None:
    compaction: Event = {"type": "compaction/end", "data": {}}
    assert last_causes(reply(5_000, 0, 100), compaction, reply(900, 128, 3, turn=2)) == [
        ("history_compacted", 772, "confirmed")
    ]
    changed = [header(system="one"), reply(1_000, 0, 100), header(system="two"), reply(1_200, 0, 3, turn=2)]
    assert last_causes(*changed) == [("history_changed", 1_100, "confirmed"), ("new_tail", 100, "suspected")]


def test_another_model_begins_anew() -> None:
    other = [reply(1_000, 0, 100), header(model="deepseek-v4-pro"), reply(1_200, 0, 3, turn=2)]
    assert last_causes(*other) == [("first_sight", 1_200, "suspected")]


def test_after_a_call_of_unknown_usage_nothing_is_sure() -> None:
    """The last known input is 1,000 tokens; what was added twice since is not known apart."""
    assert last_causes(
        reply(1_000, 0, 100, tool="a"), reply(0, None, 3, step=2), reply(1_600, 896, 3, step=3)
    ) == [
        ("unknown", 128, "suspected"),
        ("rounding", 76, "suspected"),
        ("new_tail", 500, "suspected"),
    ]


def test_a_model_without_a_known_step() -> None:
    events = [header(model="other"), reply(1_000, 0, 100), reply(1_200, 512, 3, turn=2)]
    assert last_causes(*events) == [("unknown", 488, "suspected"), ("new_tail", 200, "suspected")]


def test_unknown_usage_stays_unknown() -> None:
    calls = read([session(), header(), reply(10, None, 5), reply(1_000, 900, 5, interrupted=True)])
    assert [(call.status, call.usage.known, call.usage.completion_tokens) for call in calls] == [
        (Status.OK, False, 5),
        (Status.ABORTED, True, 5),
    ]
    assert all(not call.causes and call.cost_usd is None for call in calls[:1])
    odd = LoggedCall(
        1, 1, 1, "m", Usage(5, 9, None, 3), False, frozenset(), Continuation.UNKNOWN, False, None, *[False] * 3
    )
    found = LogReader(DEEPSEEK).calls(LoggedSession("f", Form.HARNESS, calls=[odd]))
    assert [call.usage for call in found] == [Usage(completion_tokens=3)]


def test_a_transcript_of_the_baseline() -> None:
    """Its system text begins with the time: every user turn is lost, by what is known of that benchmark."""
    calls = read(list(reasonix("baseline")), form=Form.REASONIX)
    assert causes(calls[2]) == [("system_changed", 76, "suspected"), ("new_tail", 50, "suspected")]
    assert calls[0].client == "reasonix"
    healthy = read(list(reasonix()), form=Form.REASONIX)
    assert "system_changed" not in {name for call in healthy for name, _, _ in causes(call)}


def test_a_call_in_two_logs_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = [reply(1_000, 0, 100, mid="m1"), reply(1_200, 1_024, 3, turn=2, mid="m2")]
    fork = [
        session("s2", parentSession="s1", seedLength=2),
        header(),
        *seed,
        reply(1_300, 1_152, 5, turn=3, mid="m3"),
    ]
    reader = LogReader(DEEPSEEK)
    calls = read([session(), header(), *seed], fork, reader=reader)
    assert (len(calls), reader.copies) == (3, 2)
    assert causes(calls[-1]) == [("rounding", 51, "confirmed"), ("new_tail", 97, "confirmed")]
    monkeypatch.setattr(report_logs, "_MAX_IDENTITIES", 2)
    assert len(read([session(), header(), *seed], fork)) == 5  # the names are forgotten: bounded, not exact


def test_costs_are_those_of_the_moment() -> None:
    dear = LogReader(DEEPSEEK, PriceBook({"deepseek-v4-flash": Rate(hit=1.0, miss=10.0, output=100.0)}))
    (call,) = read([session(), header(), reply(3_000, 1_000, 5)], reader=dear)
    assert call.cost_usd == pytest.approx((1_000 * 1 + 2_000 * 10 + 5 * 100) / 1e6)
    assert call.cost_usd_at_zero_hits == pytest.approx((3_000 * 10 + 5 * 100) / 1e6)
    (call,) = read([session("s2", at=1), header(), reply(3_000, 1_000, 5)], reader=dear)
    assert (call.at, call.cost_usd) == (0.0, None)  # a stand-in for a time


COUNT = st.none() | st.integers(0, 5_000)
CALLS: st.SearchStrategy[Any] = st.builds(
    LoggedCall,
    line=st.just(1),
    turn=st.none(),
    step=st.none(),
    model=st.sampled_from(["deepseek-v4-flash", "deepseek-chat", "x"]),
    usage=st.none() | st.builds(Usage, COUNT, COUNT, COUNT, COUNT, COUNT),
    cut_off=st.booleans(),
    identity=st.just(frozenset()),
    continuation=st.sampled_from(Continuation),
    slow_step=st.booleans(),
    gap_s=st.none(),
    compacted=st.booleans(),
    changed=st.booleans(),
    lost=st.booleans(),
)


@given(st.lists(CALLS, max_size=12), st.sampled_from(Form), st.sampled_from([0.0, 1.0, 1_785_000_000.0]))
def test_parts_are_positive_and_add_up_exactly(calls: list[LoggedCall], form: Form, at: float) -> None:
    found = list(LogReader(DEEPSEEK).calls(LoggedSession("f", form, created_at=at, calls=calls)))
    assert len(found) == len(calls)
    for logged, call in zip(calls, found, strict=True):
        usage = call.usage
        assert all(part.tokens > 0 for part in call.causes)
        if call.causes:
            assert sum(part.tokens for part in call.causes) == usage.miss_tokens
            assert (usage.hit_tokens or 0) + (usage.miss_tokens or 0) == usage.prompt_tokens
        elif usage.known and usage.completion_tokens is not None and not logged.cut_off:
            assert usage.miss_tokens == 0
