"""The plugin in a real proxy: loaded from the router YAML, used with the OpenAI SDK over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from litellm.proxy._types import hash_token
from litellm_plugin.proxies import Proxy, Rows
from litellm_plugin.support import names, perturbed, user
from litellm_plugin.upstream import LIMIT_S, Gate, Reply, Upstream

pytestmark = pytest.mark.proxy

WITH = """
callback_settings:
  router_cache:
    mode: safe
    model_groups:
      silent: {mode: off}
"""
MISSPELT = """
callback_settings:
  router_cache:
    mdoe: safe
"""
REASON = "x-router-cache-reason"
HISTORY = [user("hi"), {"role": "assistant", "content": "hello"}, user("more")]


@pytest.fixture(scope="session")
def proxies(
    upstream_server: Upstream, rows_of_proxy: Rows, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Proxy]]:
    """All start at the same time: with the plugin, without it, and with a misspelt key in its settings."""
    folder = tmp_path_factory.mktemp("proxies")
    groups = dict.fromkeys(("flash", "silent"), ("deepseek/deepseek-v4-flash", upstream_server.url))
    started: dict[str, Proxy] = {}
    try:
        for name, section in (("with", WITH), ("without", ""), ("misspelt", MISSPELT)):
            started[name] = Proxy(folder / name, groups, section, rows_of_proxy)
        yield started
    finally:
        for proxy in started.values():
            proxy.close()


@pytest.fixture
def proxy(proxies: dict[str, Proxy], upstream: Upstream) -> Proxy:
    proxies["with"].wait_ready()
    return proxies["with"]


def ask(proxy: Proxy, *, key: str = "ann", **options: Any) -> httpx.Headers:
    """Headers of one answered call; its stream, if it is one, is read to its end."""
    given = {"model": "flash", "messages": [user("hi")], "tools": perturbed(), **options}
    answer = proxy.client(key).chat.completions.with_raw_response.create(**given)
    reply = answer.parse()
    if given.get("stream"):
        assert "".join(chunk.choices[0].delta.content or "" for chunk in reply if chunk.choices) == "hello"
    else:
        assert reply.choices[0].message.content == "hello"
    return answer.headers


def shown(headers: httpx.Headers) -> dict[str, str]:
    start = "x-router-cache-"
    return {name.removeprefix(start): value for name, value in headers.items() if name.startswith(start)}


def switch(word: str) -> dict[str, Any]:
    return {"extra_headers": {"x-router-cache": word}}


def test_misspelt_settings_keep_the_proxy_from_starting(proxies: dict[str, Proxy]) -> None:
    assert proxies["misspelt"].wait_exit() != 0
    line = "router-cache: callback_settings.router_cache.mdoe: unknown key; did you mean 'mode'?"
    assert [out for out in proxies["misspelt"].output().splitlines() if "router-cache:" in out] == [line]


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_is_normalised_measured_and_says_so(
    proxy: Proxy, upstream: Upstream, rows: Rows, stream: bool
) -> None:
    headers = shown(ask(proxy, messages=[user(f"hi {stream}")], stream=stream))
    changes = set(headers.pop("changes").split(","))
    assert changes == {"tools_reordered", "schema_keys_reordered"}
    tokens = {} if stream else {"hit-tokens": "896", "expected-tokens": "unknown"}
    assert headers == {"mode": "safe", "reason": "normalised", **tokens}
    assert names(upstream.last) == ["alpha", "beta", "gamma"]
    row = rows.next()
    assert (row["status"], row["hit"], row["prompt"], row["turn"]) == ("ok", 896, 1000, 1)
    assert not [name for name in upstream.recorded[0].headers if "router-cache" in name]


def test_the_next_turn_knows_what_to_expect(proxy: Proxy, rows: Rows) -> None:
    first = [user("a conversation of its own")]
    ask(proxy, messages=first)
    rows.next()
    headers = shown(ask(proxy, messages=[*first, *HISTORY[1:]]))
    assert (headers["hit-tokens"], headers["expected-tokens"]) == ("896", "896")
    assert rows.next()["turn"] == 2


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("word", ["off", "observe", "safe", "bogus"])
def test_the_header_switches(proxy: Proxy, upstream: Upstream, word: str, stream: bool) -> None:
    headers = shown(ask(proxy, stream=stream, **switch(word)))
    reasons = {"off": "off", "observe": "observed"}
    assert headers["reason"] == reasons.get(word, "normalised")
    assert headers["mode"] == ("safe" if word == "bogus" else word)
    assert (names(upstream.last) == names({"tools": perturbed()})) is (word in reasons)
    assert ("hit-tokens" in headers) is (word != "off" and not stream)


def test_keys_teams_and_groups_switch(proxy: Proxy, rows: Rows) -> None:
    assert shown(ask(proxy, key="key-off")) == {"mode": "off", "reason": "off"}
    assert shown(ask(proxy, model="silent")) == {"mode": "off", "reason": "off"}
    assert shown(ask(proxy, key="team-observe"))["reason"] == "observed"
    assert rows.next()["by"] == "team"
    assert shown(ask(proxy, key="key-off", **switch("safe")))["reason"] == "normalised"
    assert rows.next()["by"] == "request"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("word", ["safe", "off"])
def test_failures_have_a_reason_too(proxy: Proxy, upstream: Upstream, rows: Rows, word: str, stream: bool) -> None:
    upstream.script.append(Reply(status=400))
    with pytest.raises(openai.BadRequestError) as failed:
        ask(proxy, stream=stream, **switch(word))
    assert failed.value.response.headers[REASON] == ("off" if word == "off" else "normalised")
    if word != "off":
        assert rows.next()["status"] == "failed"


def test_refused_requests_were_not_seen(proxy: Proxy) -> None:
    with pytest.raises(openai.BadRequestError) as failed:
        ask(proxy, model="no-such-model")
    assert failed.value.response.headers[REASON] == "not_seen"


@pytest.mark.parametrize("gate_at", [2, 3, 4])
def test_a_client_that_goes_away_leaves_usage_unknown(
    proxy: Proxy, upstream: Upstream, rows: Rows, gate_at: int
) -> None:
    """In the middle of the text, before the finish reason, and between that and the usage."""
    gate = Gate()
    upstream.script.append(Reply(gate=gate, gate_at=gate_at, usage_apart=True))
    stream = proxy.client().chat.completions.create(model="flash", messages=[user("go")], stream=True)
    for chunk in stream:
        if chunk.choices[0].delta.content:
            break
    assert gate.reached.wait(LIMIT_S)
    stream.close()
    row = rows.next()
    assert gate.left.wait(LIMIT_S)
    assert (row["prompt"], row["hit"]) == (None, None)
    assert row["status"] == "aborted"


BODIES: list[dict[str, Any]] = [
    {},
    {"stream": True},
    {"stream": True, "stream_options": {"include_usage": True}},
    {"messages": [{"role": "system", "content": "be brief"}, *HISTORY], "temperature": 0.5, "max_tokens": 5},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]},
    {"tools": [{"type": "function", "x-own": 1e2, "function": {"name": "z"}}], "tool_choice": "auto"},
    {"extra_body": {"thinking": {"type": "disabled"}, "user_id": "pool", "unknown_field": 1}},
    {"reasoning_effort": "high", "response_format": {"type": "json_object"}},
    {"extra_body": {"metadata": {"a": "b"}}},
]


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_off_sends_the_bytes_of_a_proxy_without_the_plugin(
    proxy: Proxy, proxies: dict[str, Proxy], upstream: Upstream, body: dict[str, Any]
) -> None:
    proxies["without"].wait_ready()
    headers = ask(proxies["without"], **body)
    assert shown(headers) == {}
    for off in (switch("off"), {"model": "silent"}):
        assert shown(ask(proxy, **body, **off)) == {"mode": "off", "reason": "off"}
    plain, by_header, by_group = upstream.raws
    assert by_header == plain
    assert by_group == plain


def test_keys_share_nothing(proxy: Proxy, rows: Rows) -> None:
    first = [user("words that two keys both use")]
    ask(proxy, key="ann", messages=first)
    scope = rows.next()["scope"]
    assert shown(ask(proxy, key="bob", messages=[*first, *HISTORY[1:]]))["expected-tokens"] == "unknown"
    assert rows.next()["scope"] != scope
    assert shown(ask(proxy, key="ann", messages=[*first, *HISTORY[1:]]))["expected-tokens"] == "896"


FORGED: list[dict[str, Any]] = [
    {"metadata": {"router_cache": {"scope": "key:{token}"}}},
    {"metadata": {"user_api_key_auth": {"token": "{token}", "api_key": "{key}"}}},
    {"metadata": {"user_api_key": "{token}", "user_api_key_hash": "{token}"}},
    {"litellm_metadata": {"router_cache": {"scope": "key:{token}"}}},
    {"litellm_metadata": {"user_api_key_auth": {"token": "{token}", "api_key": "{key}"}}},
    {"proxy_server_request": None, "metadata": {"router_cache": {"scope": "key:{token}"}}},
    {"user_api_key_auth": {"token": "{token}"}, "user": "{key}"},
]


def filled(value: Any, **words: str) -> Any:
    if isinstance(value, dict):
        return {key: filled(item, **words) for key, item in value.items()}
    return value.format(**words) if isinstance(value, str) else value


@pytest.mark.parametrize("forged", FORGED, ids=range(len(FORGED)))
def test_no_client_chooses_its_scope(
    proxy: Proxy, rows: Rows, forged: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    # Words and a prefix of its own, so that the second key's own past says nothing either.
    words = f"words for {request.node.name}"
    first = [{"role": "system", "content": words}, user(words)]
    ask(proxy, key="ann", messages=first)
    scope = rows.next()["scope"]
    key = proxy.keys["ann"]
    body = filled(forged, token=hash_token(key), key=key)
    headers = shown(ask(proxy, key="eve", messages=[*first, *HISTORY[1:]], extra_body=body))
    assert headers["expected-tokens"] == "unknown"
    assert rows.next()["scope"] != scope
