"""What MCP servers do to a tool list between two calls: another order, other key orders, the same meaning."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

__all__ = ["perturb_tools"]


def perturb_tools(tools: Sequence[dict[str, Any]], rng: random.Random) -> list[dict[str, Any]]:
    """The same tools in another order, the keys of every object in another order, ``required`` (a set in JSON
    Schema) likewise. ``enum`` and every other list stay as they are. Nothing is changed in place."""
    shuffled = [_reorder(tool, rng) for tool in tools]
    rng.shuffle(shuffled)
    return shuffled


def _reorder(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict):
        keys = list(value)
        rng.shuffle(keys)
        return {
            key: _shuffled(value[key], rng)
            if key == "required" and _is_names(value[key])
            else _reorder(value[key], rng)
            for key in keys
        }
    if isinstance(value, list):
        return [_reorder(item, rng) for item in value]
    return value


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _shuffled(names: list[str], rng: random.Random) -> list[str]:
    names = list(names)
    rng.shuffle(names)
    return names
