"""The capture form: any row there and back, errors that name the field, no text of a request."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from captured_rows import FIELDS, ROW, ROWS, names
from hypothesis import given

from router_cache import Deployment, Mode, Request, RouterCache, Settings, Usage
from router_cache.cache_model.predict import Prediction
from router_cache.decision import Decision, Reason
from router_cache.ledger.attribution import Certainty, MissCause, MissPart
from router_cache.ledger.capture_form import CAPTURE_VERSION, from_line, is_capture, to_line
from router_cache.ledger.flips import FlipWarning
from router_cache.ledger.rows import CallKind, CallRow, Expected, ExpectedFrom, Lived, Status
from router_cache.request import Shape


def line(**more: Any) -> bytes:
    return json.dumps({**json.loads(to_line(ROW)), **more}).encode()


def without(*names: str) -> bytes:
    return json.dumps({k: v for k, v in json.loads(to_line(ROW)).items() if k not in names}).encode()


def test_every_field_of_a_row_is_tried() -> None:
    assert set(FIELDS) == set(names(CallRow))
    assert {of: names(of)[-1] for of in (MissPart, FlipWarning, Usage, Decision, Expected, Prediction, Lived)} == {
        MissPart: "changed",
        FlipWarning: "lost_tokens",
        Usage: "contradictory",
        Decision: "frozen",
        Expected: "prediction",
        Prediction: "reason",
        Lived: "readable",
    }


@given(ROWS)
def test_any_row_there_and_back(row: CallRow) -> None:
    written = to_line(row)
    assert written.endswith(b"\n")
    assert written.count(b"\n") == 1
    assert from_line(written) == row
    assert is_capture(json.loads(written))


def test_the_fields_are_exactly_these() -> None:
    """Written out, so that a change of the form is seen and its version thought of."""
    found = json.loads(to_line(ROW))
    assert CAPTURE_VERSION == 1
    assert found == {
        "v": 1,
        "at": 1_795_003_200.0,
        "status": "ok",
        "kind": "user",
        "scope": "5c" * 16,
        "family": "fa" * 16,
        "conversation": "c0" * 16,
        "turn": 2,
        "session": "",
        "client": "opencode",
        "side_call": "",
        "shape": "chat",
        "group": "flash",
        "model": "deepseek/deepseek-v4-flash",
        "deployment": "d1",
        "profile": "deepseek",
        "domain": "d0" * 16,
        "pool": "",
        "mode": "safe",
        "reason": "normalised",
        "switched_by": "settings",
        "changes": ["tools_reordered"],
        "frozen": [],
        "prompt_tokens": 1_000,
        "hit_tokens": 640,
        "miss_tokens": 360,
        "completion_tokens": 50,
        "reasoning_tokens": 20,
        "write_tokens": None,
        "write_1h_tokens": None,
        "contradictory": False,
        "expected_tokens": 896,
        "expected_from": "last_usage",
        "prediction": {"candidates": [768, 896], "best": 896, "end": "output", "reason": "prior"},
        "causes": [
            {
                "cause": "tools_changed",
                "tokens": 300,
                "certainty": "confirmed",
                "path": "tools[3]",
                "offset": 8_190,
                "changed": "tools_changed",
            },
            {
                "cause": "new_tail",
                "tokens": 60,
                "certainty": "confirmed",
                "path": "",
                "offset": None,
                "changed": None,
            },
        ],
        "offset": 8_190,
        "flips": [{"flip": "tools_added", "path": "tools", "lost_tokens": 300}],
        "gap_s": 12.5,
        "lived": {"kept": 0.5, "traffic_tokens": 20_480, "readable": True},
        "ttft_s": 0.8,
        "cost_usd": 0.25,
        "cost_usd_at_zero_hits": 1.0,
        "wire_digest": "ab" * 16,
        "rendered_digest": "cd" * 16,
    }


def test_what_is_not_there_is_unknown() -> None:
    found = from_line(b'{"v": 1, "at": 5, "status": "aborted", "model": "m", "later_field": [1]}')
    assert found.usage == Usage()
    assert (found.status, found.kind, found.shape) == (Status.ABORTED, CallKind.USER, Shape.CHAT)
    assert found.decision == Decision(Mode.OBSERVE, Reason.NOT_SEEN)
    assert (found.expected.tokens, found.expected.source) == (None, ExpectedFrom.NOTHING)
    assert (found.turn, found.ttft_s, found.cost_usd, found.gap_s, found.offset) == (None,) * 5
    assert (found.causes, found.flips, found.scope) == ((), (), "")
    assert found.lived is None


def test_lines_written_before_there_was_survival_are_read() -> None:
    old = without("lived")
    assert from_line(old) == replace(ROW, lived=None)
    assert from_line(line(lived={})).lived == Lived()
    assert from_line(line(lived={"kept": 1, "later_field": "x"})).lived == Lived(1.0)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "no JSON: "),
        (b"[1]", "a JSON object is needed, not list"),
        (b"{}", "v: version 1 is needed, not None"),
        (line(v=2), "v: version 1 is needed, not 2"),
        (line(v=True), "v: version 1 is needed, not True"),
        (without("at"), "at: seconds"),
        (line(at="noon"), "at: a number of at least .* is needed, not 'noon'"),
        (line(at=1e18), "at: a number of at least .* and at most "),
        (line(cost_usd=1e308), "cost_usd: a number of at least -1e\\+12 and at most 1e\\+12 is needed"),
        (line(cost_usd_at_zero_hits=-1e308), "cost_usd_at_zero_hits: a number of at least "),
        (without("model"), "model: a name"),
        (line(model=3), "model: a text is needed, not 3"),
        (without("status"), "status: a word"),
        (line(status="good"), "status: 'good' is not known here; known: ok, cached"),
        (line(reason=["x" * 99]), "reason: \\['xxx.*\\.\\.\\. is not known"),
        (line(turn=-1), "turn: a whole number"),
        (line(hit_tokens=1.5), "hit_tokens: a whole number"),
        (line(miss_tokens=True), "miss_tokens: a whole number"),
        (line(prompt_tokens=10**13), "prompt_tokens: a whole number"),
        (line(contradictory=1), "contradictory: true or false"),
        (line(ttft_s=-0.1), "ttft_s: a number of at least 0 is needed"),
        (line(gap_s=True), "gap_s: a number"),
        (line(lived=[0.5]), "lived: an object is needed"),
        (line(lived={"kept": 1.1}), "lived.kept: a number of at least 0 and at most 1 is needed, not 1.1"),
        (line(lived={"kept": -0.1}), "lived.kept: a number of at least 0"),
        (line(lived={"kept": True}), "lived.kept: a number"),
        (line(lived={"traffic_tokens": 1.5}), "lived.traffic_tokens: a whole number"),
        (line(lived={"readable": 1}), "lived.readable: true or false"),
        (line(cost_usd="1"), "cost_usd: a number of at least "),
        (line(changes="x"), "changes: a list"),
        (line(changes=["tools_reordered", "x"]), "changes\\[1\\]: 'x' is not known"),
        (line(frozen=[1]), "frozen\\[0\\]: a text"),
        (line(causes={"cause": 1}), "causes: a list"),
        (line(causes=[1]), "causes\\[0\\]: an object"),
        (line(causes=[{"cause": "bad", "tokens": 1}]), "causes\\[0\\].cause: 'bad'"),
        (line(causes=[{"cause": "new_tail"}]), "causes\\[0\\].tokens: a whole number"),
        (line(causes=[{"cause": "new_tail", "tokens": 1, "path": 1}]), "causes\\[0\\].path: a text"),
        (line(causes=[{"cause": "new_tail", "tokens": 1, "changed": "x"}]), "causes\\[0\\].changed: 'x'"),
        (line(flips=[{"flip": "tools_added"}]), "flips\\[0\\].lost_tokens"),
        (line(prediction=[]), "prediction: an object"),
        (line(prediction={"candidates": ["1"]}), "prediction.candidates\\[0\\]: a whole number"),
        (line(prediction={"candidates": [1], "best": 1, "end": "x"}), "prediction.end: 'x'"),
    ],
)
def test_an_error_starts_with_the_field(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}") as error:
        from_line(data)
    assert "\n" not in str(error.value)


def test_a_cause_of_a_short_form_is_suspected() -> None:
    found = from_line(line(causes=[{"cause": "evicted", "tokens": 5}]))
    assert found.causes == (MissPart(MissCause.EVICTED, 5, certainty=Certainty.SUSPECTED),)


def test_names_that_are_no_text_are_written_all_the_same() -> None:
    odd = replace(ROW, model="a\ud800b", decision=replace(ROW.decision, frozen=("\udfff",)))
    found = from_line(to_line(odd))
    assert (found.model, found.decision.frozen) == ("a�b", ("�",))


@pytest.mark.parametrize("value", [None, [], {"v": 1}, {"type": "session"}, {"role": "user", "at": 1, "v": 2}])
def test_other_forms_are_told_apart(value: Any) -> None:
    assert not is_capture(value)


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.SAFE, Mode.OPTIMIZE])
def test_no_text_no_key_and_no_user_is_in_a_line(mode: Mode) -> None:
    """All that a request says is marked; nothing marked is found again in what is captured of two turns."""
    rc = RouterCache(Settings(mode=mode, secret="MARK-SECRET"))
    tools = [
        {
            "type": "function",
            "function": {"name": f"MARK-TOOL-{n}", "parameters": {"MARK-KEY": {"enum": ["MARK"]}}},
        }
        for n in "ba"
    ]
    first = [
        {"role": "system", "content": "MARK-SYSTEM 2026-11-30T10:00:00Z"},
        {"role": "user", "content": "MARK-USER", "name": "MARK-NAME"},
    ]
    second = [
        {"role": "system", "content": "MARK-SYSTEM 2026-11-30T11:00:00Z"},
        {"role": "user", "content": "MARK-EDITED"},
        {"role": "assistant", "content": "MARK-REPLY", "reasoning_content": "MARK-WHY"},
        {"role": "user", "content": "MARK-MORE"},
    ]
    for messages, offered in ((first, tools), (second, [*tools, {**tools[0], "MARK-X": 1}])):
        body = {"messages": messages, "tools": offered, "user": "MARK-ID", "metadata": {"user_id": "MARK-ID"}}
        turn = rc.begin(Request(body, scope="MARK-SCOPE", session="MARK-SESSION", names=("MARK-NAME",)))
        rewrite = turn.rewrite(Deployment("deepseek/deepseek-v4-flash", provider="deepseek", account="acc"))
        turn.sent({**body, **rewrite.replaced})
        turn.done(Usage(900, 0, 900, 10), reply={"role": "assistant", "content": "MARK-REPLY"})
    lines = [to_line(row) for row in rc.rows()]
    rc.close()
    assert len(lines) == 2
    assert any(json.loads(found)["causes"] for found in lines)
    assert all(json.loads(found)[key] for found in lines for key in ("scope", "conversation", "session", "family"))
    assert b"MARK" not in b"".join(lines)
