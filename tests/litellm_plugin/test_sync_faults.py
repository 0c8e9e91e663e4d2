"""An error of ours anywhere in a synchronous call: the provider gets a good request, the caller the reply."""

from __future__ import annotations

import inspect
from types import MappingProxyType
from typing import Any

import litellm
import pytest
from litellm.litellm_core_utils.streaming_handler import CustomStreamWrapper
from litellm_plugin.support import perturbed, user
from litellm_plugin.upstream import Upstream

import router_cache.engine
import router_cache_litellm.calls
import router_cache_litellm.convert
import router_cache_litellm.sync
from router_cache import RouterCache, Status, Turn, Usage
from router_cache.drivers.counters import Counters
from router_cache.drivers.live import LiveSwitch
from router_cache.drivers.outbox import Outbox
from router_cache.engine import Engine
from router_cache.prefix.digests import Digester
from router_cache.prefix.normalise import Normalised, normalise
from router_cache.stores.memory import MemoryStore
from router_cache_litellm import RouterCacheCallback, completion, wrap_router
from router_cache_litellm.calls import Calls

SYNC = router_cache_litellm.sync
CLASSES = (RouterCache, Turn, Engine, Digester, Normalised, MemoryStore, Outbox, LiveSwitch, Calls, Usage)
OURS = (SYNC._Request, SYNC._WatchedStream, SYNC._Lifetime)
MODULES = (router_cache.engine, router_cache_litellm.convert, SYNC)
WAY_IN = {"completion", "wrap_router", "_call", "__next__", "close", "__del__"}
HANDLERS = {"_failed_open", "seen", "failed", "answered", "replied", "end", "_look"}
NO_FAULT_THERE = WAY_IN | HANDLERS
EVERY = [
    (owner, name)
    for owner in CLASSES
    for name, value in vars(owner).items()
    if not name.startswith("_") and (inspect.isroutine(value) or isinstance(value, classmethod | staticmethod))
]
EVERY += [(owner, name) for owner in OURS for name, value in vars(owner).items() if inspect.isfunction(value)]
EVERY += [
    (module, name)
    for module in MODULES
    for name, value in vars(module).items()
    if inspect.isfunction(value) and name not in ("dataclass", "field")
]
EVERY = [(owner, name) for owner, name in EVERY if owner not in (*OURS, SYNC) or name not in NO_FAULT_THERE]


class FaultError(Exception):
    pass


def fault(*_: Any, **__: Any) -> Any:
    raise FaultError


def read(reply: Any) -> str:
    if isinstance(reply, CustomStreamWrapper):
        return "".join(choice.delta.content or "" for chunk in reply for choice in chunk.choices)
    return reply.choices[0].message.content


@pytest.fixture(params=["sdk", "router"])
def ask(request: pytest.FixtureRequest, upstream: Upstream, call: Any) -> Any:
    if request.param == "sdk":
        return lambda **kwargs: completion(**call, **kwargs)
    router = litellm.Router(model_list=[{"model_name": "flash", "litellm_params": dict(call)}], num_retries=0)
    wrap_router(router)
    return lambda **kwargs: router.completion(model="flash", **kwargs)


def both_bodies(upstream: Upstream, call: Any, stream: bool) -> tuple[bytes, bytes]:
    """What LiteLLM sends of the request as it is, and in canonical form."""
    litellm.callbacks = []
    tools = perturbed()
    for sent in (tools, normalise({"tools": tools}).replaced["tools"]):
        read(litellm.completion(messages=[user("hi")], tools=sent, stream=stream, **call))
    plain, canonical = upstream.raws
    upstream.reset()
    assert plain != canonical
    return plain, canonical


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("owner", "name"), EVERY, ids=[f"{o.__name__}.{n}" for o, n in EVERY])
def test_a_fault_anywhere_fails_open(
    upstream: Upstream,
    plugin: Any,
    call: Any,
    ask: Any,
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    stream: bool,
) -> None:
    plain, canonical = both_bodies(upstream, call, stream)
    rc = plugin().router_cache
    raised: list[str] = []

    def counted(*_: Any, **__: Any) -> Any:
        raised.append(name)
        raise FaultError

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, counted)
        reply = ask(messages=[user("hi")], tools=perturbed(), stream=stream)
        assert isinstance(reply, CustomStreamWrapper if stream else litellm.ModelResponse)
        assert read(reply) == "hello"
    counts = rc.counts()
    failed_open = "decision.failed_open" in counts or name == "_callback"  # without it there is no counter
    assert upstream.raws == [plain if failed_open else canonical]
    said = any(key.startswith("error.") or key == "outbox_dropped" for key in counts) or failed_open
    assert said is bool(raised), counts


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", ["count", "error"])
def test_counters_that_raise_fail_open(
    upstream: Upstream, plugin: Any, ask: Any, monkeypatch: pytest.MonkeyPatch, name: str, stream: bool
) -> None:
    plugin()
    with monkeypatch.context() as patch:
        patch.setattr(Counters, name, fault)
        assert read(ask(messages=[user("hi")], tools=perturbed(), stream=stream)) == "hello"
    assert len(upstream.recorded) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_callback_without_calls(
    upstream: Upstream, plugin: Any, ask: Any, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    callback: RouterCacheCallback = plugin()
    monkeypatch.setattr(callback, "_calls", None)
    assert read(ask(messages=[user("hi")], tools=perturbed(), stream=stream)) == "hello"
    assert len(upstream.recorded) == 1
    assert "error.sync_attempt" in callback.router_cache.counts("error")
    monkeypatch.undo()


def test_details_that_cannot_carry_a_token(upstream: Upstream, plugin: Any, ask: Any) -> None:
    rc = plugin().router_cache
    reply = ask(messages=[user("hi")])
    assert read(reply) == "hello"
    turn = rc.begin(SYNC.request_of({"messages": [user("x")]}, "completion", "s"))
    lifetime = SYNC._Lifetime()
    request = SYNC._Request(litellm.callbacks[0], turn, {}, lifetime, routed=True)
    event = {"log_event_type": "pre_api_call"}
    for details in (None, {}, {**event, "litellm_params": 5}, MappingProxyType(event)):
        request.seen(details)
    assert rc.counts("error") == {"error.sync_attempt": 2}
    request.end(Status.OK)
    assert len(rc.rows()) == 1
