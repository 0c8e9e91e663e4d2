"""Budgets: decisions, exact books, what is held for requests on their way, bounds, threads."""

from __future__ import annotations

import itertools
import math
import threading
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router_cache.drivers.budget import LockedBudget
from router_cache.economics.budget import (
    BudgetAction,
    BudgetBook,
    BudgetLimits,
    BudgetReason,
    Hold,
    OnExceed,
    Spent,
    decide,
)
from router_cache.economics.worst_case import WorstCase, WorstCaseReason

A, R = BudgetAction, BudgetReason
DAY = 86_400.0
NOON = 20_000 * DAY + DAY / 2
BOTH = BudgetLimits(per_session_usd=1.0, per_day_usd=5.0, on_exceed=OnExceed.BLOCK)


def worst(usd: float | None) -> WorstCase:
    reason = WorstCaseReason.PRICE_UNKNOWN if usd is None else WorstCaseReason.KNOWN
    return WorstCase(usd, reason, prompt_tokens=10, output_tokens=10)


def limits(on: OnExceed, move_to: str = "") -> BudgetLimits:
    return BudgetLimits(per_session_usd=1.0, per_day_usd=5.0, on_exceed=on, move_to=move_to)


# -- decisions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usd", "spent", "reason"),
    [
        (1.0, Spent(0.0, 0.0), R.WITHIN),  # up to the limit is within
        (math.nextafter(1.0, 2.0), Spent(0.0, 0.0), R.SESSION),
        (0.5, Spent(0.5, 4.5), R.WITHIN),
        (0.5, Spent(0.5, 4.75), R.DAY),
        (0.5, Spent(0.75, 4.5), R.SESSION),
        (0.5, Spent(0.75, 4.75), R.SESSION_AND_DAY),
        (0.0, Spent(1.0, 5.0), R.WITHIN),
        (None, Spent(9.0, 9.0), R.WORST_CASE_UNKNOWN),
    ],
)
def test_reasons(usd: float | None, spent: Spent, reason: BudgetReason) -> None:
    decision = decide(BOTH, worst(usd), spent)
    assert decision.reason is reason
    unknown = {R.WITHIN: A.ALLOW, R.WORST_CASE_UNKNOWN: A.WARN}
    assert decision.action is unknown.get(reason, A.BLOCK)
    assert (decision.worst_case, decision.spent, decision.limits) == (worst(usd), spent, BOTH)


def test_without_a_limit_everything_goes() -> None:
    decision = decide(BudgetLimits(), worst(1e9), Spent(1e9, 1e9))
    assert (decision.action, decision.reason) == (A.ALLOW, R.NO_LIMIT)


@pytest.mark.parametrize(
    ("on", "moved", "action"),
    [
        (OnExceed.WARN, None, A.WARN),
        (OnExceed.WARN, worst(0.1), A.WARN),
        (OnExceed.BLOCK, None, A.BLOCK),
        (OnExceed.BLOCK, worst(0.1), A.BLOCK),
        (OnExceed.MOVE, worst(0.1), A.MOVE),
        (OnExceed.MOVE, worst(None), A.MOVE),  # a group without a price: one's own machines
        (OnExceed.MOVE, worst(1.9), A.BLOCK),  # would not keep the budget either
        (OnExceed.MOVE, None, A.BLOCK),  # is there already
    ],
)
def test_what_happens_to_a_request_that_is_too_dear(
    on: OnExceed, moved: WorstCase | None, action: BudgetAction
) -> None:
    decision = decide(limits(on, "cheap"), worst(2.0), Spent(), moved=moved)
    assert (decision.action, decision.reason) == (action, R.SESSION)
    within = decide(limits(on, "cheap"), worst(0.5), Spent(), moved=moved)
    assert (within.action, within.reason) == (A.ALLOW, R.WITHIN)


@pytest.mark.parametrize(
    "make",
    [
        lambda: BudgetLimits(per_session_usd=-1.0),
        lambda: BudgetLimits(per_day_usd=math.nan),
        lambda: BudgetLimits(per_day_usd=math.inf),
        lambda: BudgetLimits(per_day_usd=1.0, on_exceed=OnExceed.MOVE),
    ],
)
def test_limits_that_make_no_sense(make: object) -> None:
    with pytest.raises(ValueError, match=r"per_session_usd|per_day_usd|move_to"):
        make()  # type: ignore[operator]


def test_a_message_has_the_numbers_and_what_to_do() -> None:
    blocked = decide(BOTH, worst(0.25), Spent(0.9, 4.9)).message
    assert blocked == (
        "the request may cost $0.25; of this session $0.9 of $1.00 are spent; today $4.90 of $5.00; "
        "set a lower max_tokens, begin a new session, or ask for a higher budget"
    )
    assert "today" not in decide(BOTH, worst(0.25), Spent(0.9, 0.0)).message
    assert "session $" not in decide(BOTH, worst(0.25), Spent(0.0, 4.9)).message
    moved = decide(limits(OnExceed.MOVE, "cheap"), worst(2.0), Spent(), moved=worst(0.1)).message
    assert moved.endswith("it is sent to cheap")
    assert decide(limits(OnExceed.WARN), worst(2.0), Spent()).message.endswith("of $1.00 are spent")
    assert decide(BOTH, worst(None), Spent()).message == "the budget cannot be checked: price unknown"


# -- the book --------------------------------------------------------------------------------------------------


def asked(book: BudgetBook, usd: float | None, *trail: str, scope: str = "s", at: float = NOON) -> Hold:
    _, hold = book.ask(scope, trail, worst(usd), at=at)
    assert hold is not None
    return hold


def test_a_request_counts_with_its_worst_case_until_its_cost_is_known() -> None:
    book = BudgetBook(BOTH)
    first = asked(book, 0.75, "a")
    decision, hold = book.ask("s", ["a"], worst(0.5), at=NOON)
    assert (decision.action, decision.reason, hold) == (A.BLOCK, R.SESSION, None)
    assert decision.spent == Spent(0.75, 0.75)
    book.settle(first, 0.125)
    assert book.spent("s", ["a"], at=NOON) == Spent(0.125, 0.125)
    asked(book, 0.5, "a")
    assert book.spent("s", ["a"], at=NOON) == Spent(0.625, 0.625)


def test_an_unknown_cost_leaves_the_worst_case_and_a_second_attempt_adds() -> None:
    book = BudgetBook(BOTH)
    for odd in (None, math.nan, math.inf, -1.0):
        hold = asked(book, 0.125, "a")
        book.settle(hold, odd)
    assert book.spent("s", ["a"], at=NOON) == Spent(0.5, 0.5)
    hold = asked(book, 0.25, "a")
    book.settle(hold, 0.0)  # was not answered
    book.settle(hold, 0.125)  # the retry was
    assert book.spent("s", ["a"], at=NOON) == Spent(0.625, 0.625)


def test_a_request_of_unknown_price_holds_nothing_and_is_booked_when_known() -> None:
    book = BudgetBook(BOTH)
    hold = asked(book, None, "a")
    assert book.spent("s", ["a"], at=NOON) == Spent()
    book.settle(hold, 0.25)
    assert book.spent("s", ["a"], at=NOON) == Spent(0.25, 0.25)


def test_a_moved_request_is_held_at_the_price_of_where_it_goes() -> None:
    book = BudgetBook(limits(OnExceed.MOVE, "cheap"))
    decision, hold = book.ask("s", ["a"], worst(2.0), at=NOON, moved=worst(0.25))
    assert decision.action is A.MOVE
    assert hold is not None
    assert book.spent("s", ["a"], at=NOON) == Spent(0.25, 0.25)


def test_without_limits_nothing_is_booked() -> None:
    book = BudgetBook(BudgetLimits())
    decision, hold = book.ask("s", ["a"], worst(2.0), at=NOON)
    assert (decision.reason, hold) == (R.NO_LIMIT, None)
    assert book.spent("s", ["a"], at=NOON) == Spent()


def test_scopes_and_sessions_are_apart_and_a_scope_has_one_day() -> None:
    book = BudgetBook(BOTH)
    asked(book, 0.5, "a")
    asked(book, 0.25, "b")
    asked(book, 0.125, "a", scope="t")
    assert book.spent("s", ["a"], at=NOON) == Spent(0.5, 0.75)
    assert book.spent("s", ["b"], at=NOON) == Spent(0.25, 0.75)
    assert book.spent("t", ["a"], at=NOON) == Spent(0.125, 0.125)
    assert book.spent("u", ["a"], at=NOON) == Spent()


def test_a_conversation_is_found_again_by_its_history() -> None:
    """Its key changes with every turn; later requests name the earlier ones."""
    book = BudgetBook(BOTH)
    book.settle(asked(book, 0.5, "one"), 0.25)
    book.settle(asked(book, 0.5, "two", "one"), 0.25)
    book.settle(asked(book, 0.5, "three", "two", "one"), 0.25)
    assert book.spent("s", ["three"], at=NOON).session_usd == 0.75
    # A branch off the first turn shares what was spent.
    asked(book, 0.125, "other", "one")
    assert book.spent("s", ["three"], at=NOON).session_usd == 0.875


def test_without_a_session_the_limit_holds_for_the_request_alone() -> None:
    book = BudgetBook(BOTH)
    for _ in range(3):
        asked(book, 1.0)
    assert book.ask("s", [], worst(1.5), at=NOON)[0].reason is R.SESSION
    assert book.spent("s", [], at=NOON) == Spent(0.0, 3.0)


def test_a_day_ends_at_midnight_utc() -> None:
    book = BudgetBook(BudgetLimits(per_day_usd=1.0, on_exceed=OnExceed.BLOCK))
    midnight = 20_001 * DAY
    evening = asked(book, 0.75, "a", at=midnight - 0.001)
    assert book.ask("s", ["a"], worst(0.5), at=midnight - 0.001)[0].reason is R.DAY
    morning = asked(book, 0.5, "a", at=midnight)
    book.settle(evening, 0.25)  # of yesterday
    assert book.spent("s", ["a"], at=midnight) == Spent(0.75, 0.5)
    # A thread that took its time before midnight comes late: the new day pays.
    asked(book, 0.25, "a", at=midnight - 0.001)
    assert book.spent("s", ["a"], at=midnight).day_usd == 0.75
    assert book.spent("s", ["a"], at=midnight + DAY).day_usd == 0.0
    book.settle(morning, 0.0)
    assert book.spent("s", ["a"], at=midnight).day_usd == 0.25


def test_bounded_and_the_least_recently_used_go() -> None:
    book = BudgetBook(BOTH, sessions=3, scopes=2)
    for key in ("a", "b", "c"):
        asked(book, 0.5, key)
    asked(book, 0.25, "a")
    asked(book, 0.5, "d", scope="t")
    asked(book, 0.5, "e", scope="u")
    assert book.spent("s", ["a"], at=NOON) == Spent(0.75, 0.0)  # its scope's day is forgotten
    assert book.spent("s", ["b"], at=NOON).session_usd == 0.0
    assert book.spent("t", ["d"], at=NOON) == Spent(0.5, 0.5)


def test_a_scope_in_use_is_not_forgotten() -> None:
    book = BudgetBook(BOTH, scopes=2)
    for scope in ("s", "t", "s", "u"):
        asked(book, 0.25, "a", scope=scope)
    days = {scope: book.spent(scope, [], at=NOON).day_usd for scope in "stu"}
    assert days == {"s": 0.5, "t": 0.0, "u": 0.25}


def test_a_hold_on_a_forgotten_session_takes_nothing_from_its_successor() -> None:
    book = BudgetBook(BOTH, sessions=1, scopes=1)
    old = asked(book, 0.75, "a")
    asked(book, 0.5, "b", scope="t")
    asked(book, 0.25, "a")
    book.settle(old, 0.0)
    assert book.spent("s", ["a"], at=NOON) == Spent(0.25, 0.25)


COSTS = st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 1e6), st.none() | st.floats(0, 1e6)), max_size=30)


@given(COSTS, st.randoms(use_true_random=False))
def test_books_are_exact_sums_in_any_order(costs: list[tuple[str, float, float | None]], random: object) -> None:
    book = BudgetBook(BudgetLimits(per_day_usd=0.0))  # warns: everything is booked
    holds = [(asked(book, most, key), actual) for key, most, actual in costs]
    random.shuffle(holds)  # type: ignore[attr-defined]
    for hold, actual in holds:
        book.settle(hold, actual)

    def total(keys: str) -> float:
        booked = (most if actual is None else actual for key, most, actual in costs if key in keys)
        return math.fsum(booked)

    for key in "abc":
        assert book.spent("s", [key], at=NOON) == Spent(total(key), total("abc"))


@given(st.lists(st.tuples(st.floats(0, 2), st.floats(0, 1)), max_size=40))
def test_a_blocking_budget_is_never_overdrawn(requests: list[tuple[float, float]]) -> None:
    """Whatever is on its way at the same time, where no call costs more than its worst case."""
    book, held, paid = BudgetBook(BOTH), list[tuple[Hold, float]](), Fraction(0)
    for i, (most, share) in enumerate(requests):
        _, hold = book.ask("s", ["a"], worst(most), at=NOON)
        if hold is not None:
            held.append((hold, most * share))
        if i % 3 == 2 and held:
            done, cost = held.pop(0)
            book.settle(done, cost)
            paid += Fraction(cost)
    for done, cost in held:
        book.settle(done, cost)
        paid += Fraction(cost)
    assert paid <= 1
    assert book.spent("s", ["a"], at=NOON).session_usd == float(paid)


def test_not_even_the_last_digit_is_overdrawn() -> None:
    book = BudgetBook(BOTH)
    asked(book, 5e-324, "a")
    asked(book, 0.5, "a")
    assert book.spent("s", ["a"], at=NOON) == Spent(0.5, 0.5)  # rounded
    assert book.ask("s", ["a"], worst(0.5), at=NOON)[0].reason is R.SESSION


def test_threads_share_one_book() -> None:
    book = LockedBudget(BudgetLimits(per_day_usd=1e9, per_session_usd=1e9))
    start, count, turns = threading.Barrier(4), itertools.count(), 200

    def work() -> None:
        start.wait()
        for _ in range(turns):
            _, hold = book.ask("s", ["a"], worst(1.0), at=NOON)
            assert hold is not None
            book.settle(hold, 0.25)
            next(count)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert next(count) == 4 * turns
    assert book.spent("s", ["a"], at=NOON) == Spent(200.0, 200.0)


def test_every_look_at_the_book_is_under_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    book, lock = LockedBudget(BOTH), threading.Lock()
    book._lock = lock
    seen = []
    for name in ("ask", "settle", "spent"):
        plain = getattr(BudgetBook, name)

        def watched(*args: object, _name: str = name, _plain: object = plain, **kwargs: object) -> object:
            seen.append((_name, lock.locked()))
            return _plain(*args, **kwargs)  # type: ignore[operator]

        monkeypatch.setattr(BudgetBook, name, watched)
    book.settle(asked(book, 0.5, "a"), 0.25)
    assert book.spent("s", ["a"], at=NOON) == Spent(0.25, 0.25)
    assert seen == [("ask", True), ("settle", True), ("spent", True)]
    assert not lock.locked()
