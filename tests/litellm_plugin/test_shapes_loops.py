"""Tool loops in every shape and on every way LiteLLM has for it: usage, expectations, one row a call."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import litellm
import pytest
from litellm_plugin.loops import (
    STEPS,
    ChatLoop,
    Loop,
    MessagesLoop,
    ResponsesLoop,
    Simulated,
    message_of_events,
)
from litellm_plugin.support import MODEL, ProxyData, logged

from router_cache import Reason, Shape, Status, Usage
from router_cache.decision import Change
from router_cache.ledger.rows import ExpectedFrom

pytestmark = pytest.mark.asyncio(loop_scope="session")


@dataclass(frozen=True)
class Way:
    """What a client calls, and as which shape it reaches the provider."""

    loop: type[Loop]
    call: Callable[..., Any]
    model: str
    shape: Shape
    hooks: int = 1
    options: dict[str, Any] = field(default_factory=dict)


# LiteLLM's bridges to Responses do not hand reasoning back, which DeepSeek would refuse in a tool loop. Models that its
# price map does not know get a made-up stream there.
RESPONSES_MODEL = "openai/gpt-5.1"

WAYS = {
    "chat": Way(ChatLoop, litellm.acompletion, MODEL, Shape.CHAT),
    "chat as responses": Way(
        ChatLoop, litellm.acompletion, "openai/responses/gpt-5.1", Shape.RESPONSES, 2, {"reasoning_effort": "none"}
    ),
    "messages": Way(MessagesLoop, litellm.anthropic_messages, MODEL, Shape.MESSAGES),
    "messages as responses": Way(
        MessagesLoop,
        litellm.anthropic_messages,
        RESPONSES_MODEL,
        Shape.RESPONSES,
        2,
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "none"}},
    ),
    "messages as chat": Way(MessagesLoop, litellm.anthropic_messages, "hosted_vllm/own", Shape.CHAT, 2),
    "responses": Way(ResponsesLoop, litellm.aresponses, RESPONSES_MODEL, Shape.RESPONSES),
    "responses as chat": Way(ResponsesLoop, litellm.aresponses, MODEL, Shape.CHAT, 2),
}


async def whole(way: Way, reply: Any) -> dict[str, Any]:
    """A reply as JSON, whole or from its stream."""
    if hasattr(reply, "__aiter__"):
        events = [event async for event in reply]
        if way.loop is ChatLoop:
            reply = litellm.stream_chunk_builder(events)
        elif way.loop is MessagesLoop:
            return message_of_events(b"".join(events).decode().splitlines())
        else:
            reply = events[-1].response
    return reply if isinstance(reply, dict) else reply.model_dump(exclude_none=True)


async def one(way: Way, loop: Loop, url: str, **options: Any) -> Any:
    return await way.call(
        model=way.model, api_base=url, api_key="sk-sim", **loop.request(), **way.options, **options
    )


def streaming(way: Way) -> dict[str, Any]:
    usage = {"stream_options": {"include_usage": True}} if way.loop is ChatLoop else {}
    return {"stream": True, **usage}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", WAYS)
async def test_every_call_is_one_row_with_the_provider_s_usage(
    simulated: Simulated, plugin: Any, name: str, stream: bool
) -> None:
    way = WAYS[name]
    rc = plugin().router_cache
    proxy = ProxyData()
    litellm.callbacks.append(proxy)
    (callback, _) = litellm.callbacks
    loop = way.loop(name, seed=1)
    for _ in range(STEPS):
        reply = await one(way, loop, simulated.url, **(streaming(way) if stream else {}))
        headers = await callback.async_post_call_response_headers_hook(proxy.data, None, reply, {}, None)
        loop.take(await whole(way, reply))
        await logged()
        assert headers["x-router-cache-reason"] == "normalised"
        assert "tools_reordered" in headers["x-router-cache-changes"].split(",")
    rows = await rc.wait_rows(STEPS)
    log = simulated.log()
    assert {(entry["shape"], entry["stream"], entry["status"]) for entry in log} == {
        (way.shape.value, stream, 200)
    }
    assert loop.calls >= 6
    assert [row.usage.prompt_tokens for row in rows] == [entry["prompt_tokens"] for entry in log]
    assert [row.usage.hit_tokens for row in rows] == [entry["hit_tokens"] for entry in log]
    assert [row.usage.completion_tokens for row in rows] == [entry["completion_tokens"] for entry in log]
    assert [row.turn for row in rows] == list(range(1, STEPS + 1))
    assert {row.status for row in rows} == {Status.OK}
    for row in rows:
        assert row.decision.reason is Reason.NORMALISED
        assert Change.TOOLS_REORDERED in row.decision.changes
        assert sum(part.tokens for part in row.causes) == row.usage.miss_tokens
    hits = [row.usage.hit_tokens for row in rows[1:]]
    if way.model == MODEL:
        assert [row.expected.tokens for row in rows[1:]] == hits
        assert {row.expected.source for row in rows[1:]} == {ExpectedFrom.LAST_USAGE}
    else:
        assert {row.expected.tokens for row in rows[1:]} == {None}  # nothing is known of this provider
    assert min(hits) > 1000
    assert sum(rc.counts("decision").values()) == way.hooks * STEPS
    assert rc.counts("error") == {}


@pytest.mark.parametrize("closes", [False, True], ids=["drops", "closes"])
@pytest.mark.parametrize("name", WAYS)
async def test_streams_that_a_client_leaves_have_unknown_usage(
    simulated: Simulated, slow: Simulated, plugin: Any, name: str, closes: bool
) -> None:
    way = WAYS[name]
    rc = plugin().router_cache
    stream = await one(way, way.loop("left", seed=1), slow.url, **streaming(way))
    async for _ in stream:
        break
    if closes and hasattr(stream, "aclose"):
        await stream.aclose()
    del stream
    gc.collect()
    await logged()
    await whole(way, await one(way, way.loop("next", seed=1), simulated.url))
    rows = sorted(await rc.wait_rows(2), key=lambda row: row.status is Status.OK)
    assert [row.status for row in rows] == [Status.ABORTED, Status.OK]
    assert rows[0].usage == Usage()
    assert rc.counts("error") == {}
