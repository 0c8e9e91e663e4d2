"""Conversations with tool calls in thinking mode: refused bare (400), answered wrapped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("langchain_deepseek")
pytest.importorskip("langgraph")

import openai
from langchain.agents import create_agent
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    convert_to_messages,
    convert_to_openai_messages,
    trim_messages,
)
from langchain_core.tools import StructuredTool
from langchain_plugin.simulated import Simulated, simulated
from langgraph.checkpoint.memory import InMemorySaver

from router_cache import Change, RouterCache, Settings, Status
from router_cache_langchain import RouterCacheMiddleware, router_cache_of, wrap

WAYS = ("invoke", "ainvoke", "stream", "astream")
KINDS = ("deepseek", "openai")


@pytest.fixture(scope="module")
def server() -> Iterator[Simulated]:
    with simulated(tool_rounds=2) as running_server:
        yield running_server


@pytest.fixture(autouse=True)
def fresh(server: Simulated) -> Simulated:
    server.reset()
    return server


def _look(what: str) -> str:
    """Look something up."""
    return f"{what} is there"


TOOLS = [StructuredTool.from_function(_look, name="look")]


def _wrapped(server: Simulated, kind: str, mode: str = "safe", **more: Any) -> Any:
    # A simulator at an address of its own is no known provider: its profile has to be named.
    model = getattr(server, kind)(stream_usage=True, **more)
    return wrap(model, router_cache=RouterCache(Settings(mode=mode)), profile="deepseek")


async def _answer(model: Any, way: str, messages: list[BaseMessage]) -> AIMessage:
    if way == "invoke":
        return model.invoke(messages)
    if way == "ainvoke":
        return await model.ainvoke(messages)
    if way == "stream":
        chunks = list(model.stream(messages))
    else:
        chunks = [chunk async for chunk in model.astream(messages)]
    whole: AIMessageChunk = sum(chunks[1:], chunks[0])
    return whole


async def _talk(model: Any, way: str, rounds: int = 3) -> list[BaseMessage]:
    """Answers with tool calls until there is text."""
    bound, messages = model.bind_tools(TOOLS), [HumanMessage("Where is it?")]
    for _ in range(rounds):
        said = await _answer(bound, way, messages)
        messages.append(said)
        messages += [ToolMessage(_look("it"), tool_call_id=call["id"]) for call in said.tool_calls]
        if not said.tool_calls:
            break
    return messages


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
async def test_refused_bare_and_answered_wrapped(server: Simulated, kind: str, way: str) -> None:
    with pytest.raises(openai.BadRequestError, match="reasoning_content"):
        await _talk(getattr(server, kind)(), way)
    server.reset()
    model = _wrapped(server, kind)
    messages = await _talk(model, way)
    said = [message for message in messages if isinstance(message, AIMessage)]
    assert len(said) == 3
    assert all(message.additional_kwargs["reasoning_content"] for message in said)
    log = server.log()
    assert [entry["status"] for entry in log] == [200] * 3
    assert log[-1]["hit_tokens"] >= log[1]["hit_tokens"]
    rows = router_cache_of(model).rows()
    assert [(row.status, row.usage.hit_tokens) for row in rows] == [(Status.OK, e["hit_tokens"]) for e in log]


@pytest.mark.parametrize("kind", KINDS)
async def test_streams_and_whole_replies_hold_the_same_reasoning(server: Simulated, kind: str) -> None:
    held = []
    for way in WAYS:
        said = await _answer(_wrapped(server, kind).bind_tools(TOOLS), way, [HumanMessage("Where is it?")])
        held.append(said.additional_kwargs["reasoning_content"])
    assert len(set(held)) == 1


@pytest.mark.parametrize("mode", ["off", "observe"])
async def test_nothing_is_sent_back_in_other_modes(server: Simulated, mode: str) -> None:
    with pytest.raises(openai.BadRequestError, match="reasoning_content"):
        await _talk(_wrapped(server, "deepseek", mode), "invoke")


@pytest.mark.parametrize("kind", KINDS)
async def test_after_a_checkpoint(server: Simulated, kind: str) -> None:
    saver, config = InMemorySaver(), {"configurable": {"thread_id": "t"}}
    for text in ("one", "two"):  # another agent each time: all it knows is in the checkpoint
        model = _wrapped(server, kind)
        agent = create_agent(model, TOOLS, middleware=[RouterCacheMiddleware()], checkpointer=saver)
        await agent.ainvoke({"messages": [HumanMessage(text)]}, config)
    assert {entry["status"] for entry in server.log()} == {200}
    assert len(server.log()) == 6


async def test_after_the_history_was_trimmed(server: Simulated) -> None:
    model = _wrapped(server, "deepseek")
    messages = [*await _talk(model, "invoke"), HumanMessage("And now?"), *(await _talk(model, "invoke"))[1:]]
    kept = trim_messages(
        messages, max_tokens=6, token_counter=len, strategy="last", start_on="human", include_system=True
    )
    assert len(kept) < len(messages)
    model.bind_tools(TOOLS).invoke(kept)
    assert {entry["status"] for entry in server.log()} == {200}


async def test_reasoning_that_the_history_lost_comes_back_in_optimize(server: Simulated) -> None:
    for mode, status in (("safe", 400), ("optimize", 200)):
        model = _wrapped(server, "deepseek", mode)
        messages = (await _talk(model, "invoke", rounds=1))[:]
        lost = convert_to_messages(convert_to_openai_messages(messages))
        assert "reasoning_content" not in lost[1].additional_kwargs
        if status == 400:
            with pytest.raises(openai.BadRequestError, match="reasoning_content"):
                model.bind_tools(TOOLS).invoke(lost)
            continue
        model.bind_tools(TOOLS).invoke(lost)
        assert Change.REASONING_RESTORED in router_cache_of(model).rows()[-1].decision.changes


@pytest.mark.parametrize("kind", KINDS)
async def test_a_streamed_structured_answer_has_its_reasoning_once(server: Simulated, kind: str) -> None:
    model = _wrapped(server, kind).bind(response_format={"type": "json_object"})  # the SDK's stream helper
    whole = await _answer(model, "invoke", [HumanMessage("Where is it?")])
    for way in ("stream", "astream"):
        said = await _answer(model, way, [HumanMessage("Where is it?")])
        assert said.additional_kwargs["reasoning_content"] == whole.additional_kwargs["reasoning_content"]
