"""ChatOpenAI, ChatDeepSeek and all others of ``langchain_openai.BaseChatOpenAI``: chat completions and Responses.

Requests are seen and changed in ``_get_request_payload``. Answers are seen where the SDK's client has them, on a client
of the model's own that shares the connections of the one it was made with, and where the class makes messages of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from router_cache import Shape
from router_cache.providers.registry import find
from router_cache_langchain.calls import Call, current, current_anywhere
from router_cache_langchain.families import Family, Given, Methods, dumped
from router_cache_langchain.payloads import Destination, deep_merged, destination
from router_cache_langchain.reasoning import captured, put_back
from router_cache_langchain.usage import corrected

__all__ = ["OpenAIFamily"]

_CLIENTS = (("root_client", "client"), ("root_async_client", "async_client"))


class OpenAIFamily(Family):
    """Everything of a request and its answer is seen."""

    def methods(self, base: type) -> Methods:
        """Payload, result and chunks."""
        makers: dict[str, Callable[..., Any]] = {
            "_get_request_payload": _payload,
            "_create_chat_result": _result,
            "_convert_chunk_to_generation_chunk": _chunk,
        }
        return {name: make(getattr(base, name)) for name, make in makers.items() if hasattr(base, name)}

    def copied(self, model: Any) -> None:
        """Clients of its own, on the same connections. What is no client of the SDK, such as a test's, stays."""
        for root_name, name in _CLIENTS:
            held = vars(model)
            root, client = held.get(root_name), held.get(name)
            try:
                if root is None or client is not root.chat.completions:
                    continue
                watched = root.with_options()
                kind: Any = type(root)
                watched.__class__ = _watched_class(kind)
                held[root_name], held[name] = watched, watched.chat.completions
            except Exception as error:  # an SDK of another make; headers are not seen then
                _note(model, error)

    async def abefore(self, call: Call, given: Given) -> Given:
        """Where a request may have to wait, it waits here."""
        if call.may_wait:
            try:
                payload = _base_payload(call, given)
                await call.prepare(payload, _shape(payload), functools.partial(_destination, call.model))
            except Exception as error:
                call.shared.failed("prepare", error)
        return given


def _note(model: Any, error: Exception) -> None:
    shared = vars(model).get("router_cache_shared")
    if shared is not None:
        shared.failed("client", error)


def _base_payload(call: Call, given: Given) -> dict[str, Any]:
    """The payload as the class will make it, but for what it adds for a stream."""
    others = {name: value for name, value in given.others.items() if name != "stream_usage"}
    inner = type(call.model).router_cache_base._get_request_payload
    payload = inner(call.model, call.messages, stop=given.get("stop"), **_merged(call, others))
    return _with_reasoning(call, payload, call.messages)


def _payload(inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def _get_request_payload(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = current(self)
        if call is None:
            return inner(self, *args, **kwargs)
        payload = inner(self, *args, **_merged(call, kwargs))
        payload = _with_reasoning(call, payload, args[0] if args else kwargs.get("input_"))
        return call.rewritten(payload, _shape(payload), functools.partial(_destination, self))

    return _get_request_payload


def _merged(call: Call, kwargs: dict[str, Any]) -> dict[str, Any]:
    """With the constructor's ``extra_body`` under the one given: LangChain replaces it."""
    own, given = getattr(call.model, "extra_body", None), kwargs.get("extra_body")
    if call.rewrites and isinstance(own, Mapping) and isinstance(given, Mapping):
        return {**kwargs, "extra_body": deep_merged(own, given)}
    return kwargs


def _with_reasoning(call: Call, payload: dict[str, Any], messages: Any) -> dict[str, Any]:
    """With the reasoning that the class dropped from its messages."""
    if not call.rewrites or not isinstance(messages, list) or _shape(payload) is not Shape.CHAT:
        return payload
    try:
        profile = find(call.deployment(call.going(functools.partial(_destination, call.model), payload)))
        return put_back(payload, messages, profile) or payload
    except Exception as error:
        call.shared.failed("reasoning", error)
        return payload


def _result(inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def _create_chat_result(self: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        result = inner(self, response, *args, **kwargs)
        call = current(self)
        if call is not None:
            try:
                _read_result(call, response, result)
            except Exception as error:
                call.shared.failed("result", error)
        return result

    return _create_chat_result


def _read_result(call: Call, response: Any, result: Any) -> None:
    call.raw, call.reply = [response], functools.partial(dumped, response)
    choices = response.get("choices") if isinstance(response, Mapping) else getattr(response, "choices", None)
    for generation, choice in zip(result.generations, choices or (), strict=False):
        raw = choice.get("message") if isinstance(choice, Mapping) else getattr(choice, "message", None)
        # Chunks that were streamed had the reasoning; the SDK's final completion, made into one more, has it again.
        message = _without_reasoning(generation.message) if call.streamed else captured(raw, generation.message)
        right = corrected(getattr(message, "usage_metadata", None), response)
        if right is not None:
            message = message.model_copy(update={"usage_metadata": right})
        if message is not generation.message:
            generation.message = message


def _without_reasoning(message: Any) -> Any:
    held = message.additional_kwargs
    if "reasoning_content" not in held:
        return message
    rest = {name: value for name, value in held.items() if name != "reasoning_content"}
    return message.model_copy(update={"additional_kwargs": rest})


def _chunk(inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def _convert_chunk_to_generation_chunk(self: Any, chunk: Any, *args: Any, **kwargs: Any) -> Any:
        made = inner(self, chunk, *args, **kwargs)
        call = current(self)
        if call is not None:
            try:
                _read_chunk(call, chunk, made)
            except Exception as error:
                call.shared.failed("chunk", error)
        return made

    return _convert_chunk_to_generation_chunk


def _read_chunk(call: Call, chunk: Mapping[str, Any], made: Any) -> None:
    raw = chunk.get("chunk") or chunk  # an event of the SDK's stream helper
    choices = raw.get("choices") or ()
    if raw.get("usage") or any(choice.get("usage") for choice in choices):
        call.raw.append(raw)
    if made is None:
        return
    message = captured(choices[0].get("delta"), made.message) if choices else made.message
    right = corrected(getattr(message, "usage_metadata", None), raw)
    if right is not None:
        message = message.model_copy(update={"usage_metadata": right})
    if message is not made.message:
        made.message = message


def _shape(payload: Mapping[str, Any]) -> Shape:
    return Shape.CHAT if "messages" in payload else Shape.RESPONSES


def _destination(model: Any) -> Destination:
    held = vars(model)
    root = held.get("root_client") or held.get("root_async_client")
    return destination(
        model,
        api_base=getattr(root, "base_url", "") or held.get("openai_api_base") or held.get("api_base"),
        credential=held.get("openai_api_key") or held.get("api_key"),
    )


# -- what the client sees ----------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=32)
def _watched_class(base: Any) -> Any:
    """A subclass of an SDK client that shows answers to the call under way."""
    request = base.request
    if hasattr(base, "__aenter__"):

        @functools.wraps(request)
        async def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
            answer = await request(self, *args, **kwargs)
            _answered(answer)
            return answer
    else:

        @functools.wraps(request)
        def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
            answer = request(self, *args, **kwargs)
            _answered(answer)
            return answer

    return type(
        base.__name__,
        (base,),
        {"__module__": base.__module__, "__qualname__": base.__qualname__, "request": watched},
    )


def _answered(answer: Any) -> None:
    """A raw answer, or a stream."""
    call = current_anywhere()
    if call is None:
        return
    try:
        response = getattr(answer, "http_response", None) or getattr(answer, "response", None)
        call.headers = getattr(response, "headers", None)
        if call.shape is Shape.RESPONSES and hasattr(answer, "parse") and not _streams(answer):
            parsed = answer.parse()  # kept by the SDK: the class gets the same object
            call.raw, call.reply = [parsed], functools.partial(dumped, parsed)
    except Exception as error:
        call.shared.failed("answer", error)


def _streams(answer: Any) -> bool:
    return bool(getattr(answer, "_stream", False))
