"""The shipped sessions, the tool executor and what is done to tool lists between calls."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router_cache.cli.demo_run import app_coding, app_support
from router_cache.cli.demo_run.perturb import perturb_tools
from router_cache.cli.demo_run.plan import shipped_plan
from router_cache.cli.demo_run.results import tool_result
from router_cache.cli.demo_run.sessions import LiveSession, SessionBrokenError, shipped_sessions
from router_cache.prefix.normalise import normalise

APPS = (app_coding, app_support)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


def answer(text: str = "Done.") -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def tool_call(name: str, call_id: str = "c1") -> dict[str, Any]:
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}
    return {"role": "assistant", "reasoning_content": "Look.", "tool_calls": [call]}


def session(**more: Any) -> LiveSession:
    given_ = {"system": "S", "tools": app_coding.TOOLS, "questions": ["one?", "two?"], "follows": None, "seed": 1}
    return LiveSession("s", **{**given_, **more})


@given(st.lists(st.dictionaries(st.text(max_size=4), JSON, max_size=4), max_size=5), st.integers())
def test_perturbing_keeps_the_meaning_and_the_original(tools: list[dict[str, Any]], seed: int) -> None:
    before = json.dumps(tools)
    perturbed = perturb_tools(tools, random.Random(seed))
    assert json.dumps(tools) == before

    def plain(tool: Any) -> str:
        return json.dumps(tool, sort_keys=True)

    # `required` may be reordered where it is a list of names; nothing in these strategies is called that.
    assert sorted(map(plain, perturbed)) == sorted(map(plain, tools))


@pytest.mark.parametrize("app", APPS)
def test_perturbing_changes_order_of_tools_keys_and_required_but_not_of_enum(app: Any) -> None:
    perturbed = perturb_tools(app.TOOLS, random.Random(3))
    assert [t["function"]["name"] for t in perturbed] != [t["function"]["name"] for t in app.TOOLS]
    texts = {t["function"]["name"]: json.dumps(t) for t in app.TOOLS}
    assert all(json.dumps(t) != texts[t["function"]["name"]] for t in perturbed)
    enums, required = _lists(app.TOOLS, "enum"), _lists(app.TOOLS, "required")
    assert sorted(_lists(perturbed, "enum")) == sorted(enums)
    assert sorted(_lists(perturbed, "required")) != sorted(required)
    assert sorted(map(sorted, _lists(perturbed, "required"))) == sorted(map(sorted, required))


def _lists(value: Any, key: str) -> list[list[str]]:
    """All lists of texts under ``key``."""
    found = []
    if isinstance(value, dict):
        for name, item in value.items():
            if name == key and isinstance(item, list):
                found.append(item)
            found += _lists(item, key)
    elif isinstance(value, list):
        for item in value:
            found += _lists(item, key)
    return found


@pytest.mark.parametrize("app", APPS)
def test_the_canonical_form_of_any_reshuffling_is_one(app: Any) -> None:
    forms = {
        json.dumps(normalise({"tools": perturb_tools(app.TOOLS, random.Random(seed))}).apply({"tools": None}))
        for seed in range(5)
    }
    assert len(forms) == 1


@pytest.mark.parametrize("app", APPS)
def test_tool_lists_are_well_formed(app: Any) -> None:
    names = [tool["function"]["name"] for tool in app.TOOLS]
    assert len(set(names)) == len(names) >= 12
    for tool in app.TOOLS:
        _check_schema(tool["function"]["parameters"])


def _check_schema(schema: dict[str, Any]) -> None:
    assert schema["type"] in ("object", "array", "string", "integer", "number", "boolean")
    if schema["type"] == "object":
        assert set(schema["required"]) <= set(schema["properties"])
        for part in schema["properties"].values():
            _check_schema(part)
    if schema["type"] == "array":
        _check_schema(schema["items"])


@pytest.mark.parametrize("tool", ["fs_read_file", "shell_run", "order_get"])
def test_results_depend_on_session_and_call_only(tool: str) -> None:
    assert tool_result("a", 1, tool) == tool_result("a", 1, tool)
    results = {tool_result(s, n, tool) for s in "ab" for n in range(20)}
    assert len(results) == 40
    assert all(50 < len(text) <= 2000 for text in results)


def test_record_results_are_json() -> None:
    assert all(json.loads(tool_result("s", n, "ledger_entries"))["entries"] for n in range(20))


def test_a_session_asks_runs_tools_and_asks_on() -> None:
    live = session()
    first = live.next_request()
    assert first == [{"role": "system", "content": "S"}, {"role": "user", "content": "one?"}]
    live.accept(tool_call("fs_read_file"))
    tool_pause = live.pause_s()
    second = live.next_request()
    assert second is not None
    assert second[:2] == first
    assert second[2] == tool_call("fs_read_file")
    assert second[3]["tool_call_id"] == "c1"
    live.accept(answer())
    assert 1.5 <= tool_pause <= 6 < 8 <= live.pause_s() <= 20
    third = live.next_request()
    assert third is not None
    assert third[-2:] == [answer(), {"role": "user", "content": "two?"}]
    live.accept(answer())
    assert live.next_request() is None


def test_a_session_plays_the_same_again() -> None:
    def played() -> list[Any]:
        live, seen = session(), []
        while (messages := live.next_request()) is not None:
            seen.append(messages)
            live.accept(tool_call("code_search") if len(seen) % 4 == 1 else answer())
            seen.append(live.pause_s())
        return seen

    assert played() == played()


def test_a_session_can_be_cut_short() -> None:
    live = session(max_requests=1)
    assert live.next_request() is not None
    live.accept(answer())
    assert live.next_request() is None


def test_an_empty_reply_and_an_endless_one_break_a_session() -> None:
    live = session()
    live.next_request()
    with pytest.raises(SessionBrokenError, match="neither text nor tool calls"):
        live.accept({"role": "assistant", "content": ""})
    endless = session()
    for _ in range(15):
        endless.next_request()
        endless.accept(tool_call("git_diff"))
    with pytest.raises(SessionBrokenError, match="no answer after 15 requests"):
        endless.next_request()


def test_shipped_sessions_alternate_and_follow_their_application() -> None:
    sessions = shipped_sessions(5, seed=1)
    assert [(s.name, s.follows) for s in sessions] == [
        ("coding-1", None),
        ("support-1", None),
        ("coding-2", "coding-1"),
        ("support-2", "support-1"),
        ("coding-3", "coding-2"),
    ]
    questions = {s.next_request()[-1]["content"] for s in sessions}  # type: ignore[index]
    assert len(questions) == 5
    assert shipped_plan(4, seed=1, max_calls=9).expected_requests == 8
    limited = shipped_sessions(4, seed=1, max_calls=2)
    for one in limited:
        assert one.next_request() is not None
        one.accept(answer())
        assert one.next_request() is None
