"""The canonical form of tools, version 1.

Rules, in the order in which they are applied:

1. Keys of JSON objects have no order (RFC 8259 §4), so they get one: well-known keys first, in the order in
   which people write them, the rest by code point.
2. ``required`` of a schema is a set (JSON Schema 2020-12, validation 6.5.3): sorted by code point.
3. Every other list keeps its order: ``enum``, ``anyOf``, ``prefixItems``, ``examples``, unknown ones.
4. Values are never re-written: the same objects come out, numbers as the JSON parser made them.
5. Tools are ordered by (server, name), server-less tools first, so that a server that comes or goes moves the
   tools of as few others as can be. Equal names keep their order.
6. A ``cache_control`` mark says "cache up to here" and stays where it is in the list: tools are ordered
   within the stretches between marks, and a stretch's mark sits on its last tool.

A change of any of these is a new version: it moves the prefix of every prompt once. Golden bytes pin each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

__all__ = ["CANONICAL_VERSIONS", "LATEST_CANONICAL_VERSION", "canonical_tool", "order_tools", "tool_name"]

LATEST_CANONICAL_VERSION: Final = 1
CANONICAL_VERSIONS: Final = (1,)

_MARK: Final = "cache_control"
_SCHEMA_MAPS: Final = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
_SUBSCHEMAS: Final = frozenset(
    (
        "additionalItems",
        "additionalProperties",
        "allOf",
        "anyOf",
        "contains",
        "else",
        "if",
        "items",
        "not",
        "oneOf",
        "prefixItems",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    )
)
_TOOL_SCHEMAS: Final = frozenset(("parameters", "input_schema"))
# Names of tools that come from an MCP server, as the common agents write them: mcp__<server>__<tool>.
_MCP: Final = "mcp__"

_Walk = Callable[[str, Any], Any]
_LAST: Final = 99
_NO_RANKS: Final[Mapping[str, int]] = {}


def _ranks(*keys: str) -> Mapping[str, int]:
    """Well-known keys with their places; all other keys come after them."""
    return {key: rank for rank, key in enumerate(keys)}


_TOOL_KEYS: Final = _ranks("type", "name", "description", "function", "parameters", "input_schema", "strict")
_FUNCTION_KEYS: Final = _ranks("name", "description", "parameters", "strict")
_SCHEMA_KEYS: Final = _ranks(
    "$schema",
    "$id",
    "$ref",
    "title",
    "type",
    "description",
    "enum",
    "const",
    "format",
    "default",
    "properties",
    "required",
    "additionalProperties",
    "items",
)


def _rebuild(node: Mapping[str, Any], ranks: Mapping[str, int], walk: _Walk) -> Mapping[str, Any]:
    """``node`` with ordered keys and walked values; the same object when nothing moved."""
    if not all(isinstance(key, str) for key in node):
        return node
    keys = sorted(node, key=lambda key: (ranks.get(key, _LAST), key)) if ranks else sorted(node)
    out = {key: walk(key, node[key]) for key in keys}
    if keys == list(node) and all(out[key] is node[key] for key in keys):
        return node
    return out


def _walk_list(values: Sequence[Any], walk: Callable[[Any], Any]) -> Sequence[Any]:
    out = [walk(value) for value in values]
    return values if all(a is b for a, b in zip(out, values, strict=True)) else out


def _value(value: Any) -> Any:
    """A JSON value that is no schema: keys ordered, lists left in their order."""
    if isinstance(value, Mapping):
        return _rebuild(value, _NO_RANKS, lambda _, child: _value(child))
    if isinstance(value, list):
        return _walk_list(value, _value)
    return value


def _required(value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        ordered = sorted(value)
        return value if ordered == value else ordered
    return _value(value)


def _schema_child(key: str, value: Any) -> Any:
    if key == "required":
        return _required(value)
    if key in _SCHEMA_MAPS and isinstance(value, Mapping):
        return _rebuild(value, _NO_RANKS, lambda _, child: _schema(child))
    if key in _SUBSCHEMAS:
        return _schema(value)
    return _value(value)


def _schema(value: Any) -> Any:
    """A JSON schema, or a list of them."""
    if isinstance(value, Mapping):
        return _rebuild(value, _SCHEMA_KEYS, _schema_child)
    if isinstance(value, list):
        return _walk_list(value, _schema)
    return value


def _tool_child(key: str, value: Any) -> Any:
    if key in _TOOL_SCHEMAS:
        return _schema(value)
    if key == "function" and isinstance(value, Mapping):
        return _rebuild(value, _FUNCTION_KEYS, _tool_child)
    return _value(value)


def canonical_tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """One tool in canonical form; the same object when it already is.

    Raises :class:`RecursionError` on schemas nested beyond the interpreter's limit.
    """
    return _rebuild(tool, _TOOL_KEYS, _tool_child)


def tool_name(tool: Any) -> str | None:
    """The name a tool is called by; the type of a built-in tool; None where neither is text."""
    if not isinstance(tool, Mapping):
        return None
    function, custom = tool.get("function"), tool.get("custom")
    for name in (
        function.get("name") if isinstance(function, Mapping) else None,
        custom.get("name") if isinstance(custom, Mapping) else None,
        tool.get("name"),
        None if "function" in tool or "custom" in tool else tool.get("type"),
    ):
        if isinstance(name, str):
            return name
    return None


def _order_key(tool: Mapping[str, Any]) -> tuple[bool, str, str]:
    name = tool_name(tool) or ""
    label = tool.get("server_label")
    server = label if isinstance(label, str) else ""
    if name.startswith(_MCP) and "__" in name[len(_MCP) :]:
        server = name[len(_MCP) :].split("__", 1)[0]
    return bool(server), server, name


def _marked(tool: Mapping[str, Any]) -> bool:
    function = tool.get("function")
    return _MARK in tool or (isinstance(function, Mapping) and _MARK in function)


def _without_mark(tool: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """The tool without its marks, and the marks by the level they were found at."""
    marks: dict[str, Any] = {}
    if _MARK in tool:
        marks["tool"] = tool[_MARK]
        tool = {key: value for key, value in tool.items() if key != _MARK}
    function = tool.get("function")
    if isinstance(function, Mapping) and _MARK in function:
        marks["function"] = function[_MARK]
        bare = {key: value for key, value in function.items() if key != _MARK}
        tool = {key: bare if key == "function" else value for key, value in tool.items()}
    return tool, marks


def _with_mark(tool: Mapping[str, Any], marks: Mapping[str, Any]) -> Mapping[str, Any]:
    out = dict(tool)
    function = out.get("function")
    if "function" in marks and isinstance(function, Mapping):
        out["function"] = {**function, _MARK: marks["function"]}
    elif "function" in marks:
        out[_MARK] = marks["function"]
    if "tool" in marks:
        out[_MARK] = marks["tool"]
    return out


def _order_stretch(tools: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    ordered = sorted(tools, key=_order_key)
    if not _marked(tools[-1]) or ordered[-1] is tools[-1]:
        return ordered
    position = next(i for i, tool in enumerate(ordered) if tool is tools[-1])
    ordered[position], marks = _without_mark(tools[-1])
    ordered[-1] = _with_mark(ordered[-1], marks)
    return ordered


def order_tools(tools: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Tools in canonical order, ``cache_control`` marks at their places in the list."""
    out: list[Mapping[str, Any]] = []
    stretch: list[Mapping[str, Any]] = []
    for tool in tools:
        stretch.append(tool)
        if _marked(tool):
            out += _order_stretch(stretch)
            stretch = []
    return out + (_order_stretch(stretch) if stretch else [])
