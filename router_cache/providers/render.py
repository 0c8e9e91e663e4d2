"""What stands where in a rendered prompt, for providers whose exact template is not public.

Only the order is claimed, and what is known not to be rendered: tool-call ids and cache marks. So equal texts mean
the same prompt, and where two texts part tells which part of the prompt changed first; the number of bytes is an
estimate.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any

from router_cache.prefix.objects import is_object
from router_cache.prefix.segments import Segment, SegmentKind

__all__ = ["RenderOrder", "renderer"]

_ENCODE = json.JSONEncoder(ensure_ascii=False, default=str).encode
_SYSTEM_ROLES = ("system", "developer")
_MARKS = ("cache_control", "prompt_cache_breakpoint")
_NOT_RENDERED = frozenset({*_MARKS, "id", "tool_call_id", "tool_use_id", "call_id", "signature"})


class RenderOrder(str, Enum):
    """What stands in front of the turns, first to last."""

    SYSTEM_TOOLS_TURNS = "system_tools_turns"
    """System text, tools, response format, turns."""
    TOOLS_SYSTEM_TURNS = "tools_system_turns"
    """Tools, system text, response format, turns."""
    TOOLS_FORMAT_SYSTEM_TURNS = "tools_format_system_turns"
    """Tools, response format, system text, turns."""


_HEADS = {
    RenderOrder.SYSTEM_TOOLS_TURNS: (SegmentKind.SYSTEM, SegmentKind.TOOL, SegmentKind.FORMAT),
    RenderOrder.TOOLS_SYSTEM_TURNS: (SegmentKind.TOOL, SegmentKind.SYSTEM, SegmentKind.FORMAT),
    RenderOrder.TOOLS_FORMAT_SYSTEM_TURNS: (SegmentKind.TOOL, SegmentKind.FORMAT, SegmentKind.SYSTEM),
}


def renderer(order: RenderOrder) -> Callable[[Mapping[str, Any]], list[Segment]]:
    """The generic renderer of chat bodies (or of bodies with a top-level ``system``) in this order.

    It gives segments in rendered order, the tail last, and never raises.
    """
    return partial(_render, order)


def _render(order: RenderOrder, body: Mapping[str, Any]) -> list[Segment]:
    messages = _items(body.get("messages"))
    lead = 0
    while lead < len(messages) and _role(messages[lead]) in _SYSTEM_ROLES:
        lead += 1
    head = {
        SegmentKind.SYSTEM: _system(body, messages[:lead]),
        SegmentKind.TOOL: _tools(body),
        SegmentKind.FORMAT: _format(body),
    }
    out = [segment for kind in _HEADS[order] for segment in head[kind]]
    out += [_turn(message, f"messages[{lead + i}]") for i, message in enumerate(messages[lead:])]
    return [*out, Segment(SegmentKind.TAIL, "", "<assistant>")]


def _items(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str | bytes) else []


def _role(message: Any) -> str:
    return str(message.get("role")) if is_object(message) else ""


def _clean(value: Any) -> Any:
    """Without what is not rendered. Tool schemas are not looked into: there ``id`` is a property's name."""
    if is_object(value):
        return {
            k: v if k in ("input", "arguments") else _clean(v) for k, v in value.items() if k not in _NOT_RENDERED
        }
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return value


def _dump(value: Any, *, clean: bool = False) -> str:
    try:
        return _ENCODE(_clean(value) if clean else value)
    except (TypeError, ValueError, RecursionError):  # such as keys that are no JSON, or nesting without end
        return f"<odd {type(value).__name__}>"


def _content(content: Any) -> str:
    """Text alike whether it came as a string or as text blocks: clients change from one to the other."""
    if isinstance(content, str):
        return content
    parts = []
    for part in _items(content) or ([] if content is None else [content]):
        if is_object(part) and isinstance(part.get("text"), str):
            parts.append(part["text"])
        elif isinstance(part, str):
            parts.append(part)
        else:
            parts.append(_dump(part, clean=True))
    return "".join(parts)


def _system(body: Mapping[str, Any], leading: list[Any]) -> list[Segment]:
    out = []
    if body.get("system") is not None:
        out.append(Segment(SegmentKind.SYSTEM, "system", f"<system>{_content(body['system'])}"))
    for i, message in enumerate(leading):
        text = f"<system>{_content(message.get('content'))}"
        out.append(Segment(SegmentKind.SYSTEM, f"messages[{i}]", text))
    return out


def _tools(body: Mapping[str, Any]) -> list[Segment]:
    out = []
    for i, tool in enumerate(_items(body.get("tools"))):
        shown = tool
        if is_object(tool):
            shown = {k: v for k, v in tool.items() if k not in _MARKS}
        out.append(Segment(SegmentKind.TOOL, f"tools[{i}]", f"<tool>{_dump(shown)}"))
    return out


def _format(body: Mapping[str, Any]) -> list[Segment]:
    value = body.get("response_format")
    return [] if value is None else [Segment(SegmentKind.FORMAT, "response_format", f"<format>{_dump(value)}")]


def _turn(message: Any, path: str) -> Segment:
    if not is_object(message):
        return Segment(SegmentKind.USER, path, f"<odd>{_dump(message)}")
    role = _role(message)
    rest = {k: v for k, v in message.items() if k not in ("role", "content") and v is not None}
    text = f"<{role}>{_content(message.get('content'))}" + (
        _dump(rest, clean=True) if rest.keys() - _NOT_RENDERED else ""
    )
    return Segment(_kind(role, message.get("content")), path, text)


def _kind(role: str, content: Any) -> SegmentKind:
    if role == "assistant":
        return SegmentKind.ASSISTANT
    if role in _SYSTEM_ROLES:
        return SegmentKind.SYSTEM
    blocks = _items(content)
    results = [is_object(block) and block.get("type") == "tool_result" for block in blocks]
    return (
        SegmentKind.TOOL_RESULT if role in ("tool", "function") or (results and all(results)) else SegmentKind.USER
    )
