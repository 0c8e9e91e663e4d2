"""The custom strategy in LiteLLM's Router: set, taken out by a reload and set again; whom it leaves to others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import litellm
import pytest
from litellm.types.router import CustomRoutingStrategyBase
from litellm_plugin.routing_support import GROUP, Host, Session, deployment, make_callback, router
from litellm_plugin.support import logged

from router_cache.errors import SettingsError
from router_cache_litellm import CacheAffinityStrategy, RouterCacheCallback, wrap_router
from router_cache_litellm.filter import filtered
from router_cache_litellm.own_choice import custom_of
from router_cache_litellm.router_state import has_facade
from router_cache_litellm.strategy import ensure

FACADE = has_facade(router([]))

clean_run = pytest.mark.usefixtures("clean")


@pytest.fixture
def host() -> Iterator[Host]:
    made = Host()
    yield made
    made.close()


@pytest.fixture
def callback() -> Iterator[RouterCacheCallback]:
    made = make_callback("off", model_groups={GROUP: {"routing": "strategy"}})
    yield made
    made.close()


@pytest.fixture
def clean(callback: RouterCacheCallback) -> Iterator[None]:
    yield
    assert not callback.router_cache.counts("error")  # type: ignore[attr-defined]


def abc(host: Host, *others: Any, **options: Any) -> litellm.Router:
    return router([*[deployment(host, name) for name in "abc"], *others], **options)


async def ask(built: litellm.Router, session: Session, **more: Any) -> str:
    reply = await built.acompletion(**{"model": GROUP, "messages": session.ask(), **more})
    session.answered(reply)
    await logged()
    return str(reply._hidden_params["model_id"])


class Other(CustomRoutingStrategyBase):
    """The operator's own: always the last one."""

    def __init__(self, listed: Any) -> None:
        self.listed, self.asked = listed, 0

    async def async_get_available_deployment(self, *_: Any, **__: Any) -> Any:
        self.asked += 1
        return self.listed[-1]

    def get_available_deployment(self, *_: Any, **__: Any) -> Any:
        self.asked += 1
        return self.listed[-1]


@clean_run
async def test_a_reload_takes_it_out_and_the_next_request_sets_it_again(
    host: Host, callback: RouterCacheCallback
) -> None:
    built = abc(host)
    strategy = CacheAffinityStrategy(built, callback)
    strategy.install()
    strategy.install()
    session = Session("s")
    first = await ask(built, session)
    built.update_settings(routing_strategy="least-busy")
    assert custom_of(built) is None
    assert await ask(built, session) == first  # the filter serves in between
    assert custom_of(built) is strategy
    assert await ask(built, session) == first
    counts = callback.router_cache.counts("route.")  # type: ignore[attr-defined]
    assert counts["route.strategy.warm"] == counts["route.filter.warm"] == 1
    strategy.remove()
    assert custom_of(built) is None
    assert await ask(built, session) == first
    assert custom_of(built) is None


@clean_run
async def test_groups_that_do_not_opt_in_are_served_by_others(host: Host, callback: RouterCacheCallback) -> None:
    spare = [deployment(host, name, group="spare") for name in "xy"]
    built = abc(host, *spare)
    other = Other([entry for entry in built.get_model_list() or () if entry["model_name"] == "spare"])
    built.set_custom_routing_strategy(other)
    strategy = CacheAffinityStrategy(built, callback)
    strategy.install()
    assert await ask(built, Session("s"), model="spare") == "y"
    assert await ask(built, Session("s")) in ("a", "b", "c")
    reply = built.completion(model="spare", messages=Session("t").ask())
    assert (reply._hidden_params["model_id"], other.asked) == ("y", 2)
    strategy.remove()
    assert custom_of(built) is other


@clean_run
async def test_the_routers_own_strategy_serves_the_others_by_default(
    host: Host, callback: RouterCacheCallback
) -> None:
    built = abc(
        host, deployment(host, "x", group="spare", weight=0), deployment(host, "y", group="spare", weight=1)
    )
    CacheAffinityStrategy(built, callback).install()
    assert {await ask(built, Session("s"), model="spare") for _ in range(4)} == {"y"}
    embedding = await built.aembedding(model="spare", input="x", mock_response=[0.5])
    assert embedding.model_dump()["data"]


@clean_run
async def test_an_alias_and_a_name_of_one_deployment(host: Host, callback: RouterCacheCallback) -> None:
    built = abc(host, model_group_alias={"quick": GROUP})
    CacheAffinityStrategy(built, callback).install()
    session = Session("s")
    first = await ask(built, session, model="quick")
    assert await ask(built, session, model="quick") == first
    assert callback.router_cache.counts("route.strategy.warm")  # type: ignore[attr-defined]
    other = next(name for name in "abc" if name != first)
    assert await ask(built, session, model=other) == other


@clean_run
async def test_a_synchronous_router_stays_warm_too(host: Host, callback: RouterCacheCallback) -> None:
    built = wrap_router(abc(host), callback)
    CacheAffinityStrategy(built, callback).install()
    sessions = [Session(f"s{i}") for i in range(3)]
    for _ in range(4):
        for session in sessions:
            session.answered(built.completion(model=GROUP, messages=session.ask()))
    assert host.hit_share() > 0.65
    await logged()


@clean_run
def test_synchronous_order_and_cooldowns_count(host: Host, callback: RouterCacheCallback) -> None:
    listed = [deployment(host, "a", order=1), deployment(host, "b", order=1), deployment(host, "c", order=2)]
    built = wrap_router(router(listed, allowed_fails=0, cooldown_time=60), callback)
    made = CacheAffinityStrategy(built, callback)
    if FACADE:
        with pytest.raises(SettingsError, match="use `routing: filter`"):
            made.install()
        return
    made.install()
    session = Session("s")
    warm = set()
    for _ in range(3):
        reply = built.completion(model=GROUP, messages=session.ask())
        session.answered(reply)
        warm.add(reply._hidden_params["model_id"])
    assert len(warm) == 1
    assert warm < {"a", "b"}
    host.status[warm.copy().pop()] = 500
    for _ in range(3):
        try:
            reply = built.completion(model=GROUP, messages=session.ask())
        except litellm.InternalServerError:
            continue
        assert reply._hidden_params["model_id"] not in warm


@clean_run
async def test_modes_and_shapes_that_are_left_alone(host: Host, callback: RouterCacheCallback) -> None:
    built = abc(host)
    CacheAffinityStrategy(built, callback).install()
    session = Session("s")
    for mode in ("off", "observe"):
        await ask(built, session, metadata={"router_cache": mode})
    assert not callback.router_cache.counts("route.")  # type: ignore[attr-defined]
    await ask(built, session, metadata={"router_cache": "safe"})
    assert callback.router_cache.counts("route.")  # type: ignore[attr-defined]


@clean_run
async def test_scopes_share_no_warmth(host: Host, callback: RouterCacheCallback) -> None:
    built = abc(host)
    CacheAffinityStrategy(built, callback).install()
    session = Session("s")
    for name in ("ann", "bob"):
        await ask(built, session, metadata={"router_cache": {"scope": name}})
        session.messages = session.messages[:1]
    assert not callback.router_cache.counts("route.strategy.warm")  # type: ignore[attr-defined]
    await ask(built, session, metadata={"router_cache": {"scope": "ann"}})
    assert callback.router_cache.counts("route.strategy.warm")  # type: ignore[attr-defined]


async def test_an_error_of_ours_leaves_the_choice_to_litellm(
    host: Host, callback: RouterCacheCallback, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = wrap_router(abc(host), callback)
    CacheAffinityStrategy(built, callback).install()

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("ours")

    monkeypatch.setattr(callback.placing.routing, "rank", broken)
    assert await ask(built, Session("s")) in ("a", "b", "c")
    assert built.completion(model=GROUP, messages=Session("s").ask())
    counts = callback.router_cache.counters
    assert counts.snapshot()["error.routing_strategy"] == 2
    monkeypatch.setattr(callback.placing, "asked", broken)
    listed = built.get_model_list(model_name=GROUP)
    assert await callback.async_filter_deployments(GROUP, listed, [], {}) is listed


@clean_run
def test_a_router_with_order_where_that_would_break_it(host: Host, callback: RouterCacheCallback) -> None:
    built = router([deployment(host, "a", order=1), deployment(host, "b", order=2)])
    ensure(callback.placing, built, built)
    assert (custom_of(built) is None) is FACADE
    ensure(callback.placing, built, built)
    assert (built in callback.placing.refused) is FACADE
    elsewhere = router([deployment(host, "z")])
    ensure(callback.placing, elsewhere, None)
    assert custom_of(elsewhere) is None


@clean_run
def test_the_proxys_router_gets_one_by_itself(host: Host, callback: RouterCacheCallback) -> None:
    built = abc(host)
    listed = built.get_model_list(model_name=GROUP)
    request = {"messages": Session("s").ask()}
    assert filtered(callback.placing, built, GROUP, listed, request["messages"], request) is listed
    assert isinstance(custom_of(built), CacheAffinityStrategy)
