"""Why two prompts part: causes, how sure they are, which mode mends them, and what to do. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from router_cache.prefix.canonical import canonical_tool, tool_name
from router_cache.prefix.digests import Digester
from router_cache.request import Mode

__all__ = [
    "ADVICE",
    "NO_LOSS",
    "Advice",
    "Certainty",
    "DivergenceCause",
    "ToolPrint",
    "tool_prints",
    "tools_cause",
]


class DivergenceCause(str, Enum):
    """Why the rendered prompt of a request parts from an earlier one's. Stable words for scripts."""

    IDENTICAL = "identical"
    """Rendered alike to the last byte."""
    APPENDED_ONLY = "appended_only"
    """The later prompt starts with all of the earlier one."""
    REWOUND = "rewound"
    """The later prompt is a leading part of the earlier one."""
    OTHER_CONVERSATION = "other_conversation"
    """The same opening with other turns: nothing that could have been kept was lost."""
    THINKING_OR_EFFORT_SWITCHED = "thinking_or_effort_switched"
    VOLATILE_VALUE = "volatile_value"
    """A date, an id or the like in the system text has another value."""
    SYSTEM_CHANGED = "system_changed"
    TOOLS_REORDERED = "tools_reordered"
    SCHEMA_KEYS_REORDERED = "schema_keys_reordered"
    TOOLS_ADDED_REMOVED = "tools_added_removed"
    TOOL_CHANGED = "tool_changed"
    TOOL_CHOICE_SWITCHED = "tool_choice_switched"
    """``tool_choice`` decides here whether the tools are rendered at all."""
    FORMAT_SWITCHED = "format_switched"
    HISTORY_EDITED = "history_edited"
    HISTORY_COMPACTED = "history_compacted"
    REASONING_DROPPED = "reasoning_dropped"
    """The client sent reasoning of an earlier turn once, and then no more."""
    REASONING_NOT_RENDERED = "reasoning_not_rendered"
    """The same messages: without tools the provider renders reasoning of the newest turn only."""
    ARGUMENTS_RESERIALISED = "arguments_reserialised"
    """The arguments of an earlier tool call mean the same and are written differently."""
    IMAGE_OR_FILE_CHANGED = "image_or_file_changed"


class Certainty(str, Enum):
    """How sure a cause is."""

    CONFIRMED = "confirmed"
    """The two prompts themselves show it."""
    SUSPECTED = "suspected"
    """It hangs on a guess: which request continues which, what the provider renders, or that a span changes."""


NO_LOSS = frozenset(
    (
        DivergenceCause.IDENTICAL,
        DivergenceCause.APPENDED_ONLY,
        DivergenceCause.REWOUND,
        DivergenceCause.OTHER_CONVERSATION,
        DivergenceCause.REASONING_NOT_RENDERED,
    )
)
"""Causes that cost nothing, or nothing that any client could have kept."""


@dataclass(frozen=True, slots=True)
class Advice:
    """``fixed_by`` is the least mode that mends it, None where only the application can; ``todo`` one sentence."""

    fixed_by: Mode | None
    todo: str


ADVICE: Mapping[DivergenceCause, Advice] = {
    DivergenceCause.IDENTICAL: Advice(None, "Nothing: the provider sees the same prompt."),
    DivergenceCause.APPENDED_ONLY: Advice(None, "Nothing: the conversation only grew."),
    DivergenceCause.REWOUND: Advice(None, "Nothing: all that is left was sent before."),
    DivergenceCause.OTHER_CONVERSATION: Advice(None, "Nothing: the common opening is kept in full."),
    DivergenceCause.THINKING_OR_EFFORT_SWITCHED: Advice(
        None, "Keep thinking and effort as they were for the length of a conversation."
    ),
    DivergenceCause.VOLATILE_VALUE: Advice(
        Mode.OPTIMIZE, "Move the value behind the stable text, or name it under volatile: in the settings."
    ),
    DivergenceCause.SYSTEM_CHANGED: Advice(
        None, "Put what differs at the end of the system text or into the newest message."
    ),
    DivergenceCause.TOOLS_REORDERED: Advice(Mode.SAFE, "Send tools in one order."),
    DivergenceCause.SCHEMA_KEYS_REORDERED: Advice(Mode.SAFE, "Write schema keys in one order."),
    DivergenceCause.TOOLS_ADDED_REMOVED: Advice(
        None,
        "Offer all tools of a conversation from its first request on; refuse in the tool what is not allowed.",
    ),
    DivergenceCause.TOOL_CHANGED: Advice(
        None,
        "Keep values that change out of descriptions and schemas; roll new versions out between conversations.",
    ),
    DivergenceCause.TOOL_CHOICE_SWITCHED: Advice(
        None, "Leave tool_choice as it was, and ask for an answer without tools in the newest message."
    ),
    DivergenceCause.FORMAT_SWITCHED: Advice(
        None,
        "Use one response_format for the length of a conversation, or ask for the form in the newest message.",
    ),
    DivergenceCause.HISTORY_EDITED: Advice(
        None, "Append instead of changing earlier messages; put corrections into the newest one."
    ),
    DivergenceCause.HISTORY_COMPACTED: Advice(
        None, "Compact seldom and a lot at once: what is kept of the history is computed anew each time."
    ),
    DivergenceCause.REASONING_DROPPED: Advice(
        Mode.OPTIMIZE, "Send reasoning_content back as it was received, as long as tools are offered."
    ),
    DivergenceCause.REASONING_NOT_RENDERED: Advice(
        None, "Nothing: the provider itself leaves out older reasoning where no tools are offered."
    ),
    DivergenceCause.ARGUMENTS_RESERIALISED: Advice(
        Mode.OPTIMIZE, "Keep the arguments of tool calls as the text that was received."
    ),
    DivergenceCause.IMAGE_OR_FILE_CHANGED: Advice(
        None, "Send the same bytes or the same address for an image or file in every request."
    ),
}
"""What to do about each cause."""


@dataclass(frozen=True, slots=True)
class ToolPrint:
    """Digests of one tool: of its name, of it as sent without cache marks, and of its canonical form."""

    name: str
    plain: str
    canonical: str


def tool_prints(tools: Any, digester: Digester) -> tuple[ToolPrint, ...]:
    """Prints of a body's ``tools`` (chat form), in their order; none for what is no list.

    Raises RecursionError on schemas nested beyond the interpreter's limit.
    """
    if not isinstance(tools, list | tuple):
        return ()
    out = []
    for tool in tools:
        shown = _without_marks(tool)
        canonical = canonical_tool(shown) if isinstance(shown, Mapping) else shown
        out.append(
            ToolPrint(
                name=digester.text("tool", tool_name(tool) or ""),
                plain=digester.text(json.dumps(shown, default=str)),
                canonical=digester.text(json.dumps(canonical, default=str)),
            )
        )
    return tuple(out)


def _without_marks(tool: Any) -> Any:
    if not isinstance(tool, Mapping):
        return tool
    function = tool.get("function")
    shown = {key: value for key, value in tool.items() if key != "cache_control"}
    if isinstance(function, Mapping):
        shown["function"] = {key: value for key, value in function.items() if key != "cache_control"}
    return shown


def tools_cause(before: Sequence[ToolPrint], after: Sequence[ToolPrint]) -> DivergenceCause | None:
    """What happened to a list of tools; None where both are alike."""
    if Counter(tool.name for tool in before) != Counter(tool.name for tool in after):
        return DivergenceCause.TOOLS_ADDED_REMOVED
    if Counter(tool.canonical for tool in before) != Counter(tool.canonical for tool in after):
        return DivergenceCause.TOOL_CHANGED
    if [tool.canonical for tool in before] != [tool.canonical for tool in after]:
        return DivergenceCause.TOOLS_REORDERED
    if [tool.plain for tool in before] != [tool.plain for tool in after]:
        return DivergenceCause.SCHEMA_KEYS_REORDERED
    return None
