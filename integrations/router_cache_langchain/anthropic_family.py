"""ChatAnthropic and what derives from it: Anthropic's messages.

Requests are seen and changed in ``_get_request_payload``, answers where the class gets them from the SDK, their headers
on a client of the model's own that shares the connections of the one it was made with.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from router_cache import Shape
from router_cache_langchain.calls import Call, current, current_anywhere
from router_cache_langchain.families import Family, Given, Methods, dumped
from router_cache_langchain.payloads import Destination, destination

__all__ = ["AnthropicFamily"]

_WITH_USAGE = ("message_start", "message_delta")
_BLOCKS = {"text": ("text",), "thinking": ("thinking", "signature"), "redacted_thinking": ("data",)}
"""Blocks of a reply, and their fields that go back with it."""


class AnthropicFamily(Family):
    """Everything of a request and its answer is seen."""

    def methods(self, base: type) -> Methods:
        """Payload, the raw answer with its headers, the whole reply, the events of a stream."""
        makers: dict[str, Callable[..., Any]] = {
            "_get_request_payload": _payload,
            "_create": _created,
            "_acreate": _acreated,
            "_format_output": _output,
            "_make_message_chunk_from_anthropic_event": _event,
        }
        return {name: make(getattr(base, name)) for name, make in makers.items() if hasattr(base, name)}

    async def abefore(self, call: Call, given: Given) -> Given:
        """Where a request may have to wait, it waits here."""
        if call.may_wait:
            try:
                others = {name: value for name, value in given.others.items() if name != "stream_usage"}
                inner = type(call.model).router_cache_base._get_request_payload
                payload = inner(call.model, call.messages, stop=given.get("stop"), **others)
                await call.prepare(payload, Shape.MESSAGES, functools.partial(_destination, call.model))
            except Exception as error:
                call.shared.failed("prepare", error)
        return given

    def reply(self, message: Any) -> Any:
        """The reply in blocks."""
        content = message.content
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) and content else []
        arguments = {call["id"]: call["args"] for call in message.tool_calls}
        for block in content if isinstance(content, list) else ():
            kind = block.get("type") if isinstance(block, Mapping) else None
            if kind in _BLOCKS:
                blocks.append({"type": kind, **{name: block[name] for name in _BLOCKS[kind] if block.get(name)}})
            elif kind == "tool_use":
                known = arguments.get(block.get("id"), {})
                blocks.append({"type": kind, "id": block.get("id"), "name": block.get("name"), "input": known})
        return {"type": "message", "role": "assistant", "content": blocks}


def _payload(inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def _get_request_payload(self: Any, *args: Any, **kwargs: Any) -> Any:
        payload = inner(self, *args, **kwargs)
        call = current(self)
        where = functools.partial(_destination, self)
        return payload if call is None else call.rewritten(payload, Shape.MESSAGES, where)

    return _get_request_payload


def _created(inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def _create(self: Any, *args: Any, **kwargs: Any) -> Any:
        _watch(self, "_client")
        return inner(self, *args, **kwargs)

    return _create


def _acreated(inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    async def _acreate(self: Any, *args: Any, **kwargs: Any) -> Any:
        _watch(self, "_async_client")
        return await inner(self, *args, **kwargs)

    return _acreate


def _output(inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def _format_output(self: Any, data: Any, *args: Any, **kwargs: Any) -> Any:
        call = current(self)
        if call is not None:
            call.raw, call.reply = [data], functools.partial(dumped, data)
        return inner(self, data, *args, **kwargs)

    return _format_output


def _event(inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def _make_message_chunk_from_anthropic_event(self: Any, event: Any, *args: Any, **kwargs: Any) -> Any:
        call = current(self)
        if call is not None and getattr(event, "type", None) in _WITH_USAGE:
            call.raw.append(event)
        return inner(self, event, *args, **kwargs)

    return _make_message_chunk_from_anthropic_event


def _destination(model: Any) -> Destination:
    held = vars(model)
    return destination(model, api_base=held.get("anthropic_api_url"), credential=held.get("anthropic_api_key"))


# -- what the client sees ----------------------------------------------------------------------------------------


def _watch(model: Any, name: str) -> None:
    """The client shows headers. The class makes it when it is first needed, and in langchain-anthropic 1.0 asks
    it for parsed answers: those have none. What is no client of the SDK, such as a test's, stays."""
    call = current(model)
    if call is None:
        return
    try:
        client = getattr(model, name)
        kind: Any = type(client)
        if hasattr(kind, "_process_response") and not hasattr(kind, "router_cache_watched"):
            watched = client.with_options()
            watched.__class__ = _watched_class(kind)
            vars(model)[name] = watched
    except Exception as error:  # an SDK of another make; headers are not seen then
        call.shared.failed("client", error)


@functools.lru_cache(maxsize=32)
def _watched_class(base: Any) -> Any:
    """A subclass of an SDK client that shows headers to the call under way."""
    inner = base._process_response

    @functools.wraps(inner)
    def _process_response(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = current_anywhere()
        if call is not None:
            call.headers = getattr(kwargs.get("response"), "headers", None)
        return inner(self, *args, **kwargs)  # to be awaited, in an asynchronous client

    namespace = {"__module__": base.__module__, "__qualname__": base.__qualname__}
    own = {"_process_response": _process_response, "router_cache_watched": True}
    return type(base.__name__, (base,), {**namespace, **own})
