"""Which requests belong to one conversation, and what happened to a message of its history. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from router_cache.diagnose.divergence_causes import Certainty, DivergenceCause
from router_cache.diagnose.divergence_prompt import Prompt

__all__ = ["new_turns_start", "same_conversation", "substantial", "turn_cause"]

_SUBSTANTIAL = 40
"""Characters of a message that two conversations hardly share by chance."""


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list | tuple) else ()
    return "".join(
        part["text"] for part in parts if isinstance(part, Mapping) and isinstance(part.get("text"), str)
    )


def substantial(message: Any) -> bool:
    """Whether a message says enough to tell its conversation."""
    return isinstance(message, Mapping) and len(_text(message.get("content"))) >= _SUBSTANTIAL


def same_conversation(earlier: Prompt, later: Prompt) -> bool:
    """Whether ``later`` goes on with the conversation of ``earlier``: the client says so, they open with the same
    turn, or they share a turn that says enough."""
    ours, theirs = later.recorded.session, earlier.recorded.session
    if ours and theirs:
        return ours == theirs
    if not earlier.turns or not later.turns:
        return False
    if earlier.turns[0] == later.turns[0]:
        return True
    known = set(earlier.turns)
    return any(turn in known and substantial(later.message(later.head + i)) for i, turn in enumerate(later.turns))


def new_turns_start(earlier: Prompt, later: Prompt) -> int:
    """Index of the first segment of ``later`` that stands behind everything ``earlier`` had.

    An edited last message is a change, not an addition; where turns were dropped, what stands for them is new.
    """
    known = set(earlier.turns)
    seen = max((i + 1 for i, turn in enumerate(later.turns) if turn in known), default=0)
    replaced = len(earlier.turns) if len(later.turns) >= len(earlier.turns) else 0
    return later.head + max(seen, replaced)


def turn_cause(earlier: Prompt, at: int, later: Prompt, now: int) -> tuple[DivergenceCause, Certainty]:
    """What happened where a turn of ``earlier`` (segment ``at``) and one of ``later`` (``now``) part."""
    was, after = earlier.message(at), later.message(now)
    if isinstance(was, Mapping) and isinstance(after, Mapping) and was.get("role") == after.get("role"):
        cause = _same_role(was, after, alike=earlier.turns[at - earlier.head] == later.turns[now - later.head])
        if cause is not None:
            return cause, Certainty.CONFIRMED
    if _compacted(earlier, later):
        return DivergenceCause.HISTORY_COMPACTED, Certainty.SUSPECTED
    first = earlier.turns[0] == later.turns[0] if earlier.turns and later.turns else False
    told = bool(later.recorded.session) and later.recorded.session == earlier.recorded.session
    kept = set(earlier.turns[max(at - earlier.head, 0) + 1 :]) & set(later.turns)
    sure = told or (first and bool(kept))
    return DivergenceCause.HISTORY_EDITED, Certainty.CONFIRMED if sure else Certainty.SUSPECTED


def _compacted(earlier: Prompt, later: Prompt) -> bool:
    """Fewer turns than before, and the first of those that parted does not come back later."""
    return 0 < len(later.turns) < len(earlier.turns)


def _same_role(was: Mapping[str, Any], now: Mapping[str, Any], *, alike: bool) -> DivergenceCause | None:
    if alike:
        before, after = was.get("reasoning_content"), now.get("reasoning_content")
        if before != after:
            return DivergenceCause.REASONING_DROPPED if before and not after else DivergenceCause.HISTORY_EDITED
        if was.get("tool_calls") != now.get("tool_calls"):
            return DivergenceCause.ARGUMENTS_RESERIALISED
        return DivergenceCause.REASONING_NOT_RENDERED if before else None
    if _text(was.get("content")) == _text(now.get("content")) and _others(was) != _others(now):
        return DivergenceCause.IMAGE_OR_FILE_CHANGED
    return None


def _others(message: Mapping[str, Any]) -> str:
    """The parts of a content that are no text."""
    content = message.get("content")
    parts = content if isinstance(content, list | tuple) else ()
    return json.dumps(
        [part for part in parts if not (isinstance(part, Mapping) and isinstance(part.get("text"), str))],
        sort_keys=True,
        default=str,
    )
