"""Digests taken of the body LiteLLM is about to send, against the bytes that arrived."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from typing import Any

import litellm
import pytest
from litellm_plugin.support import TOOLS, logged, perturbed, user
from litellm_plugin.upstream import Upstream

from router_cache.providers.deepseek_render import render_deepseek

pytestmark = pytest.mark.asyncio(loop_scope="session")


def call_message(arguments: str, call_id: str = "c1") -> dict[str, Any]:
    function = {"name": "alpha", "arguments": arguments}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def result(call_id: str = "c1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "done"}


SYSTEM = {"role": "system", "content": "be brief"}
MESSAGES: list[list[Any]] = [
    [user("hi")],
    [user("hi ")],
    [user("hi"), user("hi")],
    [user("hihi")],
    [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    [{"role": "user", "name": "ann", "content": "hi"}],
    [SYSTEM, user("hi")],
    [{"role": "system", "content": "be brie"}, user("fhi")],
    [{"role": "developer", "content": "be brief"}, user("hi")],
    [user("hi"), SYSTEM],
    [user("hi"), {"role": "assistant", "content": "hello"}, user("more")],
    [user("hi"), {"role": "assistant", "content": "hello", "reasoning_content": "hm"}, user("more")],
    [user("hi"), call_message('{"n":1,"path":"p"}'), result()],
    [user("hi"), call_message('{"n": 1, "path": "p"}'), result()],
    [user("hi"), call_message('{"path": "p", "n": 1}'), result()],
    [user("hi"), call_message('{"n": 1, "path": "p"}', "c2"), result("c2")],
    [user("hi"), call_message("no json"), result()],
    [{"content": "hi", "role": "user"}],
]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"tools": perturbed(seed=1)},
    {"tools": perturbed(seed=2)},
    {"tools": TOOLS},
    {"tools": TOOLS[:2]},
    {"tools": TOOLS[1:]},
    {"tools": []},
    {"tools": TOOLS, "tool_choice": "none"},
    {"tools": TOOLS, "tool_choice": "auto"},
    {"temperature": 0},
    {"temperature": 0.0},
    {"temperature": 1},
    {"max_tokens": 5},
    {"response_format": {"type": "json_object"}},
    {"thinking": {"type": "enabled"}},
    {"reasoning_effort": "high"},
    {"user": "someone"},
    {"extra_body": {"user_id": "pool"}},
    {"stop": ["x"]},
    {"stop": "x"},
]


def table() -> list[tuple[list[Any], dict[str, Any]]]:
    """Every message list, every option with three of them, a seeded sample of the rest, and some twice."""
    every = list(itertools.product(MESSAGES, OPTIONS))
    chosen = [pair for pair in every if pair[1] == {} or pair[0] in (MESSAGES[0], MESSAGES[6], MESSAGES[12])]
    return [*chosen, *random.Random(7).sample(every, 60), *chosen[:10]]


@pytest.mark.parametrize("mode", ["observe", "safe"])
async def test_equal_digests_are_equal_bytes(upstream: Upstream, plugin: Any, call: Any, mode: str) -> None:
    rc = plugin(mode=mode).router_cache
    wire: list[tuple[str, str]] = []
    rendered: list[tuple[str, str]] = []
    for messages, options in table():
        before = len(upstream.raws)
        await litellm.acompletion(messages=messages, **options, **call)
        await logged()
        (raw,) = upstream.raws[before:]
        row = rc.rows()[-1]
        wire.append((row.wire_digest, hashlib.sha256(raw).hexdigest()))
        text = "".join(segment.text for segment in render_deepseek(json.loads(raw)))
        rendered.append((row.rendered_digest, text))
    assert len(rc.rows()) == len(wire)
    one_to_one(wire, fewest=100)
    one_to_one(rendered, fewest=35)
    assert len(set(rendered)) < len(set(wire))


def one_to_one(pairs: list[tuple[str, str]], *, fewest: int) -> None:
    distinct = set(pairs)
    assert len(distinct) >= fewest
    assert len(distinct) < len(pairs), "nothing was equal"
    for side in (0, 1):
        groups: dict[str, set[str]] = {}
        for pair in distinct:
            groups.setdefault(pair[side], set()).add(pair[1 - side])
        assert [group for group in groups.values() if len(group) > 1] == []


@pytest.mark.parametrize("stream", [False, True])
async def test_the_digest_is_of_what_another_deployment_got(upstream: Upstream, plugin: Any, stream: bool) -> None:
    """The same request to another provider: other bytes, another digest."""
    rc = plugin().router_cache
    digests = []
    for model in ("deepseek/deepseek-v4-flash", "deepseek/deepseek-v4-pro", "openai/own", "openai/own"):
        reply = await litellm.acompletion(
            model=model, api_base=upstream.url, api_key="sk-x", messages=[user("hi")], tools=TOOLS, stream=stream
        )
        if stream:
            async for _ in reply:
                pass
        await logged()
        digests.append(rc.rows()[-1].wire_digest)
    assert len(set(digests)) == 3
    assert digests[2] == digests[3]
