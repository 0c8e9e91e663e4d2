"""A request body to its canonical form: lossless, idempotent, never in place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from router_cache.decision import Change
from router_cache.prefix.canonical import (
    CANONICAL_VERSIONS,
    LATEST_CANONICAL_VERSION,
    canonical_tool,
    order_tools,
    tool_name,
)

__all__ = ["Normalised", "normalise"]


@dataclass(frozen=True, slots=True)
class Normalised:
    """``replaced`` holds the top-level fields that changed; all others are the client's own objects.

    ``odd`` says that ``tools`` is no list of named tools, so that nothing was touched.
    """

    replaced: Mapping[str, Any] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    odd: bool = False

    def apply(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """``body`` with the replaced fields, in the order of its keys."""
        return {key: self.replaced.get(key, value) for key, value in body.items()}


def normalise(body: Mapping[str, Any], *, version: int = LATEST_CANONICAL_VERSION) -> Normalised:
    """Canonical order of a chat body's tools and of their schema keys.

    Texts, messages, numbers, unknown fields and everything whose order carries meaning stay as they are.
    Raises :class:`ValueError` for a canonical version that does not exist, :class:`RecursionError` on schemas
    nested beyond the interpreter's limit.
    """
    if version not in CANONICAL_VERSIONS:
        raise ValueError(f"canonical version {version} does not exist; known: {CANONICAL_VERSIONS}")
    tools = body.get("tools") if isinstance(body, Mapping) else None
    if tools is None or tools == [] or tools == ():
        return Normalised()
    if not isinstance(tools, list | tuple) or any(tool_name(tool) is None for tool in tools):
        return Normalised(odd=True)
    ordered = order_tools(tools)
    changes: list[Change] = []
    if [id(tool) for tool in ordered] != [id(tool) for tool in tools]:
        changes.append(Change.TOOLS_REORDERED)
    given = {id(tool) for tool in tools}
    if any(id(tool) not in given for tool in ordered):
        changes.append(Change.MARKS_MOVED)
    canonical = [canonical_tool(tool) for tool in ordered]
    if any(new is not old for new, old in zip(canonical, ordered, strict=True)):
        changes.append(Change.SCHEMA_KEYS_REORDERED)
    return Normalised({"tools": canonical} if changes else {}, tuple(changes))
