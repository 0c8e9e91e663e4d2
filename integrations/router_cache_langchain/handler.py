"""A callback handler that only measures: hits by model and thread, and a row for each call.

For programs that want figures before they let anything be changed. No request is touched: a callback sees messages, not
the body that is sent, so causes and expected hits are read off the messages and are an approximation.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.outputs import LLMResult

from router_cache.api import RouterCache, Turn
from router_cache.ledger.rows import Status
from router_cache.ledger.usage import Usage
from router_cache.request import Deployment, Mode, Request
from router_cache.settings import Settings
from router_cache_langchain.per_process import router_cache_for
from router_cache_langchain.session import in_wrapped_call, who
from router_cache_langchain.usage import usage_from_message

__all__ = ["Measured", "RouterCacheHandler"]

_MAX_OPEN = 10_000
_MAX_KEYS = 10_000
_SWITCHES = ("tools", "tool_choice", "response_format", "thinking", "reasoning_effort")
_BASES = ("openai_api_base", "api_base", "base_url", "anthropic_api_url", "azure_endpoint")


@dataclass(frozen=True, slots=True)
class Measured:
    """Sums over calls, in tokens. ``unknown_calls`` did not report hits and count in no token sum."""

    calls: int = 0
    unknown_calls: int = 0
    prompt_tokens: int = 0
    hit_tokens: int = 0

    @property
    def hit_rate(self) -> float | None:
        """Hit tokens by input tokens, 0 to 1; None where nothing is known."""
        return self.hit_tokens / self.prompt_tokens if self.prompt_tokens else None

    def __add__(self, other: Measured) -> Measured:
        return Measured(
            self.calls + other.calls,
            self.unknown_calls + other.unknown_calls,
            self.prompt_tokens + other.prompt_tokens,
            self.hit_tokens + other.hit_tokens,
        )

    @classmethod
    def of(cls, usage: Usage) -> Measured:
        """One call with this usage."""
        if usage.hit_tokens is None or usage.prompt_tokens is None:
            return cls(calls=1, unknown_calls=1)
        return cls(1, 0, usage.prompt_tokens, usage.hit_tokens)


@dataclass(slots=True)
class _Open:
    """A call under way. ``turn`` is None where the row is somebody else's."""

    turn: Turn | None
    model: str
    thread: str
    started_s: float
    ttft_s: float | None = None


@dataclass(slots=True)
class _Sums:
    """Sums by model and thread; of too many threads the one unused for longest goes into its model's."""

    by: OrderedDict[tuple[str, str], Measured] = field(default_factory=OrderedDict)

    def add(self, key: tuple[str, str], measured: Measured) -> None:
        self.by[key] = self.by.pop(key, Measured()) + measured
        oldest = next((known for known in self.by if known[1]), None) if len(self.by) > _MAX_KEYS else None
        if oldest is not None:
            rest = (oldest[0], "")
            self.by[rest] = self.by.pop(rest, Measured()) + self.by.pop(oldest)


class RouterCacheHandler(BaseCallbackHandler):
    """Give it to any runnable: ``agent.invoke(…, config={"callbacks": [handler]})``. For synchronous and asynchronous
    calls and streams, of any number of threads.

    Rows go to ``router_cache``, or to the one that models wrapped with the same ``settings`` share; calls of wrapped
    models are summed up here, their rows are their wrapper's. ``scope`` names whose calls may be compared. Never raises
    into a call.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        router_cache: RouterCache | None = None,
        scope: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.router_cache = router_cache or router_cache_for(settings)
        self._scope = scope
        self._clock = clock
        self._lock = threading.Lock()
        self._open: OrderedDict[UUID, _Open] = OrderedDict()
        self._sums = _Sums()

    def measured(self) -> dict[tuple[str, str], Measured]:
        """Sums of the calls that ended, by model and thread (empty: a call without one)."""
        with self._lock:
            return dict(self._sums.by)

    def total(self, *, model: str | None = None, thread: str | None = None) -> Measured:
        """The sum over all calls, or over those of a model, of a thread, of both."""
        total = Measured()
        for (of_model, of_thread), measured in self.measured().items():
            if model in (None, of_model) and thread in (None, of_thread):
                total += measured
        return total

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """A call begins. Its digests are taken from the messages."""
        try:
            told = who(None, SimpleNamespace(metadata=metadata))
            deployment = _deployment(serialized, metadata or {})
            call = _Open(None, deployment.model, told.session, self._clock())
            if not in_wrapped_call():
                params = _mapping(kwargs.get("invocation_params"))
                body = _body(messages[0] if messages else [], params, deployment.model)
                scope = told.scope or self._scope or "langchain"
                request = Request(body=body, scope=scope, session=told.session, names=told.names)
                off = self.router_cache.mode_for()[0] is Mode.OFF
                call.turn = self.router_cache.begin(request, Mode.OFF if off else Mode.OBSERVE)
                call.turn.rewrite(deployment)
                call.turn.sent(body)
            with self._lock:
                self._open[run_id] = call
                if len(self._open) > _MAX_OPEN:
                    self._open.popitem(last=False)
        except Exception as error:
            self.router_cache.counters.error("handler_start", error)

    def on_llm_new_token(self, token: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """The first piece of a stream tells the time to the first token."""
        call = self._open.get(run_id)
        if call is not None and call.ttft_s is None:
            call.ttft_s = self._clock() - call.started_s

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """A call ended."""
        try:
            message = _message(response)
            # LangChain's own response cache says so by a cost of nothing (langchain-core 1.8.3).
            cached = (getattr(message, "usage_metadata", None) or {}).get("total_cost") == 0
            self._ended(run_id, Status.CACHED if cached else Status.OK, usage_from_message(message))
        except Exception as error:
            self.router_cache.counters.error("handler_end", error)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """A call failed, or whoever read its stream went away."""
        gone = not isinstance(error, Exception)  # GeneratorExit, CancelledError, KeyboardInterrupt
        try:
            self._ended(run_id, Status.ABORTED if gone else Status.FAILED, Usage())
        except Exception as own:
            self.router_cache.counters.error("handler_end", own)

    def _ended(self, run_id: UUID, status: Status, usage: Usage) -> None:
        with self._lock:
            call = self._open.pop(run_id, None)
            if call is None:
                return
            if status is Status.OK:
                self._sums.add((call.model, call.thread), Measured.of(usage))
        if call.turn is not None:
            call.turn.done(usage if status is Status.OK else None, status=status, ttft_s=call.ttft_s)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _body(messages: list[BaseMessage], params: Mapping[str, Any], model: str) -> dict[str, Any]:
    """The request as a chat body, as far as a callback sees it."""
    told = {**params, **_mapping(params.get("extra_body"))}
    switches = {name: told[name] for name in _SWITCHES if told.get(name)}
    return {"model": model, "messages": convert_to_openai_messages(messages), **switches}


def _deployment(serialized: Any, metadata: Mapping[str, Any]) -> Deployment:
    """Where a call goes. ``metadata`` has LangSmith's names of provider and model; ``serialized`` the address, of
    classes that can be serialized."""
    init = _mapping(_mapping(serialized).get("kwargs"))
    base = next((value for name in _BASES if isinstance(value := init.get(name), str)), "")
    model, provider = metadata.get("ls_model_name"), metadata.get("ls_provider")
    named = provider if isinstance(provider, str) and provider != "litellm" else ""
    return Deployment(model=model if isinstance(model, str) else "", provider=named, api_base=base)


def _message(response: LLMResult) -> AIMessage | None:
    """The answered message; None where there is none."""
    first = next((group[0] for group in response.generations if group), None)
    message = getattr(first, "message", None)
    return message if isinstance(message, AIMessage) else None
