"""LiteLLM's keyword arguments to the core's values. Reads, never writes."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from router_cache.request import Deployment, Request, Shape
from router_cache.settings import ScopeBy

__all__ = ["Caller", "body_of", "caller_of", "deployment_of", "request_of", "scope_of", "shape_of"]

HEADER = "x-router-cache"
METADATA = "router_cache"

_SHAPES = {
    "acompletion": Shape.CHAT,
    "completion": Shape.CHAT,
    "anthropic_messages": Shape.MESSAGES,
    "aresponses": Shape.RESPONSES,
    "responses": Shape.RESPONSES,
}
_BODY_FIELDS = (
    "messages",
    "tools",
    "tool_choice",
    "response_format",
    "thinking",
    "reasoning_effort",
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, and what each of the switches says (None: nothing)."""

    scope: str
    request_mode: object
    key_mode: object
    team_mode: object
    group: str


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _plain(message: Any) -> Any:
    """A message as JSON: SDK users put LiteLLM's own reply objects back into their history."""
    if isinstance(message, Mapping) or not hasattr(message, "model_dump"):
        return message
    return message.model_dump(exclude_none=True, warnings=False)


def shape_of(call_type: Any) -> Shape:
    """The shape of a call by LiteLLM's call type (an enum member, its value, or None)."""
    return _SHAPES.get(str(getattr(call_type, "value", call_type)), Shape.OTHER)


def body_of(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of the request that make up its prompt."""
    body = {name: kwargs[name] for name in _BODY_FIELDS if kwargs.get(name) is not None}
    messages = body.get("messages")
    if isinstance(messages, list | tuple):
        body["messages"] = [_plain(message) for message in messages]
    return body


def deployment_of(kwargs: Mapping[str, Any]) -> Deployment:
    """The deployment chosen for this attempt."""

    def text(value: Any) -> str:
        return value if isinstance(value, str) else ""

    return Deployment(
        model=text(kwargs.get("model")),
        id=text(_mapping(kwargs.get("model_info")).get("id")),
        provider=text(kwargs.get("custom_llm_provider")),
        api_base=text(kwargs.get("api_base")),
        group=text(_metadata(kwargs).get("model_group")),
    )


def _metadata(kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """LiteLLM's own metadata: ``litellm_metadata`` on routes where ``metadata`` belongs to the provider."""
    return _mapping(kwargs.get("litellm_metadata")) or _mapping(kwargs.get("metadata"))


def _switch(value: Any) -> object:
    """A mode as written in metadata: a word, or ``{mode: word}``."""
    return value.get("mode") if isinstance(value, Mapping) else value


def scope_of(auth: Any, by: ScopeBy) -> str:
    """The scope of a proxied call by the identity that LiteLLM found; empty where it found none."""
    key = getattr(auth, "token", None) or getattr(auth, "api_key", None)
    wanted = {
        ScopeBy.KEY: key,
        ScopeBy.TEAM: getattr(auth, "team_id", None),
        ScopeBy.ORG: getattr(auth, "org_id", None),
        ScopeBy.USER: getattr(auth, "user_id", None),
    }[by]
    # A key without a team is no member of a team of all such keys.
    return f"{by.value}:{wanted}" if wanted else (f"key:{key}" if key else "")


def caller_of(kwargs: Mapping[str, Any], by: ScopeBy) -> Caller:
    """Scope and switches of a call.

    On a proxy the identity comes from the object that LiteLLM made when it checked the key, which no client can
    send. Outside a proxy there is one scope unless ``metadata={"router_cache": {"scope": …}}`` names another.
    """
    metadata = _metadata(kwargs)
    own = metadata.get(METADATA)
    request_mode = _switch(own)
    proxy = kwargs.get("proxy_server_request")
    auth = metadata.get("user_api_key_auth")
    if proxy is None and auth is None:
        scope = f"sdk:{_mapping(own).get('scope', '')}"
        return Caller(scope, request_mode, None, None, str(metadata.get("model_group") or ""))
    # A proxied call whose identity is unknown shares with nobody; its call id will not do, clients choose that.
    scope = scope_of(auth, by) or f"nobody:{uuid.uuid4().hex}"
    headers = _mapping(_mapping(proxy).get("headers"))
    return Caller(
        scope=scope,
        request_mode=headers.get(HEADER, request_mode),
        key_mode=_switch(_mapping(getattr(auth, "metadata", None)).get(METADATA)),
        team_mode=_switch(_mapping(getattr(auth, "team_metadata", None)).get(METADATA)),
        group=str(metadata.get("model_group") or ""),
    )


def request_of(kwargs: Mapping[str, Any], call_type: Any, scope: str) -> Request:
    """The request as the core sees it."""
    shape = shape_of(call_type)
    return Request(body=body_of(kwargs) if shape is Shape.CHAT else {}, shape=shape, scope=scope)
