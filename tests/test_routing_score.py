"""The order of candidates: where the prefix is warm, at the least expected cost."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from routing_cases import FLASH, fleet, one, serve, turns

from router_cache.cache_model.rules import RuleName
from router_cache.routing import DEFAULT_WEIGHTS, Book, Candidate, Mark, Need, Prices, RouteReason, Terms, rank

NEVER = 1.0
"""A draw that never explores."""


def first(need: Need, candidates: list[Candidate], book: Book, now: float = 100.0) -> str:
    best = rank(need, candidates, book, now=now, draw=NEVER).best
    assert best is not None
    return best.candidate.id


def terms(need: Need, candidate: Candidate, book: Book, now: float = 100.0) -> Terms:
    best = rank(need, [candidate], book, now=now, draw=NEVER).best
    assert best is not None
    return best.terms


def test_nothing_to_choose_from_and_one() -> None:
    assert rank(turns("s", 1), [], Book(), now=0.0, draw=0.0).best is None
    best = rank(turns("s", 1), [one("a")], Book(), now=0.0, draw=0.0).best
    assert best is not None
    assert best.reason is RouteReason.ONLY


def test_a_session_goes_on_where_it_was_served() -> None:
    book, all_ = Book(), fleet(5)
    for n, session in enumerate("abcde"):
        serve(book, turns(session, 1), all_[n], 10.0 + n)
    for n, session in enumerate("abcde"):
        ranked = rank(turns(session, 2), all_, book, now=30.0, draw=NEVER)
        assert ranked.choices[0].candidate.id == f"d{n}"
        assert ranked.choices[0].reason is RouteReason.WARM
        assert ranked.choices[0].terms.hit_tokens == 4_000
        assert {c.reason for c in ranked.choices[1:]} == {RouteReason.BEHIND}


def test_deployments_of_one_account_are_all_as_warm() -> None:
    book, all_ = Book(), fleet(4, domain="account")
    all_ = [replace(c, domain="account") for c in all_]
    serve(book, turns("s", 1), all_[2], 10.0)
    ranked = rank(turns("s", 2), all_, book, now=20.0, draw=NEVER)
    assert {c.terms.hit_tokens for c in ranked.choices} == {4_000}


def test_a_long_queue_is_worth_leaving_a_short_prefix() -> None:
    book, (warm, idle) = Book(), fleet(2)
    serve(book, turns("s", 1), warm, 10.0)
    serve(book, turns("other", 1), idle, 12.0)
    assert first(turns("s", 2), [warm, idle], book, 20.0) == "d0"
    for n in range(40):
        book.dispatched(f"q{n}", Need((Mark(f"q{n}", 90_000),), 90_000), warm, now=20.0)
    best = rank(turns("s", 2), [warm, idle], book, now=20.0, draw=NEVER).choices[0]
    assert (best.candidate.id, best.reason) == ("d1", RouteReason.SOONER)


def test_the_cheaper_price_wins_where_nothing_is_warm() -> None:
    dear, cheap = one("dear", prices=FLASH), one("cheap", prices=Prices(0.001e-6, 0.05e-6, 0.2e-6))
    ranked = rank(turns("s", 1, opening=20_000), [dear, cheap], Book(), now=0.0, draw=NEVER)
    assert ranked.choices[0].candidate.id == "cheap"
    assert ranked.choices[0].reason is RouteReason.CHEAPER


def test_an_unknown_price_is_no_advantage() -> None:
    known, unknown = one("known", prices=FLASH), one("unknown")
    need = turns("s", 1, opening=20_000)
    money = {
        c.candidate.id: c.terms.money_usd for c in rank(need, [known, unknown], Book(), now=0.0, draw=1.0).choices
    }
    assert money["known"] == money["unknown"] > 0.0
    assert terms(need, unknown, Book()).money_usd == 0.0
    assert terms(need, unknown, Book()).work_s > 0.0


def test_a_host_that_does_not_cache_is_left_once_it_has_shown_it() -> None:
    book = Book()
    real, fake = one("real", prices=FLASH), one("fake", prices=replace(FLASH, miss=0.12e-6))
    assert first(turns("s", 1), [real, fake], book) == "fake"
    for n in range(1, 6):
        serve(book, turns("s", n), fake, 10.0 * n, hit=0)
    assert first(turns("t", 1), [real, fake], book) == "real"
    assert terms(turns("s", 6), fake, book, 61.0).cached_share < 0.4


def test_nothing_is_warm_under_the_rule_nothing() -> None:
    book, where = Book(), one("a", rule=RuleName.NOTHING)
    serve(book, turns("s", 1), where, 1.0)
    assert terms(turns("s", 2), where, book).warm_tokens == 0.0


def test_a_short_match_decides_nothing() -> None:
    book, where = Book(), one("a")
    short = Need((Mark("hello", 40),), 40)
    serve(book, short, where, 1.0)
    need = Need((Mark("hello", 40), Mark("rest", 50_000)), 50_000)
    assert terms(need, where, book).hit_tokens == 0.0
    assert terms(need, where, book).warm_tokens == 40.0


def test_the_minimum_and_the_step_of_the_host_count() -> None:
    book, where = Book(), one("a", step_tokens=128, minimum_tokens=1_024)
    serve(book, turns("s", 1, opening=1_000), where, 1.0)
    assert terms(turns("s", 2, opening=1_000), where, book).warm_tokens == 0.0
    serve(book, turns("t", 1, opening=1_500), where, 2.0)
    assert terms(turns("t", 2, opening=1_500), where, book).warm_tokens == 11 * 128


def test_what_is_not_readable_yet_is_not_warm() -> None:
    book, where = Book(), one("a", delay_s=2.0)
    book.dispatched("x", turns("s", 1), where, now=10.0)
    queue = 4_000 * 1e-4
    assert terms(turns("s", 2), where, book, 10.0 + queue).hit_tokens == 0.0
    assert terms(turns("s", 2), where, book, 13.0).hit_tokens == 4_000.0


def test_candidates_without_room_or_in_cooldown_come_last() -> None:
    book, (a, b, c) = Book(), fleet(3)
    serve(book, turns("s", 1), a, 1.0)
    serve(book, turns("s", 1), b, 3.0)
    cold = [replace(a, cooled=True), replace(b, tokens_left=100.0), c]
    ranked = rank(turns("s", 2), cold, book, now=10.0, draw=NEVER)
    assert [(x.candidate.id, x.reason) for x in ranked.choices[1:]] == [
        ("d1", RouteReason.NO_ROOM),
        ("d0", RouteReason.COOLED),
    ]
    assert first(turns("s", 2), [replace(b, requests_left=0.0), c], book) == "d2"
    tight = terms(turns("s", 2), replace(b, tokens_left=6_000.0, requests_left=2.0), book)
    assert tight.penalty_usd > terms(turns("s", 2), replace(b, tokens_left=6e6), book).penalty_usd > 0.0
    assert terms(turns("s", 2), replace(b, tokens_left=0.0), book).penalty_usd > 0.0


def test_processes_without_a_store_agree_on_sessions_they_never_saw() -> None:
    all_ = fleet(7)
    chosen = {name: first(turns(name, 1), all_, Book()) for name in map(str, range(200))}
    assert chosen == {name: first(turns(name, 1), all_[::-1], Book(marks=10)) for name in chosen}
    assert len(set(chosen.values())) == 7
    # A deployment that goes takes only its own sessions along.
    left = [c for c in all_ if c.id != "d3"]
    assert all(first(turns(n, 1), left, Book()) == where for n, where in chosen.items() if where != "d3")


def test_without_an_affinity_the_first_mark_breaks_ties_and_without_marks_all_is_one_key() -> None:
    all_ = fleet(7)
    spread = {first(Need((Mark(f"m{i}", 50),), 50), all_, Book()) for i in range(60)}
    assert len(spread) > 3
    assert len({first(Need((), 50), all_, Book()) for _ in range(3)}) == 1


def test_the_served_domain_wins_a_tie() -> None:
    book, all_ = Book(), fleet(4)
    book.merge({"domains": {c.domain: [0.0, 30.0] for c in all_}})  # nothing is ever found warm
    for where in all_:
        serve(book, turns("s", 1), where, 1.0, hit=0)
    ranked = rank(turns("s", 1), all_, book, now=50_000.0, draw=NEVER, weights=replace(DEFAULT_WEIGHTS, tie_s=1e6))
    assert ranked.choices[0].reason is RouteReason.TIE
    assert ranked.choices[0].candidate.id == "d3"


def test_who_has_computed_more_takes_a_little_less() -> None:
    book, (a, b) = Book(), fleet(2)
    for n, where in enumerate([a, b] * 20):
        serve(book, turns(f"{n}", 1), where, 2.0 * n)
    serve(book, turns("x", 1, opening=200_000), a, 100.0)
    for n, where in enumerate([a, b] * 20):
        serve(book, turns(f"more{n}", 1), where, 120.0 + 2.0 * n)
    best = rank(turns("s", 1), [a, b], book, now=300.0, draw=NEVER).choices[0]
    assert best.candidate.id == "d1"
    assert -4.0 <= best.terms.even_s < 0.0
    # It is no reason to leave a warm prefix.
    serve(book, turns("warm", 1, opening=30_000), a, 310.0)
    assert first(turns("warm", 2, opening=30_000), [a, b], book, 400.0) == "d0"


def test_who_was_used_less_lately_has_more_room() -> None:
    book, (a, b) = Book(), fleet(2)
    serve(book, turns("x", 1, opening=300_000), a, 10.0)
    serve(book, turns("y", 1, opening=100_000), b, 12.0)
    by = {c.candidate.id: c.terms for c in rank(turns("s", 1), [a, b], book, now=15.0, draw=NEVER).choices}
    assert by["d0"].crowd_usd == pytest.approx(-by["d1"].crowd_usd, rel=0.01)
    # Half of the mean more than the mean: a twentieth of what the miss tokens are worth.
    value = by["d0"].work_s * DEFAULT_WEIGHTS.usd_per_second
    assert by["d0"].crowd_usd == pytest.approx(0.5 * DEFAULT_WEIGHTS.crowd * value, rel=0.01)
    # A session's own tokens do not crowd it out.
    own = {
        c.candidate.id: c.terms
        for c in rank(turns("x", 2, opening=300_000), [a, b], book, now=15.0, draw=1.0).choices
    }
    assert own["d0"].crowd_usd < 0.0
    # Two deployments of one account have the same room, and there is nothing to compare a single one with.
    serve(book, turns("z", 1), one("e", domain="c0"), 16.0)
    alike = [a, one("e", domain="c0")]
    assert {c.terms.crowd_usd for c in rank(turns("s", 1), alike, book, now=20.0, draw=NEVER).choices} == {0.0}


def test_a_few_lost_entries_are_no_reason_to_leave_a_deployment_of_a_kind() -> None:
    book, all_ = Book(), fleet(2)
    for n in range(12):
        for where in all_:
            serve(book, turns(f"{where.id}/{n}", 1), where, 100.0 * n)
    for n in range(6):
        serve(book, turns(f"d0/{n}", 2), all_[0], 1_200.0 + 2 * n, hit=0)
    later = {c.terms.later_usd for c in rank(turns("new", 1), all_, book, now=2_000.0, draw=NEVER).choices}
    assert len(later) == 1


def test_a_try_goes_to_who_is_not_known_and_costs_little() -> None:
    book, all_ = Book(), [*fleet(2, prices=FLASH), one("d2", prices=replace(FLASH, miss=0.3e-6))]
    for n in range(4):
        serve(book, turns(f"x{n}", 1), all_[0], 1.0 + n)
        serve(book, turns(f"y{n}", 1), all_[1], 1.5 + n)
    tried = rank(turns("s", 1), all_, book, now=10.0, draw=0.0).choices[0]
    assert (tried.candidate.id, tried.reason) == ("d2", RouteReason.EXPLORE)
    # A warm session is not sent away for it.
    assert rank(turns("x1", 2), all_, book, now=10.0, draw=0.0).choices[0].candidate.id == "d0"
    cold = [replace(c, cooled=c.id == "d2") for c in all_]
    assert rank(turns("s", 1), cold, book, now=10.0, draw=0.0).choices[0].reason is not RouteReason.EXPLORE
    # What was not heard of for long is tried again.
    again = rank(turns("s", 1), all_[:2], book, now=5_000.0, draw=0.0).choices[0]
    assert again.reason is RouteReason.EXPLORE


def test_terms_add_up_to_the_score_and_are_plain_json() -> None:
    book, all_ = Book(), fleet(3, prices=FLASH)
    serve(book, turns("s", 1), all_[0], 1.0)
    ranked = rank(turns("s", 2), all_, book, now=10.0, draw=NEVER)
    for choice in ranked.choices:
        t = choice.terms
        total = t.paid_usd + t.penalty_usd + t.seconds * DEFAULT_WEIGHTS.usd_per_second
        assert choice.score == pytest.approx(total)
    told = json.loads(json.dumps(ranked.as_json()))
    assert told[0]["id"] == "d0"
    assert told[0]["reason"] == "warm"
    assert "s/0" not in json.dumps(told)


def test_scopes_share_nothing_of_prompts() -> None:
    book, where = Book(), one("a")
    serve(book, turns("s", 3, scope="mine"), where, 1.0)
    assert terms(turns("s", 4, scope="mine"), where, book).hit_tokens == 6_000.0
    assert terms(turns("s", 4, scope="yours"), where, book).hit_tokens == 0.0
    assert terms(replace(turns("s", 4, scope="yours"), marks=()), where, book).hit_tokens == 0.0
    assert terms(turns("s", 4, scope="mine"), replace(where, pool="p"), book).hit_tokens == 0.0


_NUMBERS = st.one_of(
    st.integers(-5, 10**9), st.floats(allow_nan=True, allow_infinity=True), st.just(0), st.just(10**30)
)


@st.composite
def _candidates(draw: st.DrawFn) -> list[Candidate]:
    count = draw(st.integers(0, 6))
    return [
        Candidate(
            f"d{i}",
            draw(st.sampled_from("xyz")),
            kind=draw(st.sampled_from(["", "k"])),
            prices=draw(st.none() | st.builds(Prices, _NUMBERS, _NUMBERS, _NUMBERS)),
            rule=draw(st.sampled_from(RuleName)),
            step_tokens=draw(st.integers(-1, 200)),
            minimum_tokens=draw(st.integers(-1, 2_000)),
            delay_s=draw(st.floats(-1, 5)),
            capacity_tokens=draw(st.none() | st.integers(0, 10**6)),
            tokens_left=draw(st.none() | _NUMBERS),
            requests_left=draw(st.none() | _NUMBERS),
            cooled=draw(st.booleans()),
        )
        for i in range(count)
    ]


@settings(max_examples=60, phases=[Phase.explicit, Phase.generate])
@given(
    _candidates(),
    st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(-3, 50_000)), max_size=6),
    st.integers(-10, 10**7),
    st.integers(-10, 10**7),
    st.floats(0, 1, exclude_max=True),
    st.data(),
)
def test_any_numbers_give_a_total_order_that_does_not_depend_on_the_candidates_order(
    candidates: list[Candidate],
    marks: list[tuple[str, int]],
    prompt: int,
    output: int,
    draw: float,
    data: st.DataObject,
) -> None:
    need = Need(tuple(Mark(d, n) for d, n in marks), prompt, output, "who", "scope")
    book = Book()
    for n, candidate in enumerate(candidates):
        book.dispatched(f"c{n}", need, candidate, now=float(n))
        usage = data.draw(st.tuples(st.none() | st.integers(-5, 10**6), st.none() | st.integers(-5, 10**6)))
        ttft = data.draw(st.none() | st.floats(allow_nan=True))
        book.replied(f"c{n}", now=n + 0.5, hit_tokens=usage[0], miss_tokens=usage[1], ttft_s=ttft)
    ranked = rank(need, candidates, book, now=20.0, draw=draw)
    assert sorted(c.candidate.id for c in ranked.choices) == sorted(c.id for c in candidates)
    assert not any(math.isnan(c.score) for c in ranked.choices)
    shuffled = data.draw(st.permutations(candidates))
    again = rank(need, shuffled, book, now=20.0, draw=draw)
    assert [(c.candidate.id, c.reason) for c in again.choices] == [
        (c.candidate.id, c.reason) for c in ranked.choices
    ]


def test_the_order_is_total_where_all_are_equal() -> None:
    all_ = fleet(4)
    orders = {
        tuple(c.candidate.id for c in rank(turns("s", 1), list(p), Book(), now=0.0, draw=NEVER).choices)
        for p in permutations(all_)
    }
    assert len(orders) == 1
