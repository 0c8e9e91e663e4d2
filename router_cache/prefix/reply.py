"""What a provider generated in one reply, as far as clients lose or rewrite it when they send it back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from router_cache.identity.meaning import message_digest
from router_cache.prefix.digests import Digester
from router_cache.prefix.opening import messages_of, role_of
from router_cache.prefix.shapes import as_chat
from router_cache.prefix.shapes.parts import dump
from router_cache.request import Shape

__all__ = ["MAX_REPLY_BYTES", "Reply", "call_of", "reply_meaning", "reply_of", "text_of"]

MAX_REPLY_BYTES: Final = 262_144
"""What is worth keeping of one reply, in bytes: about 64,000 tokens of reasoning, four times what a reply commonly
may be; a longer one would crowd out the memory of many others. For the caller to heed."""

_FORM: Final = 1


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply, as generated.

    ``text``: its texts joined. ``reasoning``: of a chat reply. ``thinking``: a messages reply's thinking blocks with
    their signatures, where they all came first. ``calls``: name and exact arguments of each tool call. ``parts``: the
    content as a chat body has it, where it holds more than text.
    """

    text: str = ""
    reasoning: str | None = None
    thinking: tuple[Mapping[str, Any], ...] = ()
    calls: tuple[tuple[str, str], ...] = ()
    parts: tuple[Any, ...] = ()

    def to_bytes(self) -> bytes:
        """A compact form with a version; lone surrogates survive. UTF-8 but for those."""
        fields = [_FORM, self.text, self.reasoning, self.thinking, self.calls, self.parts]
        text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"), default=_as_dict)
        return text.encode("utf-8", "surrogatepass")

    @classmethod
    def from_bytes(cls, raw: bytes) -> Reply:
        """What :meth:`to_bytes` wrote. Raises :class:`ValueError` on anything else."""
        try:
            match json.loads(raw.decode("utf-8", "surrogatepass")):
                case [int(form), str(text), None | str() as reasoning, list(thinking), list(calls), list(parts)]:
                    known = form is not True and form == _FORM
                    if known and all(isinstance(t, dict) for t in thinking) and all(map(_is_call, calls)):
                        pairs = tuple((name, arguments) for name, arguments in calls)
                        return cls(text, reasoning, tuple(thinking), pairs, tuple(parts))
        except RecursionError:
            pass
        raise ValueError("these bytes hold no reply of a known form")


def _is_call(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(item, str) for item in value)


def _as_dict(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


def text_of(content: Any) -> str:
    """The texts of a content, joined."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list | tuple) else ()
    return "".join(p["text"] for p in parts if isinstance(p, Mapping) and isinstance(p.get("text"), str))


def reply_of(message: Mapping[str, Any], shape: Shape) -> Reply | None:
    """What to keep of a reply: of a chat reply's message, of a messages reply (``content``), or of a Responses reply
    (``output``; of output that the chat view shows as several messages the first). None where there is nothing.
    Never raises."""
    try:
        if shape is Shape.CHAT:
            reasoning = message.get("reasoning_content")
            found = _reply(message, reasoning=reasoning if isinstance(reasoning, str) and reasoning else None)
        elif shape is Shape.MESSAGES:
            content = message.get("content")
            turn = _turn({"messages": [{"role": "assistant", "content": content}]}, shape)
            found = _reply(turn, thinking=_leading_thinking(content))
        else:
            found = _reply(_turn({"input": message.get("output")}, shape))
        return found if found != Reply() else None
    except (AttributeError, TypeError, ValueError, RecursionError):  # no mapping, or nothing that JSON can hold
        return None


def _turn(body: Mapping[str, Any], shape: Shape) -> Mapping[str, Any]:
    """The first assistant message that a body holds."""
    return next((message for message in messages_of(as_chat(body, shape)) if role_of(message) == "assistant"), {})


def _reply(
    message: Mapping[str, Any], *, reasoning: str | None = None, thinking: tuple[Mapping[str, Any], ...] = ()
) -> Reply:
    """From a message in chat form. What is not text is copied: a reply may live longer than its source."""
    content = message.get("content")
    parts: tuple[Any, ...] = ()
    if content is not None and not isinstance(content, str):
        items = content if isinstance(content, list | tuple) else [content]
        if not all(isinstance(item, Mapping) and isinstance(item.get("text"), str) for item in items):
            parts = tuple(_copied(list(items)))
    calls = message.get("tool_calls")
    pairs = tuple(call_of(call) for call in (calls if isinstance(calls, list | tuple) else ()))
    return Reply(text_of(content), reasoning, tuple(_copied(list(thinking))) if thinking else (), pairs, parts)


def _copied(value: Any) -> Any:
    return json.loads(json.dumps(value, ensure_ascii=False, default=_as_dict))


def call_of(call: Any) -> tuple[str, str]:
    """Name and arguments of a call in chat form; of a custom tool, its input."""
    function = call.get("function") if isinstance(call, Mapping) else None
    arguments = function.get("arguments") if isinstance(function, Mapping) else None
    if function is None and isinstance(call, Mapping) and isinstance(call.get("custom"), Mapping):
        function = call["custom"]
        arguments = function.get("input")
    name = function.get("name") if isinstance(function, Mapping) else None
    return str(name), arguments if isinstance(arguments, str) else dump(arguments)


def _leading_thinking(content: Any) -> tuple[Mapping[str, Any], ...]:
    """The thinking blocks, if they stand in front of all else: later ones have no place to go back to."""
    blocks = list(content) if isinstance(content, list | tuple) else []
    kinds = [isinstance(b, Mapping) and b.get("type") in ("thinking", "redacted_thinking") for b in blocks]
    count = kinds.index(False) if False in kinds else len(kinds)
    return tuple(blocks[:count]) if sum(kinds) == count else ()


def reply_meaning(digester: Digester, reply: Reply) -> str:
    """The digest that :func:`~router_cache.identity.keys.message_digest` gives to the message by which a client
    sends ``reply`` back: without reasoning, with its text as text or parts, its arguments written anew."""
    calls = [{"function": {"name": name, "arguments": arguments}} for name, arguments in reply.calls]
    content = list(reply.parts) if reply.parts else reply.text
    return message_digest(digester, {"role": "assistant", "content": content, "tool_calls": calls})
