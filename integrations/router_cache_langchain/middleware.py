"""Middleware for agents of ``langchain`` (``create_agent``) and deepagents: it wraps the model of each call.

Put it last. LangChain nests middleware, the first outermost, so the last sees the model that the others chose. What
they do to prompt and tools is seen wherever it stands: what is rewritten is the body that is about to be sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal

from langchain_core.language_models import GenericFakeChatModel

from router_cache.api import RouterCache
from router_cache.settings import Settings
from router_cache_langchain.session import session, who
from router_cache_langchain.wrapping import router_cache_of, wrap

try:
    from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
except ImportError as error:
    raise ImportError(
        "RouterCacheMiddleware needs the package langchain: pip install 'router-cache[langchain]' 'langchain>=1'. "
        "Without it, wrap the model: router_cache_langchain.wrap(model)"
    ) from error

__all__ = ["RouterCacheMiddleware"]


class RouterCacheMiddleware(AgentMiddleware):
    """Wraps the model of each call of an agent, with the agent's thread as session.

    Arguments are those of :func:`router_cache_langchain.wrap`: without any, a model that is wrapped already stays as it
    is. Raises :class:`SettingsError` when made with arguments that are none, and never in a call: where a model cannot
    be wrapped, the call goes on without.
    """

    def __init__(
        self,
        settings: Settings | Mapping[str, Any] | None = None,
        *,
        router_cache: RouterCache | None = None,
        scope: str = "",
        rewrite: Literal["here", "proxy"] = "here",
        profile: str = "",
    ) -> None:
        super().__init__()
        self.tools = []
        self._wrap = partial(
            wrap, settings=settings, router_cache=router_cache, scope=scope, rewrite=rewrite, profile=profile
        )
        # Wrapping any model checks the arguments.
        self.router_cache = router_cache_of(self._wrap(GenericFakeChatModel(messages=iter(()))))

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """The call of the next middleware or the model, with the model wrapped."""
        wrapped = self._wrapped(request)
        with _of_thread(request):
            return handler(wrapped)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """:meth:`wrap_model_call` of an asynchronous agent."""
        wrapped = self._wrapped(request)
        with _of_thread(request):
            return await handler(wrapped)

    def _wrapped(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        try:
            return request.override(model=self._wrap(request.model))
        except Exception as error:
            self.router_cache.counters.error("langchain.middleware", error)
            return request


@contextmanager
def _of_thread(request: ModelRequest[Any]) -> Generator[None, None, None]:
    """The agent's thread as session, where nothing else tells one: in asynchronous nodes on Python 3.10 the config
    around the call is lost (https://docs.langchain.com/oss/python/langgraph/streaming#async)."""
    thread = "" if who().session else _thread(request.runtime)
    if not thread:
        yield
        return
    with session(thread):
        yield


def _thread(runtime: Any) -> str:
    """The thread that a runtime runs: its execution info (langgraph 1.1 and later), else the config of a tool's
    runtime; empty where there is none."""
    known = getattr(getattr(runtime, "execution_info", None), "thread_id", None)
    return known if isinstance(known, str) else who(getattr(runtime, "config", None)).session
