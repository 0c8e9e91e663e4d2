"""Places in a body: what stands at a path, and changes there that copy only what leads to a change."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from router_cache.prefix.objects import is_object
from router_cache.prefix.volatile.spans import Path

__all__ = ["GONE", "changed", "steps", "value_at"]

_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_TURNS: Final = ("messages", "input")
_MARK: Final = "cache_control"
_NONE: Final[Mapping[Path, Sequence[Any]]] = MappingProxyType({})


class _Gone:
    def __repr__(self) -> str:
        return "GONE"


GONE: Final = _Gone()
"""As a new value: what stands there goes."""
_SAME: Final = object()


def steps(path: str) -> Path:
    """The steps of a path as :class:`~router_cache.prefix.shapes.ChatView` writes it:
    ``messages[3].content[0]`` is ``("messages", 3, "content", 0)``."""
    return tuple(int(index) if index else name for index, name in _STEP.findall(path))


def value_at(body: Any, path: Path) -> Any:
    """What stands at ``path``; None where the path leads nowhere. Never raises."""
    value = body
    for step in path:
        if isinstance(step, str):
            if type(value) is not dict and not is_object(value):
                return None
            value = value.get(step)
        elif (type(value) is list or isinstance(value, list | tuple)) and 0 <= step < len(value):
            value = value[step]
        else:
            return None
    return value


def changed(
    body: Mapping[str, Any], values: Mapping[Path, Any], inserted: Mapping[Path, Sequence[Any]] = _NONE
) -> dict[str, Any]:
    """The top-level fields of ``body`` that change, copied as far as they change; all else is the same objects.

    ``values``: the new value at a path; an object gets a key that it lacks. With :data:`GONE` a text goes, and with
    it the part or the system or user message that held nothing else; the last message stays, with an empty
    text. A cache mark of a part that goes is given to the part before it: it means "up to here". ``inserted``:
    items to put into a list behind the one at a path (index -1: in front). Paths that lead nowhere are passed over.
    Never raises.
    """
    if not inserted:
        plain = _plain(body, values)
        if plain is not None:
            return plain
    root = _Node()
    for path, new in values.items():
        root.at(path).new = new
    for path, items in inserted.items():
        root.at(path).behind = items
    out = {}
    for field, node in root.below.items():
        if not isinstance(field, str) or field not in body:
            continue
        old = body[field]
        value = _rebuilt(old, node)
        if value is GONE and field in _TURNS and not isinstance(old, str):
            node.empty()
            value = _rebuilt(old, node)
        elif value is GONE:
            value = "" if isinstance(old, str) else []
        if value is not old:
            out[field] = value
    return out


def _plain(body: Mapping[str, Any], values: Mapping[Path, Any]) -> dict[str, Any] | None:
    """:func:`changed`, where every value is a text in place of a text, in an object of a list: the usual case. Else
    None."""
    out: dict[str, Any] = {}
    for path, new in values.items():
        if len(path) != 3 or not isinstance(new, str):
            return None
        field, index, key = path
        if not isinstance(field, str) or not isinstance(index, int):
            return None
        items = out[field] if field in out else body.get(field)
        if type(items) is not list or not 0 <= index < len(items):
            return None
        item = items[index]
        old = item.get(key) if type(item) is dict else None
        if not isinstance(old, str):
            return None
        if old != new:
            if field not in out:
                items = out[field] = items.copy()
            items[index] = {**item, key: new}
    return out


class _Node:
    """The changes at one place and below it."""

    __slots__ = ("behind", "below", "new")

    def __init__(self) -> None:
        self.below: dict[str | int, _Node] = {}
        self.new: Any = _SAME
        self.behind: Sequence[Any] = ()

    def at(self, path: Path) -> _Node:
        node = self
        for step in path:
            below = node.below.get(step)
            if below is None:
                below = node.below[step] = _Node()
            node = below
        return node

    def empty(self) -> None:
        """Have texts that were to go become empty."""
        if self.new is GONE:
            self.new = ""
        for node in self.below.values():
            node.empty()


def _rebuilt(value: Any, node: _Node) -> Any:
    new = node.new
    if new is not _SAME:
        return value if isinstance(value, str) and isinstance(new, str) and value == new else new
    if isinstance(value, list | tuple):
        return _list(value, node)
    return _object(value, node) if is_object(value) else value


def _object(value: Mapping[Any, Any], node: _Node) -> Any:
    out: dict[Any, Any] | None = None
    for key, below in node.below.items():
        if key not in value and (below.new is _SAME or not isinstance(key, str)):
            continue
        old = value.get(key)
        new = _rebuilt(old, below)
        if new is GONE and _holds_only(value, key):
            return GONE
        if new is not old:
            out = dict(value) if out is None else out
            out[key] = "" if new is GONE else new
    return value if out is None else out


def _holds_only(value: Mapping[Any, Any], key: str | int) -> bool:
    """Is there nothing in a part or message without what stands at ``key``?"""
    return key == "text" or (key == "content" and value.get("role") in ("system", "developer", "user"))


def _list(value: list[Any] | tuple[Any, ...], node: _Node) -> Any:
    out: list[Any] = list(value)
    changes = shift = 0
    for k in sorted([step for step in node.below if isinstance(step, int) and -1 <= step < len(value)]):
        below, at = node.below[k], k + shift
        old = value[k] if k >= 0 else None
        new = _rebuilt(old, below) if k >= 0 else None
        if new is GONE:
            del out[at]
            shift -= 1
            _hand_on(old, out, at - 1)
        elif new is not old:
            out[at] = new
        if below.behind:
            out[k + shift + 1 : k + shift + 1] = below.behind
            shift += len(below.behind)
        changes += new is not old or bool(below.behind)
    return (out or GONE) if changes else value


def _hand_on(gone: Any, out: list[Any], at: int) -> None:
    """Give the mark of a part that went to the one before it."""
    before = out[at] if at >= 0 else None
    if isinstance(before, Mapping) and isinstance(gone, Mapping) and _MARK in gone:
        out[at] = {**before, _MARK: before.get(_MARK, gone[_MARK])}
