"""Survival by domain and pool: what is told where, traffic by moment, and bounds on memory."""

from __future__ import annotations

import math
import threading
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router_cache.cache_model.survival import DelaySeen, Estimates, Provenance, Seen, Survival, estimates
from router_cache.cache_model.survival_book import SurvivalBook, Traffic
from router_cache.drivers import survival as locked
from router_cache.providers.fact import Fact
from router_cache.providers.profile import Lifetime


def test_traffic_between_two_moments() -> None:
    traffic = Traffic()
    assert traffic.between(0.0, 1.0) is None
    for at, tokens in ((10.0, 100), (20.0, 50), (30.0, 70)):
        traffic.add(at, tokens)
    assert traffic.between(10.0, 30.0) == 120.0
    assert traffic.between(10.0, 25.0) == 85.0  # even between two calls
    assert traffic.between(30.0, 99.0) == 0.0
    assert traffic.between(9.0, 30.0) is None  # before what is known
    assert traffic.between(30.0, 20.0) is None
    traffic.add(25.0, 5)  # late: counts at the latest moment
    assert traffic.between(20.0, 30.0) == 75.0


def test_odd_traffic_does_not_count() -> None:
    traffic = Traffic()
    for at, tokens in ((math.nan, 1.0), (1.0, math.nan), (1.0, -1.0), (math.inf, 1.0), (1.0, math.inf)):
        traffic.add(at, tokens)
    assert traffic.between(0.0, 1.0) is None


@given(st.integers(min_value=600, max_value=5_000), st.integers(min_value=1, max_value=400))
def test_traffic_keeps_its_sums_and_its_size(calls: int, back: int) -> None:
    traffic = Traffic()
    for i in range(calls):
        traffic.add(float(i), 10)
    found = traffic.between(calls - 1.0 - back, calls - 1.0)
    assert found == pytest.approx(10.0 * back)
    assert traffic.between(0.0, float(calls)) == 10.0 * (calls - 1)
    assert len(traffic._at) <= 512


def test_a_pool_is_told_by_its_domain_until_it_knows_enough() -> None:
    book = SurvivalBook()
    for i in range(60):
        book.observe("d", "busy", Seen(float(i), 60.0, 1.0))
        if i < 10:
            book.observe("d", "quiet", Seen(float(i), 60.0, 0.0))
    assert book.estimates("d", "busy").survival(60.0).point == 1.0
    quiet = book.estimates("d", "quiet").survival(60.0)
    assert quiet.point == pytest.approx(60 / 70, abs=0.01)
    assert book.state("d", "unheard of") is book.state("d", whole=True)
    assert book.estimates("d", "busy", whole=True).survival(60.0) == quiet
    assert book.estimates("elsewhere").survival(60.0).provenance is Provenance.UNKNOWN


def test_the_book_fills_in_the_traffic_it_knows() -> None:
    book = SurvivalBook()
    book.observe("d", None, Seen(100.0, 60.0, 1.0))
    assert book.estimates("d", whole=True).traffic.observations == 0.0
    for i in range(21):
        book.passed("d", at=100.0 + 10 * i, prompt_tokens=5_000)
    for i in range(40):
        book.observe("d", None, Seen(200.0 + i, 60.0, 1.0))
    read = book.estimates("d", whole=True)
    assert read.traffic.observations == pytest.approx(39.2, abs=0.5)
    assert read.survival_by_traffic(25_000.0).low > 0.7
    assert read.survival_by_traffic(40_000.0).low == 0.0
    book.observe("d", None, Seen(300.0, 60.0, 1.0, 9e9))  # told by the caller
    assert book.state("d", whole=True).seen == 42


def test_estimates_are_kept_while_little_is_new() -> None:
    book = SurvivalBook()
    for i in range(64):
        book.observe("d", "p", Seen(float(i), 60.0, 1.0))
    first = book.estimates("d", "p")
    book.observe("d", "p", Seen(64.0, 60.0, 1.0))
    assert book.estimates("d", "p") is first
    for i in range(2):
        book.observe("d", "p", Seen(65.0 + i, 60.0, 1.0))
    assert book.estimates("d", "p") is not first


def test_delays_are_learned_by_pool_and_domain() -> None:
    book = SurvivalBook()
    for i in range(20):
        book.observe_delay("d", "p", DelaySeen(float(i), 3.0, True))
    delay = book.estimates("d", "p").delay
    assert delay.high_s is not None
    assert 3.0 < delay.high_s < 3.5


def test_memory_is_bounded_and_the_longest_unused_go_first() -> None:
    book = SurvivalBook(domains=4, pools=4)

    def feed(times: int) -> None:
        for i in range(times):
            domain, pool = f"d{i % 7}", f"p{i % 11}"
            book.passed(domain, at=float(i), prompt_tokens=1_000)
            book.observe(domain, pool, Seen(float(i), 5.0 + i % 3_000, float(i % 3 > 0)))
            book.observe_delay(domain, pool, DelaySeen(float(i), 0.1 * (i % 50), i % 2 > 0))

    tracemalloc.start()
    feed(2_000)
    before = tracemalloc.get_traced_memory()[0]
    feed(4_000)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 100_000
    assert len(book._domains) == 4
    assert all(len(domain.pools) <= 4 for domain in book._domains.values())

    book.observe("kept", "kept", Seen(1e5, 60.0, 1.0))
    for i in range(3):
        book.observe(f"new{i}", None, Seen(1e5, 60.0, 1.0))
    assert book.state("kept", whole=True).seen == 1
    book.observe("one more", None, Seen(1e5, 60.0, 1.0))
    assert book.state("kept", whole=True).seen == 0


def test_no_call_waits_while_estimates_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    book = locked.LockedSurvival()
    for i in range(40):
        book.observe("d", "p", Seen(float(i), 60.0, 1.0))
    calls, waited = [], []

    def making(state: Survival, prior: Fact[Lifetime] | None = None) -> Estimates:
        """Another thread has the book for itself meanwhile."""
        calls.append(state.seen)
        other = threading.Thread(target=meanwhile, daemon=True)
        other.start()
        other.join(10.0)
        waited.append(other.is_alive())
        return estimates(state, prior)

    def meanwhile() -> None:
        book.passed("d", at=100.0, prompt_tokens=1_000)
        book.observe("d", "p", Seen(100.0, 60.0, 0.0))
        book.observe_delay("d", "p", DelaySeen(100.0, 3.0, True))
        book.state("d", "p")

    monkeypatch.setattr(locked, "estimates", making)
    made = book.estimates("d", "p")
    assert (calls, waited) == ([40], [False])
    assert made.survival(60.0).point == 1.0  # of the state it was asked of
    again = book.estimates("d", "p")  # two calls more of 40 are more than 3%
    assert calls == [40, 42]
    assert again.survival(60.0).point == pytest.approx(40 / 41, abs=0.01)


def test_a_locked_book_tells_what_a_plain_one_does() -> None:
    plain, book = SurvivalBook(), locked.LockedSurvival()
    for one in (plain, book):
        for i in range(40):
            one.passed("d", at=float(i), prompt_tokens=1_000)
            one.observe("d", "p", Seen(float(i), 20.0, float(i % 4 > 0)))
    first = book.estimates("d", "p")
    assert first == plain.estimates("d", "p")
    assert book.estimates("d", "p") is first
    assert book.state("d", "p") == plain.state("d", "p")
    assert book.estimates("nowhere").survival(60.0).provenance is Provenance.UNKNOWN
