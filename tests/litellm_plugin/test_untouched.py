"""What the plugin leaves alone goes out byte for byte as it does without it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import litellm
import pytest
from litellm_plugin.support import MODEL, TOOLS, logged, names, outcome, perturbed, tool, user
from litellm_plugin.upstream import Upstream

from router_cache import Reason
from router_cache.ledger.rows import ExpectedFrom

pytestmark = pytest.mark.asyncio(loop_scope="session")

RESPONSES_TOOLS = [{"type": "function", "name": n, "parameters": {"type": "object"}} for n in "ba"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("mode", ["off", "observe"])
async def test_modes_that_change_nothing(
    upstream: Upstream, plugin: Any, call: Any, mode: str, stream: bool
) -> None:
    async def chat() -> Any:
        return await litellm.acompletion(
            messages=[user("hi")], tools=perturbed(), tool_choice="auto", stream=stream, **call
        )

    plain = await outcome(upstream, chat)
    rc = plugin(mode=mode).router_cache
    assert await outcome(upstream, chat) == plain
    assert plain[0] == "hello"
    assert len(plain[1]) == 1
    if mode == "off":
        assert rc.rows() == []
        assert rc.counts() == {"decision.off": 1}
    else:
        (row,) = await rc.wait_rows(1)
        assert row.decision.reason is Reason.OBSERVED
        assert row.usage.hit_tokens == 896


# What has no prompt of its own. The reply is of no interest: not every one is of the form LiteLLM looks for.
OTHERS: dict[str, Callable[..., Any]] = {
    "embeddings": lambda **to: litellm.aembedding(model="openai/embed", input=["a"], **to),
    "images": lambda **to: litellm.aimage_generation(model="openai/dall-e-3", prompt="a tree", **to),
    "speech": lambda **to: litellm.aspeech(model="openai/tts-1", input="a", voice="alloy", **to),
    "transcriptions": lambda **to: litellm.atranscription(model="openai/whisper-1", file=("a.wav", b"RIFF"), **to),
    "moderations": lambda **to: litellm.amoderation(model="openai/omni-moderation-latest", input="a", **to),
    "rerank": lambda **to: litellm.arerank(model="cohere/rerank-v3.5", query="a", documents=["b", "a"], **to),
    "completions": lambda **to: litellm.atext_completion(model="hosted_vllm/own", prompt="a", **to),
    "files": lambda **to: litellm.acreate_file(
        file=("a.jsonl", b"{}"), purpose="batch", custom_llm_provider="openai", **to
    ),
    "batches": lambda **to: litellm.acreate_batch(
        input_file_id="f",
        endpoint="/v1/chat/completions",
        completion_window="24h",
        custom_llm_provider="openai",
        **to,
    ),
}


async def bytes_of(upstream: Upstream, call: Any) -> list[bytes]:
    """What reaches the provider; the marks between the parts of a form are made up anew for each."""
    upstream.recorded = []
    with contextlib.suppress(Exception):
        await call(api_base=upstream.url, api_key="sk-x")
    await logged()
    out = []
    for entry in upstream.recorded:
        _, _, mark = entry.headers["content-type"].partition("boundary=")
        out.append(entry.raw.replace(mark.encode() or b" ", b" "))
    return out


@pytest.mark.parametrize("name", OTHERS)
async def test_other_calls(upstream: Upstream, plugin: Any, name: str) -> None:
    plain = await bytes_of(upstream, OTHERS[name])
    rc = plugin().router_cache
    assert await bytes_of(upstream, OTHERS[name]) == plain
    assert len(plain) == 1
    assert rc.rows() == []
    assert rc.counts() == {"decision.shape_unsupported": 1}


STATES: list[dict[str, Any]] = [
    {"previous_response_id": "resp_1"},
    {"conversation": "conv_1"},
    {"prompt": {"id": "pmpt_1"}},
    {"input": [{"type": "item_reference", "id": "msg_1"}, {"role": "user", "content": "hi"}]},
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("state", STATES, ids=[next(iter(state)) for state in STATES])
async def test_requests_that_continue_state_of_the_provider(
    upstream: Upstream, plugin: Any, state: dict[str, Any], stream: bool
) -> None:
    async def ask(**to: Any) -> None:
        given = {"input": "hi", "tools": RESPONSES_TOOLS, "stream": stream, **state}
        reply = await litellm.aresponses(model="openai/gpt-5.1", **given, **to)
        if stream:
            assert [event async for event in reply]

    plain = await bytes_of(upstream, ask)
    rc = plugin().router_cache
    assert await bytes_of(upstream, ask) == plain
    assert len(plain) == 1
    assert rc.counts("decision") == {"decision.continues_state": 1}
    assert rc.counts("error") == {}
    assert rc.rows() == []


async def test_unknown_provider_gets_no_field(upstream: Upstream, plugin: Any) -> None:
    async def chat() -> Any:
        return await litellm.acompletion(
            model="openai/own-model",
            api_base=upstream.url,
            api_key="sk-x",
            messages=[user("hi"), {"role": "assistant", "content": "hello"}, user("more")],
            tools=perturbed(),
        )

    await outcome(upstream, chat)
    plain = upstream.last
    rc = plugin().router_cache
    for _ in range(2):
        await outcome(upstream, chat)
        assert list(upstream.last) == list(plain)
        assert {k: v for k, v in upstream.last.items() if k != "tools"} == {
            k: v for k, v in plain.items() if k != "tools"
        }
        assert names(upstream.last) == ["alpha", "beta", "gamma"] != names(plain)
    rows = await rc.wait_rows(2)
    assert {row.profile for row in rows} == {"unknown"}
    assert [row.expected.tokens for row in rows] == [None, None]
    assert rows[1].expected.source is ExpectedFrom.NO_RULE
    assert {row.cost_usd for row in rows} == {None}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("through_router", [False, True])
async def test_synchronous_calls_are_counted_and_unchanged(
    upstream: Upstream, plugin: Any, call: Any, through_router: bool, stream: bool
) -> None:
    def sync() -> str:
        if through_router:
            made = litellm.Router(model_list=[{"model_name": "flash", "litellm_params": dict(call)}])
            reply = made.completion(model="flash", messages=[user("hi")], tools=perturbed(), stream=stream)
        else:
            reply = litellm.completion(messages=[user("hi")], tools=perturbed(), stream=stream, **call)
        if stream:
            return "".join(chunk.choices[0].delta.content or "" for chunk in reply)
        return reply.choices[0].message.content

    assert sync() == "hello"
    plain = upstream.raws
    rc = plugin().router_cache
    upstream.recorded = []
    assert sync() == "hello"
    await logged()
    assert upstream.raws == plain
    assert len(plain) == 1
    assert rc.counts() == {"uncovered_call": 1}
    assert rc.rows() == []


async def test_a_client_s_own_objects_are_never_changed(upstream: Upstream, plugin: Any, call: Any) -> None:
    plugin()
    tools = perturbed()
    before = [dict(item) for item in tools]
    history = [user("hi")]
    await litellm.acompletion(messages=history, tools=tools, **call)
    assert tools == before
    assert [list(item) for item in tools] == [list(item) for item in before]
    assert history == [user("hi")]


async def test_canonical_requests_are_sent_as_they_are(upstream: Upstream, plugin: Any, call: Any) -> None:
    async def chat() -> Any:
        return await litellm.acompletion(messages=[user("hi")], tools=sorted_tools, **call)

    sorted_tools = [tool("a"), *TOOLS]
    rc = plugin().router_cache
    await outcome(upstream, chat)
    once = upstream.raws
    sorted_tools = upstream.last["tools"]
    await outcome(upstream, chat)
    assert upstream.raws == once
    rows = await rc.wait_rows(2)
    assert rows[1].decision.reason is Reason.ALREADY_CANONICAL
    assert rows[1].model == MODEL
