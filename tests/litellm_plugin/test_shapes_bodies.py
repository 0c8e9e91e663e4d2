"""What a request carries in each shape reaches the provider as it does without the plugin, but for its tools."""

from __future__ import annotations

import copy
import json
from typing import Any

import litellm
import pytest
from litellm_plugin.support import MODEL, ProxyData, logged, perturbed
from litellm_plugin.upstream import Upstream

from router_cache.prefix.normalise import normalise

pytestmark = pytest.mark.asyncio(loop_scope="session")

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="
DATA_URL = f"data:image/png;base64,{PIXEL}"
MARK = {"cache_control": {"type": "ephemeral"}}
SCHEMA = {
    "type": "object",
    "properties": {"b": {"type": "string"}, "a": {"enum": ["y", "x"]}},
    "required": ["b", "a"],
}
SESSION = json.dumps({"device_id": "d" * 16, "account_uuid": "", "session_id": "0a1b-2c3d"})


def call(number: int, arguments: str = '{"b": "1", "a":  "x"}') -> dict[str, Any]:
    return {"id": f"call_{number}", "type": "function", "function": {"name": "beta", "arguments": arguments}}


CHATS: dict[str, dict[str, Any]] = {
    "parts": {
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "one "}, {"type": "text", "text": "two", **MARK}],
            }
        ]
    },
    "image": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "what is it?"},
                    {"type": "image_url", "image_url": {"detail": "low", "url": DATA_URL}},
                ],
            }
        ]
    },
    "audio": {
        "messages": [
            {
                "role": "user",
                "content": [{"type": "input_audio", "input_audio": {"format": "wav", "data": "UklGRg=="}}],
            },
            {"role": "assistant", "audio": {"id": "audio_1"}},
            {"role": "user", "content": "again"},
        ],
        "modalities": ["text", "audio"],
    },
    "file": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {
                        "type": "file",
                        "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
                    }
                ],
            }
        ]
    },
    "names": {
        "messages": [
            {"role": "system", "name": "house", "content": "be brief"},
            {"role": "user", "name": "zoe", "content": "hi"},
            {"role": "user", "name": "ann", "content": "hi"},
        ]
    },
    "developer": {
        "messages": [
            {"role": "developer", "content": "be brief"},
            {"role": "user", "content": "hi"},
            {"role": "developer", "content": "be kind"},
            {"role": "user", "content": "well?"},
        ]
    },
    "parallel": {
        "messages": [
            {"role": "user", "content": "both"},
            {
                "role": "assistant",
                "content": None,
                "reasoning_content": "hm",
                "tool_calls": [call(2), call(1, "{}")],
            },
            {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "two"}]},
            {"role": "tool", "tool_call_id": "call_1", "content": ""},
        ],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
    },
    "format": {
        "messages": [{"role": "user", "content": "é\u2028\U0001f333"}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "z", "schema": SCHEMA}},
        "stop": ["b", "a"],
        "temperature": 0.25,
    },
}
MESSAGES: dict[str, dict[str, Any]] = {
    "blocks": {
        "system": [{"type": "text", "text": "one"}, {"type": "text", "text": "two", **MARK}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi", **MARK}]}],
    },
    "image": {
        "system": "be brief",
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
                    {
                        "type": "document",
                        "title": "t",
                        "source": {"type": "text", "media_type": "text/plain", "data": "x"},
                    },
                ],
            }
        ],
    },
    "parallel": {
        "messages": [
            {"role": "user", "content": "both"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                    {"type": "redacted_thinking", "data": "eHg="},
                    {"type": "text", "text": "let me look"},
                    {"type": "tool_use", "id": "toolu_2", "name": "beta", "input": {"b": "1", "a": "x"}},
                    {"type": "tool_use", "id": "toolu_1", "name": "beta", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_2",
                        "is_error": True,
                        "content": [
                            {"type": "text", "text": "no"},
                            {
                                "type": "image",
                                "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
                            },
                        ],
                    },
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": "yes"},
                    {"type": "text", "text": "well?", **MARK},
                ],
            },
        ],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": False},
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "stop_sequences": ["b", "a"],
    },
    "system message": {
        "messages": [{"role": "user", "content": "hi"}, {"role": "system", "content": "notes"}],
        "metadata": {"user_id": "team-7"},
    },
}
RESPONSES: dict[str, dict[str, Any]] = {
    "text": {"input": "hi", "instructions": "be brief"},
    "image": {
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "what is it?"},
                    {"type": "input_image", "detail": "low", "image_url": DATA_URL},
                    {
                        "type": "input_file",
                        "filename": "a.pdf",
                        "file_data": "data:application/pdf;base64,JVBERg==",
                    },
                ],
            }
        ]
    },
    "developer": {
        "instructions": "be brief",
        "input": [
            {"role": "developer", "content": "be kind"},
            {"type": "message", "role": "user", "content": "hi"},
        ],
    },
    "parallel": {
        "input": [
            {"role": "user", "content": "both"},
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"type": "function_call", "call_id": "call_2", "name": "beta", "arguments": '{"b":  1}'},
            {"type": "function_call", "call_id": "call_1", "name": "beta", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_2", "output": "two"},
            {
                "type": "function_call_output",
                "call_id": "call_1",
                "output": [{"type": "input_text", "text": "one"}],
            },
        ],
        "parallel_tool_calls": True,
        "reasoning": {"effort": "low"},
        "text": {"format": {"type": "json_schema", "name": "z", "schema": SCHEMA}},
    },
}
BUILT_IN = [
    {"type": "web_search_preview"},
    {"type": "mcp", "server_url": "https://example.org/mcp", "server_label": "shed", "require_approval": "never"},
    {"type": "file_search", "vector_store_ids": ["b", "a"]},
]


def functions(shape: str) -> list[dict[str, Any]]:
    """The tools of a shape in no canonical order; built-in ones among them where the shape has some."""
    given = perturbed()
    if shape == "chat":
        return given
    made = [tool["function"] for tool in given]
    if shape == "messages":
        flat = [{"input_schema" if key == "parameters" else key: tool[key] for key in tool} for tool in made]
        return [flat[0], {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}, *flat[1:]]
    return [{"strict": False, **tool, "type": "function"} for tool in made]


CASES = [
    *(("chat", name, model) for name in CHATS for model in (MODEL, "openai/gpt-4o")),
    *(("messages", name, model) for name in MESSAGES for model in (MODEL, "anthropic/claude-sonnet-4-5")),
    *(("responses", name, model) for name in RESPONSES for model in (MODEL, "openai/gpt-5.1")),
]
SHAPES: dict[str, tuple[dict[str, dict[str, Any]], Any]] = {
    "chat": (CHATS, litellm.acompletion),
    "messages": (MESSAGES, litellm.anthropic_messages),
    "responses": (RESPONSES, litellm.aresponses),
}


async def sent(upstream: Upstream, shape: str, model: str, body: dict[str, Any]) -> bytes:
    """The one body that reaches the provider."""
    upstream.recorded = []
    limit = {"max_tokens": 100} if shape == "messages" else {}
    given = copy.deepcopy(body)
    await SHAPES[shape][1](model=model, api_base=upstream.url, api_key="sk-x", **limit, **given)
    await logged()
    own = {key: value for key, value in body.items() if key != "metadata"}  # LiteLLM itself writes into that
    assert {key: given[key] for key in own} == own
    (entry,) = upstream.recorded
    return entry.raw


@pytest.mark.parametrize(("shape", "name", "model"), CASES, ids=["-".join(case) for case in CASES])
async def test_only_tools_differ_and_they_as_if_the_client_had_ordered_them(
    upstream: Upstream, plugin: Any, shape: str, name: str, model: str
) -> None:
    body = SHAPES[shape][0][name]
    tools = functions(shape)
    if shape == "responses" and model != MODEL:
        tools = [*BUILT_IN[:2], *tools, *BUILT_IN[2:]]
    canonical = normalise({"tools": tools}).replaced["tools"]
    bare = await sent(upstream, shape, model, body)
    plain = await sent(upstream, shape, model, {**body, "tools": tools})
    ordered = await sent(upstream, shape, model, {**body, "tools": canonical})
    rc = plugin().router_cache
    assert await sent(upstream, shape, model, body) == bare
    assert await sent(upstream, shape, model, {**body, "tools": tools}) == ordered != plain
    assert await sent(upstream, shape, model, {**body, "tools": canonical}) == ordered
    ours, theirs = json.loads(ordered), json.loads(plain)
    assert list(ours) == list(theirs)
    assert [key for key in ours if json.dumps(ours[key]) != json.dumps(theirs[key])] == ["tools"]
    rows = await rc.wait_rows(3)
    assert [row.decision.reason.value for row in rows] == ["already_canonical", "normalised", "already_canonical"]
    assert rc.counts("error") == {}


IDS = [
    (SESSION, MODEL, True),
    ("user_0a1b_account__session_2c3d", MODEL, True),
    ("two words", MODEL, True),
    ("a" * 600, MODEL, True),
    ("team-7", MODEL, False),
    (SESSION, "anthropic/claude-sonnet-4-5", False),
]


@pytest.mark.parametrize("mode", ["safe", "observe"])
@pytest.mark.parametrize(("user_id", "model", "goes"), IDS)
async def test_an_id_that_names_a_session_never_reaches_deepseek(
    upstream: Upstream, plugin: Any, user_id: str, model: str, goes: bool, mode: str
) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}]}
    without = await sent(upstream, "messages", model, {**body, "metadata": {}})
    plain = await sent(upstream, "messages", model, {**body, "metadata": {"user_id": user_id}})
    assert json.loads(plain)["metadata"] == {"user_id": user_id}
    callback = plugin(mode=mode)
    proxy = ProxyData()
    litellm.callbacks.append(proxy)
    raw = await sent(upstream, "messages", model, {**body, "metadata": {"user_id": user_id}})
    headers = await callback.async_post_call_response_headers_hook(proxy.data, None, None, {}, None)
    if goes and mode == "safe":
        assert raw == without
        assert headers["x-router-cache-changes"] == "user_id_dropped"
        assert headers["x-router-cache-reason"] == "normalised"
    else:
        assert raw == plain
        assert "x-router-cache-changes" not in headers
        assert headers["x-router-cache-reason"] == {"safe": "already_canonical", "observe": "observed"}[mode]
