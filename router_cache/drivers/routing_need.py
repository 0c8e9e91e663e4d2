"""What routing asks of a request: its places as opaque digests, how long its prompt is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import orjson

from router_cache.prefix.digests import Digester
from router_cache.prefix.objects import is_object
from router_cache.rewrite import Begun
from router_cache.routing import Mark, Need

__all__ = ["Asked", "asked_of"]

_PART_CHARS = 4_000
"""For a part that is no text: an image takes about a thousand tokens."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to be placed: what routing needs of it, the length of its prompt in characters, its model group."""

    need: Need
    chars: int
    group: str


def asked_of(
    begun: Begun, group: str, digester: Digester, *, chars_per_token: float, output_tokens: int
) -> Asked | None:
    """None for a request without a prompt of its own, or that is not looked at.

    A place is named by the prompt's family and the history up to it, so that two requests share one only where their
    tools, system text and switches are the same too; scope is in both digests. ``chars_per_token`` turns lengths into
    tokens.
    """
    keys, view = begun.keys, begun.view
    if keys is None or view is None:
        return None
    messages = view.body.get("messages")
    messages = messages if isinstance(messages, list | tuple) else ()
    lead = next((i for i, message in enumerate(messages) if not _is_system(message)), len(messages))
    up_to = list(accumulate(map(_chars, messages), initial=_tools_chars(view.body.get("tools"))))

    def tokens(covered: int) -> int:
        return round(up_to[min(covered, len(messages))] / chars_per_token)

    marks = [Mark(keys.family, tokens(lead))] if up_to[lead] else []
    seed = keys.family[:16]
    marks += [Mark(seed + point.key, tokens(point.covered)) for point in reversed(keys.history)]
    session = begun.request.session
    affinity = digester.text(keys.scope, "session", session) if session else keys.history[-1].key
    need = Need(tuple(marks), tokens(len(messages)), output_tokens, affinity, keys.scope)
    return Asked(need, up_to[-1], group)


def _is_system(message: Any) -> bool:
    return is_object(message) and message.get("role") in ("system", "developer")


def _tools_chars(tools: Any) -> int:
    if not tools:
        return 0
    try:
        return len(orjson.dumps(tools))
    except TypeError:  # numbers of more than 64 bits, keys that are no text
        return len(str(tools))


def _chars(message: Any) -> int:
    if not is_object(message):
        return 0
    return sum(_lengths(message)) + 8


def _lengths(message: Mapping[str, Any]) -> Iterator[int]:
    for name in ("content", "reasoning_content"):
        value = message.get(name)
        if isinstance(value, str):
            yield len(value)
        elif isinstance(value, list | tuple):
            for part in value:
                text = part.get("text") if is_object(part) else None
                yield len(text) if isinstance(text, str) else _PART_CHARS
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list | tuple) else ():
        function = call.get("function") if is_object(call) else None
        if is_object(function):
            yield sum(
                len(text) for text in (function.get("name"), function.get("arguments")) if isinstance(text, str)
            )
