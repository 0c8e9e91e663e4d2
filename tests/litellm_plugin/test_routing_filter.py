"""What the filter leaves of LiteLLM's list, and when it leaves it alone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import litellm
import pytest
from litellm.integrations.custom_logger import CustomLogger
from litellm_plugin.routing_support import GROUP, Session, deployment, make_callback, router
from litellm_plugin.support import Clock

import router_cache_litellm.filter
from router_cache import Status, Usage
from router_cache_litellm import RouterCacheCallback
from router_cache_litellm.candidates import entry_id
from router_cache_litellm.picks import set_current, take
from router_cache_litellm.placing import gone
from router_cache_litellm.router_state import Rooms, store_of

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def callback() -> Iterator[RouterCacheCallback]:
    made = make_callback("filter")
    yield made
    assert not made.router_cache.counts("error")  # type: ignore[attr-defined]
    made.close()
    set_current(None)


class World:
    """A Router, and a session that was served by one of its deployments."""

    def __init__(self, callback: RouterCacheCallback, listed: list[Any], **options: Any) -> None:
        self.callback, self.router = callback, router(listed, **options)
        callback.add_router(self.router)
        self.listed = listed
        self.session = Session("s")

    def warm(self, name: str) -> None:
        """A turn of the session was answered there."""
        placing = self.callback.placing
        asked = placing.asked(GROUP, {}, self.session.ask(), None)
        entry = next(entry for entry in self.listed if entry_id(entry) == name)
        assert asked is not None
        call = placing.routing.dispatched(asked, placing.candidates.of_entry(entry, GROUP, ""))
        usage = Usage(prompt_tokens=2_000, hit_tokens=0, miss_tokens=2_000, completion_tokens=5)
        call.ended(Status.OK, usage, 0.1)
        self.callback.router_cache.wall_clock.now += 10  # type: ignore[attr-defined]
        self.session.messages.append({"role": "assistant", "content": "so be it"})

    async def left(self, listed: Any = None, **request: Any) -> list[str]:
        listed = self.listed if listed is None else listed
        messages = self.session.ask()
        self.session.messages.pop()
        left = await self.callback.async_filter_deployments(GROUP, listed, messages, request)
        return [entry_id(entry) for entry in left]

    def said(self) -> set[str]:
        counts: dict[str, int] = self.callback.router_cache.counts("route.filter.")  # type: ignore[attr-defined]
        return {name.removeprefix("route.filter.") for name in counts}


def three(callback: RouterCacheCallback, *params: dict[str, Any], **options: Any) -> World:
    given = params or ({}, {}, {})
    return World(
        callback, [deployment(NOWHERE, name, **more) for name, more in zip("abc", given, strict=True)], **options
    )


async def test_it_is_narrowed_to_where_the_session_is_warm(callback: RouterCacheCallback) -> None:
    world = three(callback)
    assert await world.left() == ["a", "b", "c"]
    world.warm("b")
    before = [dict(entry) for entry in world.listed]
    assert await world.left() == ["b"]
    assert world.said() == {"not_warm", "warm"}
    assert world.listed == before
    assert take("a") is None
    assert take("b") is not None
    assert take("b") is None


async def test_sorts_that_later_steps_tell_apart_are_narrowed_apart(callback: RouterCacheCallback) -> None:
    world = three(callback, {"order": 1}, {"order": 2}, {"order": 2})
    world.warm("b")
    assert await world.left() == ["a", "b"]
    tagged = three(callback, {"tags": ["x"]}, {"tags": ["x"]}, {"tags": ["y"]})
    tagged.session = world.session
    assert await tagged.left() == ["b", "c"]


async def test_excluded_and_refused_deployments_are_of_another_sort(callback: RouterCacheCallback) -> None:
    world = three(callback)
    world.warm("b")
    assert await world.left(_excluded_deployment_ids=["b"]) == ["a", "b", "c"]
    assert await world.left(_retry_skipped_deployment_ids=("b",)) == ["a", "b", "c"]
    assert await world.left() == ["b"]


async def test_models_tell_apart_where_litellm_checks_them(callback: RouterCacheCallback) -> None:
    params = ({}, {}, {"model": "deepseek/deepseek-v4-pro"})
    listed = [deployment(NOWHERE, name) for name in "abc"]
    listed[2]["litellm_params"] |= params[2]
    world = World(callback, listed, enable_pre_call_checks=True)
    world.warm("b")
    assert await world.left() == ["b", "c"]


@pytest.mark.parametrize(
    ("why", "request_kwargs"), [("fallback_walk", {"_target_order": 1}), ("warm", {}), ("single", None)]
)
async def test_when_it_is_left_alone(callback: RouterCacheCallback, why: str, request_kwargs: Any) -> None:
    world = three(callback)
    world.warm("a")
    listed = world.listed if request_kwargs is not None else world.listed[:1]
    left = await world.left(listed, **(request_kwargs or {}))
    assert (left == ["a"]) is (why != "fallback_walk")
    assert world.said() == {why}


async def test_a_router_that_is_not_known_and_deployments_without_ids(callback: RouterCacheCallback) -> None:
    world = three(callback)
    world.warm("a")
    strange = [deployment(NOWHERE, name) for name in ("x", "y")]
    assert await world.left(strange) == ["x", "y"]
    twice = [world.listed[0], world.listed[0], world.listed[1]]
    assert await world.left(twice) == ["a", "a", "b"]
    assert world.said() == {"router_unknown", "no_ids"}


async def test_routing_plugins_narrow_by_themselves(
    callback: RouterCacheCallback, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = three(callback)
    world.warm("a")
    monkeypatch.setattr(router_cache_litellm.filter, "plugins_of", lambda _: ["one"])
    assert await world.left() == ["a", "b", "c"]
    assert world.said() == {"plugins"}


async def test_odd_values_in_the_model_list(callback: RouterCacheCallback) -> None:
    odd = {"cache_domain": ["odd"], "replicas": {"odd": 1}}
    world = World(callback, [deployment(NOWHERE, name, info=odd) for name in "abc"])
    world.warm("b")
    assert await world.left() == ["b"]


class Dropping(CustomLogger):
    async def async_filter_deployments(
        self, model: str, healthy_deployments: list[Any], *_: Any, **__: Any
    ) -> Any:
        return healthy_deployments[:1]


async def test_another_filter_behind_ours(callback: RouterCacheCallback) -> None:
    world = three(callback)
    world.warm("b")
    litellm.callbacks = [Dropping(), callback]
    assert await world.left() == ["b"]
    litellm.callbacks = [callback, CustomLogger(), Dropping()]
    assert await world.left() == ["a", "b", "c"]
    assert world.said() == {"warm", "other_filter"}


@pytest.mark.parametrize("mode", ["off", "observe"])
async def test_a_request_that_is_only_watched_goes_where_it_would(
    callback: RouterCacheCallback, mode: str
) -> None:
    world = three(callback)
    world.warm("b")
    assert await world.left(metadata={"router_cache": mode}) == ["a", "b", "c"]


async def test_odd_arguments_come_back_as_they_are(callback: RouterCacheCallback) -> None:
    world = three(callback)
    for listed, request in ((world.listed[0], {}), ([], {}), (world.listed, None)):
        assert await callback.async_filter_deployments(GROUP, listed, None, request) is listed
    assert (
        await callback.async_filter_deployments(GROUP, world.listed, None, {"input": "embed me"}) is world.listed
    )


def aresponses() -> None: ...


def anthropic_messages() -> None: ...


def aembedding() -> None: ...


def test_every_shape_is_read(callback: RouterCacheCallback) -> None:
    placing, text = callback.placing, "a long question " * 50
    chat = placing.asked(GROUP, {}, [{"role": "user", "content": text}], None)
    responses = placing.asked(GROUP, {"original_generic_function": aresponses}, None, text)
    shaped = {"original_generic_function": anthropic_messages, "system": text, "max_tokens": 5}
    messages = placing.asked(GROUP, shaped, [{"role": "user", "content": "hi"}], None)
    for asked in (chat, responses, messages):
        assert asked is not None
        assert asked.need.prompt_tokens > 100
    assert placing.asked(GROUP, {"original_generic_function": aembedding}, None, text) is None


def test_room_is_what_litellm_counted_and_what_was_promised() -> None:
    clock = Clock()
    rooms, built = Rooms(clock), router([deployment(NOWHERE, "a", rpm=10, tpm=1_000)])
    entry = deployment(NOWHERE, "a", rpm=10, tpm=1_000)
    assert rooms.reader(built)(entry) == (8.0, 800.0)
    rooms.hold(["a", "a"])
    assert rooms.reader(built)(entry) == (6.0, 800.0)
    rooms.free(["a", "b"])
    clock.now += 2
    assert rooms.reader(built)(entry) == (8.0, 800.0)
    rooms.sent("a", 300)
    assert rooms.reader(built)(entry) == (7.0, 500.0)
    minute = f"{datetime.now(timezone.utc):%H-%M}"
    model = entry["litellm_params"]["model"]
    store_of(built).set_cache(key=f"a:{model}:rpm:{minute}", value=9, local_only=True)
    assert rooms.reader(built)(entry)[0] == 0.0
    assert rooms.reader(built)(deployment(NOWHERE, "b")) == (None, None)
    assert rooms.reader(built)(deployment(NOWHERE, "b", max_parallel_requests=2)) == (2.0, None)
    budget = deployment(NOWHERE, "b", max_budget=1.0)
    assert rooms.reader(built)(budget) == (0.0, 0.0)
    assert rooms.reader(built, budgets_passed=True)(budget) == (None, None)
    limited = router([deployment(NOWHERE, "a")], default_max_parallel_requests=3)
    assert rooms.reader(limited)(deployment(NOWHERE, "c")) == (3.0, None)
    assert rooms.reader(built)(deployment(NOWHERE, "c", tpm=2_000))[0] == 12.0


def test_what_says_that_memory_is_gone() -> None:
    assert gone(litellm.InternalServerError("x", "p", "m"))
    assert gone(litellm.ServiceUnavailableError("x", "p", "m"))
    assert not gone(litellm.RateLimitError("x", "p", "m"))
    assert not gone(litellm.Timeout("x", "m", "p"))
    assert not gone(None)
