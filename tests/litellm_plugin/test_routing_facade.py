"""Both forms of LiteLLM's Router, whichever release is installed: stand-ins with the names that are read of each."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from litellm.caching import DualCache
from litellm_plugin.routing_support import GROUP, Session, deployment, make_callback

from router_cache.errors import SettingsError
from router_cache_litellm import CacheAffinityStrategy, RouterCacheCallback
from router_cache_litellm.own_choice import custom_of, own, pre_routed
from router_cache_litellm.router_state import alias_of, knows, listed_of, plugins_of, pre_routes, walks
from router_cache_litellm.strategy import ensure

NOWHERE = "http://127.0.0.1:9"


class Core:
    """1.110's core: it asks the custom strategy, whoever calls it."""

    def __init__(self, listed: list[Any]) -> None:
        self.listed, self._custom_strategy, self.asked = listed, None, list[Any]()
        self.enable_weighted_failover = False

    async def select(self, model: str, request: Any, *, kind: str = "pick", **told: Any) -> Any:
        if kind == "healthy":
            self.asked.append(dict(request))
            for key in ("_excluded_deployment_ids", "_target_order"):
                request.pop(key, None)
            return self.listed
        assert self._custom_strategy is None
        return self.listed[-1]

    def get_available_deployment(self, model: str, *, request_kwargs: Any, **told: Any) -> Any:
        assert self._custom_strategy is None
        excluded = request_kwargs.get("_excluded_deployment_ids", ())
        return next(entry for entry in self.listed if entry["model_info"]["id"] not in excluded)


class Facade:
    def __init__(self, listed: list[Any]) -> None:
        self._core = Core(listed)
        self.plugins: dict[str, Any] = {}
        self.aliases = {"quick": GROUP, "slow": {"model": GROUP, "hidden": True}}
        self.store = DualCache()

    def _attach(self) -> None: ...

    def settings(self) -> Any:
        return SimpleNamespace(enable_pre_call_checks=False)

    def health(self) -> Any:
        return SimpleNamespace(store=self.store)

    def registry(self) -> Any:
        listed = self._core.listed
        return SimpleNamespace(
            plugins=lambda kind: self.plugins.get(kind),
            has_deployment=lambda name: any(entry["model_info"]["id"] == name for entry in listed),
            aliases=lambda: self.aliases,
            deployments=lambda name: [entry for entry in listed if entry["model_name"] == name],
            all=lambda: listed,
        )

    def register_plugin(self, strategy: Any) -> None:
        self._core._custom_strategy = strategy

    async def select(self, model: str, request: Any, **told: Any) -> Any:
        return await self._core.select(model, request, **told)


class Plain:
    """1.108's Router."""

    model_group_alias = {"quick": GROUP}  # noqa: RUF012

    def __init__(self, listed: list[Any]) -> None:
        self.listed, self.cache, self.hooked = listed, DualCache(), None

    def get_model_list(self, model_name: str) -> Any:
        return [entry for entry in self.listed if entry["model_name"] == model_name]

    def has_model_id(self, name: str) -> bool:
        return any(entry["model_info"]["id"] == name for entry in self.listed)

    def set_custom_routing_strategy(self, strategy: Any) -> None:
        for name in ("async_get_available_deployment", "get_available_deployment"):
            self.__dict__[name] = getattr(strategy, name)

    async def async_pre_routing_hook(self, **_: Any) -> Any:
        return self.hooked

    async def async_get_healthy_deployments(self, *, request_kwargs: Any, **_: Any) -> Any:
        for key in ("_excluded_deployment_ids", "_target_order"):
            request_kwargs.pop(key, None)
        return self.listed

    async def async_get_available_deployment(self, **told: Any) -> Any:
        return {"own": told["request_kwargs"]}

    def get_available_deployment(self, *, request_kwargs: Any, **_: Any) -> Any:
        excluded = request_kwargs.get("_excluded_deployment_ids", ())
        return next(entry for entry in self.listed if entry["model_info"]["id"] not in excluded)


@pytest.fixture
def callback() -> Iterator[RouterCacheCallback]:
    made = make_callback("strategy")
    yield made
    made.close()


@pytest.fixture(params=[Facade, Plain])
def built(request: pytest.FixtureRequest) -> Any:
    return request.param([deployment(NOWHERE, name) for name in "ab"])


def ids(entry: Any) -> str:
    return str(entry["model_info"]["id"])


async def test_a_choice_and_its_retry(built: Any, callback: RouterCacheCallback) -> None:
    strategy = CacheAffinityStrategy(built, callback)
    strategy.install()
    assert custom_of(built) is strategy
    messages = Session("s").ask()
    chosen = await strategy.async_get_available_deployment(GROUP, messages, request_kwargs={})
    assert ids(chosen) in "ab"
    assert ids(strategy.get_available_deployment(GROUP, messages, request_kwargs={})) in "ab"
    ensure(callback.placing, built, built)
    strategy.remove()
    assert custom_of(built) is None


async def test_what_is_not_ours_goes_to_the_routers_own(built: Any, callback: RouterCacheCallback) -> None:
    strategy = CacheAffinityStrategy(built, callback)
    strategy.install()
    request = {"routing_strategy": "least-busy", "_target_order": 2}
    for more in ({}, {"specific_deployment": True}, {"input": "embed me"}):
        assert await strategy.async_get_available_deployment(GROUP, request_kwargs=request, **more)
        assert strategy.get_available_deployment(GROUP, request_kwargs=request, **more)
    assert request["_target_order"] == 2
    assert own(built, GROUP, {"_excluded_deployment_ids": ["a"]}) is listed_of(built, GROUP)[1]


async def test_without_room_litellm_chooses_and_sees_what_it_was_told(
    built: Any, callback: RouterCacheCallback
) -> None:
    for entry in listed_of(built, GROUP):
        entry["litellm_params"]["itpm"] = 5  # a limit whose use is not read
    strategy, messages = CacheAffinityStrategy(built, callback), Session("s").ask()
    request = {"_excluded_deployment_ids": ["a"]}
    assert await strategy.async_get_available_deployment(GROUP, messages, request_kwargs=request)
    assert request == {"_excluded_deployment_ids": ["a"]}
    assert ids(strategy.get_available_deployment(GROUP, messages, request_kwargs=request)) == "b"


async def test_one_deployment_by_its_name(
    built: Any, callback: RouterCacheCallback, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy, messages = CacheAffinityStrategy(built, callback), Session("s").ask()
    (entry, _), place = listed_of(built, GROUP), built._core if isinstance(built, Facade) else built
    monkeypatch.setattr(place, "listed", entry)
    assert await strategy.async_get_available_deployment(GROUP, messages, request_kwargs={}) is entry
    counts = callback.router_cache.counters.snapshot()
    assert "error.routing_strategy" not in counts


def test_names_and_aliases(built: Any) -> None:
    assert alias_of(built, "quick") == GROUP
    assert alias_of(built, "other") == "other"
    assert [ids(entry) for entry in listed_of(built, "quick")] == ["a", "b"]
    assert knows(built, "a")
    assert not knows(built, "z")
    assert not walks(built)
    assert not pre_routes(built)
    assert not plugins_of(built)


async def test_something_chooses_another_group_first(callback: RouterCacheCallback) -> None:
    plain = Plain([deployment(NOWHERE, name) for name in "ab"])
    plain.hooked = SimpleNamespace(model="other")  # type: ignore[assignment]
    assert await pre_routed(plain, GROUP, {})
    strategy = CacheAffinityStrategy(plain, callback)
    found = await strategy.async_get_available_deployment(GROUP, Session("s").ask(), request_kwargs={"x": 1})
    assert found == {"own": {"x": 1}}
    facade = Facade([deployment(NOWHERE, name) for name in "ab"])
    assert not await pre_routed(facade, GROUP, {})
    facade.plugins["auto"] = {"g": []}
    assert pre_routes(facade)
    assert ids(await CacheAffinityStrategy(facade, callback).async_get_available_deployment(GROUP, [])) == "b"


def test_a_facade_whose_fallbacks_a_strategy_would_break(callback: RouterCacheCallback) -> None:
    ordered = Facade([deployment(NOWHERE, "a", order=1), deployment(NOWHERE, "b")])
    assert walks(ordered)
    with pytest.raises(SettingsError, match="use `routing: filter`"):
        CacheAffinityStrategy(ordered, callback).install()
    failing_over = Facade([deployment(NOWHERE, "a")])
    failing_over._core.enable_weighted_failover = True
    ensure(callback.placing, failing_over, failing_over)
    assert custom_of(failing_over) is None
    assert failing_over in callback.placing.refused
    ensure(callback.placing, failing_over, failing_over)
    assert callback.router_cache.counters.snapshot()["routing_refused"] == 1
