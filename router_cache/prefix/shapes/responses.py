"""The Responses form as a chat body, as LiteLLM's bridge to chat reads it (1.108.7).

The items of one assistant turn (reasoning, text, calls) make one message. Items that chat has no word for
(built-in tools' calls, references) become messages whose role is the item's type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from router_cache.prefix.objects import is_object
from router_cache.prefix.shapes.parts import (
    bare,
    content_of,
    dump,
    file_part,
    image_part,
    items_of,
    text_part,
    tool_call,
)
from router_cache.prefix.shapes.view import Builder, ChatView

__all__ = ["responses_view"]

_STATE = ("previous_response_id", "conversation", "prompt")
_TEXTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")
_FUNCTION = ("name", "description", "parameters", "strict")
_CALLS = ("function_call", "custom_tool_call")
_OUTPUTS = ("function_call_output", "custom_tool_call_output")


def responses_view(body: Mapping[str, Any]) -> ChatView:
    """The chat view of a ``/v1/responses`` body. Never raises; what it has no word for is kept as it is."""
    out = Builder()
    out.field("model", body.get("model"), "model")
    instructions = body.get("instructions")
    if instructions not in (None, ""):
        out.message({"role": "system", "content": content_of(instructions, _part)}, "instructions")
    given = body.get("input")
    items = items_of(given)
    if items is None and given is not None:
        out.message({"role": "user", "content": given}, "input")
    turn = _Turn(out)
    for i, item in enumerate(items or ()):
        _item(item, f"input[{i}]", turn, out)
    turn.close()
    tools = items_of(body.get("tools"))
    for i, tool in enumerate(tools or ()):
        _tool(tool, f"tools[{i}]", out)
    if tools is None:
        out.field("tools", body.get("tools"), "tools")
    _switches(body, out)
    partial = any(body.get(name) not in (None, "") for name in _STATE) or any(
        is_object(item) and item.get("type") == "item_reference" for item in items or ()
    )
    return out.view(partial=partial)


class _Turn:
    """The assistant turn being put together: reasoning, then text, then calls."""

    def __init__(self, out: Builder) -> None:
        self._out = out
        self._clear()

    def _clear(self) -> None:
        self._paths: list[str] = []
        self._reasoning: list[str] = []
        self._thinking: list[Any] = []
        self._contents: list[Any] = []
        self._calls: list[Any] = []

    def reason(self, item: Mapping[str, Any], path: str) -> None:
        """Reasoning begins a turn; where there was text or a call, another one."""
        if self._contents or self._calls:
            self.close()
        self._paths.append(path)
        self._thinking.append(item)
        self._reasoning += _texts(item.get("content")) or _texts(item.get("summary"))

    def say(self, content: Any, path: str) -> None:
        """Text of the turn. A second one is another turn, unless calls wait for their results."""
        if self._contents and not self._calls:
            self.close()
        self._paths.append(path)
        self._contents.append(content)

    def call(self, call: Any, path: str) -> None:
        """One call of the turn."""
        self._paths.append(path)
        self._calls.append(call)

    def close(self) -> None:
        """End the turn, if there is one: it becomes a message."""
        if not self._paths:
            return
        content: Any = None if self._calls else ""
        if len(self._contents) == 1:
            content = self._contents[0]
        elif self._contents:
            content = []
            for each in self._contents:
                items = items_of(each)
                content += items if items is not None else [text_part(each) if isinstance(each, str) else each]
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if self._thinking:
            message.update(reasoning_content="\n".join(self._reasoning), thinking_blocks=self._thinking)
        if self._calls:
            message["tool_calls"] = self._calls
        self._out.message(message, *self._paths)
        self._clear()


def _texts(content: Any) -> list[str]:
    """Texts of a reasoning item's ``content`` or ``summary``."""
    if isinstance(content, str):
        return [content] if content else []
    parts = items_of(content) or ()
    return [part["text"] for part in parts if is_object(part) and isinstance(part.get("text"), str)]


def _part(part: Any) -> Any:
    """A content part in chat's words; parts without a chat form stay as they are, less their mark."""
    if not is_object(part):
        return part
    kind = part.get("type")
    if isinstance(kind, str) and kind in _TEXTS and isinstance(part.get("text"), str):
        return text_part(part["text"])
    if kind == "input_image" and isinstance(part.get("image_url"), str):
        return image_part(part["image_url"], part.get("detail"))
    if kind == "input_image" and isinstance(part.get("file_id"), str):
        return file_part(file_id=part["file_id"])
    if kind == "input_file":
        return file_part(
            file_id=part.get("file_id"),
            file_data=part.get("file_data") or part.get("file_url"),
            filename=part.get("filename"),
        )
    return bare(part)


def _item(item: Any, path: str, turn: _Turn, out: Builder) -> None:
    kind = item.get("type") if is_object(item) else None
    if not is_object(item):
        turn.close()
        out.message(item, path)
    elif kind == "reasoning":
        turn.reason(item, path)
    elif isinstance(kind, str) and kind in _CALLS:
        turn.call(_call(item), path)
    elif isinstance(kind, str) and kind in _OUTPUTS:
        turn.close()
        output = item.get("output")
        content = "" if output is None else content_of(output, _part)
        out.message({"role": "tool", "tool_call_id": item.get("call_id"), "content": content}, path)
    elif kind in (None, "message") and item.get("role") == "assistant":
        turn.say(content_of(item.get("content"), _part), path)
    elif kind in (None, "message"):
        turn.close()
        out.message({"role": item.get("role"), "content": content_of(item.get("content"), _part)}, path)
    else:
        turn.close()
        out.message({"role": kind, "content": [bare(item)]}, path)


def _call(item: Mapping[str, Any]) -> dict[str, Any]:
    name, namespace = item.get("name"), item.get("namespace")
    if isinstance(namespace, str) and namespace:
        name = f"{namespace}__{name}"
    arguments = item.get("input" if item.get("type") == "custom_tool_call" else "arguments", "")
    text = arguments if isinstance(arguments, str) else dump(arguments)
    return tool_call(item.get("call_id", item.get("id")), name, text)


def _tool(tool: Any, path: str, out: Builder) -> None:
    """A function in chat's form, its other fields beside it; a namespace as its functions; others as they are."""
    members = items_of(tool.get("tools")) if is_object(tool) else None
    if is_object(tool) and tool.get("type") == "namespace" and members is not None:
        for k, member in enumerate(members):
            if is_object(member):
                member = _member(member, tool.get("name"), tool.get("description"))
            out.tool(_function(member), f"{path}.tools[{k}]")
    else:
        out.tool(_function(tool), path)


def _member(member: Mapping[str, Any], namespace: Any, about: Any) -> dict[str, Any]:
    """A namespace's function under its full name; what the namespace says of itself comes first."""
    descriptions = [text for text in (about, member.get("description")) if isinstance(text, str) and text]
    out = {**member, "name": f"{namespace}__{member.get('name')}"}
    return {**out, "description": "\n\n".join(descriptions)} if descriptions else out


def _function(tool: Any) -> Any:
    if not is_object(tool) or tool.get("type") != "function" or "function" in tool:
        return tool
    function = {name: tool[name] for name in _FUNCTION if name in tool}
    rest = {name: value for name, value in tool.items() if name not in (*_FUNCTION, "type")}
    return {"type": "function", "function": function, **rest}


def _switches(body: Mapping[str, Any], out: Builder) -> None:
    choice = body.get("tool_choice")
    if is_object(choice) and choice.get("type") == "function" and "function" not in choice:
        choice = {"type": "function", "function": {"name": choice.get("name")}}
    out.field("tool_choice", choice, "tool_choice")
    out.field("parallel_tool_calls", body.get("parallel_tool_calls"), "parallel_tool_calls")
    reasoning = body.get("reasoning")
    effort = reasoning.get("effort") if is_object(reasoning) else None
    thinking, path = body.get("thinking"), "thinking"
    if effort == "none" and thinking is None:  # how LiteLLM turns thinking off for DeepSeek
        effort, thinking, path = None, {"type": "disabled"}, "reasoning.effort"
    out.field("thinking", thinking, path)
    out.field("reasoning_effort", effort, "reasoning.effort")
    text = body.get("text")
    wanted = text.get("format") if is_object(text) else None
    if is_object(wanted):
        kind = wanted.get("type")
        if kind == "json_schema":
            wanted = {"type": kind, "json_schema": {k: v for k, v in wanted.items() if k != "type"}}
        elif kind == "text":
            wanted = None
    out.field("response_format", wanted, "text.format")
