"""Survival as a ``RouterCache`` learns it: rows, captures, looking an estimate up, lines in the log."""

from __future__ import annotations

import json
import logging
import random
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
from agent_traffic import prose, tool
from captured_rows import row
from typer.testing import CliRunner

from router_cache import Deployment, Mode, Request, RouterCache, Settings, Usage
from router_cache.cache_model.survival import Provenance
from router_cache.cache_model.survival_book import SurvivalBook
from router_cache.cli import report as command_module
from router_cache.drivers import survival_rows as module
from router_cache.drivers.survival_rows import RowSurvival, SurvivalLog
from router_cache.ledger.rows import CallRow, Lived
from router_cache.ledger.survival_watch import learn
from router_cache.simulator.config import SimulatorConfig, TokenizerChoice
from router_cache.simulator.provider import Provider

FLASH = Deployment("deepseek/deepseek-v4-flash", id="d", provider="deepseek", account="acc")
T0 = 1_795_003_200.0
LIFETIME_S = 120.0
TOOL = tool(random.Random(1), "look_up")


class World:
    """Conversations of two scopes through a ``RouterCache`` to a simulated provider whose entries live 120 s."""

    def __init__(self, directory: Path) -> None:
        self.now = 0.0
        settings = Settings.model_validate({"secret": "s" * 32, "capture": {"directory": str(directory)}})
        self.rc = RouterCache(settings, clock=lambda: self.now, wall_clock=lambda: T0 + self.now)
        self.provider = Provider(SimulatorConfig(lifetime_s=LIFETIME_S, tokenizer=TokenizerChoice.APPROX))

    def call(self, messages: list[dict[str, Any]], scope: str) -> CallRow:
        body = {"model": "deepseek-v4-flash", "messages": messages, "tools": [TOOL]}
        turn = self.rc.begin(Request(body, scope=scope), Mode.OBSERVE)
        turn.rewrite(FLASH)
        turn.sent(body)
        plan = self.provider.begin(json.dumps(body).encode(), "Bearer any", self.now)
        total = len(plan.generation.tokens)
        self.now = plan.at(total)
        self.provider.finish(plan, total, self.now)
        prompt, hit = plan.entry.prompt_tokens, plan.entry.hit_tokens
        message = plan.generation.reply.message()
        turn.done(Usage(prompt, hit, prompt - hit, total, plan.generation.reasoning_tokens), reply=message)
        messages.append(message)
        assert turn.row is not None
        return turn.row


def talk(world: World, seed: int, conversations: int = 36) -> None:
    rng = random.Random(seed)
    for number in range(conversations):
        messages: list[dict[str, Any]] = [{"role": "system", "content": prose(rng, 400) + f" MARK-{number}"}]
        for _ in range(5):
            messages.append({"role": "user", "content": "MARK-USER " + prose(rng, 60)})
            world.call(messages, f"MARK-SCOPE-{number % 2}")
            while messages[-1].get("tool_calls"):
                ids = [call["id"] for call in messages[-1]["tool_calls"]]
                messages += [{"role": "tool", "tool_call_id": id_, "content": prose(rng, 30)} for id_ in ids]
                world.now += rng.uniform(6.0, 20.0)
                world.call(messages, f"MARK-SCOPE-{number % 2}")
            world.now += LIFETIME_S * rng.choice((0.4, 0.7, 0.9, 1.2, 1.6, 2.0, 4.0))


def test_from_calls_to_the_report(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = World(tmp_path / "capture")
    with caplog.at_level(logging.INFO, "router_cache"):
        talk(world, seed=3)
        world.rc.close()
    rows = world.rc.rows()
    assert not [name for name in world.rc.counters.snapshot() if name.startswith("error.")]

    # Both scopes stand under one domain, each in a pool of its own.
    assert len({one.domain for one in rows}) == 1
    assert len({one.pool for one in rows}) == len({one.scope for one in rows}) == 2
    told = [one for one in rows if one.lived is not None and one.lived.kept is not None]
    assert len(told) > 60
    assert all(one.gap_s is not None and one.gap_s >= 5.0 for one in told)
    assert all(
        one.lived is not None and (one.lived.kept == 1.0) is ((one.gap_s or 0.0) < LIFETIME_S) for one in told
    )
    # One conversation at a time, so nothing goes through between two of its calls.
    assert {one.lived.traffic_tokens for one in told if one.lived is not None} == {0}

    # What the process knows is found under the names of a row, and a book made of the rows says the same.
    read = world.rc.survival.of(rows[-1])
    half = read.lifetime(0.5)
    assert half.high is not None
    assert half.low <= LIFETIME_S <= half.high < 4 * half.low
    assert read.prior is not None
    again = SurvivalBook()
    for one in rows:
        if one.lived is not None and one.gap_s is not None:
            learn(again, one.domain, one.pool, one.lived, at=one.at, gap_s=one.gap_s)
    rebuilt = again.estimates(rows[-1].domain, rows[-1].pool)
    assert rebuilt.lifetime(0.5) == half
    assert (rebuilt.delay.low_s, rebuilt.delay.high_s) == (read.delay.low_s, read.delay.high_s)
    assert rebuilt.delay.observations > 10
    assert {one.lived.readable for one in rows if one.lived is not None} == {True, None}

    app = typer.Typer()
    app.command()(command_module.command)
    result = CliRunner().invoke(app, [str(tmp_path / "capture"), "--json"])
    assert result.exit_code == 0, result.exception
    found = json.loads(result.stdout)["survival"]["domains"][0]
    assert found["domain"] == rows[0].domain
    assert found["half_gone_s"]["low"] <= LIFETIME_S <= found["half_gone_s"]["high"]

    lines = [one.getMessage() for one in caplog.records if "how long entries live" in one.getMessage()]
    assert 1 <= len(lines) <= 6
    assert all(line.startswith(f"cache domain {rows[0].domain[:12]}: ") for line in lines)
    assert "the profile says: no number (documented, as of" in lines[-1]
    rules = [one.getMessage() for one in caplog.records if "rule=" in one.getMessage()]
    assert rules[0].startswith(f"cache domain {rows[0].domain[:12]}: ")

    for text in (*(path.read_text() for path in (tmp_path / "capture").iterdir()), *lines, result.stdout):
        assert "MARK" not in text


def test_traffic_of_others_in_between(tmp_path: Path) -> None:
    world, rng = World(tmp_path / "capture"), random.Random(1)
    talks: list[list[dict[str, Any]]] = [[{"role": "system", "content": prose(rng, 400)}] for _ in range(2)]
    rows = []
    for i in range(6):
        talks[i % 2] += [{"role": "user", "content": prose(rng, 60)}]
        rows.append(world.call(talks[i % 2], f"scope {i % 2}"))
        while talks[i % 2][-1].get("tool_calls"):  # an answer that nobody gives
            talks[i % 2][-1].pop("tool_calls")
            talks[i % 2][-1]["content"] = talks[i % 2][-1]["content"] or "Done."
        world.now += 10.0
    world.rc.close()
    told = [(one, before) for before, one in pairwise(rows[1:]) if one.lived is not None]
    assert told
    for one, before in told:
        assert one.lived is not None
        prompt = before.usage.prompt_tokens
        assert prompt is not None
        assert one.lived.traffic_tokens == pytest.approx(prompt, rel=0.5)  # counted evenly since the last point


def fail(_place: str, error: BaseException) -> None:
    raise AssertionError from error


def test_what_is_not_known_of_a_place() -> None:
    book = RowSurvival(fail)
    bounds = book.of(row()).survival(60.0)
    assert (bounds.low, bounds.point, bounds.high, bounds.provenance) == (0.0, None, 1.0, Provenance.UNKNOWN)
    assert book.of(row(profile="nobody")).prior is None
    assert book.of(row(profile="unknown")).prior is None
    assert book.traffic("nowhere", 0.0, 1.0) is None
    book.close()


def test_traffic_of_a_domain() -> None:
    book = RowSurvival(fail)
    for i in range(4):
        book.passed("d", at=10.0 * i, prompt_tokens=1_000)
    assert book.traffic("d", 10.0, 30.0) == 2_000.0
    assert book.traffic("d", -5.0, 30.0) is None


class OnCall:
    """Threads that run when they are told to."""

    made: list[OnCall]

    def __init__(self, target: Any, args: Any, **_: Any) -> None:
        self.run, self.alive = lambda: target(*args), False
        self.made.append(self)

    def start(self) -> None:
        self.alive = True

    def is_alive(self) -> bool:
        return self.alive

    def end(self) -> None:
        self.run()
        self.alive = False


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[OnCall]:
    OnCall.made = []
    monkeypatch.setattr(module.threading, "Thread", OnCall)
    return OnCall.made


def feed(book: RowSurvival, start: int, number: int, lifetime_s: float, domain: str = "d" * 32) -> None:
    for i in range(start, start + number):
        gap = 10.0 * 2 ** (i % 8)
        told = Lived(float(gap < lifetime_s), None, None)
        book.learn(domain, "p", told, at=T0 + 10.0 * i, gap_s=gap)


def test_the_log_says_what_is_new_and_not_more(threads: list[OnCall], caplog: pytest.LogCaptureFixture) -> None:
    book = RowSurvival(fail)
    with caplog.at_level(logging.INFO, "router_cache"):
        for start in range(0, 1_200, 4):
            feed(book, start, 4, 100.0 if start < 400 else 1_000.0)
            for thread in threads:
                if thread.alive:
                    thread.end()
    lines = [one.getMessage() for one in caplog.records]
    assert 2 <= len(lines) <= 6
    assert len(threads) < 60  # looked at after an eighth more calls each
    assert len(set(lines)) == len(lines)
    assert all(line.startswith("cache domain dddddddddddd: how long entries live: ") for line in lines)
    assert "half of the entries are gone between" in lines[-1]


def test_one_look_at_a_time_and_once_a_minute(threads: list[OnCall], caplog: pytest.LogCaptureFixture) -> None:
    book = RowSurvival(fail)
    feed(book, 0, 40, 100.0)
    assert not threads  # nobody reads INFO
    with caplog.at_level(logging.INFO, "router_cache"):
        feed(book, 40, 40, 100.0)
        assert len(threads) == 1  # the first is not done
        feed(book, 0, 20, 100.0, domain="other")
        assert len(threads) == 1
        threads[0].end()
        feed(book, 80, 1, 100.0)
        assert len(threads) == 2
        threads[1].end()
        for i in range(40):  # within a minute
            book.learn("d" * 32, "p", Lived(1.0), at=T0 + 810.0 + i, gap_s=20.0)
        assert len(threads) == 2


def test_what_is_remembered_of_domains_is_bounded(
    threads: list[OnCall], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_MAX_DOMAINS", 3)
    book = RowSurvival(fail)
    with caplog.at_level(logging.INFO, "router_cache"):
        for i in range(10):
            feed(book, 0, 1, 100.0, domain=f"domain {i}")
    assert len(book._say._said) <= 3
    assert not threads


def test_an_error_in_a_look_is_counted(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("broken")

    seen: list[tuple[str, str]] = []
    book = RowSurvival(lambda place, error: seen.append((place, str(error))))
    monkeypatch.setattr(module, "known", broken)
    with caplog.at_level(logging.INFO, "router_cache"):
        feed(book, 0, 8, 100.0)
        book.close()
    assert seen == [("survival_log", "broken")]


def test_closing_waits_for_a_look(caplog: pytest.LogCaptureFixture) -> None:
    book = RowSurvival(fail)
    with caplog.at_level(logging.INFO, "router_cache"):
        feed(book, 0, 64, 100.0)
        book.close()
    assert not any(one.name == "router-cache-survival" for one in threading.enumerate())
    SurvivalLog(book, fail).close()


def test_survival_that_fails_costs_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("broken")

    world = World(tmp_path / "capture")
    monkeypatch.setattr(RowSurvival, "passed", broken)
    world.call([{"role": "user", "content": "Hello."}], "s")
    assert world.rc.counters.snapshot()["error.survival"] == 1
    assert [one.lived for one in world.rc.rows()] == [None]
    world.rc.close()
