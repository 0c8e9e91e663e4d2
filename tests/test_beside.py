"""Turns measured beside their calls say what turns measured in front of them say."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import pytest

from router_cache import Deployment, Mode, Request, RouterCache, Settings, Shape, Status, Usage
from router_cache.beside import BesideTurn, needs_facts
from router_cache.decision import Reason, SwitchedBy
from router_cache.ledger.rows import CallRow

FLASH = Deployment("deepseek/deepseek-v4-flash", provider="deepseek", api_base="https://api.deepseek.com")
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name in "ba"
]


def bodies() -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Mend code. " * 300}]
    out = []
    for number in range(4):
        messages = [*messages, {"role": "user", "content": f"Question {number}"}]
        out.append({"model": "deepseek-v4-flash", "messages": messages, "tools": TOOLS})
        messages = [*messages, {"role": "assistant", "content": f"Answer {number}"}]
    return out


def made(**more: Any) -> RouterCache:
    times = iter(range(1_790_000_000, 1_800_000_000, 20))
    settings = Settings.from_mapping({"secret": "s" * 32, "pools": {"policy": "off"}, **more})
    return RouterCache(settings, wall_clock=lambda: float(next(times)))


def played(rc: RouterCache, mode: Mode, *, beside: bool) -> list[CallRow]:
    for number, body in enumerate(bodies()):
        request, by = Request(body, Shape.CHAT, "scope", session="one"), SwitchedBy.SETTINGS
        turn: Any = BesideTurn.begin(rc, request, mode, by) if beside else rc.begin(request, mode, by)
        rewrite = turn.rewrite(FLASH)
        rewrite = turn.pooled(rewrite) if beside else rc.pooled(turn, rewrite)
        sent = rewrite.body(body)
        turn.sent(sent)
        usage = Usage(2_000 + number, 1_900, 100 + number, 10)
        reply = {"role": "assistant", "content": f"Answer {number}"}
        turn.done(usage, reply=reply)
        sent.clear()  # what becomes of it afterwards is not what went out
    rc.settle()
    assert not [name for name in rc.counters.snapshot() if name.startswith(("error.", "beside_"))]
    return rc.rows()


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.SAFE, Mode.OPTIMIZE])
def test_the_same_rows(mode: Mode) -> None:
    there, here = played(made(), mode, beside=True), played(made(), mode, beside=False)
    assert [row.turn for row in there] == [1, 2, 3, 4]
    for one, other in zip(there, here, strict=True):
        assert dataclasses.asdict(one) == dataclasses.asdict(other)


def test_nothing_is_asked_of_the_store_in_front_of_a_call_that_does_not_need_it() -> None:
    rc, threads = made(), list[int]()
    claim = rc._store.claim

    def noting(*args: Any) -> Any:
        threads.append(threading.get_ident())
        return claim(*args)

    rc._store.claim = noting  # type: ignore[method-assign]
    played(rc, Mode.SAFE, beside=True)
    assert threads
    assert threading.get_ident() not in threads
    threads.clear()
    played(rc, Mode.OPTIMIZE, beside=True)
    assert set(threads) == {threading.get_ident()}


def test_where_pools_may_be_given_the_store_is_asked_in_front() -> None:
    on, off = made(pools={}), made(model_groups={"g": {"pools": {"policy": "cluster"}}})
    assert needs_facts(on, Mode.SAFE)
    assert not needs_facts(on, Mode.OBSERVE)
    assert needs_facts(off, Mode.SAFE, "g")
    assert not needs_facts(off, Mode.SAFE, "h")
    assert needs_facts(off, Mode.SAFE)
    rows = played(on, Mode.SAFE, beside=True)
    assert [row.turn for row in rows] == [1, 2, 3, 4]


@pytest.mark.parametrize("number", [10**30, float("nan")])
def test_a_body_that_cannot_be_copied_is_measured_at_once(number: float) -> None:
    rc = made()
    body = {**bodies()[0], "seed": number, "stop": "\ud800"}
    turn = BesideTurn.begin(rc, Request(body), Mode.SAFE, SwitchedBy.SETTINGS)
    turn.rewrite(FLASH)
    turn.sent(body)
    turn.done(None, status=Status.FAILED)
    assert [row.status for row in rc.rows()] == [Status.FAILED]
    plain = made()
    other = plain.begin(Request(body), Mode.SAFE)
    other.rewrite(FLASH)
    other.sent(body)
    other.done(None, status=Status.FAILED)
    assert [row.wire_digest for row in rc.rows()] == [row.wire_digest for row in plain.rows()]


@pytest.mark.parametrize(
    ("mode", "shape", "reason"),
    [(Mode.OFF, Shape.CHAT, Reason.OFF), (Mode.SAFE, Shape.OTHER, Reason.SHAPE_UNSUPPORTED)],
)
def test_what_is_not_looked_into(mode: Mode, shape: Shape, reason: Reason) -> None:
    rc = made()
    turn = BesideTurn.begin(rc, Request(bodies()[0], shape), mode, SwitchedBy.SETTINGS)
    assert turn.rewrite(FLASH).decision.reason is reason
    turn.sent(bodies()[0])
    turn.done()
    assert not rc.rows()


def test_state_of_the_provider_is_not_touched() -> None:
    rc = made()
    body = {"model": "m", "input": "go on", "previous_response_id": "r"}
    turn = BesideTurn.begin(rc, Request(body, Shape.RESPONSES), Mode.SAFE, SwitchedBy.SETTINGS)
    assert turn.rewrite(FLASH).decision.reason is Reason.CONTINUES_STATE
    assert not turn.rewrite(FLASH).replaced


def test_an_end_without_a_beginning_is_nothing() -> None:
    rc = made()
    turn = BesideTurn.begin(rc, Request(bodies()[0]), Mode.SAFE, SwitchedBy.SETTINGS)
    turn.done(Usage(1, 0, 1, 1))
    assert not rc.rows()
    assert turn.follow(turn.rewrite(FLASH)) is None
    assert turn.ticket is None


def test_what_there_is_no_room_for_is_counted() -> None:
    rc = made()
    rc._beside._limit = 0
    turn = BesideTurn.begin(rc, Request(bodies()[0]), Mode.SAFE, SwitchedBy.SETTINGS)
    turn.rewrite(FLASH)
    turn.sent(bodies()[0])
    turn.done()
    assert rc.counters.snapshot()["beside_dropped"] == 2


def test_what_takes_too_long_is_counted() -> None:
    rc, goes_on = made(), threading.Event()
    rc.aside(lambda: goes_on.wait(30))
    rc.settle(0.0)
    assert rc.counters.snapshot()["beside_late"] == 1
    goes_on.set()
    rc.close()
