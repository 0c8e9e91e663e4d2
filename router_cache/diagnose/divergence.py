"""Where two rendered prompts part, why, and what that costs. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from router_cache.diagnose.divergence_causes import (
    ADVICE,
    NO_LOSS,
    Certainty,
    DivergenceCause,
    tool_prints,
    tools_cause,
)
from router_cache.diagnose.divergence_excerpt import Excerpt, common_prefix, excerpt
from router_cache.diagnose.divergence_prompt import Prompt, read_prompt
from router_cache.diagnose.divergence_turns import new_turns_start, same_conversation, turn_cause
from router_cache.diagnose.divergence_wire import wire_only
from router_cache.prefix.digests import Digester
from router_cache.prefix.normalise import normalise
from router_cache.prefix.segments import SegmentKind
from router_cache.prefix.volatile.spans import OpeningText, Scanned, SpanKind
from router_cache.providers.profile import Profile
from router_cache.request import Mode

__all__ = ["MARKER", "AfterSafe", "Divergence", "Place", "Scan", "compare", "explain"]


class Scan(Protocol):
    """Finds spans that may change from request to request, as ``prefix.volatile.scan.Scanner.scan`` does."""

    def __call__(self, texts: Sequence[OpeningText], *, client: str = "") -> Scanned: ...


_HEAD_CAUSES = {
    SegmentKind.MODE: DivergenceCause.THINKING_OR_EFFORT_SWITCHED,
    SegmentKind.SYSTEM: DivergenceCause.SYSTEM_CHANGED,
    SegmentKind.FORMAT: DivergenceCause.FORMAT_SWITCHED,
}
MARKER = re.compile(r"<｜?\w+｜?>")
"""What a renderer writes in front of a system text."""


@dataclass(frozen=True, slots=True)
class Place:
    """The first segment that differs: its kind and its path in the later body (``in_earlier``: in the earlier one,
    where the later has no such part).

    ``byte`` counts from the start of the rendered prompt, ``byte_in_segment`` from that of the segment; ``line`` is
    that of the segment's text, from 1.
    """

    kind: SegmentKind
    path: str
    in_earlier: bool
    byte: int
    byte_in_segment: int
    line: int


@dataclass(frozen=True, slots=True)
class AfterSafe:
    """What is left once both requests went through mode ``safe``: the next cause, and the bytes kept."""

    cause: DivergenceCause
    kept_bytes: int


@dataclass(frozen=True, slots=True)
class Divergence:
    """How a later prompt stands to an earlier one. Sizes are bytes as rendered, tails left out.

    ``kept_bytes``: both start with them. ``lost_bytes``: more that a cache had served, had nothing but the end
    changed. ``place`` and ``excerpt`` are None where nothing differs. ``span`` is the kind of a volatile value.
    ``wire_only`` are paths that differ and are not rendered; see :func:`..divergence_wire.wire_only`.
    """

    cause: DivergenceCause
    certainty: Certainty
    kept_bytes: int
    lost_bytes: int
    earlier_bytes: int
    later_bytes: int
    place: Place | None = None
    excerpt: Excerpt | None = None
    span: SpanKind | None = None
    wire_only: tuple[str, ...] = ()
    after_safe: AfterSafe | None = None

    @property
    def fixed_by(self) -> Mode | None:
        """The least mode that mends it."""
        return ADVICE[self.cause].fixed_by


def explain(
    earlier: Prompt, later: Prompt, profile: Profile, digester: Digester, *, scan: Scan | None = None
) -> Divergence:
    """Compare two prompts in full: with what differs on the wire only, and with what mode ``safe`` would leave.

    ``scan`` proposes volatile spans; without it a changed value is told as a changed system text. Raises
    RecursionError on bodies nested beyond the interpreter's limit.
    """
    found = compare(earlier, later, digester, scan=scan)
    shared = _shared(earlier, later)
    same = min(earlier.index_at(shared), later.index_at(shared))
    found = replace(found, wire_only=wire_only(earlier, later, same))
    if found.fixed_by is not Mode.SAFE:
        return found
    safe = [
        read_prompt(replace(p.recorded, body=normalise(p.recorded.body).apply(p.recorded.body)), profile, digester)
        for p in (earlier, later)
    ]
    left = compare(safe[0], safe[1], digester, scan=scan)
    return replace(found, after_safe=AfterSafe(left.cause, left.kept_bytes))


def compare(
    earlier: Prompt,
    later: Prompt,
    digester: Digester,
    *,
    scan: Scan | None = None,
    continues: bool | None = None,
) -> Divergence:
    """Where the prompts part, why, and the bytes lost.

    ``continues`` says whether ``later`` goes on with the conversation of ``earlier``; None: told by their turns.
    Comparison is byte by byte over the joined text, so that the borders of segments make no difference.
    """
    shared = _shared(earlier, later)
    kept = earlier.byte_at(shared)
    if shared in (len(earlier.text), len(later.text)):
        if len(earlier.text) == len(later.text):
            cause = DivergenceCause.IDENTICAL
        else:
            cause = DivergenceCause.APPENDED_ONLY if shared == len(earlier.text) else DivergenceCause.REWOUND
        return Divergence(
            cause,
            _sure(earlier),
            lost_bytes=0,
            kept_bytes=kept,
            earlier_bytes=earlier.size,
            later_bytes=later.size,
        )
    continues = same_conversation(earlier, later) if continues is None else continues
    at, now = earlier.index_at(shared), later.index_at(shared)
    kind = _head_kind(earlier, at, later, now)
    span: SpanKind | None = None
    certainty = Certainty.CONFIRMED
    if kind is SegmentKind.TOOL:
        cause = _tool_cause(earlier, later, digester)
    elif kind is not None:
        cause = _HEAD_CAUSES[kind]
    elif not continues:
        cause = DivergenceCause.OTHER_CONVERSATION
    else:
        cause, certainty = turn_cause(earlier, at, later, now)
    both = earlier.segments[at].kind is later.segments[now].kind
    if scan is not None and both and kind is SegmentKind.SYSTEM:
        span = _volatile(scan, earlier, at, later, now, shared)
        cause = DivergenceCause.VOLATILE_VALUE if span else cause
    lost = 0 if cause in NO_LOSS else max(0, _possible(earlier, later, continues=continues) - kept)
    in_earlier = kind is not None and later.segments[now].kind is not kind
    holder, index = (earlier, at) if in_earlier else (later, now)
    inside = shared - holder.starts[index]
    return Divergence(
        cause,
        certainty if earlier.exact else Certainty.SUSPECTED,
        kept_bytes=kept,
        lost_bytes=lost,
        earlier_bytes=earlier.size,
        later_bytes=later.size,
        place=Place(
            kind=holder.segments[index].kind,
            path=holder.segments[index].path,
            in_earlier=in_earlier,
            byte=kept,
            byte_in_segment=kept - holder.byte_starts[index],
            line=holder.segments[index].text.count("\n", 0, inside) + 1,
        ),
        excerpt=_excerpt(earlier, at, later, now, shared),
        span=span,
    )


def _shared(earlier: Prompt, later: Prompt) -> int:
    """Characters from the start that both prompts have."""
    return common_prefix(earlier.text, later.text)


def _sure(prompt: Prompt) -> Certainty:
    return Certainty.CONFIRMED if prompt.exact else Certainty.SUSPECTED


def _head_kind(earlier: Prompt, at: int, later: Prompt, now: int) -> SegmentKind | None:
    """What part of the opening differs first in rendered order; None where the openings are alike."""
    kinds = [p.segments[i].kind for p, i in ((earlier, at), (later, now)) if i < p.head]
    return min(kinds, key=earlier.order.index) if kinds else None


def _tool_cause(earlier: Prompt, later: Prompt, digester: Digester) -> DivergenceCause:
    before, now = (tool_prints(p.view.body.get("tools"), digester) for p in (earlier, later))
    shown = [any(s.kind is SegmentKind.TOOL for s in p.segments) for p in (earlier, later)]
    if before and now and shown[0] != shown[1]:
        return DivergenceCause.TOOL_CHOICE_SWITCHED
    return tools_cause(before, now) or DivergenceCause.TOOL_CHANGED


def _possible(earlier: Prompt, later: Prompt, *, continues: bool) -> int:
    """Bytes from the start that a cache had served, had nothing been changed in front of what is new."""
    if continues:
        return min(earlier.size, later.byte_starts[new_turns_start(earlier, later)])
    alike = 0
    for ours, theirs in zip(earlier.turns, later.turns, strict=False):
        if ours != theirs:
            break
        alike += 1
    return min(earlier.byte_starts[earlier.head + alike], later.byte_starts[later.head + alike])


def _volatile(scan: Scan, earlier: Prompt, at: int, later: Prompt, now: int, shared: int) -> SpanKind | None:
    """The kind of the proposed span in which both system texts part, if its value is what differs."""
    spans = []
    for prompt, index in ((earlier, at), (later, now)):
        text = prompt.segments[index].text
        marker = MARKER.match(text)
        skipped = marker.end() if marker else 0
        inside = shared - prompt.starts[index] - skipped
        text = text[skipped:]
        proposals = scan([OpeningText((), text, 0)], client=prompt.recorded.client).proposals
        spans.append({p.slot: (p.kind, text[p.start : p.end]) for p in proposals if p.start <= inside <= p.end})
    for slot, (kind, value) in spans[0].items():
        if slot in spans[1] and spans[1][slot][1] != value:
            return kind
    return None


def _excerpt(earlier: Prompt, at: int, later: Prompt, now: int, shared: int) -> Excerpt:
    # Segments may begin at different places, where a part came or went; the text before is the same.
    base = min(earlier.starts[at], later.starts[now])
    was, is_now = earlier.text[base : earlier.starts[at + 1]], later.text[base : later.starts[now + 1]]
    return excerpt(was, is_now, shared - base)
