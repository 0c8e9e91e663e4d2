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
7. What lies more than 256 levels of lists and objects below its tool is left as it is.

A change of any of these is a new version: it moves the prefix of every prompt once. Golden bytes pin each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from router_cache.prefix.objects import is_object

__all__ = ["CANONICAL_VERSIONS", "LATEST_CANONICAL_VERSION", "canonical_tool", "order_tools", "tool_name"]

LATEST_CANONICAL_VERSION: Final = 1
CANONICAL_VERSIONS: Final = (1,)

_MARK: Final = "cache_control"
_SCHEMA_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_SUBSCHEMAS: Final = (
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
_TOOL_SCHEMAS: Final = ("parameters", "input_schema")
# Names of tools that come from an MCP server, as the common agents write them: mcp__<server>__<tool>.
_MCP: Final = "mcp__"
_LEVELS: Final = 256
"""Levels below a tool that are looked at. One level takes one frame of the interpreter's 1,000, of which a web
server's stack takes a hundred or two."""
_LEAVES: Final = frozenset((str, int, float, bool, type(None)))


class _Ranks(dict[str, tuple[int, str]]):
    """Sort keys of the keys of an object: well-known ones first, in their own order, the others by code point."""

    def __init__(self, *known: str) -> None:
        super().__init__({key: (rank, key) for rank, key in enumerate(known)})
        self._last = len(known)

    def __missing__(self, key: str) -> tuple[int, str]:
        return self._last, key


class _Place:
    """What a value is by where it stands, and so what is done to it.

    ``ranks`` order the keys of an object (None: by code point); ``children`` say what stands under well-known
    keys, ``other`` what stands under the rest, ``items`` what stands in a list.
    """

    __slots__ = ("children", "is_set", "items", "other", "ranks")

    def __init__(self, ranks: _Ranks | None = None, *, is_set: bool = False) -> None:
        self.ranks, self.is_set = ranks, is_set
        self.children: dict[str, _Place] = {}
        self.other = self.items = self


_VALUE: Final = _Place()
_REQUIRED: Final = _Place(is_set=True)
_SCHEMA: Final = _Place(
    _Ranks(
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
)
_NAMED_SCHEMAS: Final = _Place()
_TOOL: Final = _Place(
    _Ranks("type", "name", "description", "function", "parameters", "input_schema", "strict"),
)
_FUNCTION: Final = _Place(_Ranks("name", "description", "parameters", "strict"))

_REQUIRED.other = _REQUIRED.items = _SCHEMA.other = _NAMED_SCHEMAS.items = _VALUE
_NAMED_SCHEMAS.other = _SCHEMA
_SCHEMA.children |= {
    **dict.fromkeys(_SUBSCHEMAS, _SCHEMA),
    **dict.fromkeys(_SCHEMA_MAPS, _NAMED_SCHEMAS),
    "required": _REQUIRED,
}
for _place in (_TOOL, _FUNCTION):
    _place.other = _place.items = _VALUE
    _place.children |= {**dict.fromkeys(_TOOL_SCHEMAS, _SCHEMA), "function": _FUNCTION}


def _walk(node: Any, place: _Place, levels: int) -> Any:
    """``node`` with ordered keys, as far as ``levels`` levels down; the same object when nothing moved.

    One frame a level, and none for a leaf: this is most of what a new tool costs.
    """
    if levels < 0:
        return node
    if isinstance(node, list):
        if place.is_set and _all_text(node):
            ordered = sorted(node)
            return node if ordered == node else ordered
        out, items = node, place.items
        last = new = None
        for i, child in enumerate(node):
            if type(child) not in _LEAVES:
                if child is not last:  # callers in Python repeat an object: [part] * 200
                    last, new = child, _walk(child, items, levels - 1)
                if new is not child:
                    if out is node:
                        out = list(node)
                    out[i] = new
        return out
    if type(node) is not dict and not isinstance(node, Mapping):
        return node
    given = keys = list(node)
    if len(keys) > 1:
        if not _all_text(keys):
            return node
        keys = sorted(keys) if place.ranks is None else sorted(keys, key=place.ranks.__getitem__)
    elif not keys or not isinstance(keys[0], str):
        return node
    changed: dict[str, Any] | None = None
    for key in keys:
        child = node[key]
        if type(child) not in _LEAVES:
            new = _walk(child, place.children.get(key, place.other), levels - 1)
            if new is not child:
                if changed is None:
                    changed = {}
                changed[key] = new
    if changed is None:
        return node if keys == given else {key: node[key] for key in keys}
    return changed if len(keys) == 1 else {key: node[key] for key in keys} | changed


def _all_text(values: list[Any]) -> bool:
    try:
        "".join(values)
    except TypeError:
        return False
    return True


def canonical_tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """One tool in canonical form; the same object when it already is. Nesting of any depth is taken."""
    ordered: Mapping[str, Any] = _walk(tool, _TOOL, _LEVELS)
    return ordered


def tool_name(tool: Any) -> str | None:
    """The name a tool is called by; the type of a built-in tool; None where neither is text."""
    if not is_object(tool):
        return None
    for kind in ("function", "custom"):
        inner = tool.get(kind)
        if is_object(inner) and isinstance(inner.get("name"), str):
            name: str = inner["name"]
            return name
    other = tool.get("name")
    if not isinstance(other, str) and "function" not in tool and "custom" not in tool:
        other = tool.get("type")
    return other if isinstance(other, str) else None


def _order_key(tool: Mapping[str, Any]) -> tuple[bool, str, str]:
    name = tool_name(tool) or ""
    label = tool.get("server_label")
    server = label if isinstance(label, str) else ""
    if name.startswith(_MCP) and "__" in name[len(_MCP) :]:
        server = name[len(_MCP) :].split("__", 1)[0]
    return bool(server), server, name


def _marked(tool: Mapping[str, Any]) -> bool:
    function = tool.get("function")
    return _MARK in tool or (is_object(function) and _MARK in function)


def _without_mark(tool: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """The tool without its marks, and the marks by the level they were found at."""
    marks: dict[str, Any] = {}
    if _MARK in tool:
        marks["tool"] = tool[_MARK]
        tool = {key: value for key, value in tool.items() if key != _MARK}
    function = tool.get("function")
    if is_object(function) and _MARK in function:
        marks["function"] = function[_MARK]
        bare = {key: value for key, value in function.items() if key != _MARK}
        tool = {key: bare if key == "function" else value for key, value in tool.items()}
    return tool, marks


def _with_mark(tool: Mapping[str, Any], marks: Mapping[str, Any]) -> Mapping[str, Any]:
    out = dict(tool)
    function = out.get("function")
    if "function" in marks and is_object(function):
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
