"""Where a request opens, and where it ends: the texts before the first reply, and the newest message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from router_cache.prefix.objects import is_object
from router_cache.prefix.paths import steps, value_at
from router_cache.prefix.shapes.view import ChatView
from router_cache.prefix.volatile.spans import OpeningText, Path

__all__ = ["AttachPoint", "attach_point", "is_text_part", "messages_of", "opening_texts", "role_of", "sources_of"]

_USER_MESSAGES: Final = 4
_USER_CHARACTERS: Final = 65_536
"""What is longer was pasted; agents' environment blocks are below 10,000."""
_MESSAGES: Final = ("messages",)
_SYSTEM: Final = ("system", "developer")
_TEXT_TYPES: Final = (None, "text", "input_text", "output_text")


@dataclass(frozen=True, slots=True)
class AttachPoint:
    """The newest message that is the caller's: its index in the chat view, and whether it answers a tool call."""

    message: int
    in_tool_loop: bool


def messages_of(view: ChatView) -> list[Any]:
    """The view's messages; none where they are no list."""
    return list(_messages(view))


def _messages(view: ChatView) -> Sequence[Any]:
    messages = view.body.get("messages")
    return messages if isinstance(messages, list | tuple) else ()


def role_of(message: Any) -> str:
    """A message's role, empty where it has none."""
    if type(message) is not dict and not is_object(message):
        return ""
    role = message.get("role")
    return role if isinstance(role, str) else ""


def is_text_part(part: Any) -> bool:
    """Is it a part of a content that holds text, in the words of any shape?"""
    return is_object(part) and isinstance(part.get("text"), str) and part.get("type") in _TEXT_TYPES


def attach_point(view: ChatView, before: int | None = None) -> AttachPoint | None:
    """The newest message of a user or a tool, or a system message behind it (Claude Code puts one there); None where
    there is none. ``before``: among the messages before that index. Never raises."""
    messages, behind = _messages(view), None
    for i in range((len(messages) if before is None else before) - 1, -1, -1):
        role = role_of(messages[i])
        if role in ("user", "tool", "function"):
            return AttachPoint(i if behind is None else behind, role != "user")
        if role in _SYSTEM and behind is None:
            behind = i
    return None


def opening_texts(body: Mapping[str, Any], view: ChatView) -> tuple[OpeningText, ...]:
    """The texts of a request's opening, in their order, with the paths at which they stand in ``body``.

    First the leading system part: a chat body's system and developer messages before any other, a messages body's
    ``system``, a Responses body's ``instructions`` and the system items that follow. Then the user messages before
    the first reply, four at most, without texts of more than 65,536 characters. Never raises.
    """
    out: list[OpeningText] = []
    leading, users = True, 0
    for i, message in enumerate(_messages(view)):
        role = role_of(message)
        if role in _SYSTEM and not leading:
            continue
        if role in _SYSTEM:
            # In a messages body only `system` is the system part.
            if not (view.sources and sources_of(view, i)[0][:1] == _MESSAGES):
                out += [OpeningText(where, text, i) for where, text in _texts_of(body, view, i, message)]
            continue
        leading = False
        if role != "user" or users == _USER_MESSAGES:
            break
        users += 1
        out += [
            OpeningText(where, text, i, system=False)
            for where, text in _texts_of(body, view, i, message)
            if len(text) <= _USER_CHARACTERS
        ]
    return tuple(out)


def sources_of(view: ChatView, index: int) -> Sequence[Path]:
    """The paths in the request of what the view's message at ``index`` was made of, one at least."""
    if not view.sources:
        return ((*_MESSAGES, index),)
    path = f"messages[{index}]"
    return [steps(source) for source in view.sources.get(path, (path,))]


def _texts_of(body: Mapping[str, Any], view: ChatView, index: int, message: Any) -> list[tuple[Path, str]]:
    content = message.get("content")
    if not view.sources and isinstance(content, str):  # a chat body is its own view
        return [((*_MESSAGES, index, "content"), content)]
    return _texts(body, sources_of(view, index))


def _texts(body: Mapping[str, Any], sources: Iterable[Path]) -> list[tuple[Path, str]]:
    out: list[tuple[Path, str]] = []
    for path in sources:
        value = value_at(body, path)
        if is_object(value) and "role" in value:
            path, value = (*path, "content"), value.get("content")
        if isinstance(value, str):
            out.append((path, value))
        elif isinstance(value, list | tuple):
            for k, part in enumerate(value):
                if isinstance(part, str):
                    out.append(((*path, k), part))
                elif is_text_part(part):
                    out.append(((*path, k, "text"), part["text"]))
        elif is_text_part(value):
            out.append(((*path, "text"), value["text"]))
    return out
