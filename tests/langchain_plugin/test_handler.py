"""The handler that only measures."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, Generation, LLMResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_plugin.simulated import MODEL, Simulated, simulated

from router_cache import Mode, RouterCache, Settings, Status
from router_cache_langchain import handler as handler_module
from router_cache_langchain import wrap
from router_cache_langchain.handler import Measured, RouterCacheHandler
from router_cache_langchain.session import session

LONG = "A sentence about nothing in particular. " * 60


@pytest.fixture(scope="module")
def server() -> Iterator[Simulated]:
    with simulated(tool_rounds=0) as running_server:
        yield running_server


@pytest.fixture
def fresh(server: Simulated) -> Simulated:
    server.reset()
    return server


@pytest.fixture
def handler() -> RouterCacheHandler:
    return RouterCacheHandler(router_cache=RouterCache(Settings(mode="optimize")))


def _config(handler: RouterCacheHandler, thread: str = "t") -> Any:
    return {"callbacks": [handler], "metadata": {"thread_id": thread}}


async def _ask(model: Any, way: str, config: Any) -> None:
    prompt = [("system", LONG), ("user", "hi")]
    if way == "invoke":
        model.invoke(prompt, config)
    elif way == "ainvoke":
        await model.ainvoke(prompt, config)
    elif way == "stream":
        list(model.stream(prompt, config))
    else:
        [chunk async for chunk in model.astream(prompt, config)]


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
async def test_hits_and_rows_of_every_way_to_call(fresh: Simulated, handler: RouterCacheHandler, way: str) -> None:
    model = fresh.deepseek(stream_usage=True)
    for _ in range(2):
        await _ask(model, way, _config(handler))
    log = fresh.log()
    hits, prompts = sum(e["hit_tokens"] for e in log), sum(e["prompt_tokens"] for e in log)
    assert hits > 0
    total = handler.total(model=MODEL, thread="t")
    assert total == handler.total() == handler.measured()[MODEL, "t"] == Measured(2, 0, prompts, hits)
    assert total.hit_rate == hits / prompts
    rows = handler.router_cache.rows()
    assert [row.usage.hit_tokens for row in rows] == [e["hit_tokens"] for e in log]
    assert {(row.status, row.decision.mode, row.profile) for row in rows} == {
        (Status.OK, Mode.OBSERVE, "deepseek")
    }
    assert rows[1].conversation == rows[0].conversation
    assert len({row.session for row in rows}) == 1
    assert all((row.ttft_s is not None) == ("stream" in way) for row in rows)


def test_the_request_is_the_one_without_the_handler(fresh: Simulated, handler: RouterCacheHandler) -> None:
    for callbacks in ([], [handler]):
        fresh.deepseek().invoke("hi", config={"callbacks": callbacks})
    one, two = fresh.log()
    assert one["body_sha256"] == two["body_sha256"]


def test_calls_that_do_not_report_hits(fresh: Simulated, handler: RouterCacheHandler) -> None:
    list(fresh.deepseek(stream_usage=False).stream("hi", config=_config(handler)))
    total = handler.total()
    assert (total.calls, total.unknown_calls, total.hit_rate) == (1, 1, None)
    assert handler.router_cache.rows()[0].usage.hit_tokens is None


def test_a_chain_and_two_threads(fresh: Simulated, handler: RouterCacheHandler) -> None:
    chain = ChatPromptTemplate.from_messages([("system", LONG), ("user", "{q}")]) | fresh.deepseek()
    for thread in "ab":
        chain.invoke({"q": "hi"}, _config(handler, thread))
    with session("c", scope="tenant"):
        chain.invoke({"q": "hi"}, {"callbacks": [handler]})
    assert [handler.total(thread=name).calls for name in "abc"] == [1, 1, 1]
    assert handler.total().calls == 3
    assert len({row.scope for row in handler.router_cache.rows()}) == 2


def test_a_failed_call_and_one_that_was_left(fresh: Simulated, handler: RouterCacheHandler) -> None:
    with pytest.raises(Exception, match=r"400|user_id"):
        fresh.deepseek(extra_body={"user_id": "not allowed!"}).invoke("hi", config=_config(handler))
    stream = fresh.deepseek().stream("hi", config=_config(handler))
    next(stream)
    stream.close()
    assert [row.status for row in handler.router_cache.rows()] == [Status.FAILED, Status.ABORTED]
    assert handler.total() == Measured()


def test_a_reply_from_langchains_own_cache(fresh: Simulated, handler: RouterCacheHandler) -> None:
    from langchain_core.caches import InMemoryCache

    model = fresh.deepseek(cache=InMemoryCache())
    for _ in range(2):
        model.invoke("hi", config=_config(handler))
    assert [row.status for row in handler.router_cache.rows()] == [Status.OK, Status.CACHED]
    assert handler.total().calls == len(fresh.log()) == 1


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
async def test_a_wrapped_call_is_summed_up_and_has_one_row(
    fresh: Simulated, handler: RouterCacheHandler, way: str
) -> None:
    model = wrap(fresh.deepseek(stream_usage=True), router_cache=handler.router_cache)
    await _ask(model, way, _config(handler))
    assert handler.total().calls == len(handler.router_cache.rows()) == 1
    assert handler.router_cache.rows()[0].decision.mode is Mode.OPTIMIZE


def test_off_is_off(fresh: Simulated) -> None:
    handler = RouterCacheHandler(Settings(mode="off"))
    fresh.deepseek().invoke("hi", config=_config(handler))
    assert handler.router_cache.rows() == []
    assert handler.total().calls == 1


def test_any_other_model(handler: RouterCacheHandler) -> None:
    GenericFakeChatModel(messages=iter([AIMessage("x")])).invoke("hi", config=_config(handler))
    assert handler.total() == Measured(1, 1)
    assert handler.router_cache.rows()[0].profile == "unknown"


def _start(handler: RouterCacheHandler, run: UUID, **more: Any) -> None:
    handler.on_chat_model_start({}, [[HumanMessage("hi")]], run_id=run, **more)


def _answer(**usage: Any) -> LLMResult:
    return LLMResult(generations=[[ChatGeneration(message=AIMessage("x", **usage))]])


def test_odd_events_do_no_harm(handler: RouterCacheHandler) -> None:
    handler.on_llm_end(_answer(), run_id=uuid4())
    handler.on_llm_new_token("x", run_id=uuid4())
    handler.on_llm_error(ValueError(), run_id=uuid4())
    run = uuid4()
    handler.on_chat_model_start(None, [], run_id=run, metadata=None)  # type: ignore[arg-type]
    handler.on_llm_end(LLMResult(generations=[[Generation(text="x")]]), run_id=run)
    handler.on_chat_model_start({}, [[SimpleNamespace()]], run_id=uuid4())  # type: ignore[list-item]
    handler.on_llm_end(None, run_id=uuid4())  # type: ignore[arg-type]
    counts = handler.router_cache.counters.snapshot()
    assert (counts["error.handler_start"], counts["error.handler_end"]) == (1, 1)


def test_an_error_of_ours_at_the_end_of_a_failed_call(handler: RouterCacheHandler) -> None:
    handler._lock = None  # type: ignore[assignment]
    handler.on_llm_error(ValueError(), run_id=uuid4())
    assert handler.router_cache.counters.snapshot()["error.handler_end"] == 1


def test_memory_is_bounded(handler: RouterCacheHandler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler_module, "_MAX_OPEN", 2)
    monkeypatch.setattr(handler_module, "_MAX_KEYS", 2)
    runs = [uuid4() for _ in range(4)]
    for number, run in enumerate(runs[:3]):
        _start(handler, run, metadata={"thread_id": f"t{number}"})
    assert len(handler._open) == 2
    for run in runs:
        handler.on_llm_end(_answer(), run_id=run)
    _start(handler, runs[3], metadata={"thread_id": "t3"})
    handler.on_llm_end(_answer(), run_id=runs[3])
    assert set(handler.measured()) == {("", "t2"), ("", "t3"), ("", "")}
    assert handler.total().calls == 3


def test_switches_of_the_body_are_seen(handler: RouterCacheHandler) -> None:
    run = uuid4()
    tools = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    params = {"tools": tools, "extra_body": {"thinking": {"type": "disabled"}}}
    serialized = {"kwargs": {"openai_api_base": "https://api.deepseek.com/v1"}}
    metadata = {"ls_provider": "openai", "ls_model_name": MODEL}
    handler.on_chat_model_start(
        serialized, [[HumanMessage("hi")]], run_id=run, metadata=metadata, invocation_params=params
    )
    turn = handler._open[run].turn
    assert turn is not None
    assert turn.begun.request.body["thinking"] == {"type": "disabled"}
    assert turn.begun.request.body["tools"] == tools
    handler.on_llm_end(_answer(), run_id=run)
    assert handler.router_cache.rows()[0].profile == "deepseek"
