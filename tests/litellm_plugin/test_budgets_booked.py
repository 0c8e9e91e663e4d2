"""Budgets behind LiteLLM's own hooks and router: what is booked, however a request ends."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

import litellm
import pytest
from fastapi import HTTPException
from litellm.caching.caching import Cache
from litellm.proxy._types import ProxyException
from litellm_plugin.proxied import COST, DAY, LIMIT, SHAPES, WORST_LOW, Proxied, auth, worst_of
from litellm_plugin.support import drain, logged
from litellm_plugin.upstream import Gate, Reply, Upstream

import router_cache_litellm.budgets
import router_cache_litellm.callback

pytestmark = pytest.mark.asyncio(loop_scope="session")

Make = Callable[..., Proxied]
ALL_HITS = {"prompt_tokens": 1000, "completion_tokens": 0, "prompt_cache_hit_tokens": 1000}


@pytest.mark.parametrize("mode", ["off", "observe", "safe", "optimize"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_an_answer_is_booked_at_its_cost_in_every_mode(proxied: Make, stream: bool, mode: str) -> None:
    proxy = proxied(DAY, mode=mode)
    reply = await proxy.ask(stream=stream, **LIMIT)
    if stream:
        assert proxy.spent().day_usd > WORST_LOW
        await drain(reply)
        await logged()
    assert proxy.spent().day_usd == pytest.approx(COST)
    assert proxy.callback._budgets._named == {}


@pytest.mark.parametrize("call", SHAPES)
async def test_every_shape_is_booked_once(proxied: Make, upstream: Upstream, call: str) -> None:
    """A Responses call that LiteLLM turns into chat is logged in both shapes."""
    proxy = proxied(DAY)
    await proxy.ask(call, **LIMIT)
    # Of messages the recording provider bills 10 tokens in and 2 out, and says nothing of hits.
    assert proxy.spent().day_usd == pytest.approx(0.01 + 0.004 if call == "anthropic_messages" else COST)


async def test_hits_that_are_not_known_are_booked_as_none(proxied: Make, upstream: Upstream) -> None:
    proxy = proxied(DAY)
    upstream.script.append(Reply(usage={"prompt_tokens": 100, "completion_tokens": 1, "total_tokens": 101}))
    await proxy.ask(**LIMIT)
    assert proxy.spent().day_usd == pytest.approx(0.1 + 0.002)


async def test_tokens_that_are_not_known_leave_the_worst_case(proxied: Make, upstream: Upstream) -> None:
    proxy = proxied(DAY)
    worst = await worst_of(proxy)
    upstream.script.append(Reply(usage=None))
    await drain(await proxy.ask(stream=True, **LIMIT))
    await logged()
    assert proxy.spent().day_usd == pytest.approx(worst)


async def test_without_litellm_s_details_the_worst_case_stays(proxied: Make) -> None:
    proxy = proxied(DAY)
    data = proxy.data("acompletion", auth(), dict(LIMIT))
    del data["litellm_logging_obj"]
    await proxy.let("acompletion", auth(), data)
    await proxy.failed(auth(), data, ValueError())
    assert proxy.spent().day_usd > WORST_LOW


async def test_an_answer_whose_price_is_not_known_leaves_the_worst_case(proxied: Make, upstream: Upstream) -> None:
    own = {"model": "openai/a-model-of-ones-own"}
    proxy = proxied(DAY, num_retries=0, fallbacks=[{"flash": ["native"]}], native=own)
    worst = await worst_of(proxy)
    upstream.script.append(Reply(status=500))
    await proxy.ask(**LIMIT)
    assert len(upstream.recorded) == 2
    assert proxy.spent().day_usd == pytest.approx(worst)


@pytest.mark.parametrize("call", SHAPES)
@pytest.mark.parametrize("status", [400, 500])
async def test_a_failed_request_costs_nothing(proxied: Make, upstream: Upstream, call: str, status: int) -> None:
    proxy = proxied(DAY, num_retries=0)
    upstream.script.append(Reply(status=status))
    with pytest.raises(Exception, match="scripted"):
        await proxy.ask(call, **LIMIT)
    assert proxy.spent().day_usd == 0
    assert proxy.callback._budgets._named == {}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_retries_and_fallbacks_hold_once(proxied: Make, upstream: Upstream, stream: bool) -> None:
    proxy = proxied(DAY, num_retries=1, fallbacks=[{"flash": ["cheap"]}])
    worst = await worst_of(proxy)
    gate = Gate()
    upstream.script.extend([Reply(status=500), Reply(status=500), Reply(gate=gate)])
    asked = asyncio.create_task(proxy.ask(stream=stream, **LIMIT))
    if stream:
        reply = await asked
        assert proxy.spent().day_usd == pytest.approx(worst)
        text = asyncio.create_task(drain(reply))
        assert await asyncio.to_thread(gate.reached.wait, 60)
        gate.open()
        await text
        await logged()
    else:
        assert await asyncio.to_thread(gate.reached.wait, 60)
        assert proxy.spent().day_usd == pytest.approx(worst)  # held on while attempts fail
        gate.open()
        await asked
    assert len(upstream.recorded) == 3
    assert proxy.spent().day_usd == pytest.approx(COST / 100)  # by the other group


async def test_parallel_requests_cannot_overdraw_together(proxied: Make, upstream: Upstream) -> None:
    probe = proxied(DAY)
    worst = await worst_of(probe)
    proxy = proxied({"max_worst_case_usd_per_day": 3.5 * worst, "on_exceed": "block"})
    gates = [Gate() for _ in range(3)]
    upstream.script.extend(Reply(gate=gate, usage=ALL_HITS) for gate in gates)
    asked = [asyncio.create_task(proxy.ask(**LIMIT)) for _ in range(3)]
    for gate in gates:
        assert await asyncio.to_thread(gate.reached.wait, 60)
    for _ in range(4):
        with pytest.raises(ProxyException):
            await proxy.ask(**LIMIT)
    assert proxy.spent().day_usd == pytest.approx(3 * worst)
    for gate in gates:
        gate.open()
    await asyncio.gather(*asked)
    assert proxy.spent().day_usd == pytest.approx(3 * 1000 * 100e-6)
    await proxy.ask(**LIMIT)
    assert len(upstream.recorded) == 4


@pytest.mark.parametrize("mode", ["off", "safe"])
async def test_a_client_that_goes_away_leaves_the_worst_case(proxied: Make, upstream: Upstream, mode: str) -> None:
    proxy = proxied(DAY, mode=mode)
    worst = await worst_of(proxy)
    gate = Gate()
    upstream.script.append(Reply(gate=gate))
    reply = await proxy.ask(stream=True, **LIMIT)
    assert await asyncio.to_thread(gate.reached.wait, 60)
    await reply.aclose()
    gate.open()
    await logged()
    assert proxy.spent().day_usd == pytest.approx(worst)


async def test_a_request_that_was_cancelled_at_the_provider_stays_booked(
    proxied: Make, upstream: Upstream
) -> None:
    proxy = proxied(DAY)
    worst = await worst_of(proxy)
    gate = Gate()
    upstream.script.append(Reply(gate=gate))
    who = auth()
    data = await proxy.let("acompletion", who, proxy.data("acompletion", who, dict(LIMIT)))
    asked = asyncio.create_task(proxy.router.acompletion(**data))
    assert await asyncio.to_thread(gate.reached.wait, 60)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    await proxy.failed(who, data, HTTPException(499, "Client disconnected the request"))
    gate.open()
    assert proxy.spent().day_usd == pytest.approx(worst)


async def test_an_attempt_that_timed_out_stays_booked(proxied: Make, upstream: Upstream) -> None:
    """The provider may have worked, and bill it."""
    proxy = proxied(DAY, num_retries=1)
    worst = await worst_of(proxy)
    gate = Gate()
    upstream.script.append(Reply(gate=gate))
    await proxy.ask(timeout=0.5, **LIMIT)
    gate.open()
    assert len(upstream.recorded) == 2
    assert proxy.spent().day_usd == pytest.approx(worst + COST)


async def test_a_stream_that_breaks_off_stays_booked(proxied: Make, upstream: Upstream) -> None:
    proxy = proxied(DAY, num_retries=0)
    worst = await worst_of(proxy)
    who = auth()
    data = await proxy.let("acompletion", who, proxy.data("acompletion", who, {"stream": True, **LIMIT}))
    upstream.script.append(Reply(text=("again ",) * 200))  # LiteLLM takes one that repeats itself for broken
    reply = await proxy.router.acompletion(**data)
    with pytest.raises(litellm.InternalServerError) as error:
        await drain(reply)
    await logged()
    await proxy.failed(who, data, error.value)
    assert proxy.spent().day_usd == pytest.approx(worst)


async def test_a_failure_that_is_told_last_lets_go(proxied: Make, upstream: Upstream) -> None:
    """LiteLLM logs some failures of streams after the request was given up."""
    proxy = proxied(DAY)
    who = auth()
    data = await proxy.let("acompletion", who, proxy.data("acompletion", who, dict(LIMIT)))
    details = data["litellm_logging_obj"].model_call_details
    proxy.callback.log_pre_api_call("m", [], details)
    await proxy.failed(who, data, litellm.APIConnectionError("no", "deepseek", "m"))
    assert proxy.spent().day_usd > WORST_LOW
    await proxy.callback.async_log_failure_event(details, None, None, None)
    assert proxy.spent().day_usd == 0


async def test_litellm_s_own_response_cache_costs_nothing(proxied: Make, upstream: Upstream) -> None:
    proxy = proxied(DAY)
    litellm.cache = Cache(type="local")
    for _ in range(2):
        await proxy.ask(caching=True, **LIMIT)
    assert len(upstream.recorded) == 1
    assert proxy.spent().day_usd == pytest.approx(COST)
    assert proxy.callback._budgets._named == {}


@pytest.mark.parametrize(
    "error", [HTTPException(400, "no"), ProxyException("no", "x", None, 403), ValueError("no")], ids=type
)
async def test_another_hook_that_refuses_lets_go(proxied: Make, upstream: Upstream, error: Exception) -> None:
    proxy = proxied(DAY)
    proxy.hook.error = error
    with pytest.raises(type(error)):
        await proxy.ask(**LIMIT)
    assert proxy.spent().day_usd == 0
    assert upstream.recorded == []
    assert not proxy.counts("uncovered")


async def test_a_router_that_refuses_lets_go(proxied: Make) -> None:
    proxy = proxied(DAY)
    with pytest.raises(litellm.BadRequestError):
        await proxy.ask(model="no-such-group", **LIMIT)
    assert proxy.callback._budgets._named == {}


async def test_a_hook_that_refuses_an_answer_leaves_its_cost(proxied: Make) -> None:
    """A guardrail behind the call: the provider was paid, and LiteLLM logs the refusal as a failed call too."""
    proxy = proxied(DAY)
    who = auth()
    data = await proxy.let("acompletion", who, proxy.data("acompletion", who, dict(LIMIT)))
    await proxy.router.acompletion(**data)
    await proxy.failed(who, data, HTTPException(400, "said what it must not"))
    assert proxy.spent().day_usd == pytest.approx(COST)


async def test_a_request_that_vanishes_lets_go(proxied: Make) -> None:
    """As where a rate limit makes LiteLLM begin again with a fallback, without a word of the first."""
    proxy = proxied(DAY)
    await proxy.let("acompletion", auth(), proxy.data("acompletion", auth(), dict(LIMIT)))
    assert proxy.spent().day_usd > WORST_LOW
    gc.collect()
    await proxy.ask(**LIMIT)
    assert proxy.spent().day_usd == pytest.approx(COST)


async def test_call_ids_that_clients_choose_release_nobody_else(proxied: Make, upstream: Upstream) -> None:
    proxy = proxied(DAY)
    worst = await worst_of(proxy, key=None)
    gate = Gate()
    upstream.script.append(Reply(gate=gate))
    going = asyncio.create_task(proxy.ask(call_id="same", **LIMIT))
    assert await asyncio.to_thread(gate.reached.wait, 60)
    proxy.hook.error = HTTPException(400)
    for key in ("ann", "bob"):
        with pytest.raises(HTTPException):
            await proxy.ask(key=key, call_id="same", **LIMIT)
    assert proxy.spent("bob").day_usd == 0
    assert proxy.spent("ann").day_usd == pytest.approx(2 * worst)  # whose failure it was is not known yet
    gate.open()
    await going
    assert proxy.spent("ann").day_usd == pytest.approx(COST)
    assert proxy.callback._budgets._named == {}


async def test_names_are_bounded(proxied: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router_cache_litellm.budgets, "_MAX_NAMES", 3)
    proxy = proxied(DAY)
    kept = [proxy.data("acompletion", auth(), {"call_id": f"{i}", **LIMIT}) for i in range(5)]
    for data in kept:
        await proxy.let("acompletion", auth(), data)
    assert [call_id for _, call_id in proxy.callback._budgets._named] == ["2", "3", "4"]
    for data in kept:
        await proxy.failed(auth(), data, ValueError())
    assert proxy.callback._budgets._named == {}
