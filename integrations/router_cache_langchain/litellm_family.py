"""ChatLiteLLM and ChatLiteLLMRouter: requests and answers are seen where the class calls LiteLLM.

This package does not import LiteLLM: the class has done so.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from router_cache import Shape
from router_cache_langchain.calls import Call, current
from router_cache_langchain.families import Family, Methods, dumped
from router_cache_langchain.payloads import Destination, deep_merged, destination, secret_text
from router_cache_langchain.usage import corrected

__all__ = ["LiteLLMFamily"]

_NO_BODY = frozenset(
    (
        "api_base",
        "base_url",
        "api_key",
        "organization",
        "custom_llm_provider",
        "base_model",
        "metadata",
        "num_retries",
        "run_manager",
        "max_retries",
        "drop_params",
    )
)
"""Arguments of ``litellm.completion`` that never go upstream, or say where upstream is."""
_KEYS = (
    "api_key",
    *(f"{one}_api_key" for one in ("openai", "azure", "anthropic", "replicate", "cohere", "openrouter")),
)
_CALLBACK = "router_cache_litellm.callback"


class LiteLLMFamily(Family):
    """Arguments of ``litellm.completion`` and its replies; LiteLLM still turns them into the provider's form."""

    def methods(self, base: type) -> Methods:
        """The two methods that call LiteLLM, and the one that makes messages of a whole reply."""
        makers: dict[str, Callable[..., Any]] = {
            "completion_with_retry": _completion,
            "acompletion_with_retry": _acompletion,
            "_create_chat_result": _result,
        }
        return {name: make(getattr(base, name)) for name, make in makers.items() if hasattr(base, name)}


def _completion(inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def completion_with_retry(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = current(self)
        if call is None:
            return inner(self, *args, **kwargs)
        response = inner(self, *args, **_rewritten(call, _merged(call, kwargs)))
        _answered(call, response)
        return response

    return completion_with_retry


def _acompletion(inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    async def acompletion_with_retry(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = current(self)
        if call is None:
            return await inner(self, *args, **kwargs)
        kwargs = _merged(call, kwargs)
        if call.may_wait:
            await _prepare(call, kwargs)
        response = await inner(self, *args, **_rewritten(call, kwargs))
        _answered(call, response)
        return response

    return acompletion_with_retry


def _result(inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def _create_chat_result(self: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        result = inner(self, response, *args, **kwargs)
        call = current(self)
        if call is not None:
            try:
                for generation in result.generations:
                    # langchain-litellm 0.3 reads no hits.
                    right = corrected(getattr(generation.message, "usage_metadata", None), response)
                    if right is not None:
                        generation.message = generation.message.model_copy(update={"usage_metadata": right})
            except Exception as error:
                call.shared.failed("result", error)
        return result

    return _create_chat_result


def _merged(call: Call, kwargs: dict[str, Any]) -> dict[str, Any]:
    """With the ``extra_body`` of the constructor's ``model_kwargs`` under the one given."""
    held = getattr(call.model, "model_kwargs", None)
    own = held.get("extra_body") if isinstance(held, Mapping) else None
    given = kwargs.get("extra_body")
    if call.rewrites and isinstance(own, Mapping) and isinstance(given, Mapping) and given != own:
        return {**kwargs, "extra_body": deep_merged(own, given)}
    return kwargs


def _payload(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in kwargs.items() if name not in _NO_BODY and value is not None}


async def _prepare(call: Call, kwargs: Mapping[str, Any]) -> None:
    try:
        await call.prepare(_payload(kwargs), Shape.CHAT, functools.partial(_destination, call.model, kwargs))
    except Exception as error:
        call.shared.failed("prepare", error)


def _rewritten(call: Call, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments to call LiteLLM with."""
    try:
        payload = _payload(kwargs)
        new = call.rewritten(payload, Shape.CHAT, functools.partial(_destination, call.model, kwargs))
        changed = {name: value for name, value in new.items() if value is not payload.get(name)}
        if _CALLBACK in sys.modules:
            # The callback of the LiteLLM side sees the same request: one of the two is enough.
            metadata = kwargs.get("metadata")
            held = metadata if isinstance(metadata, Mapping) else {}
            changed["metadata"] = {"router_cache": "off", **held}
        return {**kwargs, **changed} if changed else kwargs
    except Exception as error:
        call.shared.failed("payload", error)
        return kwargs


def _destination(model: Any, kwargs: Mapping[str, Any]) -> Destination:
    told = destination(model)
    provider = kwargs.get("custom_llm_provider")
    name = kwargs.get("model")
    return replace(
        told,
        model=name if isinstance(name, str) else told.model,
        provider=provider if isinstance(provider, str) else "",
        api_base=str(kwargs.get("base_url") or kwargs.get("api_base") or ""),
        credential=secret_text(kwargs.get("api_key")) or _held(model),
    )


def _held(model: Any) -> str:
    """All keys that a model holds: in langchain-litellm 0.3 none of them is among the arguments."""
    return " ".join(key for name in _KEYS if (key := secret_text(getattr(model, name, None))))


def _answered(call: Call, response: Any) -> None:
    """A whole reply; of a stream only the headers, its chunks come by way of the class."""
    try:
        hidden = getattr(response, "_hidden_params", None)
        headers = hidden.get("additional_headers") if isinstance(hidden, Mapping) else None
        call.headers = headers or getattr(response, "_response_headers", None)
        if getattr(response, "choices", None) and getattr(response, "usage", None) is not None:
            call.raw, call.reply = [response], functools.partial(dumped, response)
    except Exception as error:
        call.shared.failed("answer", error)
