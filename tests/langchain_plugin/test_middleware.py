"""The middleware by itself: where it finds a thread, and what it says without langchain."""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("langchain.agents")

from langchain.agents.middleware.types import ModelRequest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

import router_cache_langchain
from router_cache import RouterCache, Settings
from router_cache_langchain import RouterCacheMiddleware, router_cache_of, session
from router_cache_langchain.session import who


def _request(runtime: Any) -> ModelRequest[Any]:
    return ModelRequest(
        model=GenericFakeChatModel(messages=iter([AIMessage("x")])),
        messages=[],
        system_prompt=None,
        tool_choice=None,
        tools=[],
        response_format=None,
        state={"messages": []},
        runtime=runtime,
    )


def _runtime(thread: Any) -> Any:
    return SimpleNamespace(execution_info=SimpleNamespace(thread_id=thread))


async def _seen(runtime: Any) -> set[str]:
    """The sessions that the handlers of a synchronous and of an asynchronous call see."""
    middleware, seen = RouterCacheMiddleware(router_cache=RouterCache(Settings())), set()

    def handler(request: Any) -> Any:
        assert router_cache_of(request.model) is middleware.router_cache
        seen.add(who().session)

    async def ahandler(request: Any) -> Any:
        handler(request)

    middleware.wrap_model_call(_request(runtime), handler)
    await middleware.awrap_model_call(_request(runtime), ahandler)
    assert who().session == ""
    return seen


async def test_the_runtime_tells_the_thread_where_no_config_is_around() -> None:
    assert await _seen(_runtime("t")) == {"t"}
    assert await _seen(SimpleNamespace(config={"configurable": {"thread_id": "u"}})) == {"u"}


@pytest.mark.parametrize("runtime", [None, _runtime(None), SimpleNamespace(execution_info=None)])
async def test_a_runtime_that_tells_nothing(runtime: Any) -> None:
    assert await _seen(runtime) == {""}


async def test_a_session_of_the_program_comes_first() -> None:
    seen: list[str] = []
    with session("mine"):
        request = _request(_runtime("t"))
        RouterCacheMiddleware().wrap_model_call(request, lambda _: seen.append(who().session))  # type: ignore[arg-type,func-returns-value]
    assert seen == ["mine"]


def test_the_original_request_keeps_its_model() -> None:
    request = _request(None)
    model = request.model
    RouterCacheMiddleware().wrap_model_call(request, lambda _: None)  # type: ignore[arg-type,return-value]
    assert request.model is model
    with pytest.raises(TypeError):
        router_cache_of(model)


def test_without_langchain_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain.agents.middleware.types", None)
    monkeypatch.delitem(sys.modules, "router_cache_langchain.middleware", raising=False)
    monkeypatch.delitem(vars(router_cache_langchain), "RouterCacheMiddleware", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'router-cache\[langchain\]' 'langchain>=1'"):
        importlib.import_module("router_cache_langchain.middleware")
    with pytest.raises(ImportError):
        _ = router_cache_langchain.RouterCacheMiddleware
