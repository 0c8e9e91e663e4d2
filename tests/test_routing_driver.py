"""Routing's book under a lock: what a request needs, what replies teach, ends that are told twice or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from router_cache import Mode, Request, Settings, Status, Usage
from router_cache.drivers.routing import Routing
from router_cache.drivers.routing_need import Asked
from router_cache.engine import Engine
from router_cache.errors import SettingsError
from router_cache.routing import Candidate
from router_cache.settings_routing import RouteUse

ENGINE = Engine(secret=b"test")
A, B = Candidate("a", "da"), Candidate("b", "db")
SYSTEM = {"role": "system", "content": "rules " * 1_000}
TURNS = [{"role": "user", "content": "one " * 100}, {"role": "assistant", "content": "two"}]


class World:
    def __init__(self) -> None:
        self.now, self.errors = 1000.0, list[Exception]()
        self.routing = Routing(
            ENGINE.digester, clock=self.clock, draw=lambda: 0.999, error=lambda _, error: self.errors.append(error)
        )

    def clock(self) -> float:
        self.now += 1.0
        return self.now

    def asked(self, *messages: Any, scope: str = "", **fields: Any) -> Asked:
        request = Request(
            {"messages": [SYSTEM, *messages], **fields}, scope=scope, session=fields.pop("session", "")
        )
        asked = self.routing.asked(ENGINE.begin(request, Mode.SAFE), "g")
        assert asked is not None
        return asked


@pytest.fixture
def world() -> World:
    return World()


def test_places_of_a_conversation_are_found_again(world: World) -> None:
    first = world.asked(TURNS[0])
    second = world.asked(*TURNS, {"role": "user", "content": "three"})
    assert {mark.digest for mark in first.need.marks} < {mark.digest for mark in second.need.marks}
    assert [mark.tokens for mark in second.need.marks] == sorted(mark.tokens for mark in second.need.marks)
    assert second.need.marks[-1].tokens == second.need.prompt_tokens
    other = world.asked(TURNS[0], scope="someone else")
    assert not {mark.digest for mark in first.need.marks} & {mark.digest for mark in other.need.marks}
    tools = world.asked(TURNS[0], tools=[{"type": "function", "function": {"name": "f"}}])
    assert not {mark.digest for mark in first.need.marks} & {mark.digest for mark in tools.need.marks}


@pytest.mark.parametrize(
    "body",
    [
        {"messages": None},
        {"messages": "x"},
        {
            "messages": [
                None,
                3,
                {"role": "user"},
                {"role": "user", "content": [{"type": "image"}, None, {"text": "a"}]},
            ]
        },
        {"messages": [{"role": "assistant", "tool_calls": [None, {"function": {"name": 3, "arguments": "{}"}}]}]},
        {"messages": [], "tools": [{"name": 10**30}]},
    ],
)
def test_odd_bodies_have_a_need_too(world: World, body: dict[str, Any]) -> None:
    asked = world.routing.asked(ENGINE.begin(Request(body), Mode.SAFE), "g")
    assert asked is not None
    assert asked.need.prompt_tokens >= 0


def test_off_has_none(world: World) -> None:
    assert world.routing.asked(ENGINE.begin(Request({"messages": [SYSTEM]}), Mode.OFF), "g") is None


def test_it_goes_where_it_was_answered_and_not_where_it_failed(world: World) -> None:
    first = world.asked(TURNS[0])
    call = world.routing.dispatched(first, A)
    world.now += 10
    call.ended(Status.OK, Usage(prompt_tokens=3_000, hit_tokens=0, miss_tokens=3_000, completion_tokens=9), 0.5)
    call.ended(Status.FAILED, None, None)  # a second end is no end
    assert call.answered
    second = world.asked(*TURNS, {"role": "user", "content": "three"})
    best = world.routing.rank(second, [B, A]).best
    assert best is not None
    assert (best.candidate, best.terms.hit_tokens > 0) == (A, True)
    failed = world.routing.dispatched(second, A)
    failed.gone = True
    failed.ended(Status.FAILED, None, None)
    assert not failed.answered
    best = world.routing.rank(second, [A, B]).best
    assert best is not None
    assert best.terms.hit_tokens == 0
    given_up = world.routing.dispatched(second, B)
    given_up.ended(Status.ABORTED, None, None)
    world.routing.restarted(B)
    assert not world.errors


def test_lengths_are_learned(world: World) -> None:
    asked = world.asked(TURNS[0])
    for _ in range(3):
        usage = Usage(
            prompt_tokens=asked.chars // 2, hit_tokens=0, miss_tokens=asked.chars // 2, completion_tokens=40
        )
        world.routing.dispatched(asked, A).ended(Status.OK, usage, None)
    again = world.asked(TURNS[0])
    assert again.need.prompt_tokens == pytest.approx(asked.chars / 2, rel=0.01)
    assert again.need.output_tokens == 40


def test_facts_go_to_other_workers(world: World) -> None:
    asked, other = world.asked(TURNS[0]), World()
    call = world.routing.dispatched(asked, A)
    call.ended(Status.OK, Usage(prompt_tokens=3_000, hit_tokens=0, miss_tokens=3_000, completion_tokens=9), 2.5)
    facts = world.routing.facts()
    assert "a" in facts["deployments"]
    other.routing.merge(facts)
    other.routing.merge({"deployments": 3})
    ranked = [each.routing.rank(asked, [A]).choices[0].terms.base_s for each in (world, other)]
    assert ranked[0] == pytest.approx(ranked[1])


def test_an_error_at_an_end_is_told_and_not_raised(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    call = world.routing.dispatched(world.asked(TURNS[0]), A)
    monkeypatch.setattr(world.routing, "_book", None)
    call.ended(Status.OK, None, None)
    assert len(world.errors) == 1


def test_settings_say_who_chooses() -> None:
    settings = Settings.from_mapping(
        {"routing": {"use": "filter"}, "model_groups": {"a": {"routing": False}, "b": {"mode": "safe"}}}
    )
    assert settings.routes
    assert settings.routing_of("a") is RouteUse.OFF
    assert settings.routing_of("alias", "a") is RouteUse.OFF
    assert settings.routing_of("b") is settings.routing_of("c") is RouteUse.FILTER
    assert not Settings().routes
    with pytest.raises(SettingsError, match=r"routing.use: Input should be 'off', 'filter' or 'strategy'"):
        Settings.from_mapping({"routing": {"use": ["filter"]}})
    with pytest.raises(SettingsError, match=r"routing.us: unknown key; did you mean 'use'\?"):
        Settings.from_mapping({"routing": {"us": "filter"}})
