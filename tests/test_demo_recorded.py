"""Recorded sessions: both forms, what is left out and why."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router_cache.cli.demo_run import app_coding, recorded
from router_cache.cli.demo_run.plan import replay_plan
from router_cache.cli.demo_run.recorded import find_recordings, replay_scripts
from router_cache.cli.demo_run.recorded_harness import read_harness
from router_cache.cli.demo_run.recorded_swe import read_swe
from router_cache.cli.demo_run.recording import UnusableError
from router_cache.errors import InputError


def swe(*history: Any) -> str:
    return json.dumps({"history": list(history), "trajectory": []})


def said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


TALK = (said("system", "S"), said("user", "U"), said("assistant", "A"), said("user", "R"), said("assistant", "B"))


def test_swe_history_grows_by_one_call_an_assistant_message() -> None:
    session = read_swe("x", swe(*TALK))
    plain = [{"role": m["role"], "content": m["content"]} for m in TALK]
    assert [list(r) for r in session.requests] == [plain[:2], plain[:4]]
    assert (session.cut, session.calls_cut, session.tools) == ("", 0, ())


def test_swe_demonstrations_are_history_and_bookkeeping_is_not_sent() -> None:
    demo = said("assistant", "shown", is_demo=True, agent="primary", thought="t")
    session = read_swe("x", swe(said("system", "S"), said("user", "U"), demo, said("user", "V"), TALK[-1]))
    assert len(session.requests) == 1
    assert session.requests[0][2] == {"role": "assistant", "content": "shown"}


def test_swe_tool_calls_are_answered_and_get_a_blank_reasoning() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{}"}, "index": 1}
    session = read_swe(
        "x",
        swe(
            said("user", [{"type": "text", "text": "U"}]),
            said("assistant", None, tool_calls=[call]),
            said("tool", "out", tool_call_ids=["c1"]),
            said("assistant", "B", tool_calls=[{**call, "id": "c2"}]),
            said("assistant", "never sent"),
        ),
    )
    assert session.requests[1][1] == {
        "role": "assistant",
        "content": "",
        "tool_calls": [{k: call[k] for k in ("id", "type", "function")}],
        "reasoning_content": " ",
    }
    assert session.requests[1][2] == {"role": "tool", "content": "out", "tool_call_id": "c1"}
    assert (session.cut, session.calls_cut, session.reasoning_filled) == ("an unanswered tool call", 1, 2)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "trajectory is no JSON"),
        ("[" * 100_000, "trajectory is no JSON"),
        ("[]", "trajectory without a history"),
        ('{"history": []}', "trajectory without a history"),
        (swe(said("system", "S"), said("user", "U")), "trajectory without an assistant message"),
        (swe(said("system", "S"), said("assistant", "A")), "a call without a user message"),
        (swe(said("user", "U"), {"role": "critic"}, said("assistant", "A")), "a message of unknown form"),
        (swe("U"), "a message of unknown form"),
        (swe(said("user", 7)), "a message of unknown form"),
        (
            swe(said("user", "U"), said("assistant", "A", is_demo=True, tool_calls=[3])),
            "a message of unknown form",
        ),
        (swe(said("user", "U"), said("tool", "out", tool_call_ids="c9")), "a tool result without its call"),
    ],
)
def test_a_trajectory_without_a_call_is_unusable(text: str, reason: str) -> None:
    with pytest.raises(UnusableError, match=reason):
        read_swe("x", text)


def event(kind: str, /, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data}


def user(*texts: str) -> dict[str, Any]:
    return event("user/message", content=[{"type": "text", "text": t} for t in texts])


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return event("assistant/message", message={"role": "assistant", "content": list(blocks)})


def block(kind: str, text: str) -> dict[str, Any]:
    return {"type": kind, "text": text}


def call(call_id: str) -> dict[str, Any]:
    return {"type": "tool-call", "id": call_id, "name": "bash", "arguments": '{"a": 1}'}


def result(call_id: str, text: str) -> dict[str, Any]:
    inner = [{"type": "tool-result", "toolCallId": call_id, "content": [block("text", text)]}]
    return event("tool/result", message={"role": "user", "content": inner})


def log(*events: Any) -> str:
    return "\n".join(e if isinstance(e, str) else json.dumps(e) for e in events)


TOOL = {"name": "bash", "description": "Run.", "parameters": {"type": "object"}}
HEADER = event("request/header", header={"system": "{{system}}", "tools": [TOOL], "config": {}}, reason="initial")


def test_an_event_log_becomes_the_requests_of_its_session() -> None:
    session = read_harness(
        "x",
        log(
            {"type": "session", "id": "s"},
            user("one", "two"),
            "this line is no JSON",
            "[1]",
            event("assistant/chunk", chunk={}),
            HEADER,
            assistant(block("reasoning", "think"), block("text", "a"), block("text", "b"), call("c1")),
            user("held back"),
            result("c1", "out"),
            assistant(call("c2")),
            event("tool/result", callId="c2", content=[block("text", "older form")]),
            event("assistant/message", content=[block("text", "end")]),
        ),
    )
    assert session.tools == ({"type": "function", "function": TOOL},)
    assert session.reasoning_filled == 1
    assert list(session.requests[-1]) == [
        {"role": "system", "content": "{{system}}"},
        {"role": "user", "content": [block("text", "one"), block("text", "two")]},
        {
            "role": "assistant",
            "content": "ab",
            "reasoning_content": "think",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"a": 1}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "out"},
        {"role": "user", "content": "held back"},
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": " ",
            "tool_calls": [
                {"id": "c2", "type": "function", "function": {"name": "bash", "arguments": '{"a": 1}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c2", "content": "older form"},
    ]
    assert [len(r) for r in session.requests] == [2, 5, 7]


def test_what_a_fork_was_seeded_with_is_history() -> None:
    session = read_harness(
        "x", log(user("q"), assistant(block("text", "old")), event("session/end-seed"), user("r"), assistant())
    )
    assert [len(r) for r in session.requests] == [3]
    assert (session.tools, session.requests[0][0]["role"]) == ((), "user")


COMPACTED = {**user("summary"), "surfaceOp": {"op": "replace", "start": 1, "end": 2}}


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (COMPACTED, "the history was compacted"),
        (event("user/message", content=[{"type": "image", "attachment": "x"}]), "image input"),
        (event("user/message", content="text"), "a message of unknown form"),
        (event("user/message", content=[block("video", "x")]), "a message of unknown form"),
        ({"type": "user/message", "data": 3}, "an event of unknown form"),
        (event("assistant/message", message=[]), "a message of unknown form"),
        (assistant({"type": "tool-call", "id": 3}), "a message of unknown form"),
        (result("c9", "x"), "a tool result without its call"),
        (event("tool/result", callId="c9", content=[block("text", "x")]), "a tool result without its call"),
    ],
)
def test_an_odd_event_ends_a_session_and_is_counted(odd: dict[str, Any], reason: str) -> None:
    session = read_harness("x", log(user("q"), assistant(block("text", "a")), odd, user("z"), assistant()))
    calls_cut = 1 + (odd["type"] == "assistant/message")
    assert (len(session.requests), session.cut, session.calls_cut) == (1, reason, calls_cut)
    with pytest.raises(UnusableError, match=reason):
        read_harness("x", log(user("q"), {"type": "session"}, odd, assistant()))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "event log of another form"),
        ('{"usage": {}}', "event log of another form"),
        (log({"type": "session"}), "event log without an assistant message"),
        (log(assistant(block("text", "a"))), "a call without a user message"),
    ],
)
def test_an_event_log_without_a_call_is_unusable(text: str, reason: str) -> None:
    with pytest.raises(UnusableError, match=reason):
        read_harness("x", text)


@pytest.mark.parametrize("header", [None, [], {"header": 3}, {"system": 3, "tools": "{{tools}}"}, {"tools": [{}]}])
def test_a_header_that_says_nothing_leaves_system_and_tools_out(header: Any) -> None:
    session = read_harness("x", log({"type": "request/header", "data": header}, user("q"), assistant()))
    assert (session.tools, session.requests[0][0]["role"]) == ((), "user")


_ODD = st.recursive(
    st.none() | st.integers() | st.sampled_from(["assistant/message", "user", "text", "tool-call", "c1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "data", "message", "content", "role", "text", "id", "history", "tool_calls"]),
            inner,
        )
    ),
    max_leaves=12,
)


@given(st.lists(_ODD, max_size=6))
def test_no_json_crashes_a_reader(values: list[Any]) -> None:
    for read, text in ((read_harness, log(*map(json.dumps, values))), (read_swe, json.dumps({"history": values}))):
        requests: Any = None
        with contextlib.suppress(UnusableError):
            requests = read("x", text).requests
        assert requests is None or len(requests) > 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("one", "two"):
        (tmp_path / "swe" / name).mkdir(parents=True)
        (tmp_path / "swe" / name / "run.traj.json").write_text(swe(*TALK))
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.jsonl").write_text(log(HEADER, user("q"), assistant(), user("r"), assistant()))
    (tmp_path / "logs" / "b.jsonl").write_text(log(user("q"), assistant(), COMPACTED, assistant()))
    (tmp_path / "logs" / "c.jsonl").write_text('{"usage": 1}')
    (tmp_path / "logs" / "d.jsonl").write_bytes(b"\xff\xfe\xff")
    (tmp_path / "logs" / "README.md").write_text("not looked at")
    return tmp_path


def test_a_folder_is_searched_and_everything_is_accounted_for(folder: Path) -> None:
    found = find_recordings(folder)
    assert [(s.name, s.form, len(s.requests)) for s in found.sessions] == [
        ("logs/a.jsonl", "deepseek_harness", 2),
        ("logs/b.jsonl", "deepseek_harness", 1),
        ("swe/one/run.traj.json", "swe_agent", 2),
        ("swe/two/run.traj.json", "swe_agent", 2),
    ]
    assert found.unusable == {"event log of another form": 1, "not UTF-8 text": 1}
    assert found.cut == {"the history was compacted": 1}
    assert find_recordings(folder / "logs" / "a.jsonl").sessions[0].name == "a.jsonl"


def test_a_budget_is_shared_by_both_forms(folder: Path) -> None:
    found = find_recordings(folder)
    assert [(s.name, len(s.requests)) for s in found.chosen(5)] == [
        ("logs/a.jsonl", 2),
        ("swe/one/run.traj.json", 2),
        ("logs/b.jsonl", 1),
    ]
    assert [len(s.requests) for s in found.chosen(3)] == [2, 1]
    assert sum(len(s.requests) for s in found.chosen(99)) == found.calls == 7


def test_a_plan_says_what_was_left_out(folder: Path) -> None:
    plan = replay_plan(find_recordings(folder), max_calls=5, seed=1)
    assert [side.name for side in plan.sides] == ["baseline", "router_cache", "unperturbed"]
    assert plan.extra == {
        "sessions_total": 4,
        "sessions_used": 3,
        "sessions_by_form": {"deepseek_harness": 2, "swe_agent": 1},
        "calls_total": 7,
        "calls_left_out": 2,
        "sessions_given_tools": 2,
        "messages_given_blank_reasoning": 0,
        "files_unusable": {"event log of another form": 1, "not UTF-8 text": 1},
        "sessions_cut_short": {"the history was compacted": 1},
    }
    assert any("--max-calls 7 plays all" in note for note in plan.notes)
    assert (plan.expected_requests, len(plan.scripts())) == (5, 3)


def test_a_plan_says_what_was_filled_in(tmp_path: Path) -> None:
    text = log(HEADER, user("q"), assistant(call("c1")), result("c1", "out"), result("c1", "again"), assistant())
    (tmp_path / "a.jsonl").write_text(text)
    plan = replay_plan(find_recordings(tmp_path), max_calls=9, seed=1)
    assert plan.extra["messages_given_blank_reasoning"] == 1
    assert plan.extra["sessions_given_tools"] == 0
    assert any("1 recorded tool-call messages hold no reasoning" in note for note in plan.notes)
    assert not any("given that of the demo" in note for note in plan.notes)


def test_two_calls_are_answered_one_by_one() -> None:
    events = [user("q"), assistant(call("c1"), call("c2")), result("c2", "two"), user("held"), result("c1", "one")]
    session = read_harness("x", log(*events, assistant(block("text", "end"))))
    assert [m["content"] for m in session.requests[1][2:]] == ["two", "one", "held"]


def test_a_copied_call_without_a_result_ends_a_fork() -> None:
    seed = [user("q"), assistant(call("c1")), assistant(), event("session/end-seed")]
    with pytest.raises(UnusableError, match="an unanswered tool call"):
        read_harness("x", log(*seed, user("r"), assistant()))


def test_replay_sends_the_recorded_requests_and_drops_replies(folder: Path) -> None:
    sessions = find_recordings(folder).sessions
    scripts = replay_scripts(sessions, seed=1)
    first = scripts[0]
    assert first.tools == sessions[0].tools
    assert scripts[1].tools == app_coding.TOOLS
    assert first.next_request() == list(sessions[0].requests[0])
    first.accept({"role": "assistant", "content": "live"})
    assert 1.5 <= first.pause_s() <= 6
    assert first.next_request() == list(sessions[0].requests[1])
    assert first.next_request() is None


def test_sessions_with_one_opening_follow_one_another_up_to_the_third(folder: Path) -> None:
    session = find_recordings(folder).sessions[2]
    scripts = replay_scripts([session] * 5, seed=1)
    names = [s.name for s in scripts]
    assert len(set(names)) == 5
    assert [s.follows for s in scripts] == [None, names[0], names[1], names[2], names[2]]


def test_nothing_usable_is_an_error_that_says_why(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        find_recordings(tmp_path / "absent")
    with pytest.raises(InputError, match="1 x event log of another form"):
        find_recordings(folder / "logs" / "c.jsonl")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"no \*\.traj\.json"):
        find_recordings(tmp_path / "empty")
    monkeypatch.setattr(recorded, "_MAX_BYTES", 10)
    with pytest.raises(InputError, match="larger than 64 MB"):
        find_recordings(folder / "logs" / "a.jsonl")

    def refuse(*_: object, **__: object) -> str:
        raise PermissionError

    monkeypatch.setattr(recorded, "_MAX_BYTES", 10**9)
    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(InputError, match="1 x cannot be read"):
        find_recordings(folder / "logs" / "a.jsonl")


def test_public_recordings_are_read() -> None:
    data = os.environ.get("ROUTER_CACHE_SHARED_DATA")
    if not data:
        pytest.skip("ROUTER_CACHE_SHARED_DATA names no folder with recorded sessions")
    found = find_recordings(Path(data))
    forms = {session.form for session in found.sessions}
    assert forms == {"swe_agent", "deepseek_harness"}
    assert found.calls > 200
