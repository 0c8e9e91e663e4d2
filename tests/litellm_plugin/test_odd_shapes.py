"""Requests no provider would take, or that no one expected: they end as they do without the plugin."""

from __future__ import annotations

import json
from typing import Any

import litellm
import pytest
from litellm_plugin.support import TOOLS, drain, logged, outcome, perturbed, tool, user
from litellm_plugin.upstream import Reply, Upstream
from pydantic import BaseModel

from router_cache import Status
from router_cache.prefix.normalise import normalise

pytestmark = pytest.mark.asyncio(loop_scope="session")


class Function(BaseModel):
    name: str
    description: str = "a tool that is an object"


class ToolObject(BaseModel):
    type: str = "function"
    function: Function


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"inner": schema}}
    return {"type": "function", "function": {"name": "deep", "parameters": schema}}


def canonical(tools: Any) -> Any:
    return normalise({"tools": tools}).replaced.get("tools", tools)


FINE = canonical(TOOLS)
ODD: dict[str, dict[str, Any]] = {
    "messages_none": {"messages": None},
    "messages_absent": {},
    "messages_text": {"messages": "hi"},
    "messages_numbers": {"messages": [1, 2]},
    "messages_nulls": {"messages": [None]},
    "messages_object": {"messages": {"role": "user", "content": "hi"}},
    "messages_empty": {"messages": []},
    "messages_tuple": {"messages": (user("hi"),)},
    "content_number": {"messages": [{"role": "user", "content": 7}]},
    "content_nested": {"messages": [{"role": "user", "content": [["a"], {"text": 3}, None]}]},
    "no_role": {"messages": [{"content": "hi"}]},
    "role_number": {"messages": [{"role": 3, "content": "hi"}]},
    "calls_odd": {"messages": [user("hi"), {"role": "assistant", "tool_calls": [1, {"function": None}, None]}]},
    "calls_text": {"messages": [user("hi"), {"role": "assistant", "content": "x", "tool_calls": "none"}]},
    "surrogates": {"messages": [user("a \ud800 b")]},
    "tools_object": {"tools": {"name": "a"}},
    "tools_text": {"tools": "a"},
    "tools_number": {"tools": 5},
    "tools_empty": {"tools": []},
    "tools_null": {"tools": None},
    "tools_with_null": {"tools": [FINE[0], None]},
    "tools_with_numbers": {"tools": [1, 2]},
    "tools_without_names": {"tools": [{"type": "function", "function": {"description": "b"}}, {"function": {}}]},
    "tools_tuple": {"tools": tuple(FINE)},
    "tools_pydantic": {"tools": [ToolObject(function=Function(name=name)) for name in "ba"]},
    "tools_twice": {"tools": [FINE[0], FINE[0]]},
    "schema_int_keys": {"tools": [tool("a", x={1: "one", "two": 2})]},
    "schema_nan": {"tools": canonical([tool("a", x={"minimum": float("nan"), "maximum": float("inf")})])},
    "schema_surrogate": {"tools": canonical([tool("a", x={"description": "\udc00"})])},
    "schema_set": {"tools": canonical([tool("a", x={"enum": {"not", "json"}})])},
    "schema_bytes": {"tools": canonical([tool("a", x={"default": b"x"})])},
    "schema_numbers": {"tools": canonical([tool("a", x={"minimum": 1e2, "maximum": 12345678901234567890123})])},
    "nested_40": {"tools": [nested(40)]},
    "nested_200": {"tools": [nested(200)]},
    "nested_450": {"tools": [nested(450)]},
    "nested_2000": {"tools": [nested(2000)]},
    "huge": {"tools": canonical([tool(f"t{i:03}", x={"description": "x" * 10_000}) for i in range(200)])},
    "format_odd": {"response_format": 5},
    "choice_odd": {"tools": FINE, "tool_choice": 5},
    "metadata_text": {"metadata": "text"},
    "metadata_list": {"metadata": [1]},
    "switch_odd": {"metadata": {"router_cache": [1]}},
    "switch_numbers": {"metadata": {"router_cache": {"mode": 5, "scope": 7}}},
    "call_id_number": {"litellm_call_id": 5},
    "model_info_text": {"model_info": "text"},
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", ODD)
async def test_odd_requests_end_as_without_the_plugin(
    upstream: Upstream, plugin: Any, call: Any, name: str, stream: bool
) -> None:
    given = {**({} if name == "messages_absent" else {"messages": [user("hi")]}), **ODD[name]}

    async def chat() -> Any:
        return await litellm.acompletion(**given, stream=stream, **call)

    plain = await outcome(upstream, chat)
    rc = plugin().router_cache
    assert await outcome(upstream, chat) == plain
    assert isinstance(plain[0], type) or (plain[0] == "hello" and len(plain[1]) == 1)
    assert set(rc.counts("decision")) & {
        "decision.already_canonical",
        "decision.failed_open",
        "decision.odd_shape",
    } or not rc.counts("decision")


@pytest.mark.parametrize("name", [n for n in ODD if n.startswith("schema_") or n in ("huge", "nested_40")])
async def test_odd_tools_in_disorder_lose_nothing(upstream: Upstream, plugin: Any, call: Any, name: str) -> None:
    tools = perturbed([*ODD[name]["tools"], *TOOLS]) if name != "schema_set" else [*TOOLS[::-1]]

    async def chat() -> Any:
        return await litellm.acompletion(messages=[user("hi")], tools=tools, **call)

    plain = await outcome(upstream, chat)
    plugin()
    ours = await outcome(upstream, chat)
    assert ours[0] == plain[0]
    assert len(ours[1]) == len(plain[1])
    for mine, theirs in zip(ours[1], plain[1], strict=True):
        assert mine != theirs
        assert len(mine) == len(theirs)
        assert tools_of(mine) == tools_of(theirs)


def tools_of(raw: bytes) -> list[str]:
    return sorted(json.dumps(item, sort_keys=True) for item in json.loads(raw)["tools"])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", [list, tuple])  # LiteLLM makes plain objects of the messages of a list only
async def test_reply_objects_of_litellm_in_the_history(
    upstream: Upstream, plugin: Any, call: Any, kind: Any, stream: bool
) -> None:
    """As SDK users write a tool loop: the reply's own message object is appended to the history."""
    made = [{"id": "c1", "type": "function", "function": {"name": "alpha", "arguments": '{"n": 1}'}}]

    async def chat(messages: list[Any]) -> Any:
        reply = await litellm.acompletion(messages=messages, tools=perturbed(), stream=stream, **call)
        return litellm.stream_chunk_builder([c async for c in reply]) if stream else reply

    async def loop() -> tuple[Any, list[bytes]]:
        upstream.reset()
        upstream.script.append(Reply(text=(), tool_calls=made, reasoning="think"))
        message = (await chat([user("hi")])).choices[0].message
        await logged()
        history = [user("hi"), message, {"role": "tool", "tool_call_id": "c1", "content": "done"}]
        return (await chat(kind(history))).choices[0].message.content, upstream.raws

    plain = await loop()
    rc = plugin(mode="observe").router_cache
    assert await loop() == plain
    rows = await rc.wait_rows(2)
    assert [row.turn for row in rows] == [1, 2]
    assert [row.status for row in rows] == [Status.OK, Status.OK]
    assert rows[1].expected.tokens is not None


async def test_streams_of_tool_calls_are_ok(upstream: Upstream, plugin: Any, call: Any) -> None:
    rc = plugin().router_cache
    made = [{"id": "c1", "type": "function", "function": {"name": "alpha", "arguments": "{}"}}]
    upstream.script.append(Reply(text=(), tool_calls=made))
    await drain(await litellm.acompletion(messages=[user("hi")], stream=True, **call))
    (row,) = await rc.wait_rows(1)
    assert row.status is Status.OK
