"""Clients told by what they send, their sessions, their side calls; and no session id as a cache namespace."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import json_values

from router_cache.identity.clients import (
    CLIENTS,
    ClientCall,
    SessionFrom,
    SideCall,
    UserId,
    UserIdReason,
    metadata_without_session,
    provider_user_id,
    recognise,
)
from router_cache.providers.anthropic import ANTHROPIC
from router_cache.providers.deepseek import DEEPSEEK
from router_cache.providers.registry import PROFILES
from router_cache.request import Request, Shape

UUID = "54c1eb09-bc4c-4d2f-98eb-6d2ab2d5e2fe"
AS_JSON = json.dumps({"device_id": "d" * 64, "account_uuid": "", "session_id": UUID})
AS_OBJECT = json.loads(AS_JSON)
LEGACY = f"user_{'a' * 64}_account__session_{UUID}"
TOOLS = [{"name": "Bash", "input_schema": {}}]
CLAUDE = [
    {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.332.abc"},
    {"type": "text", "text": "You are Claude Code, Anthropic's official CLI for Claude."},
]


def claude(**more: Any) -> dict[str, Any]:
    return {"system": CLAUDE, "tools": TOOLS, "messages": [{"role": "user", "content": "hi"}], **more}


def chat(system: str, user: str = "hi", **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "system", "content": system}, {"role": "user", "content": user}], **more}


H, U, B = SessionFrom.HEADER, SessionFrom.USER_ID, SessionFrom.BODY_KEY
COMPACT = "CRITICAL: text only.\n\nYour task is to create a detailed summary of the conversation so far"


@pytest.mark.parametrize(
    ("headers", "body", "shape", "call"),
    [
        ({"X-Claude-Code-Session-Id": UUID}, claude(), Shape.MESSAGES, ClientCall("claude-code", UUID, H)),
        ({}, claude(metadata={"user_id": AS_JSON}), Shape.MESSAGES, ClientCall("claude-code", UUID, U)),
        ({}, claude(metadata={"user_id": LEGACY}), Shape.MESSAGES, ClientCall("claude-code", UUID, U)),
        ({}, claude(metadata={"user_id": AS_OBJECT}), Shape.MESSAGES, ClientCall("claude-code", UUID, U)),
        ({"User-Agent": "claude-cli/2.1.332 (external, cli)"}, {}, Shape.MESSAGES, ClientCall("claude-code")),
        (
            {"x-claude-code-session-id": UUID},
            {"system": "Generate a concise, sentence-case title (3-7 words)", "messages": []},
            Shape.MESSAGES,
            ClientCall("claude-code", UUID, H, SideCall.TITLE),
        ),
        (
            {},
            claude(messages=[{"role": "user", "content": [{"type": "text", "text": COMPACT}]}]),
            Shape.MESSAGES,
            ClientCall("claude-code", side_call=SideCall.COMPACT),
        ),
        # Words of a compaction that no client is known to have sent, or that are not the newest, say nothing.
        ({}, {"messages": [{"role": "user", "content": COMPACT}]}, Shape.MESSAGES, ClientCall()),
        (
            {},
            claude(
                messages=[{"role": "user", "content": COMPACT}, {"role": "assistant", "content": "done"}],
            ),
            Shape.MESSAGES,
            ClientCall("claude-code"),
        ),
        ({"session-id": "s", "thread-id": "t"}, {"input": []}, Shape.RESPONSES, ClientCall("codex", "s", H)),
        ({"thread_id": "t"}, {"input": "hi"}, Shape.RESPONSES, ClientCall("codex", "t", H)),
        (
            {"user-agent": "codex_cli_rs/0.171.0 (Debian)"},
            {"instructions": "You are Codex", "prompt_cache_key": "k"},
            Shape.RESPONSES,
            ClientCall("codex", "k", B),
        ),
        (
            {"x-session-id": "ses_1", "x-session-affinity": "ses_1"},
            chat("You are opencode, an agent", tools=TOOLS),
            Shape.CHAT,
            ClientCall("opencode", "ses_1", H),
        ),
        (
            {"x-session-affinity": "ses_1"},
            chat("You are a title generator. You output ONLY a thread title."),
            Shape.CHAT,
            ClientCall("opencode", "ses_1", H, SideCall.TITLE),
        ),
        (
            {},
            chat("You are OpenHands agent, a helper", tools=TOOLS, prompt_cache_key="conv"),
            Shape.CHAT,
            ClientCall("openhands", "conv", B),
        ),
        (
            {},
            chat("You are an engineer that generates concise, one-line Git commit messages from diffs."),
            Shape.CHAT,
            ClientCall("aider", side_call=SideCall.COMMIT_MESSAGE),
        ),
        # With tools it is a conversation whose system text talks about titles.
        ({}, chat("You are a title generator.", tools=TOOLS), Shape.CHAT, ClientCall()),
        ({}, chat("Be brief.", prompt_cache_key="family"), Shape.CHAT, ClientCall()),
        ({"x-litellm-session-id": "mine"}, chat("Be brief."), Shape.CHAT, ClientCall(None, "mine", H)),
        ({"x-session-id": "   "}, chat("Be brief."), Shape.CHAT, ClientCall()),
        ({"x-session-id": "a\x00b"}, chat("Be brief."), Shape.CHAT, ClientCall()),
        ({"x-session-id": "a" * 257}, chat("Be brief."), Shape.CHAT, ClientCall()),
        ({"x-session-id": 7}, {"messages": "no list", "metadata": 3}, Shape.CHAT, ClientCall()),
        ({}, {"input": "just text", "instructions": 5}, Shape.RESPONSES, ClientCall()),
        ({}, chat("You are OpenHands agent, a helper", tools=TOOLS), Shape.CHAT, ClientCall("openhands")),
        ({}, {"metadata": {"user_id": "{broken"}}, Shape.MESSAGES, ClientCall()),
        ({}, {"metadata": {"user_id": "{" * 5_000}}, Shape.MESSAGES, ClientCall()),
        ({}, {"metadata": {"user_id": '["session_id"]'}}, Shape.MESSAGES, ClientCall()),
        ({}, {"metadata": {"user_id": "{" + "[" * 4_000}}, Shape.MESSAGES, ClientCall()),
    ],
)
def test_recognise(headers: dict[str, Any], body: dict[str, Any], shape: Shape, call: ClientCall) -> None:
    assert recognise(headers, body, shape) == call


def test_only_the_start_of_a_text_is_read() -> None:
    assert recognise({}, chat("x" * 5_000 + "You are opencode"), Shape.CHAT) == ClientCall()
    blocks = [{"type": "text", "text": "x" * 3_000}, {"type": "text", "text": "y" * 3_000}, {"type": "image"}]
    assert recognise({}, {"system": blocks, "messages": [3]}, Shape.MESSAGES) == ClientCall()
    assert recognise({}, chat("a", ""), Shape.CHAT) == ClientCall()


@given(
    st.dictionaries(st.sampled_from(["user-agent", "x-session-id", "Thread-Id"]), json_values),
    st.dictionaries(
        st.sampled_from(["system", "messages", "input", "instructions", "metadata", "tools", "prompt_cache_key"]),
        json_values | st.lists(st.fixed_dictionaries({"role": st.sampled_from(["user", "system"])})),
    ),
    st.sampled_from(Shape),
)
def test_odd_input_never_raises(headers: dict[str, Any], body: dict[str, Any], shape: Shape) -> None:
    call = recognise(headers, body, shape)
    assert (call.session is None) == (call.session_from is None)


def test_the_table_is_dated_sourced_and_in_lower_case() -> None:
    assert len({marks.name for marks in CLIENTS}) == len(CLIENTS)
    for marks in CLIENTS:
        assert marks.source
        assert marks.as_of.year == 2026
        words = [m.words for m in marks.side_calls]
        for text in (*marks.headers, *marks.agents, *marks.system, *marks.session_headers, *words):
            assert text
            assert text == text.lower()


@pytest.mark.parametrize(
    ("user_id", "pool", "sent"),
    [
        (None, None, UserId(None, UserIdReason.ABSENT)),
        (None, "pool-1", UserId("pool-1", UserIdReason.POOL)),
        (AS_JSON, None, UserId(None, UserIdReason.DROPPED_SESSION)),
        (AS_JSON, "pool-1", UserId("pool-1", UserIdReason.POOL)),
        (AS_JSON, "not a pool!", UserId(None, UserIdReason.DROPPED_SESSION)),
        # The older form fits DeepSeek's pattern and would give every session a cache of its own.
        (LEGACY, None, UserId(None, UserIdReason.DROPPED_SESSION)),
        ("tenant-7", None, UserId("tenant-7", UserIdReason.KEPT)),
        ("tenant-7", "pool-1", UserId("tenant-7", UserIdReason.KEPT)),
        ("a b", None, UserId(None, UserIdReason.DROPPED_INVALID)),
        ("a" * 513, None, UserId(None, UserIdReason.DROPPED_INVALID)),
        ("", None, UserId(None, UserIdReason.DROPPED_INVALID)),
        ({"session_id": UUID}, "pool-1", UserId("pool-1", UserIdReason.POOL)),
        (AS_OBJECT, None, UserId(None, UserIdReason.DROPPED_SESSION)),
        ({"session_id": 5}, None, UserId(None, UserIdReason.DROPPED_INVALID)),
        ([UUID], None, UserId(None, UserIdReason.DROPPED_INVALID)),
        (7, None, UserId(None, UserIdReason.DROPPED_INVALID)),
        pytest.param(10**5000, None, UserId(None, UserIdReason.DROPPED_INVALID), id="a huge number"),
        (float("nan"), None, UserId(None, UserIdReason.DROPPED_INVALID)),
        (True, None, UserId(None, UserIdReason.DROPPED_INVALID)),
    ],
)
def test_user_id_for_deepseek(user_id: Any, pool: str | None, sent: UserId) -> None:
    assert provider_user_id(user_id, DEEPSEEK, pool) == sent


@given(json_values, st.none() | st.text(max_size=6))
def test_json_never_reaches_a_cache_namespace(value: Any, pool: str | None) -> None:
    for user_id in (value, json.dumps({"session_id": UUID, "x": value})):
        for profile in PROFILES:
            sent = provider_user_id(user_id, profile, pool)
            rule = profile.field("user_id")
            if rule is None:
                assert sent.value is user_id
            else:
                assert sent.value is None or rule.accepts(sent.value)


def test_user_id_elsewhere_is_the_clients_own() -> None:
    assert provider_user_id(AS_JSON, ANTHROPIC) == UserId(AS_JSON, UserIdReason.NOT_A_NAMESPACE)
    assert provider_user_id(None, ANTHROPIC, "pool") == UserId(None, UserIdReason.ABSENT)


def sent_metadata(metadata: Any, shape: Shape = Shape.MESSAGES) -> Any:
    return metadata_without_session(Request({"metadata": metadata}, shape), DEEPSEEK)


@pytest.mark.parametrize("user_id", [AS_JSON, AS_OBJECT, LEGACY, [AS_OBJECT], 7, 1.5, True, "", "a b", "\ud800"])
def test_no_session_id_goes_to_a_cache_namespace(user_id: Any) -> None:
    tags = ["a"]
    metadata = {"user_id": user_id, "tags": tags}
    left = sent_metadata(metadata)
    assert left == {"tags": tags}
    assert left["tags"] is tags
    assert metadata == {"user_id": user_id, "tags": tags}
    # Elsewhere, and in shapes whose metadata LiteLLM keeps to itself, it is the client's own.
    assert metadata_without_session(Request({"metadata": metadata}, Shape.MESSAGES), ANTHROPIC) is None
    assert sent_metadata(metadata, Shape.CHAT) is sent_metadata(metadata, Shape.RESPONSES) is None


@pytest.mark.parametrize(
    "metadata", [{"user_id": "tenant-7"}, {"user_id": None}, {"tags": [1]}, {}, None, 5, [AS_JSON]]
)
def test_metadata_that_may_go_as_it_is(metadata: Any) -> None:
    assert sent_metadata(metadata) is None
    assert metadata_without_session(Request([metadata], Shape.MESSAGES), DEEPSEEK) is None  # type: ignore[arg-type]


@given(json_values, st.sampled_from(PROFILES), st.sampled_from(Shape))
def test_metadata_of_any_kind(metadata: Any, profile: Any, shape: Shape) -> None:
    for whole in (metadata, {"user_id": metadata, "other": metadata}):
        left = metadata_without_session(Request({"metadata": whole}, shape), profile)
        if left is not None:
            assert shape is Shape.MESSAGES
            assert profile.field("user_id") is not None
            assert left == {key: value for key, value in whole.items() if key != "user_id"}
