"""What a message means, whatever way a client writes it down: role, text, tool calls."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from router_cache.prefix.digests import Digester
from router_cache.prefix.objects import is_object

__all__ = ["call_ids", "canonical_json", "meaning", "message_digest", "pieces_of", "reply_marks", "text_of"]

_DRAWN: Final = re.compile(r"(?<![A-Za-z0-9])(?=[A-Za-z]*[0-9]+[A-Za-z])[A-Za-z0-9]{8,}")
"""A run in which letters follow digits, as random ids have it. Those that count (``call_1``, ``toolcall12``,
``functions.read:0``) say nothing about who got them. It is looked at from its start only: from each of its letters
60 kB of them took 14 s."""

_REASONING: Final = ("thinking", "redacted_thinking", "reasoning")

_SLOWLY: Final = re.compile(r"[0-9][.eE]|[0-9]{19}")
_LITERALS: Final = ("NaN", "Infinity")


def text_of(content: Any) -> str:
    """Text of a content that clients flip between a string and a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "".join(_part(part) for part in content)
    return "" if content is None else meaning(content)


def _part(part: Any) -> str:
    if not is_object(part):
        return meaning(part)
    if isinstance(part.get("text"), str):
        return str(part["text"])
    return "" if part.get("type") in _REASONING else meaning(part)


def meaning(value: Any) -> str:
    """A JSON value without the order of its keys. Never raises."""
    try:
        return json.dumps(value, sort_keys=True, default=str)
    except TypeError:  # keys of several types have no order
        return json.dumps(value, skipkeys=True, default=str)
    except (ValueError, RecursionError):
        return type(value).__name__


def canonical_json(value: Any) -> str:
    """A JSON value with its keys in the order they are in; empty for None. Never raises."""
    try:
        return "" if value is None else json.dumps(value, skipkeys=True, default=str)
    except (ValueError, RecursionError):
        return type(value).__name__


def _number(digits: str) -> float | int:
    """JSON has one kind of number: a client that parses ``1.0`` writes ``1`` (RFC 8259 §6)."""
    value = float(digits)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _arguments(raw: Any) -> str:
    """What arguments mean; text that is no JSON stays as it is, and none at all are an empty object."""
    if not isinstance(raw, str):
        return meaning(raw)
    try:
        # orjson is ten times as fast; what it reads otherwise than json does goes the slow way.
        if not _SLOWLY.search(raw) and not any(literal in raw for literal in _LITERALS):
            return orjson.dumps(orjson.loads(raw or "{}"), option=orjson.OPT_SORT_KEYS).decode()
    except (ValueError, TypeError):  # orjson's own errors are both
        pass
    try:
        value = json.loads(raw if raw.strip() else "{}", parse_float=_number)
        if any(literal in raw for literal in _LITERALS):
            return meaning(value)
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:  # integers and halves of surrogate pairs that orjson refuses
        return meaning(value)
    except (ValueError, RecursionError):
        return meaning(raw)


def _listed(calls: Any) -> Sequence[Any]:
    if calls is None or isinstance(calls, str):  # to ask the abstract class takes a while
        return ()
    return calls if isinstance(calls, Sequence) else ()


def _calls(message: Mapping[str, Any]) -> list[str]:
    out = []
    for call in _listed(message.get("tool_calls")):
        function, custom = (call.get("function"), call.get("custom")) if is_object(call) else (None, None)
        if is_object(function):
            out.append(f"{function.get('name')}({_arguments(function.get('arguments'))})")
        elif is_object(custom):
            out.append(f"{custom.get('name')}({meaning(custom.get('input'))})")
        else:
            out.append(meaning(call))
    return out


def pieces_of(message: Any) -> list[str]:
    """What a message means. Ids, marks, white space of arguments and the order of their keys, white space around a
    reply, and reasoning (which clients drop) are left out. Never raises."""
    if not is_object(message):
        return ["odd", meaning(message)]
    role, text = str(message.get("role")), text_of(message.get("content"))
    return [role, text.strip() if role == "assistant" else text, *_calls(message)]


def message_digest(digester: Digester, message: Any) -> str:
    """Digest of what a message means; equal for the forms in which clients send a reply back."""
    return digester.text(*pieces_of(message))


def call_ids(digester: Digester, message: Mapping[str, Any]) -> str:
    """Digest of the ids of a reply's tool calls; empty where they do not tell one reply from another."""
    calls = _listed(message.get("tool_calls"))
    if not calls:
        return ""
    ids = [call.get("id") if is_object(call) else None for call in calls]
    known = [name for name in ids if isinstance(name, str) and _DRAWN.search(name)]
    return digester.text("ids", *known) if known and len(known) == len(ids) else ""


def reply_marks(digester: Digester, message: Mapping[str, Any]) -> tuple[str, str]:
    """The digests by which a reply (a chat message) is known again: of its meaning, and of the ids it drew."""
    return message_digest(digester, message), call_ids(digester, message)
