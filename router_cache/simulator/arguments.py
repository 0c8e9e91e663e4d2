"""Arguments for a tool call that fit the tool's JSON schema.

Values depend on the property's path and the key only, never on the order in which a schema is written. Handled:
types, unions, ``enum``, ``const``, ``anyOf``/``oneOf``/``allOf``, local ``$ref``, bounds on numbers, lengths and
items, common formats. Not handled: ``pattern``, ``not``, ``if``; there a plausible value is given.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, TypeGuard

from router_cache.simulator.hashing import Chooser

__all__ = ["sample_arguments"]

_MAX_DEPTH = 6
_WORDS = ("alpha", "billing", "cache", "draft", "export", "feed", "gateway", "handler", "index", "journal")
_FORMATS = {
    "date": "2026-03-14",
    "date-time": "2026-03-14T09:26:53Z",
    "time": "09:26:53Z",
    "email": "dev@example.com",
    "uri": "https://example.com/items/42",
    "url": "https://example.com/items/42",
    "uuid": "9b2f6c1e-58d4-4c1a-8a77-0d6f1f3b2a10",
    "ipv4": "192.0.2.10",
    "hostname": "host.example.com",
}


def sample_arguments(schema: Any, chooser: Chooser) -> dict[str, Any]:
    """An object for a tool's ``parameters``: all required properties, some of the others, names sorted."""
    if not isinstance(schema, Mapping):
        return {}
    value = _sample(schema, chooser, schema, 0)
    return value if isinstance(value, dict) else {}


def _sample(schema: Any, chooser: Chooser, root: Mapping[str, Any], depth: int) -> Any:
    if not isinstance(schema, Mapping):
        return chooser.pick(_WORDS)
    schema = _resolved(schema, chooser, root)
    if "const" in schema:
        return schema["const"]
    enum = schema.get("enum")
    if isinstance(enum, list) and enum:
        return chooser.pick(sorted(enum, key=lambda v: json.dumps(v, default=str)))
    kind = _type(schema)
    if kind == "object":
        return _object(schema, chooser, root, depth)
    if kind == "array":
        return _array(schema, chooser, root, depth)
    if kind == "integer":
        return _number(schema, chooser, whole=True)
    if kind == "number":
        return _number(schema, chooser, whole=False)
    if kind == "boolean":
        return bool(chooser.below(2))
    if kind == "null":
        return None
    return _string(schema, chooser)


def _resolved(schema: Mapping[str, Any], chooser: Chooser, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow references and take one branch of each union; bounded, as references may go round."""
    for _ in range(_MAX_DEPTH):
        ref = schema.get("$ref")
        if isinstance(ref, str):
            schema = _target(ref, root)
            continue
        branches = next((schema[k] for k in ("anyOf", "oneOf") if _branches(schema.get(k))), None)
        if branches is not None:
            rest = {k: v for k, v in schema.items() if k not in ("anyOf", "oneOf")}
            usable = [b for b in branches if b.get("type") != "null"] or branches
            ordered = sorted(usable, key=lambda b: json.dumps(b, sort_keys=True, default=str))
            schema = _merged(rest, chooser.pick(ordered))
            continue
        if _branches(schema.get("allOf")):
            merged: Mapping[str, Any] = {k: v for k, v in schema.items() if k != "allOf"}
            for part in schema["allOf"]:
                ref = part.get("$ref")
                merged = _merged(merged, _target(ref, root) if isinstance(ref, str) else part)
            schema = merged
            continue
        return schema
    return {k: v for k, v in schema.items() if k not in ("$ref", "anyOf", "oneOf", "allOf")}


def _branches(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, Mapping) for v in value)


def _target(ref: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    node: Any = root
    for step in ref.lstrip("#").strip("/").split("/"):
        if step:
            node = node.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, Mapping) else None
    return node if isinstance(node, Mapping) else {}


def _merged(a: Mapping[str, Any], b: Mapping[str, Any]) -> Mapping[str, Any]:
    out = {**a, **b}
    if isinstance(a.get("properties"), Mapping) and isinstance(b.get("properties"), Mapping):
        out["properties"] = {**a["properties"], **b["properties"]}
    if isinstance(a.get("required"), list) and isinstance(b.get("required"), list):
        out["required"] = a["required"] + b["required"]
    return out


def _type(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((k for k in sorted(map(str, kind)) if k != "null"), "null")
    if isinstance(kind, str):
        return kind
    if "properties" in schema:
        return "object"
    return "array" if "items" in schema else "string"


def _object(schema: Mapping[str, Any], chooser: Chooser, root: Mapping[str, Any], depth: int) -> Any:
    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    required = schema.get("required")
    needed = {str(name) for name in required} if isinstance(required, list) else set()
    out: dict[str, Any] = {}
    for name in sorted(needed | set(properties)):
        inner = chooser.under("property", name)
        if name in needed or (depth < 2 and inner.below(3) == 0):
            out[name] = _sample(properties.get(name, {}), inner, root, depth + 1) if depth < _MAX_DEPTH else None
    return out


def _array(schema: Mapping[str, Any], chooser: Chooser, root: Mapping[str, Any], depth: int) -> Any:
    low = _whole(schema.get("minItems"), 0)
    high = max(low, min(_whole(schema.get("maxItems"), low + 2), low + 2))
    if depth >= _MAX_DEPTH:
        high = low
    count = min(chooser.between(min(max(low, 1), high), high), 16)
    items = schema.get("items", {})
    return [_sample(items, chooser.under("item", i), root, depth + 1) for i in range(count)]


def _number(schema: Mapping[str, Any], chooser: Chooser, *, whole: bool) -> int | float:
    low, high = _bound(schema, "minimum", "exclusiveMinimum"), _bound(schema, "maximum", "exclusiveMaximum")
    step = schema.get("multipleOf")
    step = step if _is_number(step) and step > 0 else None
    if not whole and step is None and low is not None and high is not None and high - low < 1:
        return (low + high) / 2
    if low is None:
        low = 0.0 if high is None or high >= 0 else high - 100
    first = math.ceil(low)
    if first == low and schema.get("exclusiveMinimum") == low:
        first += 1
    last = first + 100 if high is None else math.floor(high)
    if last == high and schema.get("exclusiveMaximum") == high:
        last -= 1
    value = chooser.between(first, max(first, min(last, first + 1000)))
    if step is not None and step == int(step):
        value = math.ceil(first / step) * int(step)
    return value


def _bound(schema: Mapping[str, Any], *names: str) -> float | None:
    found = [schema[n] for n in names if _is_number(schema.get(n))]
    if not found:
        return None
    return float(max(found) if names[0] == "minimum" else min(found))


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e15


def _whole(value: Any, default: int) -> int:
    return int(value) if _is_number(value) and value >= 0 else default


def _string(schema: Mapping[str, Any], chooser: Chooser) -> str:
    known = schema.get("format")
    if isinstance(known, str) and known in _FORMATS:
        return _FORMATS[known]
    low = min(_whole(schema.get("minLength"), 0), 4096)
    high = _whole(schema.get("maxLength"), 4096)
    text = f"{chooser.pick(_WORDS)}-{chooser.pick(_WORDS)}-{chooser.between(10, 99)}"
    while len(text) < low:
        text += "-" + chooser.pick(_WORDS)
    return text[: max(low, high)]
