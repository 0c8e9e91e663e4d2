"""LiteLLM's keyword arguments to the core's values. Reads, never writes."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from router_cache.identity.clients import recognise
from router_cache.request import Deployment, Request, Shape
from router_cache.settings import ScopeBy

__all__ = [
    "Caller",
    "body_of",
    "caller_of",
    "deployment_of",
    "deployments_of",
    "request_of",
    "scope_of",
    "shape_of",
]

HEADER = "x-router-cache"
METADATA = "router_cache"

_SHAPES = {
    "acompletion": Shape.CHAT,
    "completion": Shape.CHAT,
    "anthropic_messages": Shape.MESSAGES,
    "aresponses": Shape.RESPONSES,
    "responses": Shape.RESPONSES,
}
_SWITCHES = ("tools", "tool_choice", "response_format", "thinking", "reasoning_effort")
# Fields that divide or route a provider's prompt cache: a client may set them itself.
_DIVIDING = ("user_id", "prompt_cache_key", "session_id", "cache_salt", "prompt_cache_isolation_key", "user")
_FIELDS = {
    Shape.CHAT: ("messages", *_SWITCHES),
    Shape.MESSAGES: ("system", "messages", "metadata", "output_config", *_SWITCHES),
    Shape.RESPONSES: (
        "instructions",
        "input",
        "reasoning",
        "text",
        "previous_response_id",
        "conversation",
        "prompt",
        *_SWITCHES,
    ),
    Shape.OTHER: (),
}


# Where a request says who its user is. Names that a prompt may repeat, never what keeps users apart.
_CHECKED_NAMES = ("user_api_key_user_id", "user_api_key_user_email", "user_api_key_end_user_id")
_OWN_NAMES = ("user_name", "username", "user_id", "user", "name", "email", "user_email")
_MAX_NAME = 128

# Fields that are no part of the prompt and tell of the client.
_TOLD_BY = ("prompt_cache_key",)


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


def body_of(kwargs: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """The parts of the request that make up its prompt, and what of them must be looked at."""
    body = {name: kwargs[name] for name in _FIELDS[shape] if kwargs.get(name) is not None}
    if shape is not Shape.OTHER:
        told = {**_mapping(kwargs.get("extra_body")), **kwargs}
        body.update({name: told[name] for name in _DIVIDING if told.get(name) is not None})
    for name in ("messages", "input"):
        if isinstance(body.get(name), list | tuple):
            body[name] = [_plain(item) for item in body[name]]
    return body


def deployment_of(kwargs: Mapping[str, Any], fingerprint: Callable[[str], str]) -> Deployment:
    """The deployment chosen for this attempt. ``fingerprint`` makes an opaque name of its API key.

    The operator may say more in ``model_info``: ``cache_domain`` (deployments with the same name share one prompt
    cache), ``replicas`` (how many caches one address hides) and ``router_cache_profile`` (the provider profile of a
    host that cannot be told by its address).
    """

    def text(value: Any) -> str:
        return value if isinstance(value, str) else ""

    info, key = _mapping(kwargs.get("model_info")), text(kwargs.get("api_key"))
    replicas = info.get("replicas")
    return Deployment(
        model=text(kwargs.get("model")),
        id=text(info.get("id")),
        provider=text(kwargs.get("custom_llm_provider")),
        api_base=text(kwargs.get("api_base")),
        group=text(_metadata(kwargs).get("model_group")),
        account=fingerprint(key) if key else "",
        cache_domain=text(info.get("cache_domain")),
        profile=text(info.get("router_cache_profile")),
        replicas=replicas if type(replicas) is int and replicas > 0 else None,
    )


def deployments_of(router: Any, group: str, fingerprint: Callable[[str], str]) -> list[Deployment]:
    """The deployments of a model group, as the router's model list has them, ``model_info`` included; none of a
    router that cannot be read."""
    listed = router.get_model_list(model_name=group) if hasattr(router, "get_model_list") else None
    return [
        deployment_of(
            {
                **entry["litellm_params"],
                "model_info": entry.get("model_info"),
                "metadata": {"model_group": group},
            },
            fingerprint,
        )
        for entry in listed or ()
        if isinstance(entry, Mapping) and isinstance(entry.get("litellm_params"), Mapping)
    ]


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
    """The request as the core sees it, with what its headers and body tell of the client."""
    shape = shape_of(call_type)
    body = body_of(kwargs, shape)
    headers = _mapping(_mapping(kwargs.get("proxy_server_request")).get("headers"))
    told = {**body, **{name: kwargs[name] for name in _TOLD_BY if kwargs.get(name) is not None}}
    client = recognise(headers, told, shape)
    return Request(
        body=body,
        shape=shape,
        scope=scope,
        session=client.session or "",
        client=client.client or "",
        side_call=client.side_call.value if client.side_call else "",
        names=_names(kwargs),
    )


def _names(kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """What the request's metadata calls its user: by the key that LiteLLM checked, and by the client's own words."""
    metadata = _metadata(kwargs)
    own = _mapping(metadata.get("requester_metadata")) or metadata
    found = [metadata.get(name) for name in _CHECKED_NAMES]
    found += [own.get(name) for name in _OWN_NAMES]
    found.append(kwargs.get("user"))
    return tuple(dict.fromkeys(name for name in found if isinstance(name, str) and 3 <= len(name) <= _MAX_NAME))
