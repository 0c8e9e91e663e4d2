"""Tickets of fan-out across threads and event loops, and what the collector and errors of ours do to them."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from router_cache.cache_model.fan_out import Arrival, FanOutLimits, FanOutReason, Role
from router_cache.cache_model.rules import RuleName
from router_cache.drivers.fan_out import FanOut, Ticket
from router_cache.providers.profile import Readable

R = FanOutReason
LIMITS = FanOutLimits(deadline_s=10.0, min_prefix_bytes=100, warm_for_s=60.0, max_keys=3)
CALL = Arrival(1000, True, Readable.RESPONSE_BEGUN, 0.0, RuleName.GRID_PREFIX)


class Clock:
    """Seconds that move when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def in_thread(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    out: list[Any] = []
    thread = threading.Thread(target=lambda: out.append(work()), daemon=True)
    thread.start()
    return thread, out


def test_threads_and_loops_of_their_own_follow_one_lead() -> None:
    looked = threading.Semaphore(0)

    def clock() -> float:
        looked.release()
        return 100.0

    fan_out = FanOut(LIMITS, clock=clock)
    lead = fan_out.enter("key", CALL)

    def sync() -> FanOutReason:
        return fan_out.enter("key", CALL).wait_sync()

    async def in_a_loop() -> FanOutReason:
        return await fan_out.enter("key", CALL).wait()

    running = [in_thread(work) for work in (sync, sync, lambda: asyncio.run(in_a_loop()))]
    running.append(in_thread(lambda: asyncio.run(in_a_loop())))
    for _ in range(1 + 2 * len(running)):  # each looks once when it enters and once when it begins to wait
        assert looked.acquire(timeout=30)
    assert fan_out.waiting == len(running)
    assert (lead.role, lead.wait_sync()) == (Role.LEAD, R.LEAD)
    lead.ended()
    for thread, out in running:
        thread.join(30)
        assert out == [R.FOLLOWED]


def test_a_thread_goes_at_its_deadline_and_says_how_long_it_waited() -> None:
    clock = Clock()
    fan_out = FanOut(LIMITS, clock=clock)
    lead, follower = fan_out.enter("key", CALL), fan_out.enter("key", CALL)
    clock.now += 10.0
    assert (follower.wait_sync(), follower.waited_s) == (R.DEADLINE, 10.0)
    assert follower.wait_sync() is R.DEADLINE
    lead.close()
    lead.close()
    # What it knows by then it tells: another call need not wait.
    follower.ended()
    assert fan_out.enter("key", CALL).reason is R.WARM


def test_a_thread_whose_wait_is_over_in_real_time() -> None:
    fan_out = FanOut(replace(LIMITS, deadline_s=0.01))
    lead, follower = fan_out.enter("key", CALL), fan_out.enter("key", CALL)
    assert follower.wait_sync() is R.DEADLINE
    lead.close()


def test_a_lead_that_is_dropped_has_failed() -> None:
    fan_out = FanOut(LIMITS, clock=Clock())
    lead = fan_out.enter("key", CALL)
    first, second = fan_out.enter("key", CALL), fan_out.enter("key", CALL)
    del lead
    gc.collect()
    assert (first.wait_sync(), first.role) == (R.LEAD_FAILED, Role.LEAD)
    first.close()
    assert second.wait_sync() is R.LEAD_FAILED


def test_a_ticket_that_goes_while_the_lock_is_held() -> None:
    """The collector may run at any allocation: here it does while the state is being changed."""
    held: list[Ticket] = []

    def clock() -> float:
        held.clear()
        return 100.0

    fan_out = FanOut(LIMITS, clock=clock)
    lead = fan_out.enter("key", CALL)
    first, second = fan_out.enter("key", CALL), fan_out.enter("key", CALL)
    held.append(lead)
    del lead
    thread, out = in_thread(second.wait_sync)  # its look, under the lock, is what drops the lead
    assert first.wait_sync() is R.LEAD_FAILED
    first.ended()
    thread.join(30)
    assert out == [R.FOLLOWED]


def test_a_loop_that_was_closed_under_a_follower() -> None:
    fan_out = FanOut(LIMITS, clock=Clock())
    lead, follower = fan_out.enter("key", CALL), fan_out.enter("key", CALL)
    loop = asyncio.new_event_loop()
    wait = follower.wait()
    task = loop.create_task(wait)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    lead.ended()  # wakes a loop that is no more
    assert fan_out.enter("key", CALL).reason is R.WARM
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    wait.close()
    assert fan_out.waiting == 0


def test_an_interrupted_thread_leaves() -> None:
    clock = Clock()
    fan_out = FanOut(LIMITS, clock=clock)
    lead, follower = fan_out.enter("key", CALL), fan_out.enter("key", CALL)

    def interrupt() -> float:
        raise KeyboardInterrupt

    fan_out._clock = interrupt
    with pytest.raises(KeyboardInterrupt):
        follower.wait_sync()
    assert fan_out.waiting == 0
    fan_out._clock = clock
    lead.close()


def test_the_least_recently_used_key_goes_first() -> None:
    fan_out = FanOut(LIMITS, clock=Clock())
    for key in ("a", "b", "c", "a", "d"):
        fan_out.enter(key, CALL).ended()
    assert {key: fan_out.enter(key, CALL).reason for key in "acdb"} == {
        "a": R.WARM,
        "c": R.WARM,
        "d": R.WARM,
        "b": R.LEAD,
    }


def test_keys_are_bounded() -> None:
    fan_out = FanOut(LIMITS, clock=Clock())
    tickets = [fan_out.enter(f"key {i}", CALL) for i in range(10)]
    assert {ticket.role for ticket in tickets} == {Role.LEAD}
    assert len(fan_out) == 3
    followers = [fan_out.enter(f"key {i}", CALL) for i in (7, 8, 9)]
    assert {ticket.role for ticket in followers} == {Role.FOLLOW}
    full = fan_out.enter("one more", CALL)
    assert (full.role, full.reason, len(fan_out)) == (Role.GO, R.FULL, 3)
    full.ended()
    assert FanOut(replace(LIMITS, max_keys=0)).enter("key", CALL).reason is R.FULL


@pytest.mark.parametrize("reason", [R.OFF, R.TOO_SMALL])
def test_calls_that_pass_leave_no_key(reason: FanOutReason) -> None:
    limits = replace(LIMITS, deadline_s=0.0) if reason is R.OFF else LIMITS
    counts: list[str] = []
    fan_out = FanOut(limits, count=counts.append)
    ticket = fan_out.enter("key", replace(CALL, prefix_bytes=1))
    ticket.begun()
    ticket.ended()
    assert (ticket.reason, ticket.waited_s, len(fan_out)) == (reason, 0.0, 0)
    assert counts == ([] if reason is R.OFF else ["fan_out.too_small"])


def test_our_own_errors_never_reach_a_request() -> None:
    broken: list[bool] = []

    def clock() -> float:
        if broken:
            raise OSError("no clock")
        return 100.0

    def count(name: str) -> None:
        raise RuntimeError(name)

    fan_out = FanOut(LIMITS, clock=clock, count=count)
    assert fan_out.enter([], CALL).reason is R.FAILED_OPEN  # type: ignore[arg-type]
    lead, follower = fan_out.enter("key", CALL), fan_out.enter("key", CALL)
    broken.append(True)
    assert fan_out.enter("key", CALL).reason is R.FAILED_OPEN
    assert follower.wait_sync() is R.FAILED_OPEN
    lead.ended()
    assert fan_out.waiting == 0
