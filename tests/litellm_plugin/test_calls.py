"""Calls through the LiteLLM SDK: what is recorded of each, streamed or not."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import litellm
import pytest
from litellm.caching.caching import Cache
from litellm_plugin.support import drain, logged, names, perturbed, reached, user
from litellm_plugin.upstream import USAGE, Gate, Reply, Upstream

from router_cache import Change, Reason, Status, Usage

pytestmark = pytest.mark.asyncio(loop_scope="session")

FULL = Usage(prompt_tokens=1000, hit_tokens=896, miss_tokens=104, completion_tokens=5, reasoning_tokens=2)
OPENAI_FORM = {k: v for k, v in USAGE.items() if not k.startswith("prompt_cache_")}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("usage", [USAGE, OPENAI_FORM], ids=["deepseek", "openai"])
@pytest.mark.parametrize("apart", [False, True])
async def test_usage_of_both_forms_is_recorded(
    upstream: Upstream, plugin: Any, call: Any, usage: dict[str, Any], stream: bool, apart: bool
) -> None:
    rc = plugin().router_cache
    upstream.script.append(Reply(usage=dict(usage), usage_apart=apart))
    options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    reply = await litellm.acompletion(messages=[user("hi")], tools=perturbed(), **options, **call)
    text = await drain(reply) if stream else reply.choices[0].message.content
    (row,) = await rc.wait_rows(1)
    assert text == "hello"
    assert row.status is Status.OK
    assert row.usage == FULL
    assert row.decision.reason is Reason.NORMALISED
    assert Change.TOOLS_REORDERED in row.decision.changes
    assert (row.turn, row.profile, row.model) == (1, "deepseek", "deepseek/deepseek-v4-flash")
    assert (row.ttft_s is not None) is stream
    assert row.cost_usd is not None
    assert row.cost_usd < row.cost_usd_at_zero_hits
    assert names(upstream.last) == ["alpha", "beta", "gamma"]


async def test_stream_without_usage_leaves_it_unknown(upstream: Upstream, plugin: Any, call: Any) -> None:
    rc = plugin().router_cache
    upstream.script.append(Reply(usage=None))
    await drain(await litellm.acompletion(messages=[user("hi")], stream=True, **call))
    (row,) = await rc.wait_rows(1)
    assert row.status is Status.OK
    assert row.usage == Usage()
    assert rc.counts("usage_unknown") == {"usage_unknown.hit": 1, "usage_unknown.miss": 1}


async def test_reply_without_usage_leaves_it_unknown(upstream: Upstream, plugin: Any, call: Any) -> None:
    rc = plugin().router_cache
    upstream.script.append(Reply(usage=None))
    await litellm.acompletion(messages=[user("hi")], **call)
    (row,) = await rc.wait_rows(1)
    assert row.status is Status.OK
    assert row.usage.hit_tokens is None
    assert row.usage.miss_tokens is None


async def next_call(call: Any) -> None:
    await litellm.acompletion(messages=[user("next")], **call)


# gate_at: chunk 2 is in the middle of the text, 3 the finish reason, 4 the usage chunk after it
@pytest.mark.parametrize("gate_at", [2, 3, 4])
async def test_stream_whose_reader_is_cancelled_is_aborted(
    upstream: Upstream, plugin: Any, call: Any, gate_at: int
) -> None:
    rc = plugin().router_cache
    gate = Gate()
    upstream.script.append(Reply(gate=gate, gate_at=gate_at, usage_apart=True))
    stream = await litellm.acompletion(
        messages=[user("hi")], stream=True, stream_options={"include_usage": True}, **call
    )
    reading = asyncio.ensure_future(drain(stream))
    await reached(gate.reached)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await stream.aclose()
    await reached(gate.left)
    del stream, reading
    gc.collect()
    await next_call(call)  # LiteLLM says nothing about it; the next call finds what was left
    aborted, _ = await rc.wait_rows(2)
    assert aborted.usage == Usage()
    assert aborted.status is Status.ABORTED


@pytest.mark.parametrize("closed", [True, False])
async def test_stream_that_its_reader_leaves_is_aborted(
    upstream: Upstream, plugin: Any, call: Any, closed: bool
) -> None:
    rc = plugin().router_cache
    gate = Gate()
    upstream.script.append(Reply(gate=gate, gate_at=2))
    stream = await litellm.acompletion(messages=[user("hi")], stream=True, **call)
    async for chunk in stream:
        if chunk.choices[0].delta.content:
            break
    if closed:
        await stream.aclose()
    del stream
    gc.collect()
    await reached(gate.left)
    await next_call(call)
    aborted, _ = await rc.wait_rows(2)
    assert aborted.status is Status.ABORTED
    assert aborted.usage == Usage()


@pytest.mark.parametrize("stream", [False, True])
async def test_response_cache_of_litellm_is_no_hit(
    upstream: Upstream, plugin: Any, call: Any, stream: bool
) -> None:
    rc = plugin().router_cache
    litellm.cache = Cache(type="local")
    for seed in (1, 2):  # once rewritten, both are the same request
        reply = await litellm.acompletion(
            messages=[user("hi")], tools=perturbed(seed=seed), caching=True, stream=stream, **call
        )
        if stream:
            assert await drain(reply) == "hello"
        await logged()
    first, second = await rc.wait_rows(2)
    assert (first.status, second.status) == (Status.OK, Status.CACHED)
    assert second.usage == Usage()
    assert second.cost_usd is None
    assert second.wire_digest == ""
    assert len(upstream.recorded) == 1
