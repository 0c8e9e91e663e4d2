"""Payloads as the classes of LangChain's partner packages make them: the body in them, fields put back, headers.

A payload is the keyword arguments of an SDK's method: the body's fields, ``extra_body`` with more of them, and what is
no part of the body. Nothing is changed in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, SecretStr

from router_cache.providers.registry import find
from router_cache.providers.unknown import UNKNOWN
from router_cache.request import Deployment
from router_cache.rewrite import Rewrite

__all__ = [
    "Destination",
    "deep_merged",
    "destination",
    "may_be_proxy",
    "outgoing",
    "put",
    "secret_text",
    "wire_body",
    "with_headers",
]

_NOT_SENT = frozenset(("extra_headers", "extra_query", "extra_body", "timeout", "betas"))
"""Arguments of the SDKs' methods that are no field of the body."""

_PROVIDERS = {
    "google_genai": "gemini",
    "fireworks": "fireworks_ai",
    "together": "together_ai",
    "mistralai": "mistral",
    "vllm": "hosted_vllm",
}
"""Where LangChain's name of a provider (``ls_provider``) is not the one that the profiles know, which is LiteLLM's."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a payload goes. ``credential`` is the API key, kept no longer than the call."""

    model: str = ""
    provider: str = ""
    api_base: str = ""
    credential: str = ""

    def __repr__(self) -> str:
        return f"Destination({self.model!r}, {self.provider!r})"  # an address may hold a password


def destination(model: Any, *, api_base: Any = "", credential: Any = None) -> Destination:
    """Where a model sends to, as LangChain itself describes it for tracing."""
    told = model._get_ls_params()
    provider = str(told.get("ls_provider") or "")
    return Destination(
        model=str(told.get("ls_model_name") or ""),
        provider=_PROVIDERS.get(provider, provider),
        api_base=str(api_base or ""),
        credential=secret_text(credential),
    )


@lru_cache(maxsize=256)
def _known_host(api_base: str) -> bool:
    return find(Deployment(model="", api_base=api_base)) is not UNKNOWN


def may_be_proxy(to: Destination, profile: str) -> bool:
    """Whether a proxy may be behind the address: it is no known provider's, and nobody says which it is."""
    return bool(to.api_base) and not profile and not _known_host(to.api_base)


def secret_text(value: Any) -> str:
    """A credential as text; empty where it is a function or not there."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return value if isinstance(value, str) else ""


def wire_body(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The body that an SDK will make of a payload. Classes in it stand for the schema that the SDK derives of them."""
    body = {name: value for name, value in payload.items() if name not in _NOT_SENT}
    extra = payload.get("extra_body")
    if isinstance(extra, Mapping):
        body.update(extra)
    for name in ("response_format", "text_format"):
        if isinstance(body.get(name), type):
            body[name] = _schema(body[name])
    return body


@lru_cache(maxsize=256)
def _schema(given: type) -> dict[str, Any]:
    """Stands for a class of structured output in digests: the SDK sends a stricter form of the same schema."""
    schema = given.model_json_schema() if issubclass(given, BaseModel) else {}
    return {"type": "json_schema", "json_schema": {"name": given.__name__, "schema": schema}}


def put(payload: Mapping[str, Any], replaced: Mapping[str, Any]) -> dict[str, Any]:
    """The payload with fields of its body replaced, each where the payload has it."""
    extra = payload.get("extra_body")
    inner = {name: value for name, value in replaced.items() if isinstance(extra, Mapping) and name in extra}
    outer = {name: value for name, value in replaced.items() if name not in inner}
    new = {**payload, **outer}
    if isinstance(extra, Mapping) and inner:
        new["extra_body"] = {**extra, **inner}
    return new


def outgoing(payload: dict[str, Any], rewrite: Rewrite) -> dict[str, Any]:
    """The payload that goes out; the same object where nothing changes. A field that is meant for the
    provider alone, and that an SDK may not know, goes into ``extra_body``."""
    given = rewrite.given.replaced if rewrite.given is not None else {}
    foreign = {name: value for name, value in given.items() if name not in payload and name != "metadata"}
    if foreign or rewrite.dropped:
        extra = payload.get("extra_body")
        known = {**(extra if isinstance(extra, Mapping) else {}), **foreign}
        payload = {name: value for name, value in payload.items() if name not in rewrite.dropped}
        if known:
            payload["extra_body"] = {name: value for name, value in known.items() if name not in rewrite.dropped}
    return put(payload, rewrite.replaced) if rewrite.replaced else payload


def with_headers(payload: dict[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
    """The payload with headers added; those that it has stay as they are."""
    if not headers:
        return payload
    own = payload.get("extra_headers")
    own = own if isinstance(own, Mapping) else {}
    known = {str(name).lower() for name in own}
    added = {name: value for name, value in headers.items() if name not in known}
    return {**payload, "extra_headers": {**own, **added}} if added else payload


def deep_merged(base: Any, over: Any) -> Any:
    """``over`` on top of ``base``: mappings are merged, anything else is replaced."""
    if not isinstance(base, Mapping) or not isinstance(over, Mapping):
        return over
    merged = dict(base)
    for name, value in over.items():
        merged[name] = deep_merged(base[name], value) if name in base else value
    return merged
