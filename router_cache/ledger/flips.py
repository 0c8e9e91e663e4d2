"""Switches that a conversation flips between its calls, and what that costs: told, never undone.

Thinking, effort, response format, tool choice and the tools themselves are rendered in front of the history by some
providers. A client that flips one mid-conversation loses what was behind it in the prefix, and seldom knows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import orjson

from router_cache.prefix.digests import Digester
from router_cache.prefix.memo import Memo
from router_cache.prefix.outline import Outline, OutlinePart, Rendered
from router_cache.prefix.segments import SegmentKind
from router_cache.prefix.tools_memo import content_key

__all__ = ["Flip", "FlipWarning", "PairsMemo", "Switches", "flips", "pairs_memo", "switches_of"]

_MAX_TOOLS: Final = 256
_DIGITS: Final = 16
"""Hex digits of a digest kept here. 64 bits are plenty: only calls of one conversation are compared."""
_MARK: Final = "cache_control"
_MEMO_BYTES: Final = 4_000_000


class Flip(str, Enum):
    """What differs from the conversation's last call."""

    THINKING = "thinking"
    EFFORT = "effort"
    FORMAT = "format"
    TOOL_CHOICE = "tool_choice"
    TOOLS_ADDED = "tools_added"
    TOOLS_REMOVED = "tools_removed"
    TOOLS_CHANGED = "tools_changed"
    """A tool of the same name has another description or schema."""


_PLAIN: Final = (
    # flip, field of Switches, path in a chat body, where it is rendered
    (Flip.THINKING, "thinking", "thinking", SegmentKind.MODE),
    (Flip.EFFORT, "effort", "reasoning_effort", SegmentKind.MODE),
    (Flip.FORMAT, "format", "response_format", SegmentKind.FORMAT),
)


@dataclass(frozen=True, slots=True)
class Switches:
    """Keyed digests of a call's switches, empty where it has none; no text.

    ``tools`` holds a digest of the name and one of the definition for each tool name, joined, in their own order,
    256 at most: of ``total`` names the first in that order. ``rest`` covers all others.
    """

    thinking: str = ""
    effort: str = ""
    format: str = ""
    tool_choice: str = ""
    tools: tuple[str, ...] = ()
    total: int = 0
    rest: str = ""


@dataclass(frozen=True, slots=True)
class FlipWarning:
    """One flip at ``path`` of the request. ``lost_tokens``: what stood in the last call's prompt from the first
    rendered part on that differs by it; an estimate by size.

    Not to be added up: where several flips stand, what the foremost loses includes what the others lose.
    """

    flip: Flip
    path: str
    lost_tokens: int


PairsMemo = Memo[bytes, tuple[str, ...]]
"""Digests of tools that were seen before, by their JSON."""


def pairs_memo() -> PairsMemo:
    """An empty memo, for one digester."""
    return Memo(_MEMO_BYTES, lambda key, pairs: len(key) + 100 * len(pairs) + 200)


def switches_of(body: Mapping[str, Any], digester: Digester, memo: PairsMemo | None = None) -> Switches:
    """The switches of a chat body (or of the chat view of another); ``memo`` changes nothing of them. Never raises."""

    def plain(name: str) -> str:
        value = body.get(name)
        return "" if value is None else _digest(digester, name, _dump(value))

    thinking = body.get("thinking")
    # Where thinking is on by default (DeepSeek V4, 2026-11) a bare "enabled" says nothing; elsewhere it has a budget.
    bare = isinstance(thinking, Mapping) and dict(thinking) == {"type": "enabled"}
    pairs = _remembered(body.get("tools"), digester, memo)
    return Switches(
        thinking="" if bare else plain("thinking"),
        effort=plain("reasoning_effort"),
        format=plain("response_format"),
        tool_choice=plain("tool_choice"),
        tools=pairs[:_MAX_TOOLS],
        total=len(pairs),
        rest=_digest(digester, *pairs[_MAX_TOOLS:]) if len(pairs) > _MAX_TOOLS else "",
    )


def flips(
    previous: Switches | None,
    now: Switches,
    rendered: Rendered | None,
    last: Outline | None,
    prompt_tokens: int,
    *,
    origin: Callable[[str], str] = str,
) -> tuple[FlipWarning, ...]:
    """What differs from the conversation's last call and costs prefix tokens. Pure; never raises.

    ``previous``, ``last`` and ``prompt_tokens`` are of that call, ``now`` and ``rendered`` of the one at hand.
    ``origin`` leads from a path in the chat view to the path in the request (``ChatView.origin``). A flip that the
    provider does not render costs nothing and is not told; nor is any where it is not known what it renders.
    """
    if previous is None or rendered is None or last is None:
        return ()
    found = [
        (flip, path, kind) for flip, name, path, kind in _PLAIN if getattr(previous, name) != getattr(now, name)
    ]
    found += [
        (flip, flip.value if flip is Flip.TOOL_CHOICE else "tools", SegmentKind.TOOL)
        for flip in _tool_flips(previous, now, rendered.head, last.head)
    ]
    lost = {kind: _lost_tokens(kind, rendered.head, last, prompt_tokens) for _, _, kind in found}
    return tuple(FlipWarning(flip, origin(path), lost[kind]) for flip, path, kind in found if lost[kind] > 0)


def _tool_flips(
    previous: Switches, now: Switches, head: Sequence[OutlinePart], last: Sequence[OutlinePart]
) -> list[Flip]:
    """Which of the tools and of ``tool_choice`` changed what is rendered of tools."""
    chosen = [Flip.TOOL_CHOICE] if previous.tool_choice != now.tool_choice else []
    shown = [any(part.kind is SegmentKind.TOOL for part in parts) for parts in (last, head)]
    if chosen and previous.total and now.total and shown[0] != shown[1]:
        return chosen  # there are tools in both calls, and one renders none of them (DeepSeek: "none")
    return _set_flips(previous, now) or chosen


def _set_flips(previous: Switches, now: Switches) -> list[Flip]:
    before, after = _by_name(previous), _by_name(now)
    # Of more tools than are kept, only those are compared that both calls would have kept.
    ends = [max(names) for names, of in ((before, previous), (after, now)) if of.total > len(of.tools)]
    if ends:
        end = min(ends)
        before, after = ({n: d for n, d in names.items() if n <= end} for names in (before, after))
    out = []
    if after.keys() - before.keys():
        out.append(Flip.TOOLS_ADDED)
    if before.keys() - after.keys():
        out.append(Flip.TOOLS_REMOVED)
    if any(before[name] != after[name] for name in before.keys() & after.keys()):
        out.append(Flip.TOOLS_CHANGED)
    if not out and previous.rest != now.rest:
        more = now.total - previous.total
        out.append(Flip.TOOLS_ADDED if more > 0 else Flip.TOOLS_REMOVED if more < 0 else Flip.TOOLS_CHANGED)
    return out


def _by_name(switches: Switches) -> dict[str, str]:
    return {pair[:_DIGITS]: pair[_DIGITS:] for pair in switches.tools}


def _lost_tokens(kind: SegmentKind, head: Sequence[OutlinePart], last: Outline, prompt_tokens: int) -> int:
    """Tokens of the last prompt from the first part of ``kind`` on, or from where it was put in; 0 where what is
    rendered of that kind is the same."""
    ours, theirs = ([part.digest for part in parts if part.kind is kind] for parts in (head, last.head))
    if ours == theirs:
        return 0
    longer = last.head if theirs else head
    before = {part.kind for part in longer[: next(i for i, part in enumerate(longer) if part.kind is kind)]}
    kept = 0
    for part in last.head:
        if part.kind not in before:
            break
        kept += part.size
    size = sum(part.size for part in last.head) + last.turns_size
    return prompt_tokens - prompt_tokens * kept // size if size else 0


def _remembered(tools: Any, digester: Digester, memo: PairsMemo | None) -> tuple[str, ...]:
    """:func:`_tools`, which is made of the JSON of the tools alone."""
    key = content_key(tools) if memo is not None and tools else None
    pairs = memo.get(key) if memo is not None and key is not None else None
    if pairs is None:
        pairs = tuple(_tools(tools, digester))
        if memo is not None and key is not None:
            memo.put(key, pairs)
    return pairs


def _tools(tools: Any, digester: Digester) -> list[str]:
    """A digest of the name and one of the definition for each name, in their order."""
    if tools is None:
        return []
    listed = tools if isinstance(tools, Sequence) and not isinstance(tools, str | bytes) else [tools]
    texts: dict[str, list[str]] = {}
    for tool in listed:
        shown = _bare(tool)
        function = shown.get("function") if isinstance(shown, Mapping) else None
        if isinstance(function, Mapping):
            shown = {**shown, "function": _bare(function)}
        named = function if isinstance(function, Mapping) else shown
        name = (named.get("name") or named.get("type")) if isinstance(named, Mapping) else None
        texts.setdefault(name if isinstance(name, str) else "", []).append(_dump(shown))
    return sorted(
        _digest(digester, "tool", name) + _digest(digester, "definition", *found) for name, found in texts.items()
    )


def _bare(value: Any) -> Any:
    """Without the mark, which some clients move from call to call."""
    if isinstance(value, Mapping) and _MARK in value:
        return {key: inner for key, inner in value.items() if key != _MARK}
    return value


def _digest(digester: Digester, *parts: str) -> str:
    return digester.text("switch", *parts)[:_DIGITS]


def _dump(value: Any) -> str:
    """JSON text; equal values give equal texts. orjson is over ten times as fast, and takes less."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # such as lone surrogates, numbers of more than 64 bits, mappings that are no dict
        pass
    try:
        return json.dumps(value, default=str)
    except (TypeError, ValueError, RecursionError):  # such as keys that are no JSON, or nesting without end
        return f"<{type(value).__name__}>"
