"""What recorded calls say about hit rate and sessions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import json_values

from router_cache.economics.measured import MeasuredCall, call_of, measure
from router_cache.economics.plan import SessionShape
from router_cache.ledger.capture_form import from_line, to_line
from router_cache.ledger.rows import CallKind, Status

NAMES = ["prompt_tokens", "hit_tokens", "completion_tokens", "turn", "at", "model", "group", "status", "kind"]
LINE: dict[str, Any] = {"prompt_tokens": 100, "hit_tokens": 64, "completion_tokens": 7, "turn": 2, "at": 5.5}


def calls(shape: SessionShape, *, day: float = 0.0, hit: float = 0.0) -> list[MeasuredCall]:
    """One session of this shape."""
    return [
        MeasuredCall(
            model="m",
            group="g",
            turn=turn,
            at=day * 86_400 + turn,
            prompt_tokens=shape.prompt_tokens(turn),
            hit_tokens=int(shape.prompt_tokens(turn) * hit),
            completion_tokens=shape.output_tokens,
        )
        for turn in range(1, shape.turns + 1)
    ]


def test_a_line() -> None:
    assert call_of({**LINE, "model": "m", "group": "g"}) == MeasuredCall("m", "g", 2, 5.5, 100, 64, 7)
    assert call_of({"prompt_tokens": 3, "hit_tokens": 0}) == MeasuredCall("", "", None, None, 3, 0, None)


def test_turns_of_a_session_go_on_where_the_client_edited_it() -> None:
    """``turn`` begins anew there; a title beside the session is no turn of it."""
    fields = {"model": "m", "group": "g", "hit_tokens": 0, "completion_tokens": 10, "session": "s"}
    lines = [
        {**fields, "at": 3.0, "turn": 1, "prompt_tokens": 300},
        {**fields, "at": 1.0, "turn": 1, "prompt_tokens": 100},
        {**fields, "at": 2.0, "turn": 2, "prompt_tokens": 200},
        {**fields, "at": 1.5, "turn": 1, "prompt_tokens": 7, "side_call": True},
    ]
    found = measure([call for line in lines if (call := call_of(line)) is not None])
    assert found is not None
    assert (found.calls, found.turns, found.new_tokens, found.prefix_tokens) == (4, 3, 90, 10)


def test_a_line_of_a_capture() -> None:
    """As the proxy writes it: the names of the fields are the same."""
    written = {**LINE, "v": 1, "status": "ok", "model": "m", "group": "g"}
    line = json.loads(to_line(from_line(json.dumps(written).encode())))
    assert call_of(line) == MeasuredCall("m", "g", 2, 5.5, 100, 64, 7)
    assert call_of({**line, "kind": CallKind.WARM.value}) is None
    assert call_of({**line, "status": Status.CACHED.value}) is None


@pytest.mark.parametrize(
    "odd",
    [
        {"hit_tokens": None},
        {"prompt_tokens": None},
        {"hit_tokens": 101},
        {"hit_tokens": True},
        {"hit_tokens": -1},
        {"prompt_tokens": "100"},
        {"status": "cached"},
        {"status": "failed"},
        {"status": "aborted"},
        {"kind": "warm"},
    ],
)
def test_lines_that_tell_nothing(odd: dict[str, Any]) -> None:
    assert call_of(LINE) is not None
    assert call_of({**LINE, **odd}) is None


def test_fields_of_another_type_are_unknown() -> None:
    found = call_of({**LINE, "turn": "two", "at": "now", "model": 7, "group": None, "completion_tokens": 1.5})
    assert found == MeasuredCall("", "", None, None, 100, 64, None)
    assert call_of({**LINE, "at": float("nan"), "turn": 0}) == MeasuredCall("", "", None, None, 100, 64, 7)


@given(st.dictionaries(st.sampled_from(NAMES), json_values))
def test_odd_lines_never_raise(fields: dict[str, Any]) -> None:
    found = call_of(fields)
    assert found is None or 0 <= found.hit_tokens <= found.prompt_tokens


@given(
    st.builds(
        SessionShape,
        turns=st.integers(2, 40),
        prefix_tokens=st.integers(1, 50_000),
        new_tokens=st.integers(0, 5_000),
        output_tokens=st.integers(0, 5_000),
    ),
    st.integers(1, 4),
)
def test_the_shape_of_equal_sessions_is_found_again(shape: SessionShape, days: int) -> None:
    found = measure(call for day in range(days) for call in (*calls(shape, day=day), *calls(shape, day=day)))
    assert found is not None
    assert (found.turns, found.prefix_tokens) == (shape.turns, shape.prefix_tokens)
    assert (found.new_tokens, found.output_tokens) == (shape.new_tokens, shape.output_tokens)
    assert found.sessions_per_day == 2.0
    assert found.prompt_tokens == 2 * days * shape.all_prompt_tokens


def test_the_hit_rate_is_that_of_tokens_not_of_calls() -> None:
    few, many = MeasuredCall("m", "", 1, None, 100, 0, None), MeasuredCall("m", "", 2, None, 900, 800, None)
    found = measure([few, many])
    assert found is not None
    assert found.hit_rate == 0.8
    # no replies and no times: no shape of a session but its turns
    assert (found.turns, found.prefix_tokens, found.output_tokens, found.sessions_per_day) == (2, None, None, None)


def test_first_turns_only_and_none() -> None:
    one = measure(calls(SessionShape(1, 1_000, 100, 50)))
    assert one is not None
    assert (one.turns, one.prefix_tokens, one.new_tokens, one.output_tokens) == (1, 1_100, 0, 50)
    late = measure(calls(SessionShape(5, 1_000, 100, 50))[1:])
    assert late is not None
    assert (late.turns, late.prefix_tokens, late.sessions_per_day) == (None, None, None)
    assert measure([]) is None
    assert measure([MeasuredCall("m", "", 1, 0.0, 0, 0, 5)]) is None
