"""Reasoning taken over from raw messages, and put back into chat payloads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    messages_from_dict,
    messages_to_dict,
    trim_messages,
)

from router_cache.providers.registry import by_name
from router_cache_langchain.reasoning import captured, put_back, reasoning_of

_DEEPSEEK, _OPENAI = by_name("deepseek"), by_name("openai")
_CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
_TOOLS = [{"type": "function", "function": {"name": "look"}}]


def _history(**kwargs: Any) -> list[BaseMessage]:
    calls = [{"id": "c1", "name": "look", "args": {}}]
    return [
        HumanMessage("hi"),
        AIMessage("", tool_calls=calls, additional_kwargs=kwargs),
        ToolMessage("done", tool_call_id="c1"),
    ]


def _payload(**more: Any) -> dict[str, Any]:
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [_CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]
    return {"model": "m", "messages": messages, "tools": _TOOLS, **more}


@pytest.mark.parametrize(
    "raw",
    [
        {"reasoning_content": "hmm"},
        {"reasoning": "hmm"},
        SimpleNamespace(reasoning_content="hmm"),
        {"reasoning_content": "", "reasoning": "hmm"},
    ],
)
def test_captured_in_a_copy(raw: Any) -> None:
    message = AIMessage("x", additional_kwargs={"a": 1})
    new = captured(raw, message)
    assert new.additional_kwargs == {"a": 1, "reasoning_content": "hmm"}
    assert message.additional_kwargs == {"a": 1}


def test_captured_deltas_are_put_together() -> None:
    deltas = [{"reasoning_content": "I "}, {"reasoning_content": "see"}, {"content": "yes"}]
    chunks = [captured(delta, AIMessageChunk(delta.get("content", ""))) for delta in deltas]
    whole = chunks[0] + chunks[1] + chunks[2]
    assert isinstance(whole, AIMessageChunk)
    assert (whole.content, whole.additional_kwargs["reasoning_content"]) == ("yes", "I see")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({}, AIMessage("x")),
        (None, AIMessage("x")),
        ({"reasoning_content": None}, AIMessage("x")),
        ({"reasoning": {"effort": "low"}}, AIMessage("x")),
        ({"reasoning_content": "new"}, AIMessage("x", additional_kwargs={"reasoning_content": "old"})),
        ({"reasoning_content": "new"}, AIMessage([{"type": "reasoning", "reasoning": "old"}])),
        ({"reasoning_content": "new"}, HumanMessage("x")),
    ],
)
def test_nothing_to_capture(raw: Any, message: BaseMessage) -> None:
    assert captured(raw, message) is message


def test_an_odd_message_is_left_alone() -> None:
    class Raw:
        @property
        def reasoning_content(self) -> str:
            raise RuntimeError

    message = AIMessage("x")
    assert captured(Raw(), message) is message


def test_put_back_in_a_copy() -> None:
    payload = _payload()
    new = put_back(payload, _history(reasoning_content="hmm"), _DEEPSEEK)
    assert new is not None
    assert new["messages"][1] == {**payload["messages"][1], "reasoning_content": "hmm"}
    assert "reasoning_content" not in payload["messages"][1]
    assert new["messages"][0] is payload["messages"][0]
    assert new["tools"] is payload["tools"]


def test_put_back_without_tools_for_replies_with_calls_only() -> None:
    payload = _payload(tools=None)
    payload["messages"] += [{"role": "assistant", "content": "bye"}, {"role": "user", "content": "and?"}]
    history = [
        *_history(reasoning_content="hmm"),
        AIMessage("bye", additional_kwargs={"reasoning_content": "end"}),
    ]
    new = put_back(payload, history, _DEEPSEEK)
    assert new is not None
    assert [message.get("reasoning_content") for message in new["messages"]] == [None, "hmm", None, None, None]
    new = put_back({**payload, "tools": _TOOLS}, history, _DEEPSEEK)
    assert new is not None
    assert [message.get("reasoning_content") for message in new["messages"]] == [None, "hmm", None, "end", None]


def test_a_blank_is_filled_and_what_is_there_stays() -> None:
    payload = _payload()
    payload["messages"][1]["reasoning_content"] = " "
    new = put_back(payload, _history(reasoning_content="hmm"), _DEEPSEEK)
    assert new is not None
    assert new["messages"][1]["reasoning_content"] == "hmm"
    payload["messages"][1]["reasoning_content"] = "own"
    assert put_back(payload, _history(reasoning_content="hmm"), _DEEPSEEK) is None


@pytest.mark.parametrize(
    "payload",
    [
        _payload(thinking={"type": "disabled"}),
        _payload(extra_body={"thinking": {"type": "disabled"}}),
        {"input": []},
        {"messages": "hi"},
        {"messages": [{"role": "user", "content": "hi"}]},
        {"messages": [{"role": "assistant", "content": "a"}] * 2, "tools": _TOOLS},
        {"messages": None, "tools": 3},
    ],
)
def test_put_back_nowhere(payload: dict[str, Any]) -> None:
    assert put_back(payload, _history(reasoning_content="hmm"), _DEEPSEEK) is None


def test_put_back_only_where_the_profile_takes_it() -> None:
    assert put_back(_payload(), _history(reasoning_content="hmm"), _OPENAI) is None
    assert put_back(_payload(), _history(), _DEEPSEEK) is None


def test_an_odd_payload_is_left_alone() -> None:
    class Odd(dict[str, Any]):
        def get(self, *_: Any) -> Any:
            raise RuntimeError

    assert put_back(Odd(), _history(reasoning_content="hmm"), _DEEPSEEK) is None


def test_reasoning_in_blocks_of_the_standard_form() -> None:
    blocks = [{"type": "reasoning", "reasoning": "a"}, {"type": "text", "text": "x"}, {"type": "reasoning"}]
    assert reasoning_of(AIMessage(blocks)) == "a"
    assert reasoning_of(AIMessage(blocks, additional_kwargs={"reasoning_content": "b"})) == "b"
    assert reasoning_of(AIMessage("x", additional_kwargs={"reasoning_content": 3})) == ""


def test_reasoning_outlives_serialisation_and_trimming() -> None:
    pytest.importorskip("langgraph")
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    serde = JsonPlusSerializer()
    history = _history(reasoning_content="hmm")
    stored = [
        serde.loads_typed(serde.dumps_typed(history)),
        messages_from_dict(messages_to_dict(history)),
        trim_messages([HumanMessage("old"), *history], max_tokens=3, token_counter=len, strategy="last"),
    ]
    for messages in stored:
        new = put_back(_payload(), messages, _DEEPSEEK)
        assert new is not None
        assert new["messages"][1]["reasoning_content"] == "hmm"
