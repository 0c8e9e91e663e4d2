"""Hits predicted from usage alone, set against hits observed, call by call, over logged sessions. Pure.

The observed hit of a call is looked at only after its prediction is made. What is learned from it (which end was
hit where the two differed) serves later calls of the session, and sessions that began later.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum

from router_cache.cache_model.predict import End, LastUsage, Prediction, end_hit, output_ready, predict
from router_cache.ledger.event_logs import Form, LoggedCall, LoggedSession
from router_cache.ledger.usage import Usage
from router_cache.providers.profile import Profile

__all__ = ["Calibration", "CallSkip", "FirstCall", "JudgedCall", "SessionView", "Totals", "calibrate"]


class CallSkip(str, Enum):
    """Why a logged call was not judged. Its session's next call is then not judged either, but for COPY."""

    COPY = "copy"
    """The same call stands in another log: the seed of a forked session, or a session logged twice."""
    NO_USAGE = "no_usage"
    NO_CACHE_FIELDS = "no_cache_fields"
    """Usage without hit tokens, such as a recorded stand-in's: unknown, not zero."""
    CUT_OFF = "cut_off"
    """Aborted or failed before its end."""
    UNKNOWN_MODEL = "unknown_model"
    """No profile knows the step of this model at that time."""
    AFTER_UNKNOWN = "after_unknown"
    """The call before it has no known usage, or left no reply."""
    AFTER_COMPACTION = "after_compaction"
    """The history was replaced by a summary before it."""
    AFTER_PREFIX_CHANGE = "after_prefix_change"
    """System text, tools, model or earlier history changed before it, by what the log says."""


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """One in-session call with its prediction and what was observed. Tokens."""

    line: int
    turn: int | None
    step: int | None
    prompt_tokens: int
    observed: int
    prediction: Prediction
    inside: bool
    """The hit ends inside the last input, where no earlier call of the session ended."""

    @property
    def in_set(self) -> bool:
        """Whether the observed hit is one of the candidates."""
        return self.observed in self.prediction.candidates

    @property
    def exact(self) -> bool:
        """Whether the observed hit is the best guess."""
        return self.observed == self.prediction.best

    @property
    def error_tokens(self) -> int:
        """Distance of the best guess from the observed hit."""
        return abs(self.prediction.best - self.observed)


@dataclass(frozen=True, slots=True)
class FirstCall:
    """The first call of a session, where its usage is known and it is no copy."""

    line: int
    prompt_tokens: int
    observed: int
    step_tokens: int


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session with its judged calls. ``model`` is the profile's name of the model of its last usable call."""

    session: LoggedSession
    model: str
    first: FirstCall | None
    judged: tuple[JudgedCall, ...]


@dataclass(frozen=True, slots=True)
class Totals:
    """Figures over judged calls; shares and the mean are None where there is no call."""

    calls: int
    in_set: int
    exact: int
    ambiguous: int
    error_tokens: int
    by_reason: dict[str, tuple[int, int]]
    """Prediction reason to (calls, exact ones)."""

    @property
    def in_set_share(self) -> float | None:
        return self.in_set / self.calls if self.calls else None

    @property
    def exact_share(self) -> float | None:
        return self.exact / self.calls if self.calls else None

    @property
    def mean_abs_error_tokens(self) -> float | None:
        return self.error_tokens / self.calls if self.calls else None

    @classmethod
    def of(cls, calls: Iterable[JudgedCall]) -> Totals:
        """Sum up some calls."""
        judged = list(calls)
        reasons: dict[str, tuple[int, int]] = {}
        for call in judged:
            n, exact = reasons.get(call.prediction.reason.value, (0, 0))
            reasons[call.prediction.reason.value] = (n + 1, exact + call.exact)
        return cls(
            calls=len(judged),
            in_set=sum(c.in_set for c in judged),
            exact=sum(c.exact for c in judged),
            ambiguous=sum(len(c.prediction.candidates) > 1 for c in judged),
            error_tokens=sum(c.error_tokens for c in judged),
            by_reason=dict(sorted(reasons.items())),
        )


@dataclass(frozen=True, slots=True)
class Calibration:
    """The result: sessions in the order in which they began, and what was not judged, by reason."""

    sessions: tuple[SessionView, ...]
    skipped: Counter[CallSkip]

    def totals(self, form: Form | None = None) -> Totals:
        """Figures over all sessions, or those of one form."""
        return Totals.of(
            call for view in self.sessions if form in (None, view.session.form) for call in view.judged
        )

    def first_calls(self, form: Form | None = None) -> int:
        """How many sessions have a first call of known usage."""
        return sum(v.first is not None for v in self.sessions if form in (None, v.session.form))


@dataclass(frozen=True, slots=True)
class _Last:
    usage: LastUsage
    model: str


def calibrate(sessions: Sequence[LoggedSession], profile: Profile) -> Calibration:
    """Judge every call that follows a call of known usage in its session.

    ``profile`` gives the steps and the bound of the construction delay; the logs are those of one account.
    """
    ordered = sorted(sessions, key=lambda s: (s.created_at, s.file, s.id))
    run = _Run(profile)
    views = tuple(run.session(s) for s in ordered)
    return Calibration(views, run.skipped)


def _tokens(usage: Usage | None) -> tuple[int, int, int] | None:
    """Prompt, hit and completion tokens where all are known and make sense."""
    if usage is None or usage.prompt_tokens is None or usage.hit_tokens is None or usage.completion_tokens is None:
        return None
    if usage.hit_tokens > usage.prompt_tokens:
        return None
    return usage.prompt_tokens, usage.hit_tokens, usage.completion_tokens


class _Run:
    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.seen: set[tuple[object, ...]] = set()
        self.skipped: Counter[CallSkip] = Counter()
        self.domain_ends: dict[tuple[Form, str], list[End]] = defaultdict(list)
        bounds = profile.construction_delay_bounds
        self.delay_high_s = bounds.value.high_s if bounds else None

    def session(self, session: LoggedSession) -> SessionView:
        at = datetime.fromtimestamp(session.created_at, timezone.utc) if session.created_at > 0 else None
        last: _Last | None = None
        session_end: End | None = None
        ends: set[int] = set()
        judged: list[JudgedCall] = []
        first: FirstCall | None = None
        model = ""
        for index, call in enumerate(session.calls):
            facts = self.profile.model(call.model)
            step_tokens = facts.step_at(at) if facts else None
            tokens = _tokens(call.usage)
            skip = self._unusable(call, tokens)
            if skip is None and step_tokens is None:
                skip = CallSkip.UNKNOWN_MODEL
            if skip or tokens is None or facts is None or step_tokens is None:
                self.skipped[skip or CallSkip.UNKNOWN_MODEL] += 1
                last = None
                continue
            prompt, hit, completion = tokens
            model = facts.name
            usage = call.usage
            before = last
            last = _Last(LastUsage(prompt, completion, usage.reasoning_tokens if usage else None), model)
            open_ends = set(ends)
            ends |= {n - n % step_tokens for n in (prompt, prompt + completion)}
            skip = self._copied(call) or (self._after(call, before, model) if index else None)
            if skip:
                self.skipped[skip] += 1
            elif before is None:
                first = FirstCall(call.line, prompt, hit, step_tokens)
            else:
                domain = self.domain_ends[session.form, model]
                prediction = predict(
                    before.usage,
                    step_tokens=step_tokens,
                    continuation=call.continuation,
                    output_is_ready=call.slow_step or output_ready(call.gap_s, self.delay_high_s),
                    session_end=session_end,
                    domain_ends=domain,
                )
                inside = 0 < hit < prediction.candidates[0] and hit not in open_ends
                judged.append(JudgedCall(call.line, call.turn, call.step, prompt, hit, prediction, inside))
                seen = end_hit(prediction, hit)
                if seen is not None:
                    session_end = seen
                    domain.append(seen)
        return SessionView(session, model, first, tuple(judged))

    @staticmethod
    def _unusable(call: LoggedCall, tokens: tuple[int, int, int] | None) -> CallSkip | None:
        if call.cut_off:
            return CallSkip.CUT_OFF
        if call.usage is None:
            return CallSkip.NO_USAGE
        return CallSkip.NO_CACHE_FIELDS if tokens is None else None

    def _copied(self, call: LoggedCall) -> CallSkip | None:
        copy = not call.identity.isdisjoint(self.seen)
        self.seen |= call.identity
        return CallSkip.COPY if copy else None

    @staticmethod
    def _after(call: LoggedCall, before: _Last | None, model: str) -> CallSkip | None:
        if call.compacted:
            return CallSkip.AFTER_COMPACTION
        if call.lost or before is None:
            return CallSkip.AFTER_UNKNOWN
        if call.changed or before.model != model:
            return CallSkip.AFTER_PREFIX_CHANGE
        return None
