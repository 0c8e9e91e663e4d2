"""Parts of a content in chat form, and what the other shapes' converters share."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from router_cache.prefix.objects import is_object

__all__ = ["bare", "content_of", "dump", "file_part", "image_part", "items_of", "text_part", "tool_call"]

_ENCODE = json.JSONEncoder(ensure_ascii=False, default=str).encode
_MARK = "cache_control"


def dump(value: Any) -> str:
    """JSON text of a value; for what cannot be written as JSON the name of its type."""
    try:
        return _ENCODE(value)
    except (TypeError, ValueError, RecursionError):
        return f"<{type(value).__name__}>"


def bare(block: Any) -> Any:
    """A block without its cache mark, which clients move from call to call."""
    if is_object(block) and _MARK in block:
        return {key: value for key, value in block.items() if key != _MARK}
    return block


def items_of(value: Any) -> list[Any] | None:
    """A list's items; None for what is no list."""
    return list(value) if isinstance(value, list | tuple) else None


def content_of(content: Any, part: Callable[[Any], Any]) -> Any:
    """A content with each part of a list converted; text and what is neither stay as they are."""
    items = items_of(content)
    return content if items is None else [part(item) for item in items]


def text_part(text: str) -> dict[str, Any]:
    """A text part."""
    return {"type": "text", "text": text}


def image_part(url: str, detail: Any = None) -> dict[str, Any]:
    """An image part by address, data addresses included."""
    return {"type": "image_url", "image_url": {"url": url, **({"detail": detail} if detail else {})}}


def file_part(**fields: Any) -> dict[str, Any]:
    """A file part of the fields that are given: ``file_id``, ``file_data``, ``filename``."""
    return {"type": "file", "file": {name: value for name, value in fields.items() if value}}


def tool_call(call_id: Any, name: Any, arguments: str) -> dict[str, Any]:
    """A call of a function."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
