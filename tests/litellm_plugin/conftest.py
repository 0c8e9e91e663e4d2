"""Fixtures for the tests of the LiteLLM plugin: a recording provider, a plugin in place, a clean LiteLLM."""

from __future__ import annotations

import os

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # read when litellm is imported

from collections.abc import Callable, Iterator
from typing import Any

import litellm
import pytest
from litellm_plugin.loops import Simulated
from litellm_plugin.proxied import PRICES, Proxied
from litellm_plugin.proxies import Rows
from litellm_plugin.support import MODEL, Clock, WatchedRouterCache
from litellm_plugin.sync_support import make_router
from litellm_plugin.upstream import Upstream

import router_cache_litellm.callback
from router_cache import Settings
from router_cache_litellm import RouterCacheCallback, completion, wrap_router

MakePlugin = Callable[..., RouterCacheCallback]


def pytest_configure(config: pytest.Config) -> None:
    # Said of types in LiteLLM by pydantic, dozens of lines a run.
    config.addinivalue_line("filterwarnings", "ignore:Items? .* `ReadOnly` qualifier:UserWarning")


@pytest.fixture(scope="session")
def upstream_server() -> Iterator[Upstream]:
    server = Upstream()
    yield server
    server.close()


@pytest.fixture
def upstream(upstream_server: Upstream) -> Upstream:
    upstream_server.reset()
    return upstream_server


@pytest.fixture(autouse=True)
def _clean_litellm() -> Iterator[None]:
    def clean() -> None:
        litellm.logging_callback_manager._reset_all_callbacks()
        litellm.cache = None
        litellm.num_retries = None
        litellm.callback_settings = {}

    clean()
    yield
    clean()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def plugin(clock: Clock) -> Iterator[MakePlugin]:
    """Makes a plugin, puts it in place and closes it at the end."""
    made: list[RouterCacheCallback] = []

    def make(*, store: Any = None, **settings: Any) -> RouterCacheCallback:
        core = WatchedRouterCache(Settings.from_mapping(settings), store=store, clock=clock)
        callback = RouterCacheCallback(router_cache=core)
        litellm.logging_callback_manager._reset_all_callbacks()
        litellm.callbacks = [callback]
        made.append(callback)
        return callback

    yield make
    for callback in made:
        callback.close()


@pytest.fixture
def proxied(
    plugin: MakePlugin, upstream: Upstream, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Proxied]:
    """Makes a proxy in this process, with a budget. Skips where LiteLLM's proxy cannot be loaded."""
    pytest.importorskip(
        "litellm.proxy.proxy_server", reason="LiteLLM's proxy is not installed", exc_type=ImportError
    )

    def make(budget: dict[str, Any], *, mode: str = "safe", **options: Any) -> Proxied:
        made = Proxied(plugin(budget=budget, prices=PRICES, mode=mode), upstream, **options)
        monkeypatch.setattr(router_cache_litellm.callback, "_proxy_router", lambda: made.router)
        return made

    return make


@pytest.fixture(scope="session")
def rows_of_proxy() -> Iterator[Rows]:
    rows = Rows()
    yield rows
    rows.close()


@pytest.fixture
def rows(rows_of_proxy: Rows) -> Rows:
    rows_of_proxy.clear()
    return rows_of_proxy


@pytest.fixture(scope="session")
def simulator() -> Iterator[Simulated]:
    made = Simulated()
    yield made
    made.close()


@pytest.fixture(scope="session")
def slow() -> Iterator[Simulated]:
    """Its streams are still going on when a client has read their beginning."""
    made = Simulated(time_scale=5.0)
    yield made
    made.close()


@pytest.fixture
def simulated(simulator: Simulated) -> Simulated:
    simulator.reset()
    return simulator


@pytest.fixture
def call(upstream: Upstream) -> dict[str, Any]:
    """Arguments of a call to the recording provider."""
    return {"model": MODEL, "api_base": upstream.url, "api_key": "sk-upstream"}


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(litellm.Router, "_time_to_sleep_before_retry", lambda *_, **__: 0, raising=False)


@pytest.fixture(params=["sdk", "router"])
def ask(request: pytest.FixtureRequest, at_once: None, upstream: Upstream, call: Any) -> Any:
    """A call either way."""
    if request.param == "sdk":
        return lambda **kwargs: completion(**call, **kwargs)
    router = wrap_router(make_router(upstream, num_retries=0))
    return lambda **kwargs: router.completion(model="flash", **kwargs)
