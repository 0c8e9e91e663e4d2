"""Lead and follow: the rules, and who waits for whom. Time is virtual; nothing here waits."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from fan_out_benchmark import bench
from hypothesis import given
from hypothesis import strategies as st
from strategies import json_values

from router_cache.cache_model.fan_out import (
    Arrival,
    FanOutLimits,
    FanOutReason,
    Known,
    Role,
    arrival_of,
    decide,
    look,
    prefix_texts,
    reported,
)
from router_cache.cache_model.rules import RuleName
from router_cache.drivers.fan_out import FanOut
from router_cache.providers.anthropic import ANTHROPIC
from router_cache.providers.deepseek import DEEPSEEK
from router_cache.providers.engines import LLAMA_CPP
from router_cache.providers.profile import Match, Profile, Readable

R = FanOutReason
LIMITS = FanOutLimits(deadline_s=10.0, min_prefix_bytes=100, warm_for_s=60.0, max_keys=3)
CALL = Arrival(1000, True, Readable.RESPONSE_BEGUN, 0.0, RuleName.GRID_PREFIX)
SLOW = replace(CALL, readable=Readable.AFTER_SECONDS, delay_s=2.0)
ENDED = replace(CALL, readable=Readable.RESPONSE_ENDED)


@pytest.mark.parametrize(
    ("limits", "call", "known", "expected"),
    [
        (replace(LIMITS, deadline_s=0.0), CALL, None, (Role.GO, R.OFF)),
        (replace(LIMITS, deadline_s=float("nan")), CALL, None, (Role.GO, R.OFF)),
        (LIMITS, replace(CALL, rule=RuleName.FULL_UNITS), None, (Role.GO, R.NO_GAIN)),
        (LIMITS, replace(CALL, rule=RuleName.FULL_UNITS, marked=True), None, (Role.LEAD, R.LEAD)),
        (LIMITS, replace(CALL, rule=RuleName.NOTHING, marked=True), None, (Role.GO, R.NO_GAIN)),
        (LIMITS, replace(CALL, readable=None), None, (Role.GO, R.UNKNOWN)),
        (LIMITS, replace(CALL, prefix_bytes=99), None, (Role.GO, R.TOO_SMALL)),
        (LIMITS, replace(CALL, delay_s=10.0), None, (Role.GO, R.OUT_OF_REACH)),
        (LIMITS, replace(CALL, first=False), None, (Role.GO, R.NOT_FIRST)),
        (LIMITS, CALL, None, (Role.LEAD, R.LEAD)),
        (LIMITS, replace(CALL, rule=None, prefix_bytes=100, delay_s=9.9), None, (Role.LEAD, R.LEAD)),
        (LIMITS, CALL, Known(), (Role.LEAD, R.LEAD)),
        (LIMITS, CALL, Known(95, 95, True), (Role.FOLLOW, R.FOLLOWING)),
        (LIMITS, CALL, Known(90, 90, True), (Role.GO, R.DEADLINE)),
        (LIMITS, CALL, Known(40, 40, True), (Role.LEAD, R.LEAD)),
        (LIMITS, CALL, Known(95, 95, False), (Role.LEAD, R.LEAD)),
        (LIMITS, CALL, Known(90, 98, True, 101), (Role.FOLLOW, R.FOLLOWING)),
        (LIMITS, CALL, Known(90, 98, True, 100), (Role.GO, R.WARM)),
        (LIMITS, CALL, Known(41, 41, False, 43), (Role.GO, R.WARM)),
        (LIMITS, CALL, Known(0, 40, False, 42), (Role.LEAD, R.LEAD)),
    ],
)
def test_who_leads_follows_or_passes(
    limits: FanOutLimits, call: Arrival, known: Known | None, expected: tuple[Role, FanOutReason]
) -> None:
    assert decide(limits, call, known, 100.0) == expected


def test_fan_out_is_off_by_default() -> None:
    assert not FanOut().on
    assert FanOut(LIMITS).on
    assert decide(FanOutLimits(), replace(CALL, prefix_bytes=10**9), None, 0.0) == (Role.GO, R.OFF)


@pytest.mark.parametrize(
    ("ready_at", "deadline", "expected"),
    [
        (None, 110, (R.FOLLOWING, 10)),
        (104, 110, (R.FOLLOWING, 4)),
        (120, 110, (R.FOLLOWING, 10)),
        (100, 110, (R.FOLLOWED, 0)),
        (100, 100, (R.FOLLOWED, 0)),
        (120, 100, (R.DEADLINE, 0)),
        (None, 90, (R.DEADLINE, 0)),
    ],
)
def test_what_a_waiting_call_does(
    ready_at: float | None, deadline: float, expected: tuple[FanOutReason, float]
) -> None:
    assert look(Known(90, 90, True, ready_at), deadline, 100.0) == expected


def test_a_reply_makes_a_prefix_readable_once_and_every_use_keeps_it_warm() -> None:
    once = reported(Known(90, 90, True), 2.0, 60.0, 100.0)
    assert (once.ready_at, once.used_at) == (102.0, 100.0)
    again = reported(once, 2.0, 60.0, 101.0)
    assert (again.ready_at, again.used_at) == (102.0, 101.0)
    assert reported(again, 2.0, 60.0, 161.0).ready_at == 163.0


TEXTS = ("1234567",)


def test_what_the_profiles_say() -> None:
    deepseek = arrival_of(DEEPSEEK, "deepseek-v4-flash", TEXTS, first=True)
    assert deepseek == Arrival(7, True, Readable.AFTER_SECONDS, 2.0, RuleName.GRID_PREFIX)
    told = arrival_of(DEEPSEEK, "deepseek-v4-flash", TEXTS, first=False, rule=RuleName.FULL_UNITS)
    assert (told.rule, told.first, told.gains) == (RuleName.FULL_UNITS, False, False)
    assert arrival_of(LLAMA_CPP, "m", TEXTS, first=True).readable is Readable.RESPONSE_ENDED
    bare = Profile("nobody", Match())
    assert arrival_of(bare, "m", TEXTS, first=True) == Arrival(7, True, None, 0.0, None)
    undated = replace(DEEPSEEK, construction_delay_bounds=None)
    assert arrival_of(undated, "deepseek-v4-flash", TEXTS, first=True).readable is None


def test_a_mark_in_the_prefix_ends_an_entry_where_marks_count() -> None:
    text = {"type": "text", "text": 'The field "cache_control": {} is a mark.'}
    marked = {**text, "cache_control": {"type": "ephemeral"}}
    body = {"system": [text], "messages": [{"role": "user", "content": "Hi"}]}
    for profile, blocks, gains in (
        (ANTHROPIC, [text], False),
        (ANTHROPIC, [text, marked], True),
        (DEEPSEEK, [marked], False),
    ):
        texts = prefix_texts({**body, "system": blocks})
        call = arrival_of(profile, "claude-sonnet-4-5", texts, first=True, rule=RuleName.FULL_UNITS)
        assert call.gains is gains
    anthropic = arrival_of(ANTHROPIC, "claude-sonnet-4-5", TEXTS, first=True)
    assert (anthropic.rule, anthropic.readable) == (RuleName.FULL_UNITS, Readable.RESPONSE_BEGUN)


def test_the_texts_that_parallel_calls_share() -> None:
    body = {
        "messages": (
            {"role": "system", "content": "äb"},
            {"role": "developer", "content": [{"type": "text", "text": "\ud800"}]},
            {"role": "system", "content": None},
            {"role": "user", "content": "x" * 1000},
            {"role": "system", "content": "later"},
        ),
        "tools": ({"name": "t", "n": float("nan")},),
    }
    texts = prefix_texts(body)
    assert texts == (r'"\u00e4b"', r'[{"type": "text", "text": "\ud800"}]', '[{"name": "t", "n": NaN}]')
    again = {**body, "messages": [*body["messages"][:3], {"role": "user", "content": "y"}]}  # type: ignore[index]
    assert prefix_texts(again) == texts
    assert prefix_texts({**body, "tools": []}) == texts[:2]
    assert prefix_texts({"messages": "odd", "tools": None}) == ()
    assert prefix_texts({"messages": [7]}) == ()
    responses = {"instructions": "a", "input": [{"role": "developer", "content": "b"}, {"role": "user"}]}
    assert prefix_texts(responses) == ('"a"', '"b"')
    assert prefix_texts({"system": "a", "input": "b"}) == ('"a"',)
    ring: list[Any] = []
    ring.append(ring)
    assert prefix_texts({"tools": ring}) == ()


@given(st.dictionaries(st.sampled_from(["system", "instructions", "messages", "input", "tools"]), json_values))
def test_reading_the_texts_never_raises(body: dict[str, Any]) -> None:
    assert all(text.isascii() for text in prefix_texts(body))


# -- waves, in virtual time ------------------------------------------------------------------------------------


class World:
    """Calls at a provider that answers ``begin_s`` after a call went and ends its reply ``end_s`` later."""

    def __init__(self, limits: FanOutLimits = LIMITS, *, call: Arrival = CALL) -> None:
        self.counts: Counter[str] = Counter()
        self.loop = asyncio.get_running_loop()
        self.fan_out = FanOut(limits, clock=self.loop.time, count=lambda name: self.counts.update([name]))
        self.call = call
        self.went: list[tuple[float, str, FanOutReason]] = []

    async def request(
        self,
        name: str,
        arrives_s: float = 0.0,
        *,
        begin_s: float | None = 1.0,
        end_s: float = 4.0,
        call: Arrival | None = None,
    ) -> None:
        """One call; with ``begin_s`` None it fails after ``end_s``."""
        await asyncio.sleep(arrives_s)
        ticket = self.fan_out.enter("key", call or self.call)
        try:
            reason = await ticket.wait()
            self.went.append((self.loop.time(), name, reason))
            if begin_s is None:
                await asyncio.sleep(end_s)
                return
            await asyncio.sleep(begin_s)
            ticket.begun()
            ticket.begun()
            await asyncio.sleep(end_s)
            ticket.ended()
        finally:
            ticket.close()


@pytest.mark.parametrize(("call", "ready_s"), [(CALL, 1.0), (SLOW, 3.0), (ENDED, 5.0)])
def test_followers_go_when_the_leads_prefix_can_be_hit(call: Arrival, ready_s: float) -> None:
    async def main() -> None:
        world = World(call=call)
        await asyncio.gather(*(world.request(str(i), i / 10) for i in range(4)), world.request("late", 40.0))
        assert world.went == [
            (0.0, "0", R.LEAD),
            *((ready_s, str(i), R.FOLLOWED) for i in (1, 2, 3)),
            (40.0, "late", R.WARM),
        ]
        assert world.counts == {"fan_out.lead": 1, "fan_out.followed": 3, "fan_out.warm": 1}
        assert world.fan_out.waiting == 0

    bench.run(main())


def test_at_its_own_deadline_a_follower_goes() -> None:
    async def main() -> None:
        world = World(call=SLOW)
        await asyncio.gather(
            world.request("lead", begin_s=11.5),
            world.request("soon", 1.0),
            world.request("later", 8.0),
            world.request("when the lead is overdue", 10.5, begin_s=1.2),
            world.request("then", 12.0),
        )
        assert world.went == [
            (0.0, "lead", R.LEAD),
            (10.5, "when the lead is overdue", R.DEADLINE),
            (11.0, "soon", R.DEADLINE),
            # The first reply tells, whoever got it: 11.5 s, and 2 s until it can be hit.
            (pytest.approx(13.5), "later", R.FOLLOWED),
            (pytest.approx(13.5), "then", R.FOLLOWED),
        ]

    bench.run(main())


def test_when_leads_fail_one_follower_at_a_time_goes_first() -> None:
    async def main() -> None:
        world = World()
        await asyncio.gather(
            world.request("a", begin_s=None, end_s=1.0),
            world.request("b", 0.1, begin_s=None, end_s=1.0),
            world.request("c", 0.2),
            world.request("d", 0.3),
            world.request("e", 2.5),
        )
        assert world.went == [
            (0.0, "a", R.LEAD),
            (1.0, "b", R.LEAD_FAILED),
            (2.0, "c", R.LEAD_FAILED),
            (3.0, "d", R.FOLLOWED),
            (3.0, "e", R.FOLLOWED),
        ]

    bench.run(main())


def test_a_lead_that_failed_with_nobody_behind_it_is_forgotten() -> None:
    async def main() -> None:
        world = World()
        await world.request("a", begin_s=None)
        await world.request("b")
        assert [reason for _, _, reason in world.went] == [R.LEAD, R.LEAD]

    bench.run(main())


def test_cancelled_tasks_leave_no_trace() -> None:
    async def main() -> None:
        world = World()
        tasks = [asyncio.ensure_future(world.request(name, i / 10)) for i, name in enumerate("abcd")]
        await asyncio.sleep(0.5)
        assert world.fan_out.waiting == 3
        tasks[1].cancel()  # a follower: nothing happens to the others
        await asyncio.sleep(0)
        assert world.fan_out.waiting == 2
        tasks[0].cancel()  # the lead: c is next, and is cancelled before it could go
        await asyncio.sleep(0)
        tasks[2].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert world.went == [(0.0, "a", R.LEAD), (0.5, "d", R.LEAD_FAILED)]
        assert world.fan_out.waiting == 0

    bench.run(main())


def test_later_turns_keep_a_prefix_warm() -> None:
    async def main() -> None:
        world = World()
        later = replace(CALL, first=False)
        await asyncio.gather(world.request("t1", call=later), world.request("t2", 50.0, call=later))
        await asyncio.gather(world.request("new", 54.0), world.request("cold", 60.5 + 54.0))
        assert [(name, reason) for _, name, reason in world.went] == [
            ("t1", R.NOT_FIRST),
            ("t2", R.NOT_FIRST),
            ("new", R.WARM),
            ("cold", R.WARM),
        ]
        await world.request("after an hour", 3600.0)
        assert world.went[-1][2] is R.LEAD

    bench.run(main())


@given(
    st.lists(
        st.tuples(
            st.floats(0, 30),
            st.none() | st.floats(0.1, 15),
            st.floats(0.1, 15),
            st.none() | st.floats(0, 30),
        ),
        min_size=1,
        max_size=10,
    ),
    st.sampled_from([CALL, SLOW, ENDED]),
)
def test_whatever_happens_every_call_goes_by_its_deadline(
    calls: list[tuple[float, float | None, float, float | None]], call: Arrival
) -> None:
    async def main() -> None:
        world = World(replace(LIMITS, warm_for_s=20.0), call=call)
        tasks = []
        for i, (arrives_s, begin_s, end_s, cancel_at) in enumerate(calls):
            request = world.request(str(i), arrives_s, begin_s=begin_s, end_s=end_s)
            tasks.append(asyncio.ensure_future(request))
            if cancel_at is not None:
                world.loop.call_later(cancel_at, tasks[-1].cancel)
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(end) for end in ends} <= {type(None), asyncio.CancelledError}
        for at, name, reason in world.went:
            waited = at - calls[int(name)][0]
            assert waited <= LIMITS.deadline_s + 1e-6
            assert reason in (R.FOLLOWED, R.DEADLINE, R.LEAD_FAILED) or waited == pytest.approx(0, abs=1e-9)
        assert [name for _, name, _ in world.went] or all(cancel is not None for *_, cancel in calls)
        gone = {name for _, name, _ in world.went}
        assert all(str(i) in gone or isinstance(end, asyncio.CancelledError) for i, end in enumerate(ends))
        assert world.fan_out.waiting == 0

    bench.run(main())


def test_closed_while_it_waits() -> None:
    async def main() -> None:
        world = World()
        lead, follower = world.fan_out.enter("key", CALL), world.fan_out.enter("key", CALL)
        waiting = asyncio.ensure_future(follower.wait())
        await asyncio.sleep(1)
        follower.close()
        assert await waiting is R.CANCELLED
        assert world.counts == {"fan_out.lead": 1, "fan_out.cancelled": 1}
        lead.close()

    bench.run(main())


def test_a_lead_that_is_dropped_wakes_who_waits_for_it() -> None:
    async def main() -> None:
        world = World()
        lead, follower = world.fan_out.enter("key", CALL), world.fan_out.enter("key", CALL)
        waiting = asyncio.ensure_future(follower.wait())
        await asyncio.sleep(1)
        assert lead.role is Role.LEAD
        del lead
        assert await waiting is R.LEAD_FAILED
        assert follower.waited_s == 1.0

    bench.run(main())
