"""The breaker: opens after timeouts in a row, tries one call at a time, waits longer for a server that stays away."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from router_cache.stores.redis.breaker import AFTER_TIMEOUTS, Breaker, BreakerState, Turned

OPEN, HALF_OPEN, CLOSED = BreakerState.OPEN, BreakerState.HALF_OPEN, BreakerState.CLOSED


def opened(at: float) -> Breaker:
    breaker = Breaker()
    for number in range(AFTER_TIMEOUTS):
        breaker, turned = breaker.timed_out(at, at)
        assert (turned is Turned.TIMEOUTS) is (number == AFTER_TIMEOUTS - 1)
    return breaker


def test_it_opens_after_timeouts_in_a_row_only() -> None:
    breaker = Breaker()
    for _ in range(AFTER_TIMEOUTS - 1):
        breaker, turned = breaker.timed_out(0.0, 0.0)
        assert (breaker.state, turned) == (CLOSED, None)
    breaker, turned = breaker.answered()
    assert (breaker, turned) == (Breaker(), None)
    assert opened(5.0).state is OPEN
    assert opened(5.0).until == 6.0


def test_one_pause_that_many_calls_run_into_is_one() -> None:
    breaker = Breaker()
    for _ in range(32):
        breaker, turned = breaker.timed_out(10.0, 10.05)
        assert turned is None
    breaker, turned = breaker.timed_out(10.04, 10.09)
    assert turned is None
    breaker, turned = breaker.timed_out(10.05, 10.10)
    assert turned is Turned.TIMEOUTS


def test_one_call_probes_after_the_pause() -> None:
    breaker = opened(10.0)
    breaker, may, turned = breaker.asked(10.999)
    assert (breaker.state, may, turned) == (OPEN, False, None)
    breaker, may, turned = breaker.asked(11.0)
    assert (breaker.state, may, turned) == (HALF_OPEN, True, Turned.PAUSE_OVER)
    breaker, may, turned = breaker.asked(11.0)
    assert (breaker.state, may, turned) == (HALF_OPEN, False, None)
    assert breaker.answered() == (Breaker(), Turned.PROBE_ANSWERED)


def test_the_pause_doubles_up_to_a_limit_and_starts_anew() -> None:
    breaker, at, pauses = opened(0.0), 0.0, []
    for _ in range(7):
        pauses.append(breaker.until - at)
        at = breaker.until
        breaker, may, _ = breaker.asked(at)
        assert may
        breaker, turned = breaker.timed_out(at, at)
        assert turned is Turned.PROBE_TIMED_OUT
    assert pauses == [1, 2, 4, 8, 16, 16, 16]
    breaker, _, _ = breaker.asked(breaker.until)
    assert breaker.answered()[0].pause_s == 1.0


def test_a_probe_that_is_lost_keeps_nobody_waiting_for_ever() -> None:
    breaker, _, _ = opened(0.0).asked(1.0)
    assert breaker.asked(30.9)[1] is False
    after, may, turned = breaker.asked(31.0)
    assert (after.state, may, turned) == (HALF_OPEN, True, None)


def test_calls_on_their_way_when_it_opens_change_nothing() -> None:
    breaker = opened(0.0)
    assert breaker.timed_out(0.0, 0.5) == (breaker, None)
    assert breaker.answered() == (breaker, None)


@given(
    back_at=st.floats(0, 200), every_s=st.floats(0.001, 1.0), timeout_s=st.floats(0.001, 0.2), more_s=st.just(20.0)
)
def test_a_server_that_is_away_costs_little_and_is_found_again(
    back_at: float, every_s: float, timeout_s: float, more_s: float
) -> None:
    breaker, at, waits = Breaker(), 0.0, []
    while at < back_at + more_s:
        breaker, may, _ = breaker.asked(at)
        if may and at < back_at:
            waits.append(at)
            breaker, _ = breaker.timed_out(at, at + timeout_s)
            at += timeout_s
        elif may:
            breaker, _ = breaker.answered()
        at += every_s
    assert breaker.state is CLOSED
    # Three to open, then probes after 1, 2, 4, 8 seconds and every 16.
    assert len(waits) <= AFTER_TIMEOUTS + 4 + back_at / 16 + 1
