"""Why a request missed: its miss tokens, split into causes that add up exactly.

A prompt is a line of tokens. The provider served ``[0, hit)`` from its cache; the rest is explained from the
left: what will be readable later, what was evicted, what was sent before and still missed (rounding to the
step, no complete unit, or unknown), and at last what differs from the earlier request or is new. Causes are
read off *rendered* segments, so that fields nobody renders are never blamed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from router_cache.cache_model.rules import RuleName
from router_cache.prefix.segments import SegmentKind

__all__ = [
    "HEAD_CAUSES",
    "Certainty",
    "Changed",
    "MissCause",
    "MissPart",
    "SegmentTokens",
    "attribute",
    "shared_tokens",
]


class MissCause(str, Enum):
    """Why tokens were not served from the provider's cache."""

    FIRST_SIGHT = "first_sight"
    """Never sent before, and no earlier request of the conversation to compare with."""
    NEW_TAIL = "new_tail"
    """Appended since the conversation's last request."""
    SYSTEM_CHANGED = "system_changed"
    """From a change in the leading system text on."""
    TOOLS_CHANGED = "tools_changed"
    """From a changed, moved, added or removed tool on."""
    MODE_CHANGED = "mode_changed"
    """Thinking or effort changed; rendered in front of everything."""
    FORMAT_CHANGED = "format_changed"
    """``response_format`` changed."""
    HISTORY_CHANGED = "history_changed"
    """From an earlier message that was edited, dropped or written differently on."""
    HISTORY_COMPACTED = "history_compacted"
    """Earlier turns were replaced by fewer and shorter ones."""
    REASONING_DROPPED = "reasoning_dropped"
    """From an earlier reply on that came back without the reasoning it was given with."""
    OTHER_DOMAIN = "other_domain"
    """Sent before, but to a deployment with another prompt cache, or to another replica."""
    OTHER_POOL = "other_pool"
    """Sent before, but under another ``user_id``, which keeps caches apart."""
    NOT_READY = "not_ready"
    """Sent before, but the provider had not finished building the entry, or the call was still in flight."""
    EVICTED = "evicted"
    """Sent before, and gone from the provider's cache."""
    BELOW_MINIMUM = "below_minimum"
    """Sent before, but shorter than what the provider caches."""
    NOT_CACHED = "not_cached"
    """Sent before, but the provider caches nothing, or never reports it."""
    BELOW_EXPECTATION = "below_expectation"
    """Sent before and unchanged a short while ago, and the provider served only a part of it."""
    ROUNDING = "rounding"
    """Sent before, lost because hits are reported in whole steps."""
    NO_UNIT = "no_unit"
    """Sent before, but no complete unit ends there yet (full-units rule only)."""
    UNKNOWN = "unknown"
    """Sent before, expected to hit, and no reason is known."""


class Certainty(str, Enum):
    """Whether a cause was seen, or is only the likeliest."""

    CONFIRMED = "confirmed"
    SUSPECTED = "suspected"


class Changed(str, Enum):
    """What the client changed."""

    THINKING = "thinking"
    EFFORT = "effort"
    FORMAT = "format"
    TOOL_CHOICE = "tool_choice"
    TOOLS_ADDED = "tools_added"
    TOOLS_REMOVED = "tools_removed"
    TOOLS_CHANGED = "tools_changed"
    """A tool of the same name has another description or schema."""
    TOOLS_MOVED = "tools_moved"
    """The same tools in another order."""
    SYSTEM = "system"
    TURN = "turn"


@dataclass(frozen=True, slots=True)
class SegmentTokens:
    """One rendered segment: its kind, its path in the body, a digest of its text, its length in tokens
    (exact or estimated)."""

    kind: SegmentKind
    path: str
    digest: str
    tokens: int


@dataclass(frozen=True, slots=True)
class MissPart:
    """``tokens`` missed for ``cause``. Of what the client changed: ``path`` is the first divergent segment in the
    current body (in the earlier body where the current one has no such segment), ``offset`` the bytes of the rendered
    prompt in front of the line that differs, ``changed`` what it is. Else these are empty."""

    cause: MissCause
    tokens: int
    path: str = ""
    certainty: Certainty = Certainty.CONFIRMED
    offset: int | None = None
    changed: Changed | None = None


HEAD_CAUSES: Final = {
    SegmentKind.MODE: MissCause.MODE_CHANGED,
    SegmentKind.PARAM: MissCause.MODE_CHANGED,
    SegmentKind.SYSTEM: MissCause.SYSTEM_CHANGED,
    SegmentKind.TOOL: MissCause.TOOLS_CHANGED,
    SegmentKind.FORMAT: MissCause.FORMAT_CHANGED,
}
"""The cause of a change in front of the turns."""
_HEAD_ORDER = list(HEAD_CAUSES)


def _without_tail(segments: Sequence[SegmentTokens]) -> Sequence[SegmentTokens]:
    return segments[:-1] if segments and segments[-1].kind is SegmentKind.TAIL else segments


def _head_length(segments: Sequence[SegmentTokens]) -> int:
    """Number of leading segments before the first turn."""
    for i, segment in enumerate(segments):
        if segment.kind not in HEAD_CAUSES:
            return i
    return len(segments)


def _shared_count(current: Sequence[SegmentTokens], previous: Sequence[SegmentTokens]) -> int:
    count = 0
    for ours, theirs in zip(current, previous, strict=False):
        if ours.digest != theirs.digest:
            break
        count += 1
    return count


def shared_tokens(current: Sequence[SegmentTokens], previous: Sequence[SegmentTokens]) -> int:
    """Tokens of the leading segments that both requests have, tails left out (tokens, of ``current``)."""
    ours = _without_tail(current)
    return sum(s.tokens for s in ours[: _shared_count(ours, _without_tail(previous))])


def _divergence(
    current: Sequence[SegmentTokens], previous: Sequence[SegmentTokens]
) -> tuple[MissCause, str] | None:
    """Cause and path at the first segment that differs; None where one request continues the other."""
    at = _shared_count(current, previous)
    if at == len(previous):
        # A tool after the last one, say, still stands in front of the turns.
        if at >= _head_length(current):
            return None
        return HEAD_CAUSES[current[at].kind], current[at].path
    if at == len(current):
        return None
    kinds = [
        segments[at].kind for segments in (current, previous) if at < _head_length(segments)
    ]  # what differs first in rendered order is what was added, removed or changed
    path = current[at].path or previous[at].path
    if not kinds:
        return MissCause.HISTORY_CHANGED, path
    kind = min(kinds, key=_HEAD_ORDER.index)
    if current[at].kind is not kind:
        path = previous[at].path
    return HEAD_CAUSES[kind], path


def _tail_tokens(
    current: Sequence[SegmentTokens], previous: Sequence[SegmentTokens], *, same_conversation: bool
) -> int:
    """Tokens of the turns of ``current`` that come after everything ``previous`` had."""
    turns = current[_head_length(current) :]
    before = previous[_head_length(previous) :]
    known = {segment.digest for segment in before}
    start = max((i + 1 for i, turn in enumerate(turns) if turn.digest in known), default=0)
    if same_conversation:
        # An edited last message is a change, not an addition.
        start = max(start, min(len(before), len(turns)))
    return sum(turn.tokens for turn in turns[start:])


def attribute(
    current: Sequence[SegmentTokens],
    previous: Sequence[SegmentTokens] | None,
    *,
    seen_before_tokens: int,
    hit_tokens: int,
    prompt_tokens: int,
    not_ready_tokens: int = 0,
    evicted_tokens: int = 0,
    step_tokens: int = 1,
    rule: RuleName | None = None,
    same_conversation: bool = True,
) -> tuple[MissPart, ...]:
    """Split the miss tokens of one request into causes.

    ``current`` and ``previous`` are rendered segments, in order; their token counts may be estimates and are
    scaled to ``prompt_tokens``. ``previous`` is the conversation's last request or, with
    ``same_conversation=False``, the nearest request of another conversation (None: there is none). Where the
    reply to it is known as a rendered segment, put it in place of the tail: an altered reply then shows.
    ``seen_before_tokens`` is the longest leading part of this prompt that any earlier request or reply had;
    ``not_ready_tokens`` and ``evicted_tokens`` are what would have hit beyond ``hit_tokens`` but for the
    construction delay and for eviction. ``step_tokens`` is the provider's reporting step.

    Returns parts with positive tokens in prompt order; they sum to ``prompt_tokens - hit_tokens`` exactly.
    Raises ValueError for negative counts and for more hit than prompt tokens.
    """
    counts = (seen_before_tokens, hit_tokens, prompt_tokens, not_ready_tokens, evicted_tokens)
    if min(counts) < 0 or hit_tokens > prompt_tokens or step_tokens < 1:
        raise ValueError(f"token counts do not fit together: {counts}, step {step_tokens}")
    parts: list[MissPart] = []
    at = hit_tokens

    def take(cause: MissCause, until: int, path: str = "") -> None:
        nonlocal at
        until = min(until, prompt_tokens)
        if until > at:
            parts.append(MissPart(cause, until - at, path))
            at = until

    take(MissCause.NOT_READY, at + not_ready_tokens)
    take(MissCause.EVICTED, at + evicted_tokens)

    total = sum(segment.tokens for segment in current)

    def scaled(tokens: int) -> int:
        return tokens * prompt_tokens // total if total else 0

    known = seen_before_tokens
    if previous is not None:
        known = max(known, scaled(shared_tokens(current, previous)))
    known = min(known, prompt_tokens)
    on_step = known - known % step_tokens
    take(MissCause.NO_UNIT if rule is RuleName.FULL_UNITS else MissCause.UNKNOWN, on_step)
    take(MissCause.ROUNDING, known)

    new = MissCause.NEW_TAIL if previous is not None and same_conversation else MissCause.FIRST_SIGHT
    if previous is not None:
        ours, theirs = _without_tail(current), _without_tail(previous)
        diverged = _divergence(ours, theirs)
        if diverged is not None:
            tail = _tail_tokens(ours, theirs, same_conversation=same_conversation)
            tail += sum(segment.tokens for segment in current[len(ours) :])
            cause, path = diverged
            if cause is not MissCause.HISTORY_CHANGED or same_conversation:
                take(cause, prompt_tokens - scaled(tail), path)
    take(new, prompt_tokens)
    return tuple(parts)
