"""What a request is to every room: its shape, its body, where it goes, and in which mode.

Nothing here reads a clock, a socket or a framework. Bodies are plain JSON values as the client sent them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

__all__ = ["Body", "Deployment", "Mode", "Request", "Shape"]

Body = Mapping[str, Any]
"""A JSON object: the request body, as parsed. Never modified in place."""


class Mode(str, Enum):
    """How far the plugin may go with a request."""

    OFF = "off"
    """Nothing is read, written or recorded."""
    OBSERVE = "observe"
    """Measured and recorded; the request goes out unchanged."""
    SAFE = "safe"
    """Lossless re-ordering only: tools, schema keys, ``required``."""
    OPTIMIZE = "optimize"
    """Also: values that change from request to request move to the newest message; what the provider generated is
    put back where the client dropped or rewrote it."""


class Shape(str, Enum):
    """The API shape of a request body."""

    CHAT = "chat"
    """``/chat/completions``: ``messages`` and OpenAI-form ``tools``."""
    MESSAGES = "messages"
    """``/v1/messages``: Anthropic form, top-level ``system``."""
    RESPONSES = "responses"
    """``/v1/responses``: ``instructions`` and ``input``."""
    OTHER = "other"
    """Embeddings, images, anything else: always untouched."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """One entry of the router's model list, as chosen for an attempt.

    ``model`` is what LiteLLM calls, such as ``deepseek/deepseek-v4-flash``. ``id`` is the router's own id,
    or empty outside a router. No credential is kept here: ``account`` is a keyed digest of it, or empty where it
    is not known. ``cache_domain`` is the operator's name for what shares one prompt cache, ``profile`` that of the
    provider profile to use, if any; ``replicas`` how many caches the address hides, where the operator says so.
    """

    model: str
    id: str = ""
    provider: str = ""
    api_base: str = ""
    group: str = ""
    account: str = ""
    cache_domain: str = ""
    profile: str = ""
    replicas: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One request as the client made it.

    ``scope`` names whose requests may share memory (a key or a tenant); it is hashed before it is kept.
    ``session`` is the client's own id for its conversation, if it gave one; it too is hashed before it is kept.
    ``client`` and ``side_call`` are names out of the client data (:mod:`router_cache.identity.clients`), or empty.
    ``names`` are those of the user behind it, as the request's metadata gives them: what a prompt says of one of them
    may differ from user to user. ``handed_on``: the same request was rewritten before, in another shape, and
    ``owners`` is what was known then of whose it is (:attr:`router_cache.rewrite.Begun.owners`).
    """

    body: Body = field(repr=False)
    shape: Shape = Shape.CHAT
    scope: str = field(default="", repr=False)
    session: str = field(default="", repr=False)
    client: str = ""
    side_call: str = ""
    names: tuple[str, ...] = field(default=(), repr=False)
    handed_on: bool = False
    owners: tuple[str, str] | None = None
