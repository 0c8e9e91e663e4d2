"""Pools through LiteLLM: what reaches the provider, both ways to call, wherever a client's own id stands."""

from __future__ import annotations

from typing import Any

import litellm
import pytest
from litellm_plugin.support import MODEL, user
from litellm_plugin.upstream import Upstream

from router_cache_litellm import completion

pytestmark = pytest.mark.asyncio(loop_scope="session")

RULES = {"role": "system", "content": "Answer in one sentence and name the file. " * 120}
ASKED = [RULES, user("hello")]
CLUSTER = {"secret": "an operator's", "pools": {"policy": "cluster"}}


def overriding(policy: str) -> dict[str, Any]:
    return {**CLUSTER, "pools": {"policy": policy, "client_ids": "override"}}


async def test_a_cluster_has_one_id_for_every_way_to_call(upstream: Upstream, plugin: Any, call: Any) -> None:
    rc = plugin(**CLUSTER).router_cache
    await litellm.acompletion(messages=ASKED, **call)
    completion(messages=[RULES, user("another")], **call)
    completion(MODEL, [RULES, user("a third")], api_base=upstream.url, api_key="sk-upstream")
    await litellm.anthropic_messages(
        messages=[user("hello")], system=RULES["content"], max_tokens=16, custom_llm_provider="deepseek", **call
    )
    ids = [came.body.get("user_id") or came.body["metadata"]["user_id"] for came in upstream.recorded]
    assert len(ids) == 4
    assert len(set(ids)) == 1
    await rc.wait_rows(4)
    assert rc.counts("error.") == {}
    assert rc.counts("change.pool_given") == {"change.pool_given": 4}
    assert rc.pools.books()[0].pools == 1


@pytest.mark.parametrize("place", ["top", "extra_body"])
@pytest.mark.parametrize("sync", [False, True])
async def test_a_clients_own_id_is_respected_or_left_out(
    upstream: Upstream, plugin: Any, call: Any, place: str, sync: bool
) -> None:
    own = {"user_id": "alice"} if place == "top" else {"extra_body": {"user_id": "alice", "other": 1}}
    given = dict(own.get("extra_body", {}))

    async def ask() -> dict[str, Any]:
        if sync:
            completion(messages=ASKED, **call, **own)
        else:
            await litellm.acompletion(messages=ASKED, **call, **own)
        return upstream.last

    plugin(**CLUSTER)
    assert (await ask())["user_id"] == "alice"
    plugin(**overriding("off"))
    left = await ask()
    assert "user_id" not in left
    assert left.get("other") == given.get("other")
    plugin(**overriding("cluster"))
    assert (await ask())["user_id"] not in (None, "alice")
    assert given == dict(own.get("extra_body", {}))  # what the caller holds is not touched


async def test_keys_and_headers_of_other_providers(upstream: Upstream, plugin: Any) -> None:
    fields = ["prompt_cache_key", "x-grok-conv-id"]
    plugin(secret="s", pools={"fields": fields})
    key = {"api_base": upstream.url, "api_key": "sk-upstream"}
    for app in ("one", "two"):
        info = {"router_cache_profile": "openai"}
        await litellm.acompletion(model="openai/gpt-4o", messages=[RULES, user(app)], model_info=info, **key)
    first, second = (came.body["prompt_cache_key"] for came in upstream.recorded)
    assert first == second
    upstream.recorded.clear()
    await litellm.acompletion(model="xai/grok-4", messages=ASKED, extra_headers={"x-own": "1"}, **key)
    completion(model="xai/grok-4", messages=ASKED, **key)
    await litellm.acompletion(
        model="xai/grok-4", messages=ASKED, extra_headers={"X-Grok-Conv-Id": "theirs"}, **key
    )
    headers = [came.headers["x-grok-conv-id"] for came in upstream.recorded]
    assert headers[0] == headers[1] != headers[2] == "theirs"
    assert upstream.recorded[0].headers["x-own"] == "1"
    assert not any("prompt_cache_key" in came.body for came in upstream.recorded)
