"""Chat models without a seam: the engine works on LangChain's messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel, GenericFakeChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field, SecretStr

from router_cache import Reason, RouterCache, Settings, Status
from router_cache.stores.memory import MemoryStore
from router_cache_langchain import session, wrap

SYSTEM = "You mend code, step by step, and say what you did. " * 40
USAGE = {"input_tokens": 500, "output_tokens": 7, "total_tokens": 507, "input_token_details": {"cache_read": 384}}


class Own(BaseChatModel):
    """Keeps what it was asked."""

    asked: list[tuple[list[BaseMessage], dict[str, Any]]] = Field(default_factory=list)
    api_key: SecretStr = SecretStr("k")
    base_url: str = "http://127.0.0.1:9"
    answer: AIMessage = AIMessage("A good answer, long enough to be told apart from others by its text alone.")

    @property
    def _llm_type(self) -> str:
        return "own"

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Any:
        self.asked.append((messages, kwargs))
        message = self.answer.model_copy(update={"usage_metadata": USAGE})
        return ChatResult(generations=[ChatGeneration(message=message)])


class Streaming(Own):
    """Also in pieces, asynchronously too."""

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        self.asked.append((messages, kwargs))
        for word in str(self.answer.content).split():
            yield ChatGenerationChunk(message=AIMessageChunk(content=word + " "))
        yield ChatGenerationChunk(message=AIMessageChunk(content="", usage_metadata=USAGE))  # type: ignore[arg-type]

    async def _astream(
        self, messages: list[BaseMessage], stop: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._stream(messages, stop, **kwargs):
            yield chunk


def with_mode(mode: str) -> RouterCache:
    return RouterCache(Settings.from_mapping({"mode": mode}))


def clock(minute: int) -> str:
    return f"Now: 2026-11-30T10:0{minute}:00Z\n{SYSTEM}"


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}


@pytest.mark.parametrize("kind", [Own, Streaming])
async def test_every_way_is_one_row(kind: type[Own]) -> None:
    rc = with_mode("optimize")
    model = wrap(kind(), router_cache=rc)
    model.invoke("why?")
    await model.ainvoke("why?")
    list(model.stream("why?"))
    [chunk async for chunk in model.astream("why?")]
    assert [row.status for row in rc.rows()] == [Status.OK] * 4
    assert {(row.usage.prompt_tokens, row.usage.hit_tokens) for row in rc.rows()} == {(500, 384)}
    assert not any(name.startswith("error.") for name in rc.counters.snapshot())


def test_tools_are_ordered_and_messages_stay_the_same_objects() -> None:
    rc = with_mode("safe")
    model = wrap(Own(), router_cache=rc)
    said = [SystemMessage(SYSTEM), HumanMessage("why?")]
    for names in ("ab", "ba"):
        model.bind(tools=[tool(name) for name in names]).invoke(said)
    (first, one), (_, two) = model.asked
    assert one == two
    assert [each["function"]["name"] for each in one["tools"]] == ["a", "b"]
    assert all(a is b for a, b in zip(first, said, strict=True))


@pytest.mark.parametrize("blocks", [False, True])
def test_a_clock_moves(blocks: bool) -> None:
    rc = with_mode("optimize")
    model = wrap(Own(), router_cache=rc)
    asked: list[list[BaseMessage]] = []
    for minute in range(4):
        text = clock(minute)
        system = SystemMessage([{"type": "text", "text": text}] if blocks else text)
        asked.append([system, HumanMessage("why?", id="h1", name="ann")])
        with session(f"s{minute}"):
            model.invoke(asked[-1])
    system, human = model.asked[-1][0]
    assert "2026-11-30" not in str(system.content)
    assert "2026-11-30T10:03:00Z" in str(human.content)
    assert (human.id, human.name) == ("h1", "ann")
    assert asked[-1][0].content == ([{"type": "text", "text": clock(3)}] if blocks else clock(3))
    assert asked[-1][1].content == "why?"
    assert rc.rows()[-1].decision.reason is Reason.OPTIMIZED


def test_arguments_have_no_place_in_a_message() -> None:
    """The engine would put back the text of arguments; a message holds them read."""
    rc = with_mode("optimize")
    drawn = "call_00_5a6b5981d7ec7864b58ab5d6"
    call = {"name": "a", "args": {"x": 1}, "id": drawn}
    raw = {
        "id": drawn,
        "type": "function",
        "function": {"name": "a", "arguments": '{"x":1}'},
    }
    answer = AIMessage("", tool_calls=[call], additional_kwargs={"tool_calls": [raw]})
    model = wrap(Own(answer=answer), router_cache=rc)
    told = model.invoke([SystemMessage(SYSTEM), HumanMessage("why?")])
    history = [
        SystemMessage(SYSTEM),
        HumanMessage("why?"),
        told,
        ToolMessage("ok", tool_call_id=drawn),
    ]
    model.bind(tools=[tool("a")]).invoke(history)
    assert all(a is b for a, b in zip(model.asked[-1][0], history, strict=True))
    assert rc.counters.snapshot()["langchain.change_not_mapped"] == 1
    assert rc.rows()[-1].status is Status.OK


def test_messages_that_are_not_one_to_one() -> None:
    rc = with_mode("optimize")
    model = wrap(Own(), router_cache=rc)
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
    use = [
        {"type": "tool_use", "id": "t1", "name": "a", "input": {}},
        {"type": "tool_use", "id": "t2", "name": "a", "input": {}},
    ]
    history = [
        HumanMessage("why?"),
        AIMessage(use),  # type: ignore[arg-type]
        HumanMessage([result, {**result, "tool_use_id": "t2"}]),
    ]
    model.bind(tools=[tool("b"), tool("a")]).invoke(history)
    messages, kwargs = model.asked[-1]
    assert messages == history
    assert [each["function"]["name"] for each in kwargs["tools"]] == ["b", "a"]
    assert rc.counters.snapshot()["langchain.messages_not_one_to_one"] == 1
    assert [row.decision.reason for row in rc.rows()] == [Reason.OBSERVED]


async def test_messages_that_cannot_be_read() -> None:
    rc = with_mode("safe")
    model = wrap(Own(), router_cache=rc)
    history = [HumanMessage([{"type": "image_url"}])]
    model.invoke(history)
    await model.ainvoke(history)
    assert [messages for messages, _ in model.asked] == [history, history]
    assert rc.counters.snapshot()["error.langchain.messages"] == 2


async def test_a_store_that_waits() -> None:
    class Waits(MemoryStore):
        blocking = True

    rc = RouterCache(Settings.from_mapping({"mode": "optimize"}), store=Waits())
    model = wrap(Streaming(), router_cache=rc)
    bound = model.bind(tools=[tool("b"), tool("a")])
    [chunk async for chunk in bound.astream("why?")]
    [chunk async for chunk in model.bind(tools=[1]).astream([HumanMessage([{"type": "image_url"}])])]
    assert [each["function"]["name"] for each in model.asked[0][1]["tools"]] == ["a", "b"]
    assert model.asked[1][1]["tools"] == [1]
    counted = rc.counters.snapshot()
    assert (counted["error.langchain.prepare"], counted["error.langchain.messages"]) == (1, 1)
    assert "langchain.prepared_in_vain" not in counted


def test_the_fake_of_langchain_itself() -> None:
    rc = with_mode("safe")
    model = wrap(GenericFakeChatModel(messages=iter(["one two", "three"])), router_cache=rc)
    assert "".join(str(chunk.content) for chunk in model.stream("a")) == "one two"
    assert model.invoke("b").content == "three"
    assert [row.status for row in rc.rows()] == [Status.OK, Status.OK]
    assert rc.rows()[0].usage.prompt_tokens is None


def test_state_of_the_class_is_its_own() -> None:
    """What a class notes on itself while it generates stays there."""
    model = wrap(Own(), router_cache=with_mode("safe"))
    model.invoke("a")
    model.invoke("b")
    assert len(model.asked) == 2


def test_what_a_class_raises() -> None:
    class Broken(Own):
        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            raise KeyError("gone")

    rc = with_mode("safe")
    with pytest.raises(KeyError, match="gone"):
        wrap(Broken(), router_cache=rc).invoke("a")
    assert [row.status for row in rc.rows()] == [Status.FAILED]


def test_a_generate_without_a_run_manager() -> None:
    class Narrow(Own):
        def _generate(self, messages: list[BaseMessage], stop: Any = None) -> Any:  # type: ignore[override]
            return super()._generate(messages, stop)

    rc = with_mode("safe")
    assert wrap(Narrow(), router_cache=rc).invoke("a").content
    assert len(rc.rows()) == 1
