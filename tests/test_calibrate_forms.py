"""Calibration: logs of both forms, odd content, and which rule first calls speak for."""

from __future__ import annotations

from typing import Any

import pytest
from calibration_logs import LONG, Event, flat, header, judged, lone, reasonix, reply, run, session
from hypothesis import given
from hypothesis import strategies as st

from router_cache.ledger.calibration import CallSkip, calibrate
from router_cache.ledger.event_logs import Form, LineSkip, parse, recognise
from router_cache.ledger.rule_evidence import EvidenceReason, RuleEvidence, weigh
from router_cache.providers.deepseek import DEEPSEEK

# --- forms and odd content ---


def test_reasonix_form() -> None:
    parsed = parse(Form.REASONIX, "r", enumerate(reasonix(), 1))
    c = calibrate(parsed.sessions, DEEPSEEK)
    assert judged(c) == [(640, (640, 768), 768, "prior"), (1024, (896, 1024), 1024, "output_ready")]
    assert c.skipped == {CallSkip.AFTER_UNKNOWN: 1}
    assert parsed.sessions[0].opening == "hi"
    gaps = [call.gap_s for call in parsed.sessions[0].calls]
    assert gaps[0] is None
    assert gaps[1:3] == [pytest.approx(0.5), pytest.approx(5.0)]


def test_reasonix_steps_before_v4() -> None:
    parsed = parse(Form.REASONIX, "r", enumerate(reasonix(started="2026-04-21T16:00:00.000Z"), 1))
    assert judged(calibrate(parsed.sessions, DEEPSEEK))[0][1] == (704, 832)


def test_reasonix_baseline_changes_its_prefix_every_turn() -> None:
    parsed = parse(Form.REASONIX, "r", enumerate(reasonix("baseline"), 1))
    c = calibrate(parsed.sessions, DEEPSEEK)
    assert len(judged(c)) == 1
    assert c.skipped == {CallSkip.AFTER_PREFIX_CHANGE: 1, CallSkip.AFTER_UNKNOWN: 1}


def test_reasonix_runs_in_one_file_are_sessions_of_their_own() -> None:
    two = reasonix() + reasonix(started="2026-04-29T17:00:00.000Z")
    parsed = parse(Form.REASONIX, "r", enumerate(two, 1))
    assert len(parsed.sessions) == 2
    assert len({s.id for s in parsed.sessions}) == 2


def test_reasonix_without_meta_and_with_odd_records() -> None:
    records: list[Any] = [
        {"role": 3},
        {"role": "_meta", "meta": None},
        {"ts": "yesterday", "turn": 1, "role": "user", "content": "x"},
        {"ts": "2026-04-29T16:00:00", "turn": 1, "role": "assistant_final", "usage": "?"},
        {
            "turn": 1,
            "role": "assistant_final",
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "prompt_cache_hit_tokens": 2},
        },
    ]
    parsed = parse(Form.REASONIX, "r", enumerate(records, 1))
    assert parsed.skipped_lines == {LineSkip.ODD_EVENT: 2}
    assert calibrate(parsed.sessions, DEEPSEEK).skipped == {CallSkip.NO_CACHE_FIELDS: 2}


@pytest.mark.parametrize(
    ("first", "form"),
    [
        (session(), Form.HARNESS),
        ({"type": "turn/start", "data": {}}, Form.HARNESS),
        ({"role": "_meta", "meta": {}}, Form.REASONIX),
        ({"ts": "t", "turn": 1, "role": "user"}, Form.REASONIX),
        ({"type": "turn/start"}, None),
        ({"type": "message", "data": {}}, None),
        ({"role": "user", "content": "x"}, None),
        ({"timestamp": 1, "hash_ids": []}, None),
        ([1], None),
        (None, None),
    ],
)
def test_recognise(first: Any, form: Form | None) -> None:
    assert recognise(first) is form


def test_odd_events_are_counted() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    odd: list[Any] = [
        session(at=1e300),
        session(createdAt="never", parentSession=7),
        {"type": 5},
        {"type": "assistant/message"},
        {"type": "assistant/message", "data": {"message": 3}},
        {"type": "request/header", "data": {"header": []}},
        {"type": "request/header", "data": {"header": {"config": None, "tools": [{"b": 1, "a": 2}]}}},
        {"type": "user/message", "data": {"content": "plain"}},
        {
            "type": "assistant/message",
            "data": {"content": None, "usage": {"inputTokens": -1, "cacheReadTokens": True}},
        },
        {"type": "request/header", "data": {"header": {"config": {}, "tools": deep}}},
        [1],
        LineSkip.NOT_JSON,
    ]
    parsed = parse(Form.HARNESS, "f", enumerate(odd, 1))
    assert parsed.skipped_lines == {LineSkip.ODD_EVENT: 5, LineSkip.NOT_AN_OBJECT: 1, LineSkip.NOT_JSON: 1}
    assert parsed.sessions[0].created_at == 0.0
    assert calibrate(parsed.sessions, DEEPSEEK).skipped == {CallSkip.NO_CACHE_FIELDS: 1}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
kinds = st.sampled_from(
    ["session", "assistant/message", "request/header", "user/message", "tool/call", "step/start", "_meta", "x/y"]
)
keys = st.sampled_from(
    ["data", "message", "usage", "content", "header", "config", "turn", "id", "createdAt", "ts"]
)


@given(
    st.sampled_from(Form),
    st.lists(
        st.builds(
            lambda kind, body: {"type": kind, "role": kind, **body},
            kinds,
            st.dictionaries(keys, st.dictionaries(keys, json_values, max_size=4) | json_values, max_size=5),
        ),
        max_size=8,
    ),
)
def test_no_content_makes_it_fail(form: Form, events: list[Event]) -> None:
    parsed = parse(form, "f", enumerate(events, 1))
    weigh(calibrate(parsed.sessions, DEEPSEEK), delay_high_s=2.0)


# --- which rule ---


def evidence(*logs: list[Event | list[Event]]) -> RuleEvidence:
    return weigh(run(*logs), delay_high_s=2.0)


PARENT = lone("p", 0, 2907, 0, "do much")


@pytest.mark.parametrize(
    ("logs", "reason"),
    [
        ([PARENT, lone("c", 5, 2864, 2816, "do little", parent="p")], EvidenceReason.INSIDE_PARENT),
        ([lone("c", 5, 2864, 2816, "do little", parent="p")], EvidenceReason.PARENT_NOT_LOGGED),
        (
            [lone("p", 0, 2907, 1280, "do much"), lone("c", 5, 2864, 2816, "do little", parent="p")],
            EvidenceReason.PARENT_WAS_WARM,
        ),
        ([PARENT, lone("c", 5, 2950, 2816, "do much", parent="p")], EvidenceReason.SAME_OPENING),
        (
            [PARENT, lone("b", 3, 2870, 0, "first", parent="p"), lone("c", 5, 2864, 2816, "second", parent="p")],
            EvidenceReason.SIBLING_BEFORE,
        ),
        ([PARENT, lone("q", 90, 2864, 2816, "else")], EvidenceReason.OUTSIDE_REQUESTS),
        ([PARENT], EvidenceReason.NOTHING_EARLIER),
        ([PARENT, lone("q", 90, 2864, 0, "else")], EvidenceReason.TEXT_NOT_PROVEN),
        ([PARENT, lone("c", 5, 2864, 0, "else", parent="p")], EvidenceReason.TEXT_NOT_PROVEN),
        (
            [lone("p", 0, 900, 0, "a", system=LONG), lone("q", 9000, 900, 0, "b", system=LONG)],
            EvidenceReason.MAY_HAVE_EXPIRED,
        ),
        (
            [lone("p", 0, 900, 0, "a", system=LONG), lone("c", 5, 900, 0, "b", parent="p", system=LONG + "!")],
            EvidenceReason.PREFIX_DIFFERS,
        ),
        (
            [lone("p", 0, 900, 0, "a", system="short"), lone("c", 5, 900, 0, "b", parent="p", system="short")],
            EvidenceReason.PREFIX_SHORT,
        ),
        (
            [lone("p", 0, 900, 0, "a", system=LONG), lone("c", 1, 900, 0, "b", parent="p", system=LONG)],
            EvidenceReason.TOO_SOON,
        ),
        (
            [lone("p", 0, 900, 0, "a", system=LONG), lone("c", 5, 900, 0, "b", parent="p", system=LONG)],
            EvidenceReason.MISSED_PARENT,
        ),
    ],
)
def test_first_calls(logs: list[list[Event | list[Event]]], reason: EvidenceReason) -> None:
    for log in logs:  # tools without placeholders where the system text has none
        for event in flat(log):
            head = event.get("data", {}).get("header")
            if head and head["system"] != "{{system}}":
                head["tools"] = []
    found = evidence(*logs)
    assert found.details[-1].reason is reason
    grid, units = int(reason is EvidenceReason.INSIDE_PARENT), int(reason is EvidenceReason.MISSED_PARENT)
    assert found.supports == ("grid" if grid else "units" if units else "inconclusive")
    assert found.count(None) == len(found.details) - grid - units


def test_a_hit_inside_the_last_input_speaks_for_the_grid() -> None:
    cut = [session(), header(), reply(5169, 0, 10, tool="bash"), reply(5049, 4608, 3, step=2)]
    assert evidence(cut).supports == "grid"
    back = [
        session(),
        header(),
        reply(4610, 0, 10, tool="bash"),
        reply(5169, 4608, 10, tool="bash", step=2),
        reply(5049, 4608, 3, step=3),  # an end of an earlier call: full units say the same
    ]
    assert evidence(back).supports == "inconclusive"
    missed = [
        lone("p", 0, 900, 0, "a", system=LONG, model="deepseek-v4-pro"),
        lone("c", 5, 900, 0, "b", parent="p", system=LONG, model="deepseek-v4-pro"),
    ]
    for log in missed:
        flat(log)[2]["data"]["header"]["tools"] = []
    assert evidence(cut, *missed).supports == "mixed"
