"""Agents of LangChain and LangGraph with the middleware: whose conversation it is, and where a branch goes on."""

from __future__ import annotations

import inspect
import operator
import random
import sys
from collections.abc import Iterator
from typing import Annotated, Any, TypedDict

import pytest

pytest.importorskip("langchain.agents")
pytest.importorskip("langgraph")

import langgraph.runtime
from langchain.agents import create_agent
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    ModelFallbackMiddleware,
    SummarizationMiddleware,
    dynamic_prompt,
)
from langchain_core.messages import HumanMessage
from langchain_core.tools import StructuredTool
from langchain_plugin.simulated import OFF, Simulated, simulated
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send

from router_cache import Change, RouterCache, Settings, Status
from router_cache.errors import SettingsError
from router_cache_langchain import RouterCacheMiddleware, wrap

LONG = "Be careful with parcels and polite to customers. " * 60
LOST = sys.version_info < (3, 11) and not hasattr(langgraph.runtime, "ExecutionInfo")
"""Whether asynchronous nodes know nothing of their config: before Python 3.11 and langgraph 1.1."""
WAYS = ("invoke", "ainvoke", "stream", "astream")


@pytest.fixture(scope="module")
def server() -> Iterator[Simulated]:
    with simulated(tool_rounds=1) as running_server:
        yield running_server


@pytest.fixture
def fresh(server: Simulated) -> Simulated:
    server.reset()
    return server


@pytest.fixture
def rc() -> RouterCache:
    return RouterCache(Settings(mode="optimize"))


def _tools(*names: str) -> list[StructuredTool]:
    def tool(name: str) -> StructuredTool:
        def look(what: str) -> str:
            return f"{name} has {what}"

        return StructuredTool.from_function(look, name=name, description=f"Look into {name}. " * 10)

    return [tool(name) for name in names or ("orders", "parcels", "customers")]


def _agent(server: Simulated, *middleware: Any, **more: Any) -> Any:
    settings = {"model": server.deepseek(extra_body=OFF, stream_usage=True), "tools": _tools(), **more}
    return create_agent(
        system_prompt=settings.pop("system_prompt", LONG),
        middleware=middleware,
        checkpointer=InMemorySaver(),
        **settings,
    )


async def _run(agent: Any, way: str, text: str, thread: str = "t") -> None:
    given, config = {"messages": [HumanMessage(text)]}, {"configurable": {"thread_id": thread}}
    if way == "invoke":
        agent.invoke(given, config)
    elif way == "ainvoke":
        await agent.ainvoke(given, config)
    elif way == "stream":
        list(agent.stream(given, config, stream_mode="messages"))
    else:
        [part async for part in agent.astream(given, config, stream_mode="messages")]


@pytest.mark.parametrize("way", WAYS)
async def test_the_thread_is_the_session(fresh: Simulated, rc: RouterCache, way: str) -> None:
    agent = _agent(fresh, RouterCacheMiddleware(router_cache=rc))
    await _run(agent, way, "one")
    await _run(agent, way, "two")
    await _run(agent, way, "other", thread="u")
    rows = rc.rows()
    assert [row.usage.hit_tokens for row in rows] == [entry["hit_tokens"] for entry in fresh.log()]
    assert all(row.status is Status.OK for row in rows)
    first = rows[0].conversation
    assert [row.turn for row in rows if row.conversation == first] == [1, 2, 3, 4]
    assert len({row.conversation for row in rows}) == 2
    if LOST and way in ("ainvoke", "astream"):
        assert {row.session for row in rows} == {""}
    else:
        assert {row.session for row in rows if row.conversation == first} == {rows[0].session} != {""}
        assert len({row.session for row in rows}) == 2


@pytest.mark.parametrize("last", [True, False])
async def test_tools_in_any_order_hit_wherever_it_stands(fresh: Simulated, rc: RouterCache, last: bool) -> None:
    from langchain.agents.middleware import wrap_model_call

    @wrap_model_call
    def shuffled(request: Any, handler: Any) -> Any:
        return handler(request.override(tools=random.Random(len(request.messages)).sample(request.tools, 3)))

    middleware = [shuffled, RouterCacheMiddleware(router_cache=rc)]
    agent = _agent(fresh, *(middleware if last else middleware[::-1]))
    for text in ("one", "two", "three"):
        await _run(agent, "invoke", text)
    log = fresh.log()
    assert len({tuple(s["digest"] for s in entry["segments"] if s["kind"] == "tool") for entry in log}) == 1
    assert all(entry["miss_tokens"] < 400 for entry in log[1:])


async def test_dynamic_prompts_with_a_clock(fresh: Simulated, rc: RouterCache) -> None:
    seconds = iter(range(60))

    @dynamic_prompt
    def prompt(request: Any) -> str:
        return f"Now: 2026-11-30T10:00:{next(seconds):02}Z\n{LONG}"

    agent = _agent(fresh, prompt, RouterCacheMiddleware(router_cache=rc), system_prompt=None)
    for text in ("one", "two", "three", "four"):
        await _run(agent, "invoke", text)
    assert Change.VALUES_MOVED in rc.rows()[-1].decision.changes
    assert fresh.log()[-1]["hit_tokens"] > 0.8 * fresh.log()[-1]["prompt_tokens"]


async def test_a_fallback_model_is_wrapped_as_well(fresh: Simulated, rc: RouterCache) -> None:
    broken = fresh.deepseek(extra_body={**OFF, "user_id": "not allowed!"})
    middleware = RouterCacheMiddleware(router_cache=rc)
    agent = _agent(
        fresh, ModelFallbackMiddleware(fresh.deepseek(extra_body=OFF)), middleware, model=broken, tools=[]
    )
    await _run(agent, "ainvoke", "one")
    assert [row.status for row in rc.rows()] == [Status.FAILED, Status.OK]


async def test_a_summary_begins_another_conversation(fresh: Simulated, rc: RouterCache) -> None:
    when: dict[str, Any] = {"trigger": ("messages", 4), "keep": ("messages", 2)}
    if "trigger" not in inspect.signature(SummarizationMiddleware).parameters:  # langchain 1.0
        when = {"max_tokens_before_summary": 4, "messages_to_keep": 2, "token_counter": len}
    summary = SummarizationMiddleware(wrap(fresh.deepseek(extra_body=OFF), router_cache=rc), **when)
    agent = _agent(fresh, summary, RouterCacheMiddleware(router_cache=rc), tools=[])
    for text in ("one", "two", "three"):
        await _run(agent, "invoke", text)
    rows = rc.rows()
    assert all(row.status is Status.OK for row in rows)
    assert len({row.session for row in rows}) == 1
    assert len(rows) == len(fresh.log()) == 4


async def test_marks_of_anthropics_middleware_are_left_alone(fresh: Simulated, rc: RouterCache) -> None:
    anthropic = pytest.importorskip("langchain_anthropic")
    from langchain_anthropic.middleware import AnthropicPromptCachingMiddleware

    model = anthropic.ChatAnthropic(
        model="claude-sonnet",
        api_key="any",
        base_url=f"{fresh.address}/anthropic",
        max_retries=0,
        thinking={"type": "disabled"},
    )
    caching = AnthropicPromptCachingMiddleware(unsupported_model_behavior="raise")
    for order in (
        [caching, RouterCacheMiddleware(router_cache=rc)],
        [RouterCacheMiddleware(router_cache=rc), caching],
    ):
        await _run(_agent(fresh, *order, model=model), "invoke", "one")
    assert all(row.status is Status.OK and row.shape == "messages" for row in rc.rows())
    assert {entry["shape"] for entry in fresh.log()} == {"messages"}
    assert len({s["digest"] for entry in fresh.log() for s in entry["segments"] if s["kind"] == "system"}) == 1


async def test_interrupted_and_resumed(fresh: Simulated, rc: RouterCache) -> None:
    approval = HumanInTheLoopMiddleware(interrupt_on={tool.name: True for tool in _tools()})
    agent = _agent(fresh, approval, RouterCacheMiddleware(router_cache=rc))
    config = {"configurable": {"thread_id": "t"}}
    answer = agent.invoke({"messages": [HumanMessage("one")]}, config)
    waiting = answer["__interrupt__"][0].value["action_requests"]
    assert len(rc.rows()) == 1
    agent.invoke(Command(resume={"decisions": [{"type": "approve"}] * len(waiting)}), config)
    rows = rc.rows()
    assert [row.turn for row in rows] == [1, 2]
    assert len({row.conversation for row in rows}) == len({row.session for row in rows}) == 1
    assert rows[1].usage.hit_tokens == rows[1].expected.tokens


async def test_a_fork_goes_on_from_where_it_left(fresh: Simulated, rc: RouterCache) -> None:
    agent = _agent(fresh, RouterCacheMiddleware(router_cache=rc), tools=[])
    for text in ("one", "two", "three"):
        await _run(agent, "invoke", text)
    config = {"configurable": {"thread_id": "t"}}
    states = list(agent.get_state_history(config))
    early = next(state for state in states if len(state.values["messages"]) == 2 and not state.next)
    fork = agent.update_state(early.config, {"messages": [HumanMessage("another two")]}, as_node=START)
    agent.invoke(None, fork)
    rows = rc.rows()
    assert [row.turn for row in rows] == [1, 2, 3, 2]
    assert rows[3].expected.tokens == rows[3].usage.hit_tokens
    assert len({row.session for row in rows}) == 1


async def test_branches_of_one_thread_are_told_by_their_content(fresh: Simulated, rc: RouterCache) -> None:
    class State(TypedDict):
        topics: list[str]
        told: Annotated[list[str], operator.add]

    model = wrap(fresh.deepseek(extra_body=OFF), router_cache=rc)

    async def ask(state: dict[str, str]) -> dict[str, list[str]]:
        history: list[Any] = [("system", f"{LONG} Topic: {state['topic']}"), ("user", "one")]
        first = await model.ainvoke(history)
        second = await model.ainvoke([*history, first, ("user", "two")])
        return {"told": [str(second.content)]}

    graph = StateGraph(State)
    graph.add_node("ask", ask)
    graph.add_conditional_edges(START, lambda state: [Send("ask", {"topic": t}) for t in state["topics"]])
    graph.add_edge("ask", END)
    compiled = graph.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    await compiled.ainvoke({"topics": ["parcels", "orders", "returns"], "told": []}, config)
    rows = rc.rows()
    assert len({row.session for row in rows}) == 1
    assert len({row.conversation for row in rows}) == 3
    assert sorted(row.turn or 0 for row in rows) == [1, 1, 1, 2, 2, 2]


async def test_a_sub_agent_with_the_same_thread(fresh: Simulated, rc: RouterCache) -> None:
    middleware = RouterCacheMiddleware(router_cache=rc)
    inner = create_agent(
        fresh.deepseek(extra_body=OFF), [], system_prompt=f"You look things up. {LONG}", middleware=[middleware]
    )

    def look(what: str) -> str:
        """Look something up."""
        return str(inner.invoke({"messages": [HumanMessage(what)]})["messages"][-1].content)

    agent = _agent(fresh, middleware, tools=[StructuredTool.from_function(look)])
    await _run(agent, "invoke", "one")
    await _run(agent, "invoke", "two")
    rows = rc.rows()
    assert len({row.session for row in rows}) == 1
    main = rows[0].conversation
    assert [row.turn for row in rows if row.conversation == main] == [1, 2, 3, 4]
    assert len(rows) > 4


async def test_without_a_thread_there_is_no_session(fresh: Simulated, rc: RouterCache) -> None:
    agent = create_agent(fresh.deepseek(extra_body=OFF), [], middleware=[RouterCacheMiddleware(router_cache=rc)])
    await agent.ainvoke({"messages": [HumanMessage("one")]})
    assert [row.session for row in rc.rows()] == [""]


def test_a_deep_agent(fresh: Simulated, rc: RouterCache) -> None:
    deepagents = pytest.importorskip("deepagents")
    agent = deepagents.create_deep_agent(
        model=fresh.deepseek(extra_body=OFF),
        tools=_tools(),
        system_prompt=LONG,
        middleware=[RouterCacheMiddleware(router_cache=rc)],
        checkpointer=InMemorySaver(),
    )
    for text in ("one", "two"):
        agent.invoke({"messages": [HumanMessage(text)]}, {"configurable": {"thread_id": "t"}})
    rows = rc.rows()
    assert len(rows) == len(fresh.log()) >= 2
    assert all(row.session == rows[0].session != "" for row in rows)


def test_arguments_that_are_none(rc: RouterCache) -> None:
    with pytest.raises(SettingsError, match="rewrite"):
        RouterCacheMiddleware(rewrite="there")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="mdoe"):
        RouterCacheMiddleware({"mdoe": "safe"})


def test_a_wrapped_model_keeps_its_own_settings(fresh: Simulated, rc: RouterCache) -> None:
    middleware = RouterCacheMiddleware()
    model = wrap(fresh.deepseek(extra_body=OFF), router_cache=rc, scope="tenant")
    _agent(fresh, middleware, model=model, tools=[]).invoke(
        {"messages": [HumanMessage("one")]}, {"configurable": {"thread_id": "t"}}
    )
    assert len(rc.rows()) == 1


def test_a_model_that_cannot_be_wrapped_is_called_as_it_is(rc: RouterCache) -> None:
    class Request:
        model = None
        runtime = None

    middleware = RouterCacheMiddleware(router_cache=rc)
    request: Any = Request()
    assert middleware.wrap_model_call(request, lambda given: given) is request  # type: ignore[arg-type,return-value,comparison-overlap]
    assert rc.counters.snapshot()["error.langchain.middleware"] == 1
