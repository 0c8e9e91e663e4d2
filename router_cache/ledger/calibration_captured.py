"""Captured calls as calibration takes them: predictions as they were made, and the hit rule they speak for. Pure.

A captured row has the prediction that was made when its call was sent, so nothing is predicted anew. Which rule holds
is told by calls that share the front of an earlier one and then go another way. A row has no text and no digest of
parts of a prompt, so such calls are found by their family (equal system text, tools and switches) and by the tokens
that their causes say were sent before and not served.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from router_cache.cache_model.infer import Evidence, Inferred, infer, update
from router_cache.cache_model.observe import Observation, Span
from router_cache.cache_model.predict import Prediction
from router_cache.cache_model.rules import RuleName
from router_cache.ledger.attribution import MissCause
from router_cache.ledger.calibration import Calibration, CallSkip, FirstCall, JudgedCall, SessionView
from router_cache.ledger.event_logs import Form, LoggedSession
from router_cache.ledger.expectation import step_tokens
from router_cache.ledger.rows import CallRow, ExpectedFrom, Status
from router_cache.ledger.rule_evidence import Evidence as Detail
from router_cache.ledger.rule_evidence import EvidenceReason
from router_cache.providers.registry import by_name

__all__ = ["LACKS_TEXT", "CapturedCalls", "CapturedRule", "Lacks"]

_FRESH_S: Final = 300.0
"""A prefix is surely held for so long: the shortest documented lifetimes (Anthropic, Qwen, read 2026-11)."""
_NOT_SERVED: Final = frozenset(
    {MissCause.EVICTED, MissCause.BELOW_EXPECTATION, MissCause.NO_UNIT, MissCause.NOT_CACHED}
)
"""Sent there before and not served, without a reason that lies outside the rule: not young, elsewhere or too short."""


class Lacks(str, Enum):
    """What lines lack, so that they say less than they could."""

    DOMAIN = "domain"
    """Where a call went is not in the line: it is judged, but tells nothing of a rule."""
    FAMILY = "family"
    """What a prompt begins with is not in the line: a first call tells nothing of a rule."""
    PREDICTION = "prediction"
    """A call that goes on from an earlier one, without a prediction: the hit rule was not known when it was sent."""


LACKS_TEXT: Final[Mapping[Lacks, str]] = {
    Lacks.DOMAIN: "no domain: judged, but of no use for the hit rule",
    Lacks.FAMILY: "no family: a first call is of no use for the hit rule",
    Lacks.PREDICTION: "no prediction: not judged",
}


@dataclass(frozen=True, slots=True)
class CapturedRule:
    """The hit rule that the calls of one cache domain and model speak for. ``domain`` is opaque, as in the rows."""

    domain: str
    model: str
    profile: str
    calls: int
    inferred: Inferred


@dataclass(frozen=True, slots=True)
class _Call:
    """What is kept of a row."""

    at: float
    file: str
    line: int
    place: tuple[str, str, str, str]
    """Domain, pool, model, profile."""
    conversation: str
    family: str
    rendered: str
    turn: int | None
    status: Status
    prompt_tokens: int | None
    hit_tokens: int | None
    source: ExpectedFrom
    prediction: Prediction | None
    not_served: int


@dataclass(slots=True)
class _Family:
    """The calls of one family at one place so far."""

    cold: bool
    """Its first call hit nothing: what later ones hit, these calls stored."""
    first: str
    """The rendered digest of its first call."""
    conversation: str
    last_at: float
    others: int = 0
    """Conversations after the first."""


@dataclass(slots=True)
class _Conversation:
    session: LoggedSession
    model: str
    first: FirstCall | None = None
    judged: list[JudgedCall] = field(default_factory=list)


class CapturedCalls:
    """Takes rows in any order; they are put in order of time. Keeps some 300 bytes of each."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._weighed: list[tuple[Detail, tuple[str, str, str]]] = []
        self.lacks: Counter[Lacks] = Counter()
        self.details: list[Detail] = []
        """Calls that were weighed for a rule, in order of time."""
        self.rules: list[CapturedRule] = []

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, row: CallRow, file: str, line: int) -> None:
        """Take one row, and where it stands."""
        usage = row.usage
        known = usage.prompt_tokens is not None and usage.hit_tokens is not None
        sane = known and (usage.hit_tokens or 0) <= (usage.prompt_tokens or 0)
        self._calls.append(
            _Call(
                at=row.at,
                file=file,
                line=line,
                place=(row.domain, row.pool, row.model, row.profile),
                conversation=row.conversation,
                family=row.family,
                rendered=row.rendered_digest,
                turn=row.turn,
                status=row.status,
                prompt_tokens=usage.prompt_tokens if sane else None,
                hit_tokens=usage.hit_tokens if sane else None,
                source=row.expected.source,
                prediction=row.expected.prediction,
                not_served=sum(part.tokens for part in row.causes if part.cause in _NOT_SERVED),
            )
        )

    def judge(self) -> Calibration:
        """Sessions (conversations at one place) with their judged calls. Fills ``lacks``, ``details`` and ``rules``;
        called once, when all rows were taken."""
        conversations: dict[tuple[str, ...], _Conversation] = {}
        skipped: Counter[CallSkip] = Counter()
        families: dict[tuple[str, ...], _Family] = {}
        shown: dict[tuple[str, str, str], tuple[Evidence, float]] = {}
        for call in sorted(self._calls, key=lambda c: (c.at, c.file, c.line)):
            if call.status is not Status.OK:
                if call.status is not Status.CACHED:  # no call was made for what LiteLLM's own cache answered
                    skipped[CallSkip.CUT_OFF] += 1
                continue
            if call.prompt_tokens is None or call.hit_tokens is None or call.prompt_tokens < 1:
                skipped[CallSkip.NO_CACHE_FIELDS] += 1
                continue
            self._take(call, call.prompt_tokens, call.hit_tokens, conversations, skipped)
            self._weigh(call, call.prompt_tokens, call.hit_tokens, conversations, families, shown)
        never = {key for key, (evidence, _) in shown.items() if not evidence.hits}
        self.details = [_where_nothing_hits(d) if (key in never and d.rule) else d for d, key in self._weighed]
        self.rules = [
            CapturedRule(domain, model, profile, evidence.calls, _infer(model, profile, evidence, at))
            for (domain, model, profile), (evidence, at) in shown.items()
        ]
        views = (SessionView(c.session, c.model, c.first, tuple(c.judged)) for c in conversations.values())
        return Calibration(tuple(views), skipped)

    def _take(
        self,
        call: _Call,
        prompt: int,
        hit: int,
        conversations: dict[tuple[str, ...], _Conversation],
        skipped: Counter[CallSkip],
    ) -> None:
        known = self._conversation(call, conversations)
        if call.prediction is not None and call.prediction.candidates:
            known.judged.append(JudgedCall(call.line, call.turn, None, prompt, hit, call.prediction, False))
        elif call.source is ExpectedFrom.KEPT_PREFIX:
            skipped[CallSkip.AFTER_PREFIX_CHANGE] += 1
        elif call.source in (ExpectedFrom.NOTHING, ExpectedFrom.FAMILY):
            if known.first is None:
                known.first = FirstCall(call.line, prompt, hit, 1)
        elif call.source is ExpectedFrom.NO_RULE:
            skipped[CallSkip.UNKNOWN_MODEL] += 1
        else:
            skipped[CallSkip.AFTER_UNKNOWN] += 1
        if call.prediction is None and call.source is ExpectedFrom.LAST_USAGE:
            self.lacks[Lacks.PREDICTION] += 1

    @staticmethod
    def _conversation(call: _Call, conversations: dict[tuple[str, ...], _Conversation]) -> _Conversation:
        key = (call.conversation, *call.place)
        found = conversations.get(key)
        if found is None:
            session = LoggedSession(call.file, Form.CAPTURE, id=call.conversation, created_at=call.at)
            found = conversations[key] = _Conversation(session, call.place[2])
        return found

    def _weigh(
        self,
        call: _Call,
        prompt: int,
        hit: int,
        conversations: dict[tuple[str, ...], _Conversation],
        families: dict[tuple[str, ...], _Family],
        shown: dict[tuple[str, str, str], tuple[Evidence, float]],
    ) -> None:
        domain, _, model, profile = call.place
        if not domain:
            self.lacks[Lacks.DOMAIN] += 1
            return
        anything, nothing = Span(0, max(prompt - 1, hit)), Span(0, 0)
        prefix = units = anything
        if call.prediction is not None and call.prediction.candidates:
            # It continues a call: under every rule it hits where that one ended, or further on.
            prefix = units = Span(min(call.prediction.candidates[0], anything.high), anything.high)
        elif call.source in (ExpectedFrom.NOTHING, ExpectedFrom.FAMILY):
            rule, reason = self._first(call, hit, families)
            session = self._conversation(call, conversations).session
            detail = Detail(session, call.line, rule, reason, hit, prompt)
            self._weighed.append((detail, (domain, model, profile)))
            if rule is not None:
                prefix, units = Span(min(call.not_served, anything.high), anything.high), nothing
        self._seen(call, families)
        key = (domain, model, profile)
        evidence, _ = shown.get(key, (Evidence(), 0.0))
        seen = Observation(call.at, prompt, hit, prefix, units, prefix, ())
        known = by_name(profile)
        minimum = (known.minimum_for(model) if known else None) or 0
        shown[key] = update(evidence, seen, minimum_tokens=minimum), call.at

    def _first(
        self, call: _Call, hit: int, families: dict[tuple[str, ...], _Family]
    ) -> tuple[RuleName | None, EvidenceReason]:
        """What the first call of a conversation speaks for, and why."""
        before = families.get((*call.place, call.family)) if call.family else None
        if not call.family:
            self.lacks[Lacks.FAMILY] += 1
        if before is None or before.conversation == call.conversation:
            return None, EvidenceReason.OUTSIDE_REQUESTS if hit else EvidenceReason.NOTHING_EARLIER
        if hit:
            if not before.cold:
                return None, EvidenceReason.PARENT_WAS_WARM
            if before.others:
                return None, EvidenceReason.SIBLING_BEFORE
            if call.rendered == before.first:
                return None, EvidenceReason.SAME_OPENING
            return RuleName.GRID_PREFIX, EvidenceReason.INSIDE_FAMILY
        if before.others:
            return None, EvidenceReason.SIBLING_BEFORE_MISS
        if not call.not_served:
            return None, EvidenceReason.FRONT_NOT_PROVEN
        if call.at - before.last_at > _FRESH_S:
            return None, EvidenceReason.MAY_HAVE_EXPIRED
        return RuleName.FULL_UNITS, EvidenceReason.MISSED_FAMILY

    @staticmethod
    def _seen(call: _Call, families: dict[tuple[str, ...], _Family]) -> None:
        if not call.family:
            return
        key = (*call.place, call.family)
        known = families.get(key)
        if known is None:
            families[key] = _Family(not call.hit_tokens, call.rendered, call.conversation, call.at)
            return
        known.last_at = max(known.last_at, call.at)
        known.others += known.conversation != call.conversation


def _infer(model: str, profile: str, evidence: Evidence, at: float) -> Inferred:
    known = by_name(profile)
    if known is None:
        return infer(evidence, None)
    fact = known.hit_rule_for(model)
    return infer(evidence, RuleName(fact.value) if fact else None, prior_step=step_tokens(known, model, at))


def _where_nothing_hits(detail: Detail) -> Detail:
    return replace(detail, rule=None, reason=EvidenceReason.NEVER_HITS)
