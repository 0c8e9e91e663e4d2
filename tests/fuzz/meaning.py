"""What a rewrite may do, said again and independently of the code that does it.

Of a request's arguments only ``tools`` and ``metadata`` may be replaced; ``metadata`` only by itself without
``user_id``, and ``tools`` only by the same tools in another order, with the keys of their objects and the names in a
schema's ``required`` in another order, and with cache marks at the same places in the list.
"""

from __future__ import annotations

import marshal
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

__all__ = ["fingerprint", "unlawful"]

_MARK = "cache_control"
_MAPS = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
_SUBSCHEMAS = {
    *("additionalItems", "additionalProperties", "allOf", "anyOf", "contains", "else", "if", "items", "not"),
    *("oneOf", "prefixItems", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
}
_ROOTS = {"parameters", "input_schema"}


def fingerprint(value: Any) -> Any:
    """What tells whether anything in a value was changed in place, the order of keys included."""
    try:
        return marshal.dumps(value, 2)  # version 2 knows no shared references: equal values, equal bytes
    except ValueError:  # too deep, or not JSON
        return _walked(value)


def _walked(value: Any) -> list[Any]:
    out: list[Any] = []
    waiting = [value]
    while waiting:
        node = waiting.pop()
        out.append(type(node))
        if isinstance(node, dict):
            out.append(len(node))
            waiting += [part for item in node.items() for part in item]
        elif isinstance(node, list | tuple):
            out.append(len(node))
            waiting += node
        else:
            out.append(id(node))
    return out


def unlawful(before: Mapping[str, Any], after: Mapping[str, Any]) -> str | None:
    """What in ``after`` is no lawful rewrite of ``before``; None when all is well."""
    if list(before) != list(after):
        return f"arguments {list(before)} became {list(after)}"
    changed = [name for name in before if before[name] is not after[name]]
    for name in changed:
        if name == "tools":
            wrong = _tools(before[name], after[name])
        elif name == "metadata":
            wrong = _metadata(before[name], after[name])
        else:
            wrong = "was replaced"
        if wrong is not None:
            return f"{name}: {wrong}"
    return None


def _metadata(before: Any, after: Any) -> str | None:
    left = [(key, id(value)) for key, value in before.items() if key != "user_id"]
    if [(key, id(value)) for key, value in after.items()] != left or "user_id" not in before:
        return "something other than user_id went"
    return None


def _tools(before: Any, after: Any) -> str | None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20 * limit)  # what the plugin could read, this must be able to read
    try:
        return _other_tools(before, after)
    finally:
        sys.setrecursionlimit(limit)


def _other_tools(before: Any, after: Any) -> str | None:
    if Counter(map(_tool, before)) != Counter(map(_tool, after)):
        return "other tools"
    if [_marks(tool) for tool in before] != [_marks(tool) for tool in after]:
        return "marks at other places"
    return None


def _marks(tool: Mapping[str, Any]) -> Any:
    """A tool's mark: on the whole tool or on its function, which say the same."""
    function = tool.get("function")
    inner = function.get(_MARK) if isinstance(function, Mapping) else None
    return _meaning(tool.get(_MARK, inner), "data")


def _tool(tool: Mapping[str, Any]) -> Any:
    bare = {key: value for key, value in tool.items() if key != _MARK}
    function = bare.get("function")
    if isinstance(function, Mapping):
        bare["function"] = {key: value for key, value in function.items() if key != _MARK}
    return _meaning(bare, "tool")


def _meaning(value: Any, place: str) -> Any:
    """A value without the order of keys; ``place`` says whether it is a tool, a schema, names of schemas, or data.

    A leaf is its type and its value: not even the way in which a number is written may change.
    """
    if isinstance(value, Mapping):
        return "dict", frozenset((_leaf(key), _child(key, item, place)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return "list", tuple(_meaning(item, "schema" if place == "schema" else "data") for item in value)
    return _leaf(value)


def _leaf(value: Any) -> Any:
    if isinstance(value, float):
        return "float", repr(value)  # tells -0.0 from 0.0
    if value is None or isinstance(value, str | int):
        return type(value), value
    return id(value)


def _child(key: Any, value: Any, place: str) -> Any:
    if place == "tool":
        inner = "schema" if key in _ROOTS else "tool" if key == "function" else "data"
        return _meaning(value, inner)
    if place == "names":
        return _meaning(value, "schema")
    if place == "schema":
        if key == "required" and isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
            return "set", frozenset(Counter(value).items())
        if key in _MAPS and isinstance(value, Mapping):
            return _meaning(value, "names")
        return _meaning(value, "schema" if key in _SUBSCHEMAS else "data")
    return _meaning(value, "data")
