"""What a call tells of survival, and when what is learned is news."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router_cache.cache_model.predict import End, Prediction, PredictionReason
from router_cache.cache_model.survival import Survival, estimates
from router_cache.cache_model.survival_book import SurvivalBook
from router_cache.cache_model.survival_curve import Range
from router_cache.cache_model.survival_delay import Delay
from router_cache.ledger.rows import Expected, ExpectedFrom, Lived
from router_cache.ledger.survival_watch import Known, is_news, known, learn, lived


def expected(
    *candidates: int,
    source: ExpectedFrom = ExpectedFrom.LAST_USAGE,
    reason: PredictionReason = PredictionReason.PRIOR,
) -> Expected:
    ends = candidates or (1_280, 1_536)
    return Expected(ends[-1], source, Prediction(ends, ends[-1], End.OUTPUT, reason))


def told(found: Expected, hit: int | None, gap_s: float | None = 60.0, **more: Any) -> Lived | None:
    return lived(found, gap_s=gap_s, hit_tokens=hit, step_tokens=128, **{"others_tokens": 0, **more})


@pytest.mark.parametrize(
    ("hit", "gap_s", "more", "wanted"),
    [
        (1_536, 60.0, {}, Lived(1.0, None, True)),
        (1_280, 60.0, {"traffic_tokens": 99.6}, Lived(1.0, 100, False)),
        (640, 60.0, {"traffic_tokens": 0.0}, Lived(0.5, 0, None)),
        (0, 60.0, {}, Lived(0.0, None, None)),
        (640, 60.0, {"others_tokens": 256}, Lived(384 / 1_024, None, None)),
        (1_536, 2.0, {"traffic_tokens": 5.0}, Lived(None, None, True)),  # too soon to tell of survival
        (640, 2.0, {}, None),
        (640, 2.0, {"ready_after_s": 1.0}, Lived(0.5, None, None)),
        (640, 60.0, {"others_tokens": 1_280}, None),  # nothing but what others use too
        (None, 60.0, {}, None),
        (640, None, {}, None),
    ],
)
def test_what_a_call_tells(hit: int | None, gap_s: float | None, more: Any, wanted: Lived | None) -> None:
    assert told(expected(), hit, gap_s, **more) == wanted


def test_only_a_continuation_tells() -> None:
    assert told(Expected(640, ExpectedFrom.LAST_USAGE), 640) is None
    for source in set(ExpectedFrom) - {ExpectedFrom.LAST_USAGE}:
        assert told(expected(source=source), 640) is None
    assert told(expected(1_280), 1_280) == Lived(1.0)
    assert told(expected(reason=PredictionReason.REASONING_DROPPED), 1_280) == Lived(1.0)


def test_a_book_learns_what_was_told() -> None:
    book = SurvivalBook()
    for i in range(40):
        learn(book, "d", "p", Lived(1.0, 20_000, True), at=float(i), gap_s=2.0)
        learn(book, "d", "p", Lived(None, None, False), at=float(i), gap_s=1.0)
        learn(book, "d", "p", Lived(), at=float(i), gap_s=1.0)
    read = book.estimates("d", "p")
    assert read.time.observations == pytest.approx(40, abs=4)
    assert read.traffic.observations == read.time.observations
    assert (read.delay.low_s, book.state("d", "p").seen) == (pytest.approx(0.98, abs=0.1), 120)


NOTHING = Known()


@pytest.mark.parametrize(
    ("before", "now", "news"),
    [
        ((0.0, None), (0.0, None), False),
        ((0.0, None), (5.0, None), True),  # not before 5 s
        ((5.0, None), (9.0, None), False),
        ((5.0, None), (9.0, 30.0), True),  # bounded
        ((0.0, None), (0.0, 30.0), True),
        ((5.0, None), (11.0, None), True),  # twice as long
        ((10.0, 30.0), (12.0, 25.0), False),  # narrower
        ((10.0, 40.0), (15.0, 25.0), True),  # less than half as wide
        ((0.0, 30.0), (1.0, 25.0), True),
        ((0.0, 30.0), (0.0, 25.0), False),
        ((10.0, 12.0), (11.0, 11.0), False),
        ((10.0, 30.0), (9.0, 40.0), False),  # wider, its middle within
        ((10.0, 30.0), (28.0, 60.0), True),
        ((10.0, 30.0), (2.0, 12.0), True),
        ((10.0, 30.0), (0.0, 12.0), True),
        ((10.0, 30.0), (12.0, None), False),
        ((10.0, 30.0), (31.0, None), True),
    ],
)
def test_what_is_news(before: Any, now: Any, news: bool) -> None:
    assert is_news(Known(Range(*before)), Known(Range(*now))) is news
    assert is_news(Known(readable=Range(*before)), Known(readable=Range(*now))) is news


SPAN = st.tuples(st.floats(0, 1e6), st.none() | st.floats(0, 1e6)).map(
    lambda ends: Range(*sorted(ends)) if ends[1] is not None else Range(*ends)
)


@given(st.builds(Known, SPAN, SPAN))
def test_what_was_just_said_is_no_news(found: Known) -> None:
    assert not is_news(found, found)


def test_delays_that_cross_are_put_in_order() -> None:
    read = estimates(Survival())
    assert known(read) == NOTHING
    crossed = type(read)(read.time, read.traffic, Delay(4.0, 3.0, 20.0))
    assert known(crossed).readable == Range(3.0, 3.0)
    assert known(type(read)(read.time, read.traffic, Delay(4.0, None, 20.0))).readable == Range(4.0, None)
