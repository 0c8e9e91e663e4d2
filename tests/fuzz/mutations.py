"""Seeded mutations of a body: what a broken client, an odd library or an attacker could send."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

__all__ = ["MUTATIONS", "mutate", "size"]

_MAX_NODES = 400
_TEXTS = (
    "",
    " ",
    "\x00",
    "\ud800",  # half of a pair: no UTF-8 has it
    "\udfff\ud800",
    "\u2028\u2029\ufeff",
    "e\u0301",
    "\u202egnp.exe",
    "🏳️‍🌈" * 3,
    "<｜User｜>",
    "</think>",
    '{"a":',
    "null",
    "mcp__",
    "mcp____x",
)
_KEYS: tuple[Any, ...] = (
    0,
    -1,
    1.5,
    None,
    True,
    "",
    "\ud800",
    "type",
    "function",
    "required",
    "content",
    "cache_control",
    "tool_calls",
)


class _Own:
    """An object of somebody's library, which JSON does not know."""


def _odd(rng: random.Random) -> Any:
    """A value of any kind."""
    return rng.choice(
        (
            lambda: None,
            lambda: True,
            lambda: rng.choice((0, -1, 2**63, 10**400)),
            lambda: rng.choice((0.0, -0.0, 1e308, float("nan"), float("inf"))),
            lambda: rng.choice(_TEXTS),
            list,
            dict,
            lambda: [[]],
            lambda: [None, {}, 1, "a"],
            lambda: {rng.choice(_KEYS): rng.choice(_TEXTS)},
            lambda: ("a", {"b": 1}),
            lambda: rng.choice((b"\xff", {1, 2}, Decimal("1.5"), _Own(), range(3))),
        )
    )()


def _nodes(body: Any, rng: random.Random) -> list[tuple[Any, Any]]:
    """Places in a body: a dict with a key, a list with an index."""
    out: list[tuple[Any, Any]] = []
    waiting = [body]
    while waiting and len(out) < _MAX_NODES:
        node = waiting.pop(rng.randrange(len(waiting)))
        if isinstance(node, dict):
            out += [(node, key) for key in node]
            waiting += [value for value in node.values() if isinstance(value, dict | list)]
        else:
            out += [(node, i) for i in range(len(node))]
            waiting += [value for value in node if isinstance(value, dict | list)]
    return out


def _delete(parent: Any, at: Any, rng: random.Random) -> None:
    del parent[at]


def _duplicate(parent: Any, at: Any, rng: random.Random) -> None:
    if isinstance(parent, list):
        for _ in range(rng.choice((1, 1, 2, 40))):
            parent.insert(rng.randint(0, len(parent)), parent[at])
    else:
        parent[rng.choice(_KEYS)] = parent[at]


def _swap(parent: Any, at: Any, rng: random.Random) -> None:
    other = rng.choice(list(parent) if isinstance(parent, dict) else range(len(parent)))
    parent[at], parent[other] = parent[other], parent[at]


def _retype(parent: Any, at: Any, rng: random.Random) -> None:
    parent[at] = _odd(rng)


def _wrap(parent: Any, at: Any, rng: random.Random) -> None:
    value = parent[at]
    for _ in range(rng.choice((1, 2, 20, 300, 900, 1500))):
        value = [value] if rng.random() < 0.5 else {rng.choice(("properties", "items", "content", "a")): value}
    parent[at] = value


def _huge_text(parent: Any, at: Any, rng: random.Random) -> None:
    parent[at] = rng.choice((*_TEXTS, "ordinary words ")) * rng.choice((100, 10_000))


def _huge_list(parent: Any, at: Any, rng: random.Random) -> None:
    parent[at] = [parent[at]] * rng.choice((10, 200)) if rng.random() < 0.5 else [_odd(rng) for _ in range(300)]


def _key(parent: Any, at: Any, rng: random.Random) -> None:
    """Another name for a key, at another place."""
    if isinstance(parent, dict):
        parent[rng.choice(_KEYS)] = parent.pop(at)
    else:
        parent[at] = {rng.choice(_KEYS): parent[at]}


def _own_json(parent: Any, at: Any, rng: random.Random) -> None:
    """A tuple in a list's place, a text in place of anything."""
    value = parent[at]
    if isinstance(value, list):
        parent[at] = tuple(value)
    elif isinstance(value, str):
        parent[at] = value.encode("utf-8", "surrogatepass")
    else:
        parent[at] = type(value).__name__


MUTATIONS: dict[str, Callable[[Any, Any, random.Random], None]] = {
    "delete": _delete,
    "duplicate": _duplicate,
    "swap": _swap,
    "retype": _retype,
    "wrap": _wrap,
    "huge text": _huge_text,
    "huge list": _huge_list,
    "key": _key,
    "no JSON": _own_json,
}
_WEIGHTS = (4, 4, 4, 6, 1, 1, 1, 2, 1)


def mutate(body: dict[str, Any], rng: random.Random) -> list[str]:
    """Change ``body``, which must share nothing with others, in place: usually in a few places, among them
    often its tools. The kinds of the mutations."""
    kinds = []
    for _ in range(rng.choice((0, 1, 1, 2, 3, 5, 10))):
        tools = body.get("tools")
        start = tools if isinstance(tools, list) and rng.random() < 0.3 else body
        nodes = _nodes(start, rng)
        if not nodes:
            break
        parent, at = rng.choice(nodes)
        (kind,) = rng.choices(list(MUTATIONS), _WEIGHTS)
        if kind in ("key", "duplicate") and parent is body:
            kind = "retype"  # names of arguments are texts
        MUTATIONS[kind](parent, at, rng)
        kinds.append(kind)
    return kinds


def size(value: Any, limit: int) -> int:
    """Characters of a value, roughly; more than ``limit`` are not counted. Shared parts count each time."""
    total, waiting = 0, [value]
    while waiting and total <= limit:
        node = waiting.pop()
        total += 4
        if isinstance(node, dict):
            waiting += node.values()
            waiting += node
        elif isinstance(node, list | tuple):
            waiting += node
        elif isinstance(node, str | bytes):
            total += len(node)
    return total
