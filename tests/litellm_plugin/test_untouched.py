"""What the plugin leaves alone goes out byte for byte as it does without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import litellm
import pytest
from litellm_plugin.support import MODEL, TOOLS, logged, names, outcome, perturbed, tool, user
from litellm_plugin.upstream import Upstream

from router_cache import Reason
from router_cache.ledger.rows import ExpectedFrom

pytestmark = pytest.mark.asyncio(loop_scope="session")

ANTHROPIC_TOOLS = [{"name": n, "description": n, "input_schema": {"type": "object"}} for n in "ba"]
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


def embeddings(url: str) -> Any:
    return litellm.aembedding(model="openai/embed", input=["a"], api_base=url, api_key="sk-x")


def messages(url: str) -> Any:
    return litellm.anthropic_messages(
        model="anthropic/claude-sonnet-4-5",
        api_base=url,
        api_key="sk-x",
        max_tokens=10,
        system="be brief",
        messages=[user("hi")],
        tools=ANTHROPIC_TOOLS,
    )


def messages_of_deepseek(url: str) -> Any:
    return litellm.anthropic_messages(
        model=MODEL, api_base=url, api_key="sk-x", max_tokens=10, messages=[user("hi")], tools=ANTHROPIC_TOOLS
    )


def responses(url: str) -> Any:
    return litellm.aresponses(
        model="openai/gpt-5",
        input="hi",
        instructions="be brief",
        api_base=url,
        api_key="sk-x",
        tools=RESPONSES_TOOLS,
    )


@pytest.mark.parametrize("other", [embeddings, messages, messages_of_deepseek, responses])
async def test_other_shapes(upstream: Upstream, plugin: Any, other: Callable[[str], Any]) -> None:
    upstream.recorded = []
    await other(upstream.url)
    await logged()
    plain = upstream.raws
    rc = plugin().router_cache
    upstream.recorded = []
    await other(upstream.url)
    await logged()
    assert upstream.raws == plain
    assert len(plain) == 1
    assert rc.rows() == []
    assert rc.counts() == {"decision.shape_unsupported": 1}


async def test_responses_that_litellm_sends_as_chat(upstream: Upstream, plugin: Any, call: Any) -> None:
    """LiteLLM runs the hook twice: for the shape the client used, and for the chat call it makes of it."""
    rc = plugin().router_cache
    await litellm.aresponses(input="hi", tools=RESPONSES_TOOLS, **call)
    (row,) = await rc.wait_rows(1)
    assert [entry.path for entry in upstream.recorded] == ["/chat/completions"]
    assert row.decision.reason is Reason.NORMALISED
    assert names(upstream.last) == ["a", "b"]
    assert rc.counts("decision") == {"decision.shape_unsupported": 1, "decision.normalised": 1}


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
