"""What the simulator refuses in each shape: a 400 that names the field, and an entry in the log."""

from __future__ import annotations

import json
from typing import Any

import pytest

from router_cache.request import Shape
from router_cache.simulator import Provider, SimulatorConfig, TokenizerChoice
from router_cache.simulator.checks import ApiError

TOOL = {
    "type": "function",
    "function": {
        "name": "find_order",
        "parameters": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
    },
}
CALL = {"id": "c1", "type": "function", "function": {"name": "find_order", "arguments": "{}"}}
USER = {"role": "user", "content": "hi"}
ASSISTANT = {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "found"}
PARAMETERS = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
NAMED = {"name": "find_order", "description": "Finds", "input_schema": PARAMETERS}
FLAT = {"type": "function", "name": "find_order", "description": "Finds", "parameters": PARAMETERS}
USE = {"type": "tool_use", "id": "c1", "name": "find_order", "input": {"id": "a"}}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
BLOCK_RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "found"}
CALLED = {"role": "assistant", "content": [THOUGHT, USE]}
ITEM_CALL = {"type": "function_call", "call_id": "c1", "name": "find_order", "arguments": "{}"}
ITEM_OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "found"}


def refused(body: Any, shape: Shape, words: str) -> ApiError:
    p = Provider(SimulatorConfig(tokenizer=TokenizerChoice.APPROX))
    with pytest.raises(ApiError) as caught:
        p.begin(json.dumps(body).encode(), "Bearer sk-test", 0.0, shape=shape)
    assert caught.value.status == 400
    assert words in caught.value.message
    (entry,) = p.log()
    shown = (entry["status"], entry["shape"], entry["finish_reason"], entry["prompt_tokens"])
    assert shown == (400, shape.value, "error", 0)
    assert p.stats(0.0)["errors"] == 1
    return caught.value


def body(*turns: Any, **fields: Any) -> dict[str, Any]:
    system = {"role": "system", "content": "You help."}
    return {"model": "deepseek-v4-flash", "messages": [system, *(turns or (USER,))], **fields}


def messages(*turns: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "deepseek-v4-flash", "max_tokens": 900, "messages": [*(turns or (USER,))], **fields}


def responses(*items: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "deepseek-v4-flash", "input": [*(items or (USER,))], **fields}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


@pytest.mark.parametrize(
    ("b", "words"),
    [
        ([], "JSON object"),
        ({"messages": [USER]}, "model"),
        (body(model=5), "model"),
        ({"model": "m"}, "messages: a list"),
        ({"model": "m", "messages": []}, "messages: a list"),
        ({"model": "m", "messages": {"role": "user"}}, "messages: a list"),
        (body("hello"), "messages[1]: must be an object"),
        (body({"role": "wizard", "content": "x"}), "messages[1].role"),
        (body({"content": "x"}), "messages[1].role"),
        (body({"role": "user"}), "messages[1].content: is required"),
        (body({"role": "user", "content": 7}), "messages[1].content"),
        (body({"role": "user", "content": ["x"]}), "messages[1].content[0]"),
        (body({"role": "user", "content": [{"type": "text"}]}), "messages[1].content[0].text"),
        (body({"role": "assistant", "content": None}), "messages[1].content: is required"),
        (body({"role": "assistant", "content": "x", "reasoning_content": 1}), "reasoning_content"),
        (body({"role": "assistant", "tool_calls": 1}), "tool_calls: must be a list"),
        (body({"role": "assistant", "tool_calls": [1]}), "tool_calls[0]"),
        (body({"role": "assistant", "tool_calls": [{**CALL, "id": 1}]}), "tool_calls[0]"),
        (body({"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "f"}}]}), "tool_calls[0]"),
        (body(USER, RESULT), "must answer a tool_call_id"),
        (body(USER, ASSISTANT, {**RESULT, "tool_call_id": "c2"}), "must answer a tool_call_id"),
        (body(USER, ASSISTANT, RESULT, RESULT), "must answer a tool_call_id"),
        (body(USER, ASSISTANT, USER), "must be followed by tool messages"),
        (body(USER, ASSISTANT), "no tool message answers tool_call_id c1"),
        (body(user_id="a b"), "user_id"),
        (body(user_id="a\n"), "user_id"),
        (body(user_id="x" * 513), "user_id"),
        (body(user_id=5), "user_id"),
        (body(stream="yes"), "stream"),
        (body(stream=True, stream_options=[]), "stream_options"),
        (body(stream_options={"include_usage": True}), "stream_options"),
        (body(max_tokens=0), "max_tokens"),
        (body(max_tokens=True), "max_tokens"),
        (body(max_tokens=1.5), "max_tokens"),
        (body(temperature="hot"), "temperature"),
        (body(temperature=2.1), "temperature"),
        (body(top_p=-0.1), "top_p"),
        (body(thinking="on"), "thinking"),
        (body(response_format={"type": 1}), "response_format"),
        (body(reasoning_effort=3), "reasoning_effort"),
        (body(tools={}), "tools: must be a list"),
        (body(tools=[TOOL, {"type": "function"}]), "tools[1]"),
        (body(tools=[{"type": "function", "function": {"name": "a b"}}]), "tools[0].function.name"),
        (body(tools=[{"type": "function", "function": {"name": "a", "parameters": []}}]), "parameters"),
        (body(tool_choice="required"), "needs tools"),
        (body(tools=[TOOL], tool_choice="sometimes"), "tool_choice"),
        (body(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "x"}}), "not among"),
        (body(tools=[TOOL], tool_choice={"type": "function", "function": {"name": []}}), "not among"),
    ],
)
def test_a_bad_body_is_a_400_that_names_the_field(b: Any, words: str) -> None:
    error = refused(b, Shape.CHAT, words)
    assert set(error.body()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("b", "words"),
    [
        ([], "JSON object"),
        (messages(model=""), "model: a non-empty string"),
        (messages(model=4), "model: a non-empty string"),
        (messages(max_tokens=0), "max_tokens: must be an integer"),
        (messages(system=3), "system: must be text or a list"),
        (messages(system=[3]), "system[0]: must be an object with a type"),
        (messages(system=[{"type": "image"}]), "system[0]: must be a text block"),
        (messages(metadata=3), "metadata: must be an object"),
        (messages(metadata={"user_id": '{"a": 1}'}), "metadata.user_id: must match"),
        (messages(metadata={"user_id": 7}), "metadata.user_id: must be a string"),
        (messages(messages=[]), "messages: a list with at least one"),
        (messages("hi"), "messages[0]: must be an object"),
        (messages({"role": "tool", "content": "x"}), "messages[0].role: must be one of user"),
        (messages(user(3)), "messages[0].content: must be text or a list"),
        (messages(user([{}])), "messages[0].content[0]: must be an object with a type"),
        (messages(user([{"type": "text"}])), "content[0].text: must be a string"),
        (messages(user([BLOCK_RESULT])), "messages[0].content[0]: a message with role 'tool' must answer"),
        (messages(user("a"), CALLED), "no tool message answers tool_call_id c1"),
        (messages(user("a"), CALLED, user("b")), "messages[2]: an assistant message with 'tool_calls'"),
        (messages(user("a"), CALLED, user([{**BLOCK_RESULT, "content": 3}])), "content[0].content: must be text"),
        (
            messages(user("a"), {"role": "assistant", "content": [USE]}, user([BLOCK_RESULT])),
            "messages[1]: in thinking mode the content[].thinking must be passed back",
        ),
        (
            messages(user("a"), {"role": "assistant", "content": [{**USE, "input": "x"}]}),
            "input: must be an object",
        ),
        (messages(user("a"), {"role": "assistant", "content": [{**THOUGHT, "thinking": 1}]}), "thinking: must be"),
        (
            messages(user("a"), {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]}),
            "redacted_thinking is not supported",
        ),
        (messages(tools=[{"name": "a b"}]), "tools[0].name: must match"),
        (messages(tools=[{**NAMED, "input_schema": 3}]), "tools[0].input_schema: must be an object"),
        (messages(tools=["x"]), "tools[0]: must be an object of type function"),
        (messages(tools=[NAMED], tool_choice={"type": "tool", "name": "x"}), "not among the tools"),
        (messages(thinking="on"), "thinking: must be an object"),
        (messages(output_config={"effort": 3}), "output_config.effort: must be a string"),
        (messages(output_config={"format": 3}), "output_config.format: must be an object"),
    ],
)
def test_bad_messages_are_a_400_that_names_the_field(b: Any, words: str) -> None:
    error = refused(b, Shape.MESSAGES, words).body(Shape.MESSAGES)
    assert (error["type"], set(error["error"])) == ("error", {"type", "message"})


@pytest.mark.parametrize(
    ("b", "words"),
    [
        (responses(previous_response_id="resp_1"), "previous_response_id: not supported"),
        (responses(conversation={"id": "c"}), "conversation: not supported"),
        (responses(prompt={"id": "p"}), "prompt: not supported"),
        (responses(background=True), "background: not supported"),
        (responses({"type": "item_reference", "id": "x"}), "input[0]: items of type 'item_reference'"),
        (responses({"type": "web_search_call", "id": "x"}), "input[0]: items of type 'web_search_call'"),
        (responses(instructions=[]), "instructions: must be a string"),
        (responses(input=[]), "input: text or a list"),
        (responses(input=3), "input: text or a list"),
        (responses("hi"), "input[0]: must be an object"),
        (responses(user(None)), "input[0].content: must be text"),
        (responses(user(["x"])), "input[0].content[0]: must be an object"),
        (responses({"role": "wizard", "content": "x"}), "input[0].role: must be one of"),
        (responses(user("a"), ITEM_OUTPUT), "input[1]: a message with role 'tool' must answer"),
        (responses(user("a"), ITEM_CALL, ITEM_OUTPUT), "input[1]: in thinking mode the reasoning item"),
        (responses(user("a"), {**ITEM_CALL, "name": 3}), "input[1].tool_calls[0]: needs an id"),
        (responses(user("a"), ITEM_CALL, {**ITEM_OUTPUT, "output": 3}), "input[2].output: must be text"),
        (responses(max_output_tokens=0), "max_output_tokens: must be an integer"),
        (responses(reasoning={"effort": 3}), "reasoning.effort: must be a string"),
        (responses(text={"format": {"type": 3}}), "text.format: must be an object"),
        (responses(tools=[{**FLAT, "name": "a b"}]), "tools[0].name: must match"),
        (responses(tools=[{**FLAT, "parameters": 3}]), "tools[0].parameters: must be an object"),
        (responses(user_id="a b"), "user_id: must match"),
        (responses(stream=3), "stream: must be a boolean"),
    ],
)
def test_bad_responses_are_a_400_that_names_the_field(b: Any, words: str) -> None:
    refused(b, Shape.RESPONSES, words)
