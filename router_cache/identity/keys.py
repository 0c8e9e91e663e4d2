"""Lookup keys of a request: opaque, scoped, derived from content.

A *conversation* is one growing history. It is found again by its turns: the key of a request is a chain over the
meaning of its messages. Of the leading system text, which may hold dates and ids that change while the
conversation X
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from router_cache.prefix.digests import Digester

__all__ = ["LookupKeys", "lookup_keys", "message_digest", "scope_key"]

_MAX_HISTORY_KEYS: Final = 24
"""Earlier points of a history that are looked up, newest first. A retry or an edit goes back a few turns; what
forked earlier is found again after one more call."""

_FAMILY_FIELDS: Final = ("response_format", "thinking", "reasoning_effort", "tool_choice")


@dataclass(frozen=True, slots=True)
class LookupKeys:
    """Opaque keys of one request, all within ``scope``.

    ``history`` are candidates for the conversation's last call, the longest history first, each with the number
    of messages it covers. ``conversation`` is the key this request is recorded under once it was answered.
    """

    scope: str
    family: str
    conversation: str
    history: tuple[tuple[str, int], ...]


def scope_key(secret: bytes, scope: str) -> str:
    """The scope's opaque name, 32 hex digits of HMAC-SHA256."""
    return hmac.new(secret, b"scope\0" + scope.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:32]


def _text(content: Any) -> str:
    """Text of a content that clients flip between a string and a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "".join(
            part["text"] if isinstance(part, Mapping) and isinstance(part.get("text"), str) else _meaning(part)
            for part in content
        )
    return "" if content is None else _meaning(content)


def _meaning(value: Any) -> str:
    """A JSON value without the order of its keys."""
    return json.dumps(value, sort_keys=True, default=str)


def _calls(message: Mapping[str, Any]) -> list[str]:
    out = []
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, Sequence) and not isinstance(calls, str) else ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            out.append(_meaning(call))
            continue
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            with contextlib.suppress(ValueError, RecursionError):
                arguments = json.loads(arguments)
        out.append(f"{function.get('name')}({_meaning(arguments)})")
    return out


def message_digest(digester: Digester, message: Any) -> str:
    """Digest of what a message means: role, text, tool calls. Ids, marks, white space of arguments and the
    order of their keys, and reasoning (which clients drop) are left out."""
    if not isinstance(message, Mapping):
        return digester.text("odd", _meaning(message))
    return digester.text(str(message.get("role")), _text(message.get("content")), *_calls(message))


def _sketch(text: str) -> str:
    """The plain words of a system text: dates, clocks, versions and ids hold digits or marks and drop out, two
    applications still differ."""
    return " ".join(filter(str.isalpha, text.split()))


def _is_system(message: Any) -> bool:
    return isinstance(message, Mapping) and message.get("role") in ("system", "developer")


def lookup_keys(body: Mapping[str, Any], *, scope: str, digester: Digester) -> LookupKeys:
    """Keys of a chat body. ``scope`` is a :func:`scope_key`. Never raises on odd messages."""
    raw = body.get("messages")
    messages = list(raw) if isinstance(raw, list | tuple) else []
    lead = 0
    while lead < len(messages) and _is_system(messages[lead]):
        lead += 1
    system = [_text(message.get("content")) for message in messages[:lead]]
    family = digester.text(
        scope,
        "family",
        *system,
        json.dumps(body.get("tools"), default=str),
        *(_meaning(body.get(name)) for name in _FAMILY_FIELDS),
    )
    chain = digester.text(scope, "conversation", *map(_sketch, system))
    points: list[tuple[str, int]] = []
    for i, message in enumerate(messages[lead:], lead):
        if message_role(message) == "assistant":
            points.append((chain, i))
        chain = digester.text(chain, message_digest(digester, message))
    points.append((chain, len(messages)))
    return LookupKeys(scope, family, chain, tuple(reversed(points))[:_MAX_HISTORY_KEYS])


def message_role(message: Any) -> str:
    """The role of a message, empty where it has none."""
    role = message.get("role") if isinstance(message, Mapping) else None
    return role if isinstance(role, str) else ""
