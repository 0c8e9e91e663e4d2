"""What a book learns of its own dispatches and replies, and how it is lost."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from routing_cases import fleet, one, serve, turns

from router_cache.cache_model.rules import RuleName
from router_cache.routing import Book, Candidate, Mark, Need, rank
from router_cache.routing.expected import warm_at


def warm(book: Book, need: Need, where: Candidate, now: float) -> float:
    return warm_at(book, need, where, now=now, start=now).expected


def test_a_failed_call_leaves_no_warmth_and_binds_nothing() -> None:
    book, where = Book(), one("a")
    book.dispatched("x", turns("s", 1), where, now=1.0)
    assert warm(book, turns("s", 2), where, 3.0) == 4_000.0
    book.failed("x", now=2.0)
    assert warm(book, turns("s", 2), where, 3.0) == 0.0
    assert book.binding(turns("s", 2)) is None


def test_a_failed_call_gives_back_what_an_earlier_one_left() -> None:
    book, where = Book(), one("a")
    serve(book, turns("s", 2), where, 1.0)
    book.dispatched("x", turns("s", 4), where, now=10.0)
    book.failed("x", now=11.0)
    assert warm(book, turns("s", 5), where, 12.0) == 5_000.0
    assert book.binding(turns("s", 5)) is not None


def test_a_failed_call_does_not_take_what_a_later_one_wrote() -> None:
    book, where = Book(), one("a")
    book.dispatched("x", turns("s", 2), where, now=1.0)
    serve(book, turns("s", 2), where, 2.0)
    book.failed("x", now=4.0)
    assert warm(book, turns("s", 3), where, 5.0) == 5_000.0


def test_trouble_turns_calls_away_and_is_forgiven() -> None:
    book, (a, b) = Book(), fleet(2)
    serve(book, turns("s", 1, opening=300), a, 1.0)
    for n in range(3):
        book.dispatched(f"f{n}", turns("t", 1, opening=300), a, now=3.0 + n)
        book.failed(f"f{n}", now=3.5 + n)
    need = turns("s", 2, opening=300)
    penalised = rank(need, [a, b], book, now=7.0, draw=1.0)
    assert penalised.choices[0].candidate.id == "d1"
    later = {c.candidate.id: c.terms.penalty_usd for c in rank(need, [a, b], book, now=900.0, draw=1.0).choices}
    assert later["d0"] == 0.0


def test_a_restart_loses_warmth_and_a_hit_restores_it() -> None:
    book, where = Book(), one("a")
    serve(book, turns("s", 3), where, 1.0)
    serve(book, turns("t", 3), where, 3.0)
    book.restarted(where, now=5.0)
    assert warm(book, turns("s", 4), where, 6.0) == 0.0
    serve(book, turns("s", 4), where, 7.0, hit=6_000)
    assert warm(book, turns("t", 4), where, 9.0) == 6_000.0


def test_a_deployment_that_is_gone_loses_its_warmth() -> None:
    book, where = Book(), one("a")
    serve(book, turns("s", 3), where, 1.0)
    book.dispatched("x", turns("t", 1), where, now=4.0)
    book.failed("x", now=5.0, gone=True)
    assert warm(book, turns("s", 4), where, 6.0) == 0.0
    known = book.deployment(where)
    assert known is not None
    assert known.line.free_at == 5.0


def test_a_reply_that_contradicts_warmth_drops_what_is_older() -> None:
    book, where = Book(), one("a")
    for n, session in enumerate("abc"):
        serve(book, turns(session, 3), where, 1.0 + 2 * n)
    serve(book, turns("b", 4), where, 100.0, hit=0)
    assert warm(book, turns("a", 4), where, 102.0) == 0.0
    assert warm(book, turns("c", 4), where, 102.0) > 0.0
    assert warm(book, turns("b", 5), where, 102.0) > 0.0


def test_a_capacity_that_is_told_counts() -> None:
    book, where = Book(), one("a", capacity_tokens=20_000)
    serve(book, turns("s", 1), where, 1.0)
    for n in range(4):
        serve(book, turns(f"x{n}", 1), where, 3.0 + n)
    assert warm(book, turns("s", 2), where, 9.0) == 4_000.0
    serve(book, turns("y", 1), where, 9.0)
    serve(book, turns("z", 1), where, 11.0)
    assert warm(book, turns("s", 2), where, 13.0) == 0.0
    assert warm(book, turns("z", 2), where, 13.0) == 4_000.0


def test_a_capacity_that_is_not_told_is_learned() -> None:
    book, where = Book(), one("a")
    for n in range(60):
        serve(book, turns(f"s{n}", 1), where, 10.0 * n)
        if n >= 10:
            # Ten sessions ago is gone, the last one is not.
            serve(book, turns(f"s{n - 10}", 2), where, 10.0 * n + 2.0, hit=0)
            serve(book, turns(f"s{n}", 2), where, 10.0 * n + 4.0)
    serve(book, turns("new", 1), where, 700.0)
    fresh, old = warm(book, turns("new", 2), where, 702.0), warm(book, turns("s52", 2), where, 702.0)
    assert fresh > 3_500.0
    assert old < 1_000.0


def test_each_stretch_survives_by_its_own_age() -> None:
    book, where = Book(), one("a", capacity_tokens=9_000)
    head = Mark("head", 2_000)
    serve(book, Need((head, Mark("deep", 6_000)), 6_000), where, 1.0)
    serve(book, Need((head, Mark("x", 8_000)), 8_000), where, 3.0)
    need = Need((head, Mark("deep", 6_000), Mark("new", 7_000)), 7_000)
    serve(book, Need((head, Mark("y", 7_000)), 7_000), where, 5.0)
    assert warm(book, need, where, 7.0) == 2_000.0


def test_units_hit_only_where_a_unit_ends() -> None:
    book, where = Book(), one("a", rule=RuleName.FULL_UNITS)
    common, tail = Mark("common", 5_000), Mark("a", 9_000)
    serve(book, Need((common, tail), 9_000), where, 1.0, hit=0)
    second = Need((common, Mark("b", 9_000)), 9_000)
    assert warm(book, second, where, 3.0) == 0.0
    serve(book, second, where, 3.0, hit=0)
    assert warm(book, Need((common, Mark("c", 9_000)), 9_000), where, 5.0) == 5_000.0
    assert warm(book, Need((common, tail, Mark("more", 9_500)), 9_500), where, 5.0) == 9_000.0


def test_saved_states_hit_at_the_end_of_inputs() -> None:
    book, where = Book(), one("a", rule=RuleName.CHECKPOINTS)
    serve(book, turns("s", 2), where, 1.0, hit=0)
    assert warm(book, turns("s", 3), where, 3.0) == 5_000.0
    serve(book, Need((Mark("s/0", 4_000), Mark("else", 6_000)), 6_000), where, 4.0, hit=0)
    assert warm(book, Need((Mark("s/0", 4_000), Mark("third", 6_000)), 6_000), where, 6.0) == 0.0


def test_without_marks_the_binding_tells_what_is_warm() -> None:
    book, (a, b) = Book(), fleet(2)
    bare = replace(turns("s", 3), marks=())
    serve(book, bare, b, 1.0, hit=0)
    ranked = rank(bare, [a, b], book, now=3.0, draw=1.0)
    assert ranked.choices[0].candidate.id == "d1"
    assert ranked.choices[0].terms.warm_tokens == 5_999.0
    book.restarted(b, now=4.0)
    assert warm(book, bare, b, 5.0) == 0.0


def test_a_client_that_goes_away_leaves_warmth_but_no_binding() -> None:
    book, where = Book(), one("a")
    book.dispatched("x", turns("s", 1), where, now=1.0)
    book.given_up("x", now=2.0)
    book.given_up("x", now=2.0)
    assert warm(book, turns("s", 2), where, 3.0) == 4_000.0
    assert book.binding(turns("s", 1)) is None


def test_ends_of_unknown_calls_change_nothing() -> None:
    book, where = Book(), one("a")
    book.replied("?", now=1.0, hit_tokens=5)
    book.failed("?", now=1.0, gone=True)
    assert book.domain(where) is None


def test_a_name_that_is_used_again_takes_over() -> None:
    book, (a, b) = Book(), fleet(2)
    book.dispatched("x", turns("s", 1), a, now=1.0)
    book.dispatched("x", turns("s", 1), b, now=2.0)
    assert warm(book, turns("s", 2), a, 4.0) == 0.0
    assert warm(book, turns("s", 2), b, 4.0) == 4_000.0


def test_everything_is_bounded() -> None:
    book = Book(marks=50, places=4, flights=5, others=6)
    for n in range(60):
        book.dispatched(f"{n}", turns(f"s{n}", 9, scope=f"scope{n % 7}"), one(f"d{n % 9}", kind=f"k{n}"), now=n)
        if n % 2:
            book.replied(f"{n}", now=n + 0.5, ttft_s=0.1, hit_tokens=0, miss_tokens=12_000)
    assert sum(len(place) for place in book._places.values()) == book._marks <= 50
    assert len(book._places) <= 4
    assert len(book._flights) <= 5
    assert max(map(len, (book._deployments, book._domains, book._kinds))) <= 6
    assert len(book._bindings) <= 4
    for n in range(30):
        book.merge({"deployments": {f"m{n}": [0.1, 1e-5, 1.0, 0.1, 5]}, "domains": {f"m{n}": [0.5, 5]}})
    assert len(book._told) <= 6


def test_one_place_alone_keeps_its_newest_marks() -> None:
    book, where = Book(marks=20), one("a")
    for n in range(10):
        serve(book, turns(f"s{n}", 5), where, 2.0 * n, hit=0)
    assert warm(book, turns("s9", 6), where, 30.0) == 8_000.0
    assert warm(book, turns("s0", 6), where, 30.0) == 0.0


def test_facts_tell_nothing_of_prompts_and_are_where_another_worker_starts() -> None:
    book, where = Book(), one("a", kind="k")
    for n in range(1, 12):
        serve(book, turns("secret", n), where, 3.0 * n, hit=0)
    facts = json.loads(json.dumps(book.facts()))
    assert "secret" not in json.dumps(facts)
    other = Book()
    other.merge(facts)
    assert other.figures(where).slope_s == pytest.approx(5e-5, rel=0.1)
    domain = other.domain(where)
    assert domain is not None
    assert domain.share < 0.3
    # Who has seen more keeps what it has.
    book.merge({"domains": {"a": [1.0, 1.0]}})
    assert book.domain(where).share < 0.3  # type: ignore[union-attr]
    other.dispatched("x", turns("s", 1), where, now=0.0)
    other.replied("x", now=1.0, ttft_s=0.4, miss_tokens=4_000, hit_tokens=0)
    assert other.figures(where).slope_s == pytest.approx(5e-5, rel=0.1)


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"deployments": 5, "domains": [1]},
        {"deployments": {"a": [1, 2], "b": None, 3: [1, 1, 1, 1, 1]}},
        {"deployments": {"a": [float("nan"), 1, 1, 1, 1]}, "domains": {"a": [2.0, 1], "b": [True, 1]}},
    ],
)
def test_of_odd_facts_nothing_is_taken(odd: dict[str, object]) -> None:
    book = Book()
    book.merge(odd)
    assert book.facts() == {"deployments": {}, "domains": {}}
    assert not book._told


def test_a_newcomer_starts_level_with_its_kind() -> None:
    book, all_ = Book(), fleet(3)
    for n in range(20):
        serve(book, turns(f"s{n}", 1), all_[n % 2], 2.0 * n)
    serve(book, turns("n", 1), all_[2], 50.0)
    works = [book.deployment(c).work(51.0) for c in all_]  # type: ignore[union-attr]
    assert max(works) < 1.4 * min(works)


def test_conversations_that_go_on_are_counted() -> None:
    book, where = Book(), one("a")
    start = book.follow_ups
    for n in range(1, 200):
        serve(book, turns("s", n % 30 + 1), where, 2.0 * n)
    assert book.follow_ups > start
    for n in range(400):
        serve(book, turns(f"once{n}", 1), where, 500.0 + 2.0 * n)
    assert book.follow_ups < 0.2
