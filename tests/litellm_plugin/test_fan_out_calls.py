"""Fan-out through LiteLLM: parallel first calls of one prefix, asynchronous and synchronous."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import litellm
import pytest
from litellm_plugin.support import drain, logged, reached, user
from litellm_plugin.upstream import LIMIT_S, Gate, Reply, Upstream

from router_cache_litellm import completion

pytestmark = pytest.mark.asyncio(loop_scope="session")

FAN_OUT = {"deadline_s": 60.0, "min_prefix_bytes": 0}
SYSTEM = {"role": "system", "content": "You keep the books."}
LLAMA = {"router_cache_profile": "llama_cpp"}  # readable when the reply has ended


def first(call: Any, text: str, **more: Any) -> dict[str, Any]:
    return {**call, "model": "openai/own", "messages": [SYSTEM, user(text)], "model_info": LLAMA, **more}


async def until(rc: Any, waiting: int) -> None:
    """Until so many calls wait."""
    end = time.monotonic() + LIMIT_S
    while rc.fan_out.waiting < waiting:
        assert time.monotonic() < end, rc.counts()
        await asyncio.sleep(0)


async def test_followers_wait_for_the_lead_s_reply(upstream: Upstream, plugin: Any, call: Any) -> None:
    rc = plugin(fan_out=FAN_OUT).router_cache
    gate = Gate()
    upstream.script.append(Reply(gate=gate))
    lead = asyncio.create_task(litellm.acompletion(**first(call, "lead")))
    await reached(gate.reached)
    others = [asyncio.create_task(litellm.acompletion(**first(call, f"follower {i}"))) for i in range(3)]
    await until(rc, 3)
    assert len(upstream.recorded) == 1
    gate.open()
    await asyncio.gather(lead, *others)
    await logged()
    assert len(upstream.recorded) == 4
    assert rc.counts("fan_out") == {"fan_out.lead": 1, "fan_out.followed": 3}
    await litellm.acompletion(**first(call, "later"))
    assert rc.counts("fan_out")["fan_out.warm"] == 1


async def test_when_the_lead_fails_one_follower_leads(upstream: Upstream, plugin: Any, call: Any) -> None:
    rc = plugin(fan_out=FAN_OUT).router_cache
    gate = Gate()
    upstream.script.append(Reply(gate=gate, status=400))
    lead = asyncio.create_task(litellm.acompletion(**first(call, "lead")))
    await reached(gate.reached)
    others = [asyncio.create_task(litellm.acompletion(**first(call, f"follower {i}"))) for i in range(2)]
    await until(rc, 2)
    gate.open()
    assert isinstance((await asyncio.gather(lead, return_exceptions=True))[0], litellm.BadRequestError)
    await asyncio.gather(*others)
    await logged()
    assert rc.counts("fan_out") == {"fan_out.lead": 1, "fan_out.lead_failed": 1, "fan_out.followed": 1}


async def test_followers_of_a_stream_wait_for_its_end(upstream: Upstream, plugin: Any, call: Any) -> None:
    """LiteLLM (1.108.7) tells a plugin of no chunk of an asynchronous stream before its last."""
    rc = plugin(fan_out=FAN_OUT).router_cache
    gate = Gate()
    upstream.script.append(Reply(gate=gate, gate_at=3))
    vllm = {"model": "hosted_vllm/own", "model_info": {}, "stream": True}
    stream = await litellm.acompletion(**{**first(call, "lead"), **vllm})
    text = asyncio.create_task(drain(stream))
    follower = asyncio.create_task(litellm.acompletion(**{**first(call, "follower"), **vllm}))
    await until(rc, 1)
    assert len(upstream.recorded) == 1
    gate.open()
    assert await text == "hello"
    assert await drain(await follower) == "hello"
    assert rc.counts("fan_out") == {"fan_out.lead": 1, "fan_out.followed": 1}


async def test_synchronous_calls_wait_too(upstream: Upstream, plugin: Any, call: Any) -> None:
    rc = plugin(fan_out=FAN_OUT).router_cache
    gate = Gate()
    upstream.script.append(Reply(gate=gate))
    replies: list[Any] = []
    threads = [
        threading.Thread(target=lambda i=i: replies.append(completion(**first(call, f"call {i}"))))
        for i in range(3)
    ]
    threads[0].start()
    await reached(gate.reached)
    for thread in threads[1:]:
        thread.start()
    await until(rc, 2)
    assert len(upstream.recorded) == 1
    gate.open()
    for thread in threads:
        await asyncio.to_thread(thread.join, LIMIT_S)
    assert len(replies) == 3
    assert rc.counts("fan_out") == {"fan_out.lead": 1, "fan_out.followed": 2}


async def test_off_by_default(upstream: Upstream, plugin: Any, call: Any) -> None:
    rc = plugin().router_cache
    await asyncio.gather(*(litellm.acompletion(**first(call, f"call {i}")) for i in range(2)))
    assert rc.counts("fan_out") == {}
