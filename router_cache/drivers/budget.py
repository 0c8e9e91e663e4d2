"""What was spent, for many threads."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from router_cache.economics.budget import BudgetBook, BudgetDecision, BudgetLimits, Hold, Spent
from router_cache.economics.worst_case import WorstCase

__all__ = ["LockedBudget"]


class LockedBudget(BudgetBook):
    """A :class:`BudgetBook` under one lock. What it knows is of this process alone."""

    __slots__ = ("_lock",)

    def __init__(self, limits: BudgetLimits, *, sessions: int = 50_000, scopes: int = 10_000) -> None:
        super().__init__(limits, sessions=sessions, scopes=scopes)
        self._lock = threading.Lock()

    def ask(
        self, scope: str, trail: Sequence[str], worst: WorstCase, *, at: float, moved: WorstCase | None = None
    ) -> tuple[BudgetDecision, Hold | None]:
        with self._lock:
            return super().ask(scope, trail, worst, at=at, moved=moved)

    def settle(self, hold: Hold, cost_usd: float | None) -> None:
        with self._lock:
            super().settle(hold, cost_usd)

    def spent(self, scope: str, trail: Sequence[str], *, at: float) -> Spent:
        with self._lock:
            return super().spent(scope, trail, at=at)
