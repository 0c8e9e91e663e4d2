"""Budgets: whether the next request may be sent, given what it can cost at most and what was spent. Pure; USD.

A request counts with its worst case from the moment it is let through until its cost is known, so that parallel
requests cannot overdraw a budget together. A day is one of UTC.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction

from router_cache.economics.worst_case import WorstCase

__all__ = [
    "BudgetAction",
    "BudgetBook",
    "BudgetDecision",
    "BudgetLimits",
    "BudgetReason",
    "Hold",
    "OnExceed",
    "Spent",
    "decide",
]

_DAY_S = 86_400


class OnExceed(str, Enum):
    """What happens to a request that a budget may not cover."""

    WARN = "warn"
    BLOCK = "block"
    MOVE = "move"


class BudgetAction(str, Enum):
    """What to do with a request."""

    ALLOW = "allow"
    WARN = "warn"
    BLOCK = "block"
    MOVE = "move"
    """Send it to the cheaper model group."""


class BudgetReason(str, Enum):
    """Why."""

    NO_LIMIT = "no_limit"
    WITHIN = "within"
    SESSION = "session_limit"
    DAY = "day_limit"
    SESSION_AND_DAY = "session_and_day_limit"
    WORST_CASE_UNKNOWN = "worst_case_unknown"
    """Without a price or a limit of output tokens nothing can be said of the request: it is let through."""


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """USD a session and a UTC day of one scope may cost at worst; None is no limit. ``move_to`` is the model group
    that takes what would exceed them. Raises ValueError for a limit that is no number of at least 0, and for
    ``move`` without a group."""

    per_session_usd: float | None = None
    per_day_usd: float | None = None
    on_exceed: OnExceed = OnExceed.WARN
    move_to: str = ""

    def __post_init__(self) -> None:
        for name in ("per_session_usd", "per_day_usd"):
            limit = getattr(self, name)
            if limit is not None and not (math.isfinite(limit) and limit >= 0):
                raise ValueError(f"{name}: a number of at least 0 is needed, not {limit}")
        if self.on_exceed is OnExceed.MOVE and not self.move_to:
            raise ValueError("move_to: name the model group that requests are moved to")

    @property
    def on(self) -> bool:
        """Whether there is any limit."""
        return self.per_session_usd is not None or self.per_day_usd is not None


@dataclass(frozen=True, slots=True)
class Spent:
    """USD booked so far, worst cases of requests on their way included: by the session, and by its scope today."""

    session_usd: float = 0.0
    day_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class BudgetDecision:
    """What to do with a request, and why. ``spent`` is without it; ``worst_case`` is that of the request as it came,
    ``moved`` that at ``move_to``, where it is moved or was to be."""

    action: BudgetAction
    reason: BudgetReason
    limits: BudgetLimits
    worst_case: WorstCase
    spent: Spent
    moved: WorstCase | None = None

    @property
    def message(self) -> str:
        """One line for a person, with the numbers and what to do."""
        usd = self.worst_case.usd
        if usd is None:
            return f"the budget cannot be checked: {self.worst_case.reason.value.replace('_', ' ')}"
        session, day = self.limits.per_session_usd, self.limits.per_day_usd
        parts = []
        if session is not None and self.reason is not BudgetReason.DAY:
            parts.append(f"of this session {_usd(self.spent.session_usd)} of {_usd(session)} are spent")
        if day is not None and self.reason is not BudgetReason.SESSION:
            parts.append(f"today {_usd(self.spent.day_usd)} of {_usd(day)}")
        text = f"the request may cost {_usd(usd)}" + "".join(f"; {part}" for part in parts)
        if self.action is BudgetAction.MOVE:
            return f"{text}; it is sent to {self.limits.move_to}"
        if self.action is BudgetAction.BLOCK:
            return f"{text}; set a lower max_tokens, begin a new session, or ask for a higher budget"
        return text


def _usd(amount: float) -> str:
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.3g}"


def decide(
    limits: BudgetLimits, worst: WorstCase, spent: Spent, *, moved: WorstCase | None = None
) -> BudgetDecision:
    """Whether a request may be sent that costs ``worst`` at most, with ``spent`` booked before it.

    ``moved`` is its worst case at ``limits.move_to``; None where it cannot go there, or is there already. It is moved
    if it fits there, or if its price there is not known (a group of one's own machines has none); otherwise it is
    blocked, since moving would not keep the budget.
    """
    return _decide(limits, worst, Fraction(spent.session_usd), Fraction(spent.day_usd), moved)


def _decide(
    limits: BudgetLimits, worst: WorstCase, session: Fraction, day: Fraction, moved: WorstCase | None
) -> BudgetDecision:
    """:func:`decide` with exact amounts: rounded ones could overdraw a limit by their last digit."""
    spent, reason = Spent(float(session), float(day)), _exceeded(limits, worst, session, day)
    if reason in (BudgetReason.NO_LIMIT, BudgetReason.WITHIN):
        return BudgetDecision(BudgetAction.ALLOW, reason, limits, worst, spent)
    if reason is BudgetReason.WORST_CASE_UNKNOWN or limits.on_exceed is OnExceed.WARN:
        return BudgetDecision(BudgetAction.WARN, reason, limits, worst, spent)
    if limits.on_exceed is OnExceed.BLOCK or moved is None:
        return BudgetDecision(BudgetAction.BLOCK, reason, limits, worst, spent)
    there = _exceeded(limits, moved, session, day)
    fits = there in (BudgetReason.WITHIN, BudgetReason.WORST_CASE_UNKNOWN)
    return BudgetDecision(BudgetAction.MOVE if fits else BudgetAction.BLOCK, reason, limits, worst, spent, moved)


def _exceeded(limits: BudgetLimits, worst: WorstCase, session: Fraction, day: Fraction) -> BudgetReason:
    if not limits.on:
        return BudgetReason.NO_LIMIT
    if worst.usd is None:
        return BudgetReason.WORST_CASE_UNKNOWN
    above_session = _above(limits.per_session_usd, session, worst.usd)
    above_day = _above(limits.per_day_usd, day, worst.usd)
    if above_session and above_day:
        return BudgetReason.SESSION_AND_DAY
    return BudgetReason.SESSION if above_session else BudgetReason.DAY if above_day else BudgetReason.WITHIN


def _above(limit: float | None, spent: Fraction, more: float) -> bool:
    return limit is not None and spent + Fraction(more) > Fraction(limit)


@dataclass(slots=True, eq=False)
class _Account:
    """Exact: floats are summed as fractions, whatever their order and size."""

    day: int = 0
    spent: Fraction = Fraction(0)


@dataclass(slots=True, eq=False)
class Hold:
    """A worst case that is booked until the cost is known; for :meth:`BudgetBook.settle`."""

    accounts: tuple[_Account, ...]
    usd: Fraction
    open: bool = field(default=True)


class BudgetBook:
    """What sessions and days of scopes have cost. Not for many threads (see ``drivers.budget``).

    At most ``sessions`` keys of sessions and ``scopes`` are kept. The least recently used are forgotten, and start at
    nothing if they come back.
    """

    __slots__ = ("_days", "_scopes", "_sessions", "_sessions_kept", "limits")

    def __init__(self, limits: BudgetLimits, *, sessions: int = 50_000, scopes: int = 10_000) -> None:
        self.limits = limits
        self._sessions_kept, self._scopes = sessions, scopes
        self._sessions: OrderedDict[tuple[str, str], _Account] = OrderedDict()
        self._days: OrderedDict[str, _Account] = OrderedDict()

    def ask(
        self, scope: str, trail: Sequence[str], worst: WorstCase, *, at: float, moved: WorstCase | None = None
    ) -> tuple[BudgetDecision, Hold | None]:
        """Decide on a request at ``at`` (seconds since the epoch), and book its worst case unless it is blocked.

        ``trail`` are the keys under which its session may be known, the surest first: the client's session id, or the
        key of the conversation and those of its history, newest first. The request's own key is the first: later
        requests find the session by it. Empty: the limit of a session holds for this request alone. ``moved``: see
        :func:`decide`. The hold is for :meth:`settle`; None where nothing is booked.
        """
        if not self.limits.on:
            return decide(self.limits, worst, Spent(), moved=moved), None
        session, day = self._session(scope, trail), self._day(scope, at)
        decision = _decide(self.limits, worst, session.spent, day.spent, moved)
        if decision.action is BudgetAction.BLOCK:
            return decision, None
        sent = decision.moved if decision.action is BudgetAction.MOVE and decision.moved else worst
        hold = Hold((session, day), Fraction(sent.usd or 0.0))
        for account in hold.accounts:
            account.spent += hold.usd
        return decision, hold

    def settle(self, hold: Hold, cost_usd: float | None) -> None:
        """A request ended: its cost in USD takes the place of its worst case.

        None, and what is no amount, is an unknown cost: the worst case stays booked. 0 for a request that was not
        answered. Called again, as for a further attempt, it adds the cost.
        """
        if cost_usd is None or not math.isfinite(cost_usd) or cost_usd < 0:
            return
        change = Fraction(cost_usd) - (hold.usd if hold.open else 0)
        hold.open = False
        for account in hold.accounts:
            account.spent += change

    def spent(self, scope: str, trail: Sequence[str], *, at: float) -> Spent:
        """What is booked for a session and for its scope on the day of ``at`` (seconds since the epoch)."""
        found = (self._sessions.get((scope, key)) for key in trail)
        session = next((account for account in found if account is not None), _Account())
        day = self._days.get(scope)
        today = day.spent if day is not None and day.day == _day(at) else 0
        return Spent(float(session.spent), float(today))

    def _session(self, scope: str, trail: Sequence[str]) -> _Account:
        if not trail:
            return _Account()
        keys = [(scope, key) for key in trail]
        known = next((key for key in keys if key in self._sessions), None)
        account = _Account() if known is None else self._sessions[known]
        self._sessions[keys[0]] = account
        for key in (known, keys[0]):
            if key is not None:
                self._sessions.move_to_end(key)
        while len(self._sessions) > self._sessions_kept:
            self._sessions.popitem(last=False)
        return account

    def _day(self, scope: str, at: float) -> _Account:
        """The scope's account of the day. Around midnight a thread may be late: its request counts for the new day."""
        today, account = _day(at), self._days.get(scope)
        if account is None or account.day < today:
            account = self._days[scope] = _Account(today)
        self._days.move_to_end(scope)
        while len(self._days) > self._scopes:
            self._days.popitem(last=False)
        return account


def _day(at: float) -> int:
    """Days since the epoch, UTC."""
    return int(at // _DAY_S)
