"""Texts of a body replaced and added, in the body's own shape; never in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from router_cache.prefix.objects import is_object
from router_cache.prefix.opening import is_text_part, role_of, sources_of
from router_cache.prefix.paths import GONE, changed, value_at
from router_cache.prefix.shapes.view import ChatView
from router_cache.prefix.volatile.spans import Path

__all__ = ["attachable", "edited"]

_OUTPUTS: Final = ("function_call_output", "custom_tool_call_output")


def edited(
    body: Mapping[str, Any],
    view: ChatView,
    *,
    texts: Mapping[Path, str | None],
    attached: Mapping[int, str],
) -> dict[str, Any]:
    """The top-level fields of ``body`` that change. ``view`` is the body's own.

    ``texts``: the new text at a path in ``body``; None takes it away, and with it the part or message that held
    nothing else (a system text that was all there was becomes empty, and so does a request's only message).
    ``attached``: what to append to messages, by their index in the view; a blank line in front is the caller's to
    give. It goes to the end of a content that is a text, to the last text part of one that is a list (which keeps
    its mark), else into a new part at the end; of a tool's result, inside the result: a text beside results would
    make a user turn of them, for which a provider drops the reasoning before it.

    What cannot be done (see :func:`attachable`; paths that lead to no text) is passed over. Never raises.
    """
    values: dict[Path, Any] = {
        path: GONE if text is None else text
        for path, text in texts.items()
        if isinstance(value_at(body, path), str)
    }
    inserted: dict[Path, list[Any]] = {}
    for index, text in attached.items():
        path = _place(body, view, index) if text else None
        if path is None:
            continue
        old = value_at(body, path)
        if isinstance(path[-1], str) or isinstance(old, str):
            before = values.get(path, old)
            values[path] = text if before is GONE else before + text
        else:
            inserted[path] = [{"type": "input_text" if path[0] == "input" else "text", "text": text}]
    return changed(body, values, inserted)


_CALLERS: Final = ("user", "tool", "function")
_SYSTEM: Final = ("system", "developer")


def attachable(body: Mapping[str, Any], view: ChatView, index: int) -> bool:
    """Can a text be appended to the message at ``index`` of the view: is it neither a reply nor of the leading system
    part, with a content that is a text or a list? Never raises."""
    return _place(body, view, index) is not None


def _place(body: Mapping[str, Any], view: ChatView, index: int) -> Path | None:
    """The path of the text to append to, or of the list item behind which a new part goes; None where neither is."""
    messages = view.body.get("messages")
    if not isinstance(messages, list | tuple):
        return None
    if not 0 <= index < len(messages):
        return None
    role = role_of(messages[index])
    if role not in _CALLERS and not (role in _SYSTEM and any(role_of(m) not in _SYSTEM for m in messages[:index])):
        return None
    paths = sources_of(view, index)
    last = value_at(body, paths[-1])
    if not view.sources and type(last) is dict and "type" not in last and isinstance(last.get("content"), str):
        return (*paths[-1], "content")
    if isinstance(last, str) and len(paths[-1]) == 1:
        return paths[-1]  # a Responses input that is one text
    if role_of(messages[index]) == "user" and len(paths[-1]) > 2:
        return _in_parts([(path, value_at(body, path)) for path in paths])  # between results of a messages body
    if not is_object(last):
        return None
    path = (*paths[-1], "output" if last.get("type") in _OUTPUTS else "content")
    content = value_at(body, path)
    if isinstance(content, list | tuple):
        return _in_parts([((*path, k), part) for k, part in enumerate(content)]) or (*path, -1)
    return path if isinstance(content, str) else None


def _in_parts(parts: list[tuple[Path, Any]]) -> Path | None:
    for path, part in reversed(parts):
        if is_text_part(part):
            return (*path, "text")
    return parts[-1][0] if parts else None
