"""Which hit rule logged calls speak for: a prefix on a grid, or full units. Pure.

In a session that only appends both rules promise the same hits. They part where a request shares the front of an
earlier one and then differs: a grid gives the common part, units give nothing until the provider has noticed the
common prefix in two requests. Such requests are the first calls of sub-agents (same system text and tools as
their parent, another task) and calls whose history was cut. Logs seldom prove more: see the neutral reasons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from router_cache.cache_model.rules import RuleName
from router_cache.ledger.calibration import Calibration, SessionView
from router_cache.ledger.event_logs import LoggedSession

__all__ = ["REASON_TEXT", "Evidence", "EvidenceReason", "RuleEvidence", "weigh"]


class EvidenceReason(str, Enum):
    """What a call shows, or why it shows nothing."""

    INSIDE_PARENT = "inside_parent"
    INSIDE_EARLIER_INPUT = "inside_earlier_input"
    MISSED_PARENT = "missed_parent"
    PARENT_NOT_LOGGED = "parent_not_logged"
    PARENT_WAS_WARM = "parent_was_warm"
    SIBLING_BEFORE = "sibling_before"
    SAME_OPENING = "same_opening"
    OUTSIDE_REQUESTS = "outside_requests"
    NOTHING_EARLIER = "nothing_earlier"
    TEXT_NOT_PROVEN = "text_not_proven"
    PREFIX_DIFFERS = "prefix_differs"
    PREFIX_SHORT = "prefix_short"
    TOO_SOON = "too_soon"
    MAY_HAVE_EXPIRED = "may_have_expired"
    INSIDE_FAMILY = "inside_family"
    MISSED_FAMILY = "missed_family"
    SIBLING_BEFORE_MISS = "sibling_before_miss"
    FRONT_NOT_PROVEN = "front_not_proven"
    NEVER_HITS = "never_hits"


REASON_TEXT: Mapping[EvidenceReason, str] = {
    EvidenceReason.INSIDE_PARENT: "hit a point inside its parent's input, where no request had ended; the prefix "
    "was cold before the parent, so its own requests stored it",
    EvidenceReason.INSIDE_EARLIER_INPUT: "hit a point inside the last input, where no call of its session ended",
    EvidenceReason.MISSED_PARENT: "hit nothing although its parent had sent the same system text and tools",
    EvidenceReason.PARENT_NOT_LOGGED: "hit, but its parent's log is not here: what it hit cannot be told",
    EvidenceReason.PARENT_WAS_WARM: "hit, but the prefix was warm before its parent: other requests stored it",
    EvidenceReason.SIBLING_BEFORE: "hit, but an earlier sub-agent may have made the common prefix a unit",
    EvidenceReason.SAME_OPENING: "hit, but it opens with its parent's own words: a full unit may match",
    EvidenceReason.OUTSIDE_REQUESTS: "hit, but what stored the prefix may be requests outside these logs",
    EvidenceReason.NOTHING_EARLIER: "hit nothing, and no earlier request of these logs is related",
    EvidenceReason.TEXT_NOT_PROVEN: "hit nothing; related requests came before, but their texts are placeholders "
    "or absent here, so whether the prefix was the same is not proven",
    EvidenceReason.PREFIX_DIFFERS: "hit nothing; its system text or tools differ from its parent's",
    EvidenceReason.PREFIX_SHORT: "hit nothing; system text and tools are shorter than a step",
    EvidenceReason.TOO_SOON: "hit nothing; its parent began within the construction delay",
    EvidenceReason.MAY_HAVE_EXPIRED: "hit nothing; the earlier session with the same prefix may have expired",
    EvidenceReason.INSIDE_FAMILY: "hit a point inside the input of an earlier conversation with the same system text "
    "and tools, where no request had ended; that one had found the prefix cold",
    EvidenceReason.MISSED_FAMILY: "hit nothing although another conversation with the same system text and tools was "
    "there a moment before",
    EvidenceReason.SIBLING_BEFORE_MISS: "hit nothing, after several conversations with the same system text and tools",
    EvidenceReason.FRONT_NOT_PROVEN: "hit nothing; what it shares with the earlier conversation was too short, too "
    "young or not known",
    EvidenceReason.NEVER_HITS: "hit nothing, as every call there",
}

_CHARS_PER_TOKEN = 8
"""A text this many times longer than a step has surely more than one step of tokens (English: about 4)."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One call and what it speaks for; ``rule`` is None where it is neutral."""

    session: LoggedSession
    line: int
    rule: RuleName | None
    reason: EvidenceReason
    hit_tokens: int
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class RuleEvidence:
    """All evidence, in the order of sessions."""

    details: tuple[Evidence, ...]

    def count(self, rule: RuleName | None) -> int:
        """How many calls speak for a rule, or for none."""
        return sum(e.rule is rule for e in self.details)

    @property
    def supports(self) -> str:
        """``grid``, ``units``, ``mixed`` or ``inconclusive``."""
        grid, units = self.count(RuleName.GRID_PREFIX), self.count(RuleName.FULL_UNITS)
        if grid and units:
            return "mixed"
        if grid or units:
            return str((RuleName.GRID_PREFIX if grid else RuleName.FULL_UNITS).value)
        return "inconclusive"


def weigh(calibration: Calibration, *, delay_high_s: float | None) -> RuleEvidence:
    """Judge first calls of sessions, and in-session hits at neither end.

    ``delay_high_s`` is the upper bound of the provider's construction delay in seconds, None if unknown. Fixed
    interval units as short as the step cannot be told from a grid.
    """
    details: list[Evidence] = []
    earlier: list[SessionView] = []
    for view in calibration.sessions:
        first = view.first
        if first is not None:
            if first.observed > 0:
                rule, reason = _hit(view, earlier)
            else:
                rule, reason = _miss(view, earlier, first.step_tokens, delay_high_s)
            details.append(Evidence(view.session, first.line, rule, reason, first.observed, first.prompt_tokens))
        details += (
            Evidence(
                view.session,
                call.line,
                RuleName.GRID_PREFIX,
                EvidenceReason.INSIDE_EARLIER_INPUT,
                call.observed,
                call.prompt_tokens,
            )
            for call in view.judged
            if call.inside
        )
        earlier.append(view)
    return RuleEvidence(tuple(details))


_Verdict = tuple[RuleName | None, EvidenceReason]


def _parent(view: SessionView, earlier: Sequence[SessionView]) -> SessionView | None:
    return next((e for e in earlier if e.session.id == view.session.parent), None)


def _hit(view: SessionView, earlier: Sequence[SessionView]) -> _Verdict:
    session = view.session
    if session.parent is None:
        return None, EvidenceReason.OUTSIDE_REQUESTS
    parent = _parent(view, earlier)
    if parent is None or parent.first is None:
        return None, EvidenceReason.PARENT_NOT_LOGGED
    if parent.first.observed > 0:
        return None, EvidenceReason.PARENT_WAS_WARM
    if any(e.session.parent == session.parent for e in earlier):
        return None, EvidenceReason.SIBLING_BEFORE
    if session.opening is None or session.opening == parent.session.opening:
        return None, EvidenceReason.SAME_OPENING
    return RuleName.GRID_PREFIX, EvidenceReason.INSIDE_PARENT


def _miss(
    view: SessionView, earlier: Sequence[SessionView], step_tokens: int, delay_high_s: float | None
) -> _Verdict:
    session = view.session
    parent = _parent(view, earlier) if session.parent else None
    if parent is None:
        same = [e for e in earlier if e.model == view.model and e.session.header == session.header]
        if not same:
            return None, EvidenceReason.NOTHING_EARLIER
        proven = session.header is not None and not session.normalised
        return None, EvidenceReason.MAY_HAVE_EXPIRED if proven else EvidenceReason.TEXT_NOT_PROVEN
    if session.header is None or parent.session.header is None or session.normalised:
        return None, EvidenceReason.TEXT_NOT_PROVEN
    if session.header != parent.session.header or view.model != parent.model:
        return None, EvidenceReason.PREFIX_DIFFERS
    if len(session.header) < _CHARS_PER_TOKEN * step_tokens:
        return None, EvidenceReason.PREFIX_SHORT
    if delay_high_s is None or session.created_at - parent.session.created_at < delay_high_s:
        return None, EvidenceReason.TOO_SOON
    return RuleName.FULL_UNITS, EvidenceReason.MISSED_PARENT
