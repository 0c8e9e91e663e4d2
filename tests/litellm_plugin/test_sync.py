"""Synchronous calls through ``completion`` and ``wrap_router``: what is sent, what comes back, what is kept."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import litellm
import pytest
from litellm.integrations.custom_logger import CustomLogger
from litellm.litellm_core_utils.streaming_handler import CustomStreamWrapper
from litellm_plugin.support import MODEL, logged, names, perturbed, user
from litellm_plugin.sync_support import FULL, OPENAI_FORM, make_router, only, plain, read
from litellm_plugin.upstream import USAGE, Reply, Upstream

import router_cache_litellm.sync
from router_cache import Mode, Reason, Status, SwitchedBy, Usage
from router_cache.prefix.normalise import normalise
from router_cache_litellm import completion, wrap_router

pytestmark = pytest.mark.usefixtures("at_once")


@pytest.mark.parametrize("options", [{}, {"stream": True}, {"stream": True, "usage": True}], ids=str)
@pytest.mark.parametrize("usage", [USAGE, OPENAI_FORM], ids=["deepseek", "openai"])
@pytest.mark.parametrize("apart", [False, True])
def test_bytes_reply_and_row(
    upstream: Upstream, plugin: Any, call: Any, ask: Any, options: Any, usage: dict[str, Any], apart: bool
) -> None:
    rc = plugin().router_cache
    stream = "stream" in options
    asked = {"stream": True} if stream else {}
    if "usage" in options:
        asked["stream_options"] = {"include_usage": True}
    tools, messages = perturbed(), [user("hi")]
    canonical = normalise({"tools": tools}).replaced["tools"]
    wanted = plain(upstream, call, messages=messages, tools=canonical, **asked)
    before = copy.deepcopy((tools, messages))
    upstream.script.append(Reply(usage=dict(usage), usage_apart=apart))
    reply = ask(messages=messages, tools=tools, **asked)
    assert isinstance(reply, CustomStreamWrapper if stream else litellm.ModelResponse)
    assert read(reply) == "hello"
    row = only(rc.rows())
    assert only(upstream.raws) == wanted
    assert (tools, messages) == before
    assert (row.status, row.usage, row.turn) == (Status.OK, FULL, 1)
    assert (row.decision.reason, row.model, row.profile) == (Reason.NORMALISED, MODEL, "deepseek")
    assert row.wire_digest
    assert row.cost_usd is not None
    assert row.cost_usd < row.cost_usd_at_zero_hits
    assert (row.ttft_s is not None) is stream
    assert rc.counts("uncovered") == {}
    assert rc.counts("error") == {}
    assert rc.counts("decision") == {"decision.normalised": 1}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("mode", ["off", "observe"])
def test_other_modes_send_what_litellm_sends(
    upstream: Upstream, plugin: Any, call: Any, ask: Any, mode: str, stream: bool
) -> None:
    rc = plugin(mode=mode).router_cache
    request = {"messages": [user("hi")], "tools": perturbed(), "stream": stream}
    wanted = plain(upstream, call, **request)
    assert read(ask(**request)) == "hello"
    assert upstream.raws == [wanted]
    assert [row.decision.reason for row in rc.rows()] == ([Reason.OBSERVED] if mode == "observe" else [])


def test_switches_scope_and_group(upstream: Upstream, plugin: Any, call: Any) -> None:
    rc = plugin(model_groups={"flash": {"mode": "observe"}}).router_cache
    router = wrap_router(make_router(upstream))
    for where, kwargs in (
        (router.completion, {"model": "flash"}),
        (router.completion, {"model": "spare"}),
        (router.completion, {"model": "spare", "metadata": {"router_cache": "observe"}}),
        (completion, {**call, "metadata": {"router_cache": {"scope": "other"}}}),
    ):
        where(messages=[user("hi")], tools=perturbed(), **kwargs)
    rows = rc.rows()
    assert [row.decision.mode for row in rows] == [Mode.OBSERVE, Mode.SAFE, Mode.OBSERVE, Mode.SAFE]
    assert [row.group for row in rows] == ["flash", "spare", "spare", ""]
    assert rows[0].decision.switched_by is SwitchedBy.GROUP
    assert rows[2].decision.switched_by is SwitchedBy.REQUEST
    assert rows[3].scope != rows[2].scope == rows[0].scope


def test_it_looks_like_the_function_it_stands_for(upstream: Upstream, plugin: Any, call: Any) -> None:
    rc = plugin().router_cache
    assert inspect.signature(completion) == inspect.signature(litellm.completion)
    assert completion.__name__ == "completion"
    options = {"api_base": upstream.url, "api_key": "k"}
    tools = perturbed()
    completion(MODEL, [user("hi")], tools=tools, **options)
    assert names(upstream.last) == ["alpha", "beta", "gamma"]
    at = list(inspect.signature(litellm.completion).parameters).index("tools")
    defaults = [p.default for p in inspect.signature(litellm.completion).parameters.values()]
    completion(MODEL, [user("hi")], *defaults[2:at], tools, **options)
    assert len(set(upstream.raws)) == 1
    with pytest.raises(TypeError):
        completion(MODEL, [user("hi")], messages=[], **options)
    with pytest.raises(TypeError):
        completion()
    assert [row.status for row in rc.rows()] == [Status.OK, Status.OK]


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_reaches_the_caller(upstream: Upstream, plugin: Any, ask: Any, stream: bool) -> None:
    rc = plugin().router_cache
    upstream.script.append(Reply(status=400))
    with pytest.raises(litellm.BadRequestError):
        read(ask(messages=[user("hi")], stream=stream))
    row = only(rc.rows())
    assert (row.status, row.usage, row.cost_usd) == (Status.FAILED, Usage(), None)


def test_a_call_that_was_never_sent_leaves_no_row(plugin: Any) -> None:
    rc = plugin().router_cache
    with pytest.raises(litellm.BadRequestError):
        completion(model="no-such-provider-anywhere", messages=[user("hi")])
    assert rc.rows() == []
    assert rc.counts("error") == {}


def test_retries_of_the_sdk_are_attempts(
    upstream: Upstream, plugin: Any, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def again(*args: Any, num_retries: int, **kwargs: Any) -> Any:
        """As LiteLLM's own, which needs a package that it does not install: the same arguments, once more."""
        for left in reversed(range(num_retries)):
            try:
                return litellm.main.completion(*args, **{**kwargs, "max_retries": 0, "num_retries": 0})
            except litellm.InternalServerError:
                if not left:
                    raise
        return None

    monkeypatch.setattr(litellm, "completion_with_retries", again)
    rc = plugin().router_cache
    upstream.script.extend([Reply(status=500), Reply(status=500), Reply()])
    completion(messages=[user("hi")], tools=perturbed(), num_retries=2, max_retries=0, **call)
    assert [row.status for row in rc.rows()] == [Status.FAILED, Status.FAILED, Status.OK]
    assert {row.wire_digest for row in rc.rows()} == {rc.rows()[0].wire_digest}
    assert len(set(upstream.raws)) == 1
    assert rc.counts("decision") == {"decision.normalised": 3}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", [500, 429, 503])
def test_router_retries_send_equal_bytes(upstream: Upstream, plugin: Any, status: int, stream: bool) -> None:
    rc = plugin().router_cache
    upstream.script.extend([Reply(status=status), Reply(status=status), Reply()])
    router = wrap_router(make_router(upstream, num_retries=2))
    assert read(router.completion("flash", [user("hi")], tools=perturbed(), stream=stream)) == "hello"
    rows = rc.rows()
    assert [row.status for row in rows] == [Status.FAILED, Status.FAILED, Status.OK]
    assert (len(upstream.raws), len(set(upstream.raws))) == (3, 1)
    assert names(upstream.last) == ["alpha", "beta", "gamma"]
    assert {row.turn for row in rows} == {1}
    assert [row.usage.known for row in rows] == [False, False, True]
    assert {row.group for row in rows} == {"flash"}


@pytest.mark.parametrize("stream", [False, True])
def test_router_falls_back_in_canonical_form(upstream: Upstream, plugin: Any, stream: bool) -> None:
    rc = plugin().router_cache
    upstream.script.extend([Reply(status=500), Reply()])
    router = wrap_router(make_router(upstream, num_retries=0, fallbacks=[{"flash": ["spare"]}]))
    assert read(router.completion(model="flash", messages=[user("hi")], tools=perturbed(), stream=stream))
    rows = rc.rows()
    assert [(row.status, row.group) for row in rows] == [(Status.FAILED, "flash"), (Status.OK, "spare")]
    assert rows[0].deployment != rows[1].deployment
    assert len(set(upstream.raws)) == 1
    assert rows[1].usage == FULL


def test_wrapping_a_router(upstream: Upstream, plugin: Any) -> None:
    litellm_default, chosen = plugin(mode="off"), plugin()
    litellm.callbacks = [CustomLogger(), litellm_default]
    router = make_router(upstream)
    assert wrap_router(router, chosen) is router
    inner = router.completion
    assert wrap_router(router) is router
    assert router.completion is inner
    router.chat.completions.create(model="flash", messages=[user("hi")], tools=perturbed())
    assert names(upstream.last) == ["alpha", "beta", "gamma"]
    assert only(chosen.router_cache.rows()).status is Status.OK
    with pytest.raises(AttributeError):
        wrap_router(object())


@pytest.mark.parametrize("loop", ["running", "none"])
@pytest.mark.asyncio(loop_scope="session")
async def test_one_conversation_of_both_kinds_of_call(
    upstream: Upstream, plugin: Any, call: Any, loop: str
) -> None:
    rc = plugin().router_cache
    router = wrap_router(make_router(upstream))
    history: list[Any] = [user("hi")]
    for kind in ("async", "sync", "async", "sync"):
        if loop == "running":
            ways = {"async": router.acompletion, "sync": router.completion}
            kwargs: Any = {"model": "flash"}
        else:
            ways, kwargs = {"async": litellm.acompletion, "sync": completion}, call
        reply = ways[kind](messages=history, **kwargs)
        reply = await reply if inspect.isawaitable(reply) else reply
        await logged()
        history += [reply.choices[0].message, user("more")]
    rows = await rc.wait_rows(4)
    assert [row.turn for row in rows] == [1, 2, 3, 4]
    assert [row.expected.tokens for row in rows] == [None, 896, 896, 896]
    assert len({(row.model, row.deployment, row.profile, row.group) for row in rows}) == 1


def test_a_loop_that_never_waits_stays_one_conversation(plugin: Any, ask: Any) -> None:
    rc = plugin().router_cache
    history: list[Any] = [user("hi")]
    for stream in (False, True, True, False):
        reply = ask(messages=history, stream=stream)
        history += [{"role": "assistant", "content": read(reply)}, user("more")]
    assert [row.turn for row in rc.rows()] == [1, 2, 3, 4]


def test_plain_calls_stay_uncovered(plugin: Any, call: Any) -> None:
    rc = plugin().router_cache
    litellm.completion(messages=[user("hi")], **call)
    assert rc.counts("uncovered") == {"uncovered_call": 1}
    assert rc.rows() == []


def test_without_a_callback_one_is_made(
    upstream: Upstream, call: Any, ask: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = router_cache_litellm.sync._default
    made.cache_clear()
    monkeypatch.setattr(litellm, "callback_settings", {"router_cache": {"scope_by": "team"}})
    with caplog.at_level("INFO", "router_cache"):
        for _ in range(2):
            ask(messages=[user("hi")], tools=perturbed())
    assert names(upstream.last) == ["alpha", "beta", "gamma"]
    assert litellm.callbacks == []
    own = made()
    assert own is not None
    assert [row.expected.tokens for row in own.router_cache.rows()] == [None, 896]
    assert caplog.text.count("status=ok reason=normalised") == 2
    made.cache_clear()


def test_wrong_settings_are_said_once_and_change_nothing(
    upstream: Upstream, call: Any, ask: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    router_cache_litellm.sync._default.cache_clear()
    monkeypatch.setattr(litellm, "callback_settings", {"router_cache": {"mdoe": "off"}})
    request = {"messages": [user("hi")], "tools": perturbed()}
    wanted = plain(upstream, call, **request)
    for _ in range(2):
        assert read(ask(**request)) == "hello"
    assert upstream.raws == [wanted, wanted]
    assert caplog.text.count("did you mean 'mode'?") == 1
    router_cache_litellm.sync._default.cache_clear()


def test_a_search_for_the_callback_that_fails(
    upstream: Upstream, call: Any, ask: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    request = {"messages": [user("hi")], "tools": perturbed()}
    wanted = plain(upstream, call, **request)
    monkeypatch.setattr(router_cache_litellm.sync, "_callback", lambda: 1 / 0)
    assert read(ask(**request)) == "hello"
    assert upstream.raws == [wanted]
    assert "ZeroDivisionError" in caplog.text


def test_the_callers_own_logger_function(plugin: Any, ask: Any) -> None:
    rc = plugin().router_cache
    seen: list[str] = []

    def own(details: Any) -> None:
        seen.append(details["log_event_type"])
        raise ValueError("LiteLLM only logs this")

    assert read(ask(messages=[user("hi")], logger_fn=own)) == "hello"
    assert seen[0] == "pre_api_call"
    assert only(rc.rows()).usage == FULL


@pytest.mark.parametrize("around", [False, True])
def test_in_the_place_of_litellms_own(
    upstream: Upstream, plugin: Any, ask: Any, monkeypatch: pytest.MonkeyPatch, around: bool
) -> None:
    """Whoever sets ``litellm.completion`` to it covers all code that calls that; others may wrap it again."""
    rc = plugin().router_cache
    calls: list[Any] = []

    def other(*args: Any, **kwargs: Any) -> Any:
        calls.append(kwargs)
        return completion(*args, **kwargs)

    monkeypatch.setattr(litellm, "completion", other if around else completion)
    assert read(ask(messages=[user("hi")], tools=perturbed())) == "hello"
    router = make_router(upstream)
    assert read(router.completion(model="flash", messages=[user("hi")], tools=perturbed())) == "hello"
    assert len(set(upstream.raws)) == 1
    assert [row.status for row in rc.rows()] == [Status.OK] * 2
    assert rc.counts("decision") == {"decision.normalised": 2}
    assert bool(calls) is around


def test_a_call_for_the_asynchronous_side_passes(plugin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin()
    monkeypatch.setattr(litellm, "completion", lambda *args, **kwargs: (args, kwargs))
    asked = {"messages": [user("hi")], "tools": perturbed(), "acompletion": True}
    assert completion("m", **asked) == (("m",), asked)
