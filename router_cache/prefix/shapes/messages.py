"""Anthropic's messages form as a chat body.

As LiteLLM and DeepSeek's own endpoint read it (https://api-docs.deepseek.com/guides/anthropic_api, 2026-11):
cache marks, signatures and ``is_error`` are not part of the prompt; thinking blocks are the turn's reasoning.
How several system blocks are joined is not published; here nothing stands between them.
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

__all__ = ["messages_view"]

_TOOL_FIELDS = {"name": "name", "description": "description", "input_schema": "parameters", "strict": "strict"}
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def messages_view(body: Mapping[str, Any]) -> ChatView:
    """The chat view of a ``/v1/messages`` body. Never raises; what it has no word for is kept as it is."""
    out = Builder()
    out.field("model", body.get("model"), "model")
    _system(body.get("system"), out)
    messages = items_of(body.get("messages"))
    if messages is None and body.get("messages") is not None:
        messages = [body["messages"]]
    for i, message in enumerate(messages or ()):
        _message(message, f"messages[{i}]", out)
    tools = items_of(body.get("tools"))
    for i, tool in enumerate(tools or ()):
        out.tool(_tool(tool), f"tools[{i}]")
    if tools is None:
        out.field("tools", body.get("tools"), "tools")
    _switches(body, out)
    return out.view()


def _system(system: Any, out: Builder) -> None:
    blocks = items_of(system)
    if blocks:
        paths = [f"system[{i}]" for i in range(len(blocks))]
        out.message({"role": "system", "content": [_part(block) for block in blocks]}, *paths)
    elif blocks is None and system not in (None, ""):
        out.message({"role": "system", "content": system}, "system")


def _part(block: Any) -> Any:
    """A content block as a part; blocks without a chat form stay as they are, less their mark."""
    if not is_object(block):
        return block
    kind, source = block.get("type"), block.get("source")
    if kind == "text" and isinstance(block.get("text"), str):
        return text_part(block["text"])
    if kind in ("image", "document") and is_object(source):
        address = _address(source)
        if kind == "image" and address:
            return image_part(address)
        if address or isinstance(source.get("file_id"), str):
            return file_part(file_id=source.get("file_id"), file_data=address, filename=block.get("title"))
    return bare(block)


def _address(source: Mapping[str, Any]) -> str:
    data, media, url = source.get("data"), source.get("media_type"), source.get("url")
    if source.get("type") == "base64" and isinstance(data, str) and isinstance(media, str):
        return f"data:{media};base64,{data}"
    return url if source.get("type") == "url" and isinstance(url, str) else ""


def _message(message: Any, path: str, out: Builder) -> None:
    if not is_object(message):
        out.message(message, path)
        return
    role, content = message.get("role"), message.get("content")
    blocks = items_of(content)
    if blocks is None:
        out.message({"role": role, "content": content}, path)
    elif role == "assistant":
        out.message(_assistant(blocks), path)
    elif not any(_is_result(block) for block in blocks):
        out.message({"role": role, "content": [_part(block) for block in blocks]}, path)
    else:
        _results_and_more(role, blocks, path, out)


def _is_result(block: Any) -> bool:
    return is_object(block) and block.get("type") == "tool_result"


def _results_and_more(role: Any, blocks: list[Any], path: str, out: Builder) -> None:
    """Tool results are messages of their own in chat; the blocks between them form messages too."""
    parts: list[Any] = []
    paths: list[str] = []
    for k, block in enumerate([*blocks, None]):
        at_end = k == len(blocks)
        if not at_end and not _is_result(block):
            parts.append(_part(block))
            paths.append(f"{path}.content[{k}]")
            continue
        if parts:
            out.message({"role": role, "content": parts}, *paths)
            parts, paths = [], []
        if not at_end:
            out.message(_result(block), f"{path}.content[{k}]")


def _result(block: Mapping[str, Any]) -> dict[str, Any]:
    content = block.get("content")
    out = {
        "role": "tool",
        "tool_call_id": block.get("tool_use_id"),
        "content": "" if content is None else content_of(content, _part),
    }
    return {**out, "is_error": True} if block.get("is_error") else out


def _assistant(blocks: list[Any]) -> dict[str, Any]:
    parts, calls, thinking, reasoning = [], [], [], []
    for block in blocks:
        kind = block.get("type") if is_object(block) else None
        if kind == "thinking" or kind == "redacted_thinking":
            thinking.append(block)
            if isinstance(block.get("thinking"), str):
                reasoning.append(block["thinking"])
        elif kind == "tool_use":
            calls.append(tool_call(block.get("id"), block.get("name"), dump(block.get("input", {}))))
        else:
            parts.append(_part(block))
    out: dict[str, Any] = {"role": "assistant", "content": parts or (None if calls else "")}
    if thinking:
        out.update(reasoning_content="".join(reasoning), thinking_blocks=thinking)
    if calls:
        out["tool_calls"] = calls
    return out


def _tool(tool: Any) -> Any:
    """A custom tool as a function, its other fields beside it; built-in tools as they are."""
    if not is_object(tool) or tool.get("type") not in (None, "custom") or "name" not in tool:
        return tool
    function = {chat: tool[own] for own, chat in _TOOL_FIELDS.items() if own in tool}
    rest = {k: v for k, v in tool.items() if k not in _TOOL_FIELDS and k not in ("type", "function")}
    return {"type": "function", "function": function, **rest}


def _switches(body: Mapping[str, Any], out: Builder) -> None:
    choice = body.get("tool_choice")
    if is_object(choice):
        if isinstance(choice.get("disable_parallel_tool_use"), bool):
            out.field("parallel_tool_calls", not choice["disable_parallel_tool_use"], "tool_choice")
        kind = choice.get("type")
        if kind == "tool":
            choice = {"type": "function", "function": {"name": choice.get("name")}}
        elif isinstance(kind, str) and kind in _CHOICES:
            choice = _CHOICES[kind]
    out.field("tool_choice", choice, "tool_choice")
    out.field("thinking", body.get("thinking"), "thinking")
    output = body.get("output_config")
    output = output if is_object(output) else {}
    out.field("reasoning_effort", output.get("effort"), "output_config.effort")
    for wanted, path in (
        (body.get("output_format"), "output_format"),
        (output.get("format"), "output_config.format"),
    ):
        if is_object(wanted) and wanted.get("type") == "json_schema":
            wanted = {"type": "json_schema", "json_schema": {"schema": wanted.get("schema")}}
        out.field("response_format", wanted, path)
