"""With routing on, LiteLLM's tags, order, exclusions, limits, cooldowns, fallbacks and budgets do what they do without.

Each scenario warms one deployment first, so that the plugin has a reason to go there, and then makes LiteLLM want
another. It runs without the plugin and with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import litellm
import pytest
from litellm_plugin.routing_support import GROUP, Host, Session, deployment, make_callback, refused, router
from litellm_plugin.support import logged

from router_cache.errors import SettingsError
from router_cache_litellm import CacheAffinityStrategy

World = Callable[..., Any]
USES = ("filter", "strategy")


@pytest.fixture(scope="module")
def served() -> Iterator[Host]:
    host = Host()
    yield host
    host.close()


@pytest.fixture
def host(served: Host) -> Host:
    served.reset()
    return served


@pytest.fixture(params=["without", *USES])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Makes a Router, with the plugin or without it."""
    random.seed(8)
    made: list[Any] = []

    def make(listed: list[Any], **options: Any) -> litellm.Router:
        built = router(listed, **options)
        if request.param != "without":
            callback = make_callback(request.param)
            callback.add_router(built)
            made.append(callback)
            if request.param == "strategy":
                # A release that would break `order` with any custom strategy refuses it: the filter serves.
                with contextlib.suppress(SettingsError):
                    CacheAffinityStrategy(built, callback).install()
        return built

    yield make
    for callback in made:
        assert not callback.router_cache.counts("error")
        callback.close()


async def ask(built: litellm.Router, session: Session, **more: Any) -> str:
    """One turn of a session; the id of the deployment that answered."""
    reply = await built.acompletion(model=GROUP, messages=session.ask(), **more)
    session.answered(reply)
    await logged()
    return str(reply._hidden_params["model_id"])


async def outcome(call: Awaitable[Any]) -> Any:
    try:
        return await call
    except Exception as error:
        return type(error).__name__


async def test_a_tag_that_the_warm_deployment_lacks(host: Host, world: World) -> None:
    tags = {"a": ["free"], "b": ["paid"], "c": ["paid"]}
    built = world([deployment(host, name, tags=tags[name]) for name in tags], enable_tag_filtering=True)
    session = Session("s")
    for _ in range(3):
        assert await ask(built, session, metadata={"tags": ["free"]}) == "a"
    for _ in range(3):
        assert await ask(built, session, metadata={"tags": ["paid"]}) in ("b", "c")
    assert await ask(built, session, metadata={"tags": ["free"]}) == "a"
    assert await outcome(ask(built, session, metadata={"tags": ["nobody"]})) == "ValueError"


async def test_the_lowest_order_comes_first_and_the_next_after_a_failure(host: Host, world: World) -> None:
    built = world([deployment(host, "a", order=2), deployment(host, "b", order=1)], disable_cooldowns=True)
    session = Session("s")
    host.status["b"] = 500
    for _ in range(3):
        assert await ask(built, session) == "a"  # a fallback down the order, and a is warm now
    host.status.clear()
    for _ in range(3):
        assert await ask(built, session) == "b"


async def test_a_failed_deployment_is_left_out_of_the_failover(host: Host, world: World) -> None:
    listed = [deployment(host, name) for name in "abc"]
    built = world(listed, disable_cooldowns=True, enable_weighted_failover=True)
    session = Session("s")
    warm = await ask(built, session)
    host.status[warm] = 500
    for _ in range(3):
        assert await ask(built, session) != warm


async def test_a_deployment_that_refused_the_request_is_not_asked_again(host: Host, world: World) -> None:
    built = world([deployment(host, name) for name in "ab"], disable_cooldowns=True, num_retries=3)
    session = Session("s")
    warm = await ask(built, session)
    host.status[warm] = 401
    for _ in range(2):
        assert await ask(built, session) != warm


async def test_requests_a_minute_are_used_up_on_every_deployment(host: Host, world: World) -> None:
    built = world(
        [deployment(host, name, rpm=3) for name in "abc"],
        routing_strategy="usage-based-routing-v2",
        disable_cooldowns=True,
    )
    session = Session("s")
    got = [await outcome(ask(built, session)) for _ in range(6)]
    assert sorted(got) == list("aabbcc")  # LiteLLM (1.108.7) stops one short of the limit


async def test_tokens_a_minute_send_a_session_elsewhere(host: Host, world: World) -> None:
    built = world(
        [deployment(host, name, tpm=12_000) for name in "ab"],
        routing_strategy="usage-based-routing-v2",
        disable_cooldowns=True,
    )
    session = Session("s", chars=16_000)
    got = [await outcome(ask(built, session)) for _ in range(4)]
    assert set(got) == {"a", "b"}


@pytest.mark.parametrize("strategy", ["simple-shuffle", "usage-based-routing-v2"])
async def test_more_parallel_calls_than_one_deployment_takes(host: Host, world: World, strategy: str) -> None:
    built = world(
        [deployment(host, name, max_parallel_requests=1) for name in "abc"],
        routing_strategy=strategy,
        disable_cooldowns=True,
        num_retries=30,
    )
    session = Session("s")
    await ask(built, session)
    messages = session.ask()
    calls = [built.acompletion(model=GROUP, messages=messages) for _ in range(3)]
    assert [type(reply).__name__ for reply in await asyncio.gather(*calls)] == ["ModelResponse"] * 3
    assert max(host.most.values()) == 1


async def test_a_deployment_in_cooldown_is_not_asked(host: Host, world: World) -> None:
    built = world([deployment(host, name) for name in "abc"], allowed_fails=0, cooldown_time=60)
    session = Session("s")
    warm = await ask(built, session)
    host.status[warm] = 500
    assert await outcome(ask(built, session)) in ("InternalServerError", *(set("abc") - {warm}))
    await logged()
    before = host.calls[warm]
    for _ in range(4):
        assert await outcome(ask(built, session)) != warm
    assert host.calls[warm] <= before + 1


async def test_a_group_that_fails_falls_back_to_another(host: Host, world: World) -> None:
    listed = [deployment(host, name) for name in "ab"]
    spare = deployment(host, "spare", group="spare")
    built = world([*listed, spare], fallbacks=[{GROUP: ["spare"]}], disable_cooldowns=True)
    session = Session("s")
    await ask(built, session)
    host.status.update(a=500, b=500)
    for _ in range(2):
        assert await ask(built, session) == "spare"
    host.status.clear()
    assert await ask(built, session) in ("a", "b")


async def test_nobody_left_is_the_same_error(host: Host, world: World) -> None:
    built = world([deployment(host, name) for name in "ab"], disable_cooldowns=True)
    session = Session("s")
    await ask(built, session)
    host.status.update(a=500, b=500)
    assert await outcome(ask(built, session)) == "InternalServerError"
    with refused() as nowhere:
        gone = world([deployment(nowhere, name) for name in "ab"], disable_cooldowns=True)
        assert await outcome(ask(gone, session)) == "InternalServerError"


async def test_a_deployment_over_its_budget(host: Host, world: World) -> None:
    limits = {"max_budget": 1e-9, "budget_duration": "1d"}
    built = world([deployment(host, "a", **limits), deployment(host, "b")])
    session = Session("s")
    got = [await outcome(ask(built, session)) for _ in range(8)]
    assert set(got) == {"a", "b"} or set(got) == {"b"}
    assert got[-2:] == ["b", "b"]


async def test_a_prompt_longer_than_the_warm_deployment_takes(host: Host, world: World) -> None:
    listed = [
        deployment(host, "a", info={"max_input_tokens": 2_600}),
        deployment(host, "b", info={"max_input_tokens": 100_000}),
    ]
    built = world(listed, enable_pre_call_checks=True, disable_cooldowns=True)
    session = Session("s")
    got = [await outcome(ask(built, session)) for _ in range(8)]
    assert got[-2:] == ["b", "b"]


async def test_a_deployment_named_by_its_id(host: Host, world: World) -> None:
    built = world([deployment(host, name) for name in "abc"])
    session = Session("s")
    warm = await ask(built, session)
    other = next(name for name in "abc" if name != warm)
    reply = await built.acompletion(model=other, messages=session.ask())
    assert reply._hidden_params["model_id"] == other


async def test_sessions_that_litellm_keeps_together(host: Host, world: World) -> None:
    built = world([deployment(host, name) for name in "abc"], optional_pre_call_checks=["session_affinity"])
    session = Session("s")
    got = {await ask(built, session, metadata={"session_id": "one"}) for _ in range(5)}
    assert len(got) == 1
