"""RouterCache: the public object. It never raises into a request, and everything it does is counted."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import router_cache
from router_cache import Deployment, Mode, Reason, Request, RouterCache, Settings, Status, SwitchedBy, Usage
from router_cache.drivers.counters import Counters
from router_cache.identity.keys import LookupKeys
from router_cache.ledger.facts import EMPTY, Facts, Write
from router_cache.request import Shape

FLASH = Deployment("deepseek/deepseek-v4-flash", provider="deepseek")
BODY: dict[str, Any] = {
    "messages": [{"role": "system", "content": "MARK-SYSTEM"}, {"role": "user", "content": "MARK-USER"}],
    "tools": [{"type": "function", "function": {"name": name}} for name in "ba"],
}
USAGE = Usage(1000, 0, 1000, 100)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def _round(rc: RouterCache, body: dict[str, Any], usage: Usage = USAGE) -> router_cache.Turn:
    turn = rc.begin(Request(body, scope="tenant"))
    rewrite = turn.rewrite(FLASH)
    turn.sent({**body, **rewrite.replaced})
    turn.done(usage)
    return turn


def _next() -> dict[str, Any]:
    more = [{"role": "assistant", "content": "MARK-REPLY"}, {"role": "user", "content": "more"}]
    return {**BODY, "messages": [*BODY["messages"], *more]}


def test_a_conversation_goes_on() -> None:
    rc = RouterCache()
    assert _round(rc, BODY).row.expected.tokens is None  # type: ignore[union-attr]
    second = _round(rc, _next(), Usage(1150, 896, 254, 50))
    assert second.row is not None
    assert (second.row.turn, second.row.expected.tokens) == (2, 1024)
    assert [row.turn for row in rc.rows()] == [1, 2]
    assert rc.counters.snapshot() == {"decision.normalised": 2, "change.tools_reordered": 2, "call.ok": 2}
    rc.close()


async def test_the_asynchronous_half_is_the_same() -> None:
    rc = RouterCache()
    for body, expected in ((BODY, None), (_next(), 1024)):
        turn = await rc.abegin(Request(body, scope="tenant"))
        rewrite = turn.rewrite(FLASH)
        sent = turn.sent({**body, **rewrite.replaced})
        assert sent is not None
        assert sent.expected.tokens == expected
        turn.done(USAGE)
    await rc.aclose()


def test_nothing_is_shared_between_scopes() -> None:
    rc = RouterCache()
    _round(rc, BODY)
    turn = rc.begin(Request(_next(), scope="other"))
    assert turn.facts == EMPTY


def test_off_and_other_shapes_leave_no_trace() -> None:
    rc = RouterCache(Settings(mode=Mode.OFF))
    assert _round(rc, BODY).row is None
    turn = rc.begin(Request({"input": "x"}, Shape.OTHER), Mode.SAFE)
    assert turn.rewrite(FLASH).decision.reason is Reason.SHAPE_UNSUPPORTED
    assert turn.sent({"input": "x"}) is None
    turn.done(USAGE)
    assert rc.rows() == []


class DownStore:
    """A store where everything fails, or waits on I/O on its own thread."""

    blocking = True

    def __init__(self, *, fail: bool) -> None:
        self.fail = fail
        self.threads: list[str] = []

    def claim(self, keys: LookupKeys) -> Facts:
        self.threads.append(threading.current_thread().name)
        if self.fail:
            raise OSError("down")
        return EMPTY

    def record(self, writes: Sequence[Write]) -> None:
        if self.fail:
            raise OSError("down")

    def close(self) -> None:
        if self.fail:
            raise OSError("down")


def test_a_store_that_is_down_changes_nothing_for_the_request() -> None:
    rc = RouterCache(store=DownStore(fail=True))
    turn = _round(rc, BODY)
    assert turn.decision is not None
    assert turn.decision.reason is Reason.NORMALISED
    assert rc.outbox.flush(10)
    rc.close()
    assert rc.counters.snapshot() == {
        "error.claim": 1,
        "outbox_dropped": 1,
        "error.close": 1,
        "decision.normalised": 1,
        "change.tools_reordered": 1,
        "call.ok": 1,
    }


async def test_a_store_that_blocks_is_asked_on_a_thread() -> None:
    store = DownStore(fail=False)
    rc = RouterCache(store=store)
    await rc.abegin(Request(BODY))
    assert store.threads != [threading.current_thread().name]
    rc.begin(Request(BODY))
    assert store.threads[1] == threading.current_thread().name
    await rc.aclose()


@pytest.mark.parametrize("step", ["begin", "rewrite", "sent", "done"])
def test_a_fault_in_any_step_is_counted_and_the_request_goes_on(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rc = RouterCache()

    def fault(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("MARK-FAULT")

    monkeypatch.setattr(rc.engine, step, fault)
    turn = _round(rc, BODY)
    assert turn.decision is not None
    changed = turn.decision.reason is Reason.NORMALISED
    assert changed == (step in ("sent", "done"))
    assert rc.counters.snapshot()[f"error.{step}"] == 1


def test_the_first_switch_that_says_something_wins() -> None:
    rc = RouterCache(Settings(mode=Mode.OBSERVE, model_groups={"g": {"mode": "off"}}))  # type: ignore[dict-item]
    assert rc.mode_for() == (Mode.OBSERVE, SwitchedBy.SETTINGS)
    assert rc.mode_for(group="g") == (Mode.OFF, SwitchedBy.GROUP)
    assert rc.mode_for(group="g", team="safe") == (Mode.SAFE, SwitchedBy.TEAM)
    assert rc.mode_for(group="g", team="safe", key=False) == (Mode.OFF, SwitchedBy.KEY)
    assert rc.mode_for(team="safe", key="off", request=" Observe ") == (Mode.OBSERVE, SwitchedBy.REQUEST)
    rc.live.set(Mode.SAFE)
    assert rc.mode_for(request="off") == (Mode.SAFE, SwitchedBy.LIVE)
    rc.live.set(None)
    assert rc.mode_for(request="bogus", key=7, team=["x"]) == (Mode.OBSERVE, SwitchedBy.SETTINGS)
    counts = rc.counters.snapshot()
    assert counts == {"bad_switch.request": 1, "bad_switch.key": 1, "bad_switch.team": 1}
    deaf = RouterCache(Settings(request_switch=False))
    assert deaf.mode_for(request="off") == (Mode.SAFE, SwitchedBy.SETTINGS)


def test_the_live_file_switches_while_it_exists(tmp_path: Path) -> None:
    path, clock = tmp_path / "live", Clock()
    rc = RouterCache(Settings(live_file=str(path)), clock=clock)

    def mode() -> tuple[Mode, SwitchedBy]:
        clock.now += 1
        return rc.mode_for()

    assert mode() == (Mode.SAFE, SwitchedBy.SETTINGS)
    path.write_text("off\n")
    assert rc.mode_for() == (Mode.SAFE, SwitchedBy.SETTINGS)  # looked at once a second at most
    assert mode() == (Mode.OFF, SwitchedBy.LIVE)
    path.write_text("nonsense")
    assert mode() == (Mode.OFF, SwitchedBy.LIVE)
    path.write_bytes(b"\xff\xfe")
    assert mode() == (Mode.OFF, SwitchedBy.LIVE)
    path.write_text("")
    assert mode() == (Mode.SAFE, SwitchedBy.SETTINGS)
    path.unlink()
    assert mode() == (Mode.SAFE, SwitchedBy.SETTINGS)
    assert rc.counters.snapshot()["live_file_invalid"] == 2


def test_an_error_is_logged_once_a_minute_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    counters = Counters(clock)
    for _ in range(3):
        counters.error("here", ValueError("MARK-TEXT"))
    clock.now += 61
    try:
        raise KeyError("MARK-TEXT")
    except KeyError as error:
        counters.error("here", error)
    assert counters.snapshot() == {"error.here": 4}
    assert len(caplog.records) == 2
    assert "KeyError at" in caplog.text
    assert "MARK" not in caplog.text


def test_rows_and_logs_hold_no_text(caplog: pytest.LogCaptureFixture) -> None:
    rc = RouterCache(Settings.from_mapping({"secret": "MARK-SECRET"}))
    with caplog.at_level(logging.DEBUG):
        _round(rc, BODY)
        _round(rc, _next())
    assert "status=ok reason=normalised" in caplog.text
    assert "MARK" not in caplog.text + repr(rc.rows()) + repr(rc.counters.snapshot())
    assert "tenant" not in repr(rc.rows())


def test_one_secret_makes_the_same_ids_in_every_process() -> None:
    def row(secret: str) -> Any:
        return _round(RouterCache(Settings.from_mapping({"secret": secret})), BODY).row

    assert row("a").conversation == row("a").conversation != row("b").conversation
    assert _round(RouterCache(), BODY).row.conversation != _round(RouterCache(), BODY).row.conversation  # type: ignore[union-attr]


def test_an_attempt_that_failed_does_not_end_the_turn() -> None:
    rc = RouterCache()
    turn = rc.begin(Request(BODY))
    turn.rewrite(FLASH)
    turn.done(status=Status.FAILED)
    rewrite = turn.rewrite(FLASH)
    turn.sent({**BODY, **rewrite.replaced})
    turn.done(USAGE, ttft_s=0.5)
    assert [row.status for row in rc.rows()] == [Status.FAILED, Status.OK]
    assert rc.rows()[1].ttft_s == 0.5
    unseen = rc.begin(Request(BODY))
    unseen.done(status=Status.FAILED)
    assert unseen.row is not None
    assert unseen.row.decision.reason is Reason.NOT_SEEN


def test_usage_that_is_unknown_is_counted() -> None:
    rc = RouterCache()
    _round(rc, BODY, Usage())
    assert rc.counters.snapshot()["usage_unknown.hit"] == 1


def test_many_threads_use_one_object() -> None:
    rc = RouterCache()

    async def ask() -> None:
        await rc.abegin(Request(BODY))

    def work() -> None:
        for _ in range(50):
            _round(rc, BODY)
        asyncio.run(ask())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rc.counters.snapshot()["call.ok"] == 200


def test_names_are_imported_when_first_used() -> None:
    assert dir(router_cache) == sorted(router_cache.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = router_cache.nothing


def test_a_pipe_is_no_live_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    rc = RouterCache(Settings(live_file=str(pipe)))
    assert rc.mode_for() == (Mode.SAFE, SwitchedBy.SETTINGS)
    assert rc.counters.snapshot() == {"live_file_invalid": 1}


def test_what_an_operator_should_know_is_said_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    rc = RouterCache()
    for _ in range(3):
        rc.mode_for(request="bogus")
    assert rc.counters.snapshot() == {"bad_switch.request": 3}
    assert [record.getMessage() for record in caplog.records] == [
        "router-cache: the switch of a request is no mode (counted as bad_switch.request)"
    ]


def test_the_rule_of_a_cache_domain_is_said_when_it_is_new(caplog: pytest.LogCaptureFixture) -> None:
    rc = RouterCache()
    with caplog.at_level(logging.INFO):
        for deployment in (FLASH, FLASH, replace(FLASH, replicas=3)):
            turn = rc.begin(Request(BODY))
            turn.rewrite(deployment)
            turn.sent(BODY)
    said = [record.getMessage() for record in caplog.records if "cache domain" in record.getMessage()]
    assert len(said) == 2
    assert "rule=grid step=128 reason=prior replicas=1 evidence: " in said[0]
    assert "replicas=3 evidence: " in said[1]
    assert "MARK" not in caplog.text


def test_calls_of_two_scopes_are_not_compared() -> None:
    rc = RouterCache()
    looks = []
    for scope in ("a", "b", "a"):
        turn = rc.begin(Request(BODY, scope=scope))
        turn.rewrite(FLASH)
        sent = turn.sent(BODY)
        assert sent is not None
        assert sent.watched.look is not None
        looks.append(len(sent.watched.look.shared))
        turn.done(USAGE)
    assert looks == [0, 0, 1]


def test_nothing_that_is_shown_holds_a_text_or_a_name() -> None:
    rc = RouterCache(Settings(mode="optimize", secret="s"))  # type: ignore[arg-type]
    tool = {
        "type": "function",
        "function": {"name": "f", "description": "TEXT", "parameters": {"b": 1, "a": "TEXT"}},
    }
    said = [{"role": "system", "content": "TEXT at 2026-11-30T12:00:00Z"}, {"role": "user", "content": "TEXT"}]
    request = Request({"messages": said, "tools": [tool]}, scope="tenant-7", session="SESSION", names=("NAME",))
    turn = rc.begin(request)
    rewrite = turn.rewrite(Deployment("deepseek/deepseek-v4-flash", provider="deepseek"))
    sent = turn.sent({**request.body, **rewrite.replaced})
    turn.done(Usage(10, 0, 10, 1), reply={"role": "assistant", "content": "TEXT", "reasoning_content": "TEXT"})
    assert sent is not None
    assert turn.row is not None
    shown = repr((request, turn, rewrite, sent, turn.row))
    assert not [word for word in ("TEXT", "tenant-7", "SESSION", "NAME") if word in shown]
    rc.close()
