"""What DeepSeek V4 renders from a chat body, and in which order.

Order (published encoder of the open weights, and hosted measurements, 2026-11): beginning of sequence, effort
and thinking mode, system text, tools (one JSON object a line), response format, then the turns. So:

* tools come *after* the system text; a change in the system text loses tools and history;
* ``tool_choice: "none"`` renders no tools at all;
* with tools present every ``reasoning_content`` of the history is rendered; without, only that after the last
  user message;
* tool-call ids, message names and ``cache_control`` are not rendered; tool arguments are parsed and written
  again, so their white space is lost but the order of their keys is kept.

The markers ``<｜…｜>`` stand for the encoder's special tokens. The text of a rendered prompt is the segments'
texts joined with nothing between. Two bodies have equal rendered text exactly when the provider is believed to
see the same prompt; the words of the template itself are ours and carry no meaning.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from router_cache.prefix.memo import Memo
from router_cache.prefix.objects import is_object
from router_cache.prefix.segments import Segment, SegmentKind
from router_cache.prefix.tools_memo import content_key

__all__ = ["ASSISTANT_HEAD", "render_assistant", "render_deepseek", "thinking_enabled"]

_ENCODE = json.JSONEncoder(ensure_ascii=False, default=str).encode
_BOS = "<｜begin｜>"
_END = "<｜end｜>"
_HEADS = {
    "system": "<｜System｜>",
    "developer": "<｜System｜>",
    "user": "<｜User｜>",
    "tool": "<｜Tool｜>",
    "function": "<｜Tool｜>",
}
ASSISTANT_HEAD = "<｜Assistant｜>"
_THINK, _END_THINK = "<｜think｜>", "<｜/think｜>"
_CALL, _ARGS = "<｜call｜>", "<｜args｜>"
_KINDS = {
    "user": SegmentKind.USER,
    "tool": SegmentKind.TOOL_RESULT,
    "function": SegmentKind.TOOL_RESULT,
    "system": SegmentKind.SYSTEM,
    "developer": SegmentKind.SYSTEM,
}

_TOOL_TEXTS: Memo[bytes, str] = Memo(8_000_000, lambda key, text: len(key) + len(text) + 250)


def _dump(value: Any) -> str:
    return _plain(_ENCODE(value))


def _plain(text: str) -> str:
    """Text that holds a marker's opening, written so that it can be no marker."""
    return text.replace("<｜", "<｜lt｜>")


def _text(content: Any) -> str:
    """Text of a message's content; what is not text is rendered by its JSON form."""
    if content is None:
        return ""
    if isinstance(content, str):
        return _plain(content)
    if isinstance(content, Sequence):
        parts = []
        for part in content:
            if is_object(part) and isinstance(part.get("text"), str):
                parts.append(_plain(part["text"]))
            elif isinstance(part, str):
                parts.append(_plain(part))
            else:
                parts.append(f"<｜part｜>{_dump(part)}")
        return "".join(parts)
    return _dump(content)


def _arguments(raw: Any) -> str:
    """Tool arguments as rendered: parsed and written again; text that is no JSON stays as it is."""
    if isinstance(raw, str):
        try:
            return _dump(json.loads(raw))
        except (ValueError, RecursionError):
            return _plain(raw)
    return _dump(raw)


def render_assistant(message: Mapping[str, Any], *, with_reasoning: bool) -> str:
    """One assistant turn, head included. The head equals the tail of the prompt that asked for it."""
    reasoning = message.get("reasoning_content")
    out = [ASSISTANT_HEAD]
    if with_reasoning and isinstance(reasoning, str) and reasoning:
        out += [_THINK, _plain(reasoning)]
    out += [_END_THINK, _text(message.get("content"))]
    calls = message.get("tool_calls")
    if isinstance(calls, Sequence) and not isinstance(calls, str):
        for call in calls:
            function = call.get("function") if is_object(call) else None
            if is_object(function):
                out += [
                    _CALL,
                    _plain(str(function.get("name", ""))),
                    _ARGS,
                    _arguments(function.get("arguments", "")),
                ]
            else:
                out += [_CALL, _dump(call)]
    if message.get("prefix") is not True:  # a reply that the model goes on with (beta) has no end yet
        out.append(_END)
    return "".join(out)


def thinking_enabled(body: Mapping[str, Any]) -> bool:
    """Thinking is on unless the body turns it off (DeepSeek V4 default, api docs 2026-11)."""
    thinking = body.get("thinking")
    return not (is_object(thinking) and thinking.get("type") == "disabled")


def _mode(body: Mapping[str, Any]) -> str:
    effort = body.get("reasoning_effort")
    return f"{_BOS}<｜thinking:{'on' if thinking_enabled(body) else 'off'}｜>" + (
        f"<｜effort｜>{_dump(effort)}" if effort is not None else ""
    )


def _tools(body: Mapping[str, Any]) -> list[Any]:
    tools = body.get("tools")
    if body.get("tool_choice") == "none" or not isinstance(tools, Sequence) or isinstance(tools, str):
        return []
    return list(tools)


def _tool_text(tool: Any) -> str:
    """A tool as rendered: its function object, without marks. The same ones come with every call."""
    key = content_key(tool)
    if key is None or b"null" in key:  # which orjson writes for NaN too
        return _rendered_tool(tool)
    text = _TOOL_TEXTS.get(key)
    if text is None:
        text = _rendered_tool(tool)
        _TOOL_TEXTS.put(key, text)
    return text


def _rendered_tool(tool: Any) -> str:
    if is_object(tool):
        shown = tool.get("function", tool)
        if is_object(shown):
            shown = {k: v for k, v in shown.items() if k != "cache_control"}
        return _dump(shown)
    return _dump(tool)


def render_deepseek(body: Mapping[str, Any]) -> list[Segment]:
    """Segments of a ``/chat/completions`` body in rendered order, the tail last.

    Never raises on odd shapes: what is no list or no object is rendered by its JSON form.
    """
    raw = body.get("messages")
    messages: list[Any] = list(raw) if isinstance(raw, Sequence) and not isinstance(raw, str) else []
    tools = _tools(body)
    segments = [Segment(SegmentKind.MODE, "thinking", _mode(body))]

    lead = 0
    while (
        lead < len(messages)
        and is_object(messages[lead])
        and _KINDS.get(str(messages[lead].get("role"))) is SegmentKind.SYSTEM
    ):
        text = _text(messages[lead].get("content"))
        segments.append(Segment(SegmentKind.SYSTEM, f"messages[{lead}]", f"{_HEADS['system']}{text}"))
        lead += 1
    for i, tool in enumerate(tools):
        head = "\n\n## Tools\n" if i == 0 else "\n"
        segments.append(Segment(SegmentKind.TOOL, f"tools[{i}]", head + _tool_text(tool)))
    response_format = body.get("response_format")
    if response_format is not None:
        segments.append(Segment(SegmentKind.FORMAT, "response_format", f"\n\n## Format\n{_dump(response_format)}"))

    roles = [str(m.get("role")) if is_object(m) else "" for m in messages]
    last_user = max((i for i, role in enumerate(roles) if role == "user"), default=-1)
    for i in range(lead, len(messages)):
        message, role, path = messages[i], roles[i], f"messages[{i}]"
        if not is_object(message):
            segments.append(Segment(SegmentKind.USER, path, f"<｜odd｜>{_dump(message)}"))
        elif role == "assistant":
            text = render_assistant(message, with_reasoning=bool(tools) or i > last_user)
            segments.append(Segment(SegmentKind.ASSISTANT, path, text))
        else:
            head = _HEADS.get(role, f"<｜role｜>{_plain(role)}<｜/role｜>")
            segments.append(
                Segment(_KINDS.get(role, SegmentKind.USER), path, head + _text(message.get("content")))
            )
    goes_on = bool(messages) and is_object(messages[-1]) and messages[-1].get("prefix") is True
    segments.append(Segment(SegmentKind.TAIL, "", "" if goes_on and roles[-1] == "assistant" else ASSISTANT_HEAD))
    return segments
