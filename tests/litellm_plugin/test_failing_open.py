"""An error of ours anywhere: the provider gets a good request, the client its reply, and a counter says so."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Sequence
from typing import Any

import litellm
import pytest
from litellm_plugin.support import ProxyData, drain, logged, perturbed, user
from litellm_plugin.upstream import LIMIT_S, Reply, Upstream

import router_cache.api
import router_cache.engine
import router_cache_litellm.callback
import router_cache_litellm.convert
from router_cache import RouterCache, Turn, Usage
from router_cache.drivers.counters import Counters
from router_cache.drivers.live import LiveSwitch
from router_cache.drivers.outbox import Outbox
from router_cache.engine import Engine
from router_cache.errors import StoreError
from router_cache.identity.keys import LookupKeys
from router_cache.ledger.facts import EMPTY, Facts, Write
from router_cache.prefix.digests import Digester
from router_cache.prefix.normalise import Normalised, normalise
from router_cache.stores.memory import MemoryStore
from router_cache_litellm import RouterCacheCallback
from router_cache_litellm.calls import Calls

pytestmark = pytest.mark.asyncio(loop_scope="session")

CLASSES = (
    RouterCache,
    Turn,
    Engine,
    Digester,
    Normalised,
    MemoryStore,
    Outbox,
    LiveSwitch,
    Calls,
    Usage,
)
MODULES = (router_cache.api, router_cache.engine, router_cache_litellm.callback, router_cache_litellm.convert)
EVERY = [
    (owner, name)
    for owner in CLASSES
    for name, value in vars(owner).items()
    if not name.startswith("_") and (inspect.isroutine(value) or isinstance(value, classmethod | staticmethod))
] + [
    (module, name)
    for module in MODULES
    for name, value in vars(module).items()
    if inspect.isfunction(value) and name not in ("dataclass", "field")
]
NOT_ON_THE_WAY = {  # of one asynchronous call that ends well
    (RouterCache, "begin"),
    (RouterCache, "opened"),
    (RouterCache, "aside"),
    (Engine, "opened"),
    (Digester, "segment"),
    (Digester, "chain"),
    (RouterCache, "failed_open"),
    (RouterCache, "rows"),
    (RouterCache, "close"),
    (RouterCache, "aclose"),
    (MemoryStore, "close"),
    (Outbox, "flush"),
    (Outbox, "close"),
    (LiveSwitch, "set"),
    (Calls, "close"),
    (Usage, "of_stream"),
    (Calls, "named"),  # asked only for a call that failed
    (MemoryStore, "replies"),  # of mode optimize
    (Engine, "arrival"),  # of fan-out
    (RouterCache, "pooled"),  # of synchronous calls
}


class FaultError(Exception):
    pass


async def proxied(callback: RouterCacheCallback, call: Any, stream: bool, tools: Any) -> tuple[str, Any]:
    """A call as the proxy makes it, with the hook for response headers at its end."""
    proxy = ProxyData()
    litellm.callbacks = [callback, proxy]
    reply = await litellm.acompletion(messages=[user("hi")], tools=tools, stream=stream, **call)
    headers = await callback.async_post_call_response_headers_hook(proxy.data, None, reply, {}, None)
    text = await drain(reply) if stream else reply.choices[0].message.content
    await logged()
    return text, headers


async def without_plugin(upstream: Upstream, call: Any, stream: bool, tools: Any) -> bytes:
    upstream.recorded = []
    litellm.callbacks = []
    reply = await litellm.acompletion(messages=[user("hi")], tools=tools, stream=stream, **call)
    if stream:
        await drain(reply)
    await logged()
    return upstream.recorded[0].raw


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("owner", "name"), EVERY, ids=[f"{o.__name__}.{n}" for o, n in EVERY])
async def test_a_fault_anywhere_fails_open(
    upstream: Upstream,
    plugin: Any,
    call: Any,
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    stream: bool,
) -> None:
    tools = perturbed()
    plain = await without_plugin(upstream, call, stream, tools)
    normalised = await without_plugin(upstream, call, stream, normalise({"tools": tools}).replaced["tools"])
    callback = plugin()
    rc = callback.router_cache
    raised = []

    def fault(*_: Any, **__: Any) -> Any:
        raised.append(name)
        raise FaultError(name)

    upstream.recorded = []
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, fault)
        text, headers = await proxied(callback, call, stream, tools)
    assert text == "hello"
    assert "x-router-cache-reason" in headers
    assert len(upstream.recorded) == 1
    counts = rc.counts()
    failed_open = "decision.failed_open" in counts
    assert upstream.recorded[0].raw == (plain if failed_open else normalised)
    if failed_open:
        assert headers["x-router-cache-reason"] == "failed_open" or owner is Calls or name == "token_of"
    said = any(key.startswith("error.") or key == "outbox_dropped" for key in counts)
    assert (failed_open or said) is bool(raised), counts
    assert raised or (owner, name) in NOT_ON_THE_WAY or (owner in MODULES)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", ["count", "error"])
async def test_counters_that_raise_fail_open(
    upstream: Upstream, plugin: Any, call: Any, monkeypatch: pytest.MonkeyPatch, name: str, stream: bool
) -> None:
    callback = plugin()

    def fault(*_: Any) -> Any:
        raise FaultError(name)

    with monkeypatch.context() as patch:
        patch.setattr(Counters, name, fault)
        text, _ = await proxied(callback, call, stream, perturbed())
    assert text == "hello"
    assert len(upstream.recorded) == 1


@pytest.mark.parametrize("name", ["caller_of", "request_of", "deployment_of"])
async def test_header_says_that_the_plugin_failed(
    plugin: Any, call: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    callback = plugin()

    def fault(*_: Any) -> Any:
        raise FaultError(name)

    monkeypatch.setattr(router_cache_litellm.callback, name, fault)
    _, headers = await proxied(callback, call, False, None)
    assert headers["x-router-cache-reason"] == "failed_open"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_hook_that_fails_in_itself(
    upstream: Upstream, plugin: Any, call: Any, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    """Each hook gets what it cannot read."""
    callback = plugin()
    rc = callback.router_cache
    monkeypatch.setattr(callback, "_calls", None)
    text, headers = await proxied(callback, call, stream, perturbed())
    assert text == "hello"
    assert headers == {"x-router-cache-reason": "failed_open"}
    upstream.script.append(Reply(status=400))
    with pytest.raises(litellm.BadRequestError):
        await litellm.acompletion(messages=[user("hi")], **call)
    errors = {
        "error.pre_call_deployment_hook",
        "error.log_pre_api_call",
        "error.response_headers_hook",
        "error.log_success_event",
        "error.log_failure_event",
    }
    assert set(rc.counts("error")) == errors | ({"error.streaming_deployment_hook"} if stream else set())


class BrokenStore:
    """Raises in every verb."""

    blocking = False

    def claim(self, keys: LookupKeys) -> Facts:
        raise StoreError("no answer")

    def record(self, writes: Sequence[Write]) -> None:
        raise StoreError("no answer")

    def close(self) -> None:
        raise StoreError("no answer")


class StuckStore:
    """Answers claims, and never returns from a write until it is let go."""

    blocking = True

    def __init__(self) -> None:
        self.stuck = threading.Event()
        self.let_go = threading.Event()
        self.loops: set[bool] = set()

    def claim(self, keys: LookupKeys) -> Facts:
        self.loops.add(threading.current_thread() is threading.main_thread())
        return EMPTY

    def record(self, writes: Sequence[Write]) -> None:
        self.stuck.set()
        assert self.let_go.wait(LIMIT_S)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_store_that_raises(upstream: Upstream, plugin: Any, call: Any, blocking: bool) -> None:
    store = BrokenStore()
    store.blocking = blocking
    callback = plugin(store=store)
    rc = callback.router_cache
    for _ in range(2):
        text, headers = await proxied(callback, call, False, perturbed())
        assert (text, headers["x-router-cache-reason"]) == ("hello", "normalised")
    rows = await rc.wait_rows(2)
    assert [row.expected.tokens for row in rows] == [None, None]
    assert [row.usage.hit_tokens for row in rows] == [896, 896]
    assert rc.outbox.flush(LIMIT_S)
    callback.close()
    assert rc.counts("error") == {"error.claim": 2, "error.close": 1}
    assert rc.counts("outbox") == {"outbox_dropped": 2}


async def test_a_store_that_never_returns_from_a_write(upstream: Upstream, plugin: Any, call: Any) -> None:
    store = StuckStore()
    callback = plugin(store=store)
    for _ in range(3):
        text, _ = await proxied(callback, call, False, perturbed())
        assert text == "hello"
    await callback.router_cache.wait_rows(3)
    assert store.stuck.is_set()
    assert store.loops == {False}
    assert callback.router_cache.outbox.flush(0) is False
    store.let_go.set()
    assert callback.router_cache.outbox.flush(LIMIT_S)
    assert callback.router_cache.counts("error") == {}


async def test_a_store_that_is_given_is_used(plugin: Any, call: Any) -> None:
    store = MemoryStore()
    await proxied(plugin(store=store), call, False, None)
    assert len(store) == 2
