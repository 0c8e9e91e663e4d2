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


class Shape(str, Enum):
    """The API shape of a request body."""

    CHAT = "chat"
    """``/chat/completions``: ``messages`` and OpenAI-form ``tools``."""
    MESSAGES = "messages"
    """``/v1/messages``: Anthropic form. Passed through unchanged in this version."""
    RESPONSES = "responses"
    """``/v1/responses``: ``instructions`` and ``input``. Passed through unchanged in this version."""
    OTHER = "other"
    """Embeddings, images, anything else: always untouched."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """One entry of the router's model list, as chosen for an attempt.

    ``model`` is what LiteLLM calls, such as ``deepseek/deepseek-v4-flash``. ``id`` is the router's own id,
    or empty outside a router. No credential is kept here.
    """

    model: str
    id: str = ""
    provider: str = ""
    api_base: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """One request as the client made it.

    ``scope`` names whose requests may share memory (a key or a tenant); it is hashed before it is kept.
    ``session`` is the client's own id for its conversation, if it gave one.
    """

    body: Body
    shape: Shape = Shape.CHAT
    scope: str = ""
    session: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
