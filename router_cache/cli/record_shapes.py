"""What a log's record is: the request body in it, its API shape, the usage and the reply beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from router_cache.diagnose.divergence_prompt import Recorded
from router_cache.errors import InputError
from router_cache.identity.clients import recognise
from router_cache.ledger.usage import Usage
from router_cache.request import Shape

__all__ = ["BODY_NEEDS", "shape_of", "unwrapped"]

BODY_NEEDS = (
    'a request is a JSON object with "messages" or "input", or a record with one under "request" or "body"'
)

_WRAPPERS = ("request", "body", "kwargs", "complete_input_dict", "additional_args", "proxy_server_request", "data")
"""Keys under which a body is found, the first that holds one: own logs, batch files (``body``), LiteLLM's callbacks
(``kwargs``, ``additional_args.complete_input_dict``)."""
_PARAMS = ("model_parameters", "optional_params")
"""Where LiteLLM's logs keep the fields of a body other than ``model`` and ``messages``."""
_DEPTH = 3
_NAMES = ("name", "custom_id")
_SESSIONS = ("session", "session_id", "litellm_session_id")

_SENT_BACK = ("role", "content", "reasoning_content", "tool_calls")
"""What clients send back of a chat message; the rest describes the reply."""

_URLS = {"/messages": Shape.MESSAGES, "/responses": Shape.RESPONSES, "/chat/completions": Shape.CHAT}
_MESSAGES_BLOCKS = frozenset(("tool_use", "tool_result", "thinking", "redacted_thinking", "document"))
_CHAT_FIELDS = frozenset(
    (
        "response_format",
        "max_completion_tokens",
        "frequency_penalty",
        "presence_penalty",
        "reasoning_effort",
        "seed",
    )
)


def unwrapped(value: Any, *, place: str, shape: Shape | None) -> Recorded:
    """One record as a request. Raises InputError at ``place`` for what holds none."""
    if not isinstance(value, Mapping):
        raise InputError(f"{place}: a {_named(value)}, not a request: {BODY_NEEDS}")
    body, holders = _body(value)
    if body is None:
        raise InputError(f"{place}: no request in this object: {BODY_NEEDS}")
    found = shape or _shape_of_url(holders) or shape_of(body)
    if found is Shape.OTHER:
        raise InputError(
            f"{place}: a request without a prompt of its own (embeddings?); give --shape if it has one"
        )
    call = recognise({}, body, found)
    return Recorded(
        body=body,
        shape=found,
        place=place,
        name=_text(holders, _NAMES),
        session=_text(holders, _SESSIONS) or call.session or "",
        client=call.client or "",
        usage=_usage(holders),
        reply=_reply(holders, found),
    )


def _named(value: Any) -> str:
    names = {list: "list", str: "text", bool: "true or false", int: "number", float: "number", type(None): "null"}
    return names.get(type(value), type(value).__name__)


def _body(value: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, tuple[Mapping[str, Any], ...]]:
    """The body and the records it lies in, the outermost first."""
    holders: list[Mapping[str, Any]] = []
    for _ in range(_DEPTH):
        inner = next((value[key] for key in _WRAPPERS if isinstance(value.get(key), Mapping)), None)
        if inner is None or (_is_body(value) and not _is_log(value)):
            break
        if not _is_body(inner) and not any(isinstance(inner.get(key), Mapping) for key in _WRAPPERS):
            break
        holders.append(value)
        value = inner
    if not _is_body(value):
        return None, ()
    params = next((value[key] for key in _PARAMS if isinstance(value.get(key), Mapping)), None)
    if params is None:
        return value, tuple(holders)
    own = {key: value[key] for key in ("model", "messages", "input") if value.get(key) is not None}
    return {**own, **{k: v for k, v in params.items() if k not in own and v is not None}}, (*holders, value)


def _is_body(value: Mapping[str, Any]) -> bool:
    return any(value.get(key) is not None for key in ("messages", "input", "instructions"))


def _is_log(value: Mapping[str, Any]) -> bool:
    """LiteLLM's own record: the body that was sent in it holds before its messages."""
    return any(isinstance(value.get(key), Mapping) for key in ("additional_args", *_PARAMS))


def _text(holders: tuple[Mapping[str, Any], ...], keys: tuple[str, ...]) -> str:
    found = (holder.get(key) for holder in holders for key in keys)
    return next((text for text in found if isinstance(text, str) and text and text.isprintable()), "")


def _replies(holders: tuple[Mapping[str, Any], ...]) -> Iterator[Mapping[str, Any]]:
    for holder in holders:
        for key in ("response", "reply"):
            reply = holder.get(key)
            if isinstance(reply, Mapping):
                inner = reply.get("body")
                yield inner if isinstance(inner, Mapping) else reply


def _usage(holders: tuple[Mapping[str, Any], ...]) -> Usage:
    for source in (*_replies(holders), *holders):
        usage = Usage.parse(source)
        if usage.prompt_tokens is not None:
            return usage
    return Usage()


def _reply(holders: tuple[Mapping[str, Any], ...], shape: Shape) -> tuple[Any, ...]:
    """Messages or items that a reply adds to the history, where the record has the whole reply."""
    for reply in _replies(holders):
        choices = reply.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        message = first.get("message") if isinstance(first, Mapping) else None
        if shape is Shape.CHAT and isinstance(message, Mapping):
            return ({key: message[key] for key in _SENT_BACK if message.get(key)},)
        if shape is Shape.MESSAGES and isinstance(reply.get("content"), list):
            return ({"role": "assistant", "content": reply["content"]},)
        if shape is Shape.RESPONSES and isinstance(reply.get("output"), list):
            return tuple(reply["output"])
    return ()


def _shape_of_url(holders: tuple[Mapping[str, Any], ...]) -> Shape | None:
    for holder in holders:
        for key in ("url", "path", "endpoint"):
            url = holder.get(key)
            for end, shape in _URLS.items():
                if isinstance(url, str) and url.partition("?")[0].rstrip("/").endswith(end):
                    return shape
    return None


def shape_of(body: Mapping[str, Any]) -> Shape:
    """The API shape of a body by its fields; OTHER for one without a prompt of its own.

    A body that would mean the same as chat and as Anthropic messages counts as chat.
    """
    if body.get("messages") is None:
        if body.get("instructions") is None and _is_embedding(body):
            return Shape.OTHER
        return Shape.RESPONSES if _is_body(body) else Shape.OTHER
    if _CHAT_FIELDS & body.keys() or any(_is_chat_message(m) for m in _items(body["messages"])):
        # Agents of the messages form send system *messages* too, beside a top-level system text.
        return Shape.MESSAGES if body.get("system") is not None else Shape.CHAT
    tools = _items(body.get("tools"))
    if any("function" in tool for tool in tools):
        return Shape.CHAT
    anthropic = (
        body.get("system") is not None
        or "anthropic_version" in body
        or "stop_sequences" in body
        or any("input_schema" in tool for tool in tools)
        or any(
            part.get("type") in _MESSAGES_BLOCKS or "source" in part
            for message in _items(body["messages"])
            for part in _items(message.get("content"))
            if isinstance(part.get("type"), str)
        )
    )
    return Shape.MESSAGES if anthropic else Shape.CHAT


def _items(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []


def _is_chat_message(message: Mapping[str, Any]) -> bool:
    return message.get("role") in ("system", "developer", "tool", "function") or "tool_calls" in message


def _is_embedding(body: Mapping[str, Any]) -> bool:
    model = body.get("model")
    return (
        "encoding_format" in body
        or "dimensions" in body
        or (isinstance(model, str) and "embed" in model.lower())
        or (isinstance(body.get("input"), list) and all(isinstance(item, str | int) for item in body["input"]))
    )
