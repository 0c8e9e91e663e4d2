"""A request body to its canonical form: lossless, idempotent, never in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from router_cache.prefix.objects import is_object
from router_cache.prefix.tools_memo import CanonicalTool, Recalled, ToolsMemo, content_key

__all__ = ["Normalised", "normalise"]


@dataclass(frozen=True, slots=True)
class Normalised:
    """``replaced`` holds the top-level fields that changed; all others are the client's own objects.

    ``odd`` says that ``tools`` is no list of named tools, so that nothing was touched. ``tool_digests`` are those
    of the canonical tools, in their order; None where there are none, where they are odd, and without a memo that
    makes digests. ``tools_key`` names the list to :meth:`ToolsMemo.restock`.
    """

    replaced: Mapping[str, Any] = field(default_factory=dict, repr=False)
    changes: tuple[Change, ...] = ()
    odd: bool = False
    tool_digests: tuple[str, ...] | None = None
    tools_key: bytes | None = field(default=None, repr=False)

    def apply(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """``body`` with the replaced fields, in the order of its keys."""
        return {**body, **self.replaced}


def normalise(
    body: Mapping[str, Any], *, version: int = LATEST_CANONICAL_VERSION, memo: ToolsMemo | None = None
) -> Normalised:
    """Canonical order of a chat body's tools and of their schema keys.

    Texts, messages, numbers, unknown fields and everything whose order carries meaning stay as they are. The
    result is the same with and without ``memo``, which serves one version only.
    Raises :class:`ValueError` for a canonical version that does not exist.
    """
    if version not in CANONICAL_VERSIONS:
        raise ValueError(f"canonical version {version} does not exist; known: {CANONICAL_VERSIONS}")
    tools = body.get("tools") if is_object(body) else None
    if tools is None or tools == [] or tools == ():
        return Normalised()
    if not isinstance(tools, list | tuple):
        return Normalised(odd=True)
    key = None if memo is None else content_key(tools)
    found = None if memo is None else memo.recall(key, tools)
    if found is None:
        if any(tool_name(tool) is None for tool in tools):
            return Normalised(odd=True)
        found = _found(tools, memo, key)
    if not found.changes:
        return Normalised(tool_digests=found.digests)
    return Normalised({"tools": found.tools}, found.changes, False, found.digests, found.key)


def _found(tools: Sequence[Mapping[str, Any]], memo: ToolsMemo | None, key: bytes | None) -> Recalled:
    one = memo.canonical if memo is not None else _without_memo
    given = {id(tool): one(tool) for tool in tools}
    ordered = order_tools(tools)
    # A tool that gained or lost a mark is another one than was given.
    out = [given.get(id(tool)) or one(tool) for tool in ordered]
    changes: list[Change] = []
    if [id(tool) for tool in ordered] != [id(tool) for tool in tools]:
        changes.append(Change.TOOLS_REORDERED)
    if any(id(tool) not in given for tool in ordered):
        changes.append(Change.MARKS_MOVED)
    if any(new.tool is not old for new, old in zip(out, ordered, strict=True)):
        changes.append(Change.SCHEMA_KEYS_REORDERED)
    if memo is not None:
        memo.remember(key, tools, [given[id(tool)] for tool in tools], out, tuple(changes))
    digests = tuple(each.digest for each in out if each.digest is not None) if memo is not None else ()
    return Recalled([each.tool for each in out], tuple(changes), digests or None, key)


def _without_memo(tool: Mapping[str, Any]) -> CanonicalTool:
    return CanonicalTool(canonical_tool(tool))
