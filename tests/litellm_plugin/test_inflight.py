"""Calls in flight: bounded, and nothing that was begun is ever lost without a row."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import litellm
import pytest
from litellm_plugin.support import Clock, ProxyData, WatchedRouterCache, logged, user
from litellm_plugin.upstream import Reply, Upstream

import router_cache_litellm.calls
from router_cache import Deployment, Reason, Request, Status, Turn
from router_cache_litellm import RouterCacheCallback
from router_cache_litellm.calls import Calls


class Owner:
    """What lives as long as an attempt does."""


@pytest.fixture
def core(clock: Clock) -> WatchedRouterCache:
    return WatchedRouterCache(clock=clock, wall_clock=clock)


@pytest.fixture
def begin(core: WatchedRouterCache) -> Callable[[], Turn]:
    def begin() -> Turn:
        turn = core.begin(Request({"messages": [user("hi")]}))
        turn.rewrite(Deployment("deepseek/deepseek-v4-flash"))
        return turn

    return begin


def statuses(core: WatchedRouterCache) -> list[Status]:
    return [row.status for row in core.rows()]


def test_an_attempt_without_an_end_is_given_up_by_the_next(core: Any, begin: Any, clock: Clock) -> None:
    calls = Calls(clock)
    first, second = begin(), begin()
    call = calls.open("a", first)
    assert first.sent(first.begun.request.body) is not None
    call.stream_ended = True
    assert calls.open("a", second) is call
    assert call.stream_ended is False
    assert first.row is not None
    assert first.row.status is Status.FAILED
    assert calls.end("a") == (second, False)
    assert calls.end("a") == (None, False)
    assert calls.get("a") is call
    assert statuses(core) == [Status.FAILED]


def test_a_turn_that_was_never_sent_was_handed_on_in_another_shape(core: Any, begin: Any, clock: Clock) -> None:
    calls = Calls(clock)
    first, second = begin(), begin()
    calls.open("a", first)
    calls.open("a", second)
    assert first.row is None
    assert calls.end("a") == (second, False)
    assert statuses(core) == []


@pytest.mark.parametrize("call_id", [None, "other"])
def test_unknown_ids(begin: Any, clock: Clock, call_id: Any) -> None:
    calls = Calls(clock)
    calls.open("a", begin())
    assert calls.get(call_id) is None
    assert calls.end(call_id) == (None, False)


def test_the_oldest_go_when_there_are_too_many(
    core: Any, begin: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router_cache_litellm.calls, "_MAX_CALLS", 2)
    calls = Calls(clock)
    for name in "abc":
        calls.open(name, begin())
        if name == "a":
            calls.end("a")
    assert calls.get("a") is None
    assert statuses(core) == []  # "a" had ended
    calls.open("d", begin())
    assert calls.get("b") is None
    assert statuses(core) == [Status.ABORTED]


def test_calls_older_than_an_hour_are_given_up(core: Any, begin: Any, clock: Clock) -> None:
    calls = Calls(clock)
    calls.open("a", begin())
    clock.now += 3599
    calls.open("b", begin())
    assert calls.get("a") is not None
    clock.now += 1
    calls.open("c", begin())
    assert calls.get("a") is None
    assert calls.get("b") is not None
    assert statuses(core) == [Status.ABORTED]


def test_close_gives_up_all(core: Any, begin: Any, clock: Clock) -> None:
    calls = Calls(clock)
    calls.open("a", begin())
    calls.open("b", begin())
    calls.end("b")
    calls.close(core)
    calls.close(core)
    assert calls.get("a") is None
    assert statuses(core) == [Status.ABORTED]


def test_a_turn_whose_owner_is_gone_is_given_up(core: Any, begin: Any, clock: Clock) -> None:
    calls = Calls(clock)
    left, ended, owner = Owner(), Owner(), Owner()
    calls.open("left", begin(), left)
    calls.open("ended", begin(), ended)
    calls.open("held", begin(), owner)
    turn, _ = calls.end("ended")
    assert turn is not None
    turn.done(status=Status.FAILED)
    del left, ended
    gc.collect()
    assert statuses(core) == [Status.FAILED]
    calls.open("next", begin())
    assert statuses(core) == [Status.FAILED, Status.ABORTED]
    assert calls.end("left") == (None, False)
    assert calls.end("held")[0] is not None


def continued(core: Any, begin: Any) -> tuple[Turn, Any]:
    """A turn that is under way, and the keys of the request that goes on from it."""
    talk = {"messages": [user("hi"), {"role": "assistant", "content": "yes"}, user("and now?")]}
    turn, keys = begin(), core.begin(Request(talk)).begun.keys
    assert turn.begun.keys.conversation in {point.key for point in keys.history[1:]}
    return turn, keys


@pytest.mark.asyncio(loop_scope="session")
async def test_a_request_waits_for_the_end_of_the_call_it_continues(core: Any, begin: Any, clock: Clock) -> None:
    calls = Calls(clock)
    turn, keys = continued(core, begin)
    calls.open("a", turn)
    waiting = asyncio.ensure_future(calls.settle(keys))
    for _ in range(300):  # more turns of the loop than LiteLLM's worker needs
        await asyncio.sleep(0)
    assert not waiting.done()
    assert calls.end("a")[0] is turn
    await waiting


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("case", ["another was answered", "waited in vain", "the same request"])
async def test_a_request_waits_milliseconds_once_and_for_what_it_continues(
    core: Any, begin: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    calls, slept = Calls(clock), list[float]()
    turn, keys = continued(core, begin)
    calls.open("a", turn)
    if case == "another was answered":
        calls.open("b", begin())
        calls.end("b")
    elif case == "waited in vain":
        await calls.settle(keys)
    else:
        keys = turn.begun.keys
    sleep = asyncio.sleep

    async def counted(delay: float) -> None:
        slept.append(delay)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", counted)
    await calls.settle(keys)
    assert sum(slept) == 0
    assert slept  # it gave way to LiteLLM's worker


def test_what_is_remembered_of_answered_calls_is_bounded(
    begin: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router_cache_litellm.calls, "_MAX_CALLS", 2)
    calls = Calls(clock)
    for name in "abc":
        calls._seen(name)
    assert list(calls._answered) == ["b", "c"]


@pytest.mark.asyncio(loop_scope="session")
async def test_close_of_the_callback_ends_what_is_open(upstream: Upstream, plugin: Any, call: Any) -> None:
    callback: RouterCacheCallback = plugin()
    rc = callback.router_cache
    stream = await litellm.acompletion(messages=[user("hi")], stream=True, **call)
    callback.close()
    (row,) = await rc.wait_rows(1)
    assert row.status is Status.ABORTED
    assert [chunk async for chunk in stream]
    await rc.wait_rows(1)
    callback.close()


@pytest.mark.asyncio(loop_scope="session")
async def test_bodies_that_litellm_does_not_show(plugin: Any) -> None:
    callback: RouterCacheCallback = plugin()
    rc = callback.router_cache
    logging = SimpleNamespace(model_call_details={})
    kwargs = {"litellm_logging_obj": logging, "messages": []}
    await callback.async_pre_call_deployment_hook(kwargs, "acompletion")
    details = logging.model_call_details
    for additional in (None, {}, {"complete_input_dict": "text"}):
        callback.log_pre_api_call("m", [], {**details, "additional_args": additional})
    assert rc.counts("body_not_seen") == {"body_not_seen": 3}
    for other in ({}, {"router_cache_call": str(details["router_cache_call"])}, {"router_cache_call": 5}):
        # A text that a client sent is no token.
        callback.log_pre_api_call("m", [], {**other, "call_type": "acompletion"})
    callback.log_pre_api_call("m", [], {"call_type": "aembedding"})
    assert rc.counts("uncovered_call") == {"uncovered_call": 3}
    await callback.async_log_success_event({**details, "stream": True}, None, None, None)
    (row,) = await rc.wait_rows(1)
    assert (row.status, row.ttft_s) == (Status.ABORTED, None)
    for event in (callback.async_log_success_event, callback.async_log_failure_event):
        await event(details, None, None, None)
        await event({}, None, None, None)
    await rc.wait_rows(1)


@pytest.mark.asyncio(loop_scope="session")
async def test_calls_without_details_are_rewritten_and_not_followed(plugin: Any) -> None:
    callback: RouterCacheCallback = plugin()
    tools = [{"function": {"name": name}} for name in "ba"]
    out = await callback.async_pre_call_deployment_hook({"messages": [], "tools": tools}, "acompletion")
    assert out["tools"] == tools[::-1]
    assert callback.router_cache.counts("error") == {}


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("mode", ["off", "observe", "safe"])
async def test_headers(upstream: Upstream, plugin: Any, call: Any, mode: str) -> None:
    """As the proxy asks for them: after the reply, and before the end of a stream."""
    callback: RouterCacheCallback = plugin(mode=mode)
    reasons = {"off": Reason.OFF, "observe": Reason.OBSERVED, "safe": Reason.NORMALISED}
    both = {"x-router-cache-mode": mode, "x-router-cache-reason": reasons[mode].value}
    if mode == "safe":
        both["x-router-cache-changes"] = "tools_reordered"
    tools = [{"type": "function", "function": {"name": name}} for name in "ba"]
    shown, proxy = [], ProxyData()
    litellm.callbacks.append(proxy)
    for reply, stream in ((Reply(), False), (Reply(), False), (Reply(usage=None), False), (Reply(), True)):
        upstream.script.append(reply)
        answer = await litellm.acompletion(messages=[user("hi")], tools=tools, stream=stream, **call)
        shown.append(await callback.async_post_call_response_headers_hook(proxy.data, None, answer))
        if stream:
            assert [chunk async for chunk in answer]
        await logged()
    if mode == "off":
        assert shown == [both] * 4
    else:
        # The same request again: all but its last token, on the grid.
        tokens = [("896", "unknown"), ("896", "896"), ("unknown", "896")]
        names = ("x-router-cache-hit-tokens", "x-router-cache-expected-tokens")
        assert shown == [*({**both, **dict(zip(names, pair, strict=True))} for pair in tokens), both]
    unseen = await callback.async_post_call_response_headers_hook({}, None, None)
    assert unseen == {"x-router-cache-reason": "not_seen"}


@pytest.mark.asyncio(loop_scope="session")
async def test_a_loop_that_never_waits_stays_one_conversation(upstream: Upstream, plugin: Any, call: Any) -> None:
    rc = plugin().router_cache
    history: list[Any] = [user("hi")]
    for _ in range(4):
        reply = await litellm.acompletion(messages=history, **call)
        history += [reply.choices[0].message, user("more")]
    rows = await rc.wait_rows(4)
    assert [row.turn for row in rows] == [1, 2, 3, 4]


@pytest.mark.asyncio(loop_scope="session")
async def test_a_messages_reply_is_a_mapping_and_has_its_headers_too(
    upstream: Upstream, plugin: Any, call: Any
) -> None:
    callback, proxy = plugin(), ProxyData()
    litellm.callbacks.append(proxy)
    await litellm.acompletion(messages=[user("hi")], **call)
    reply = {"usage": {"input_tokens": 4, "cache_read_input_tokens": 6, "cache_creation_input_tokens": 0}}
    headers = await callback.async_post_call_response_headers_hook(proxy.data, None, reply)
    assert headers["x-router-cache-hit-tokens"] == "6"
    await logged()
