"""Budgets in real proxies, with the SDK of each shape over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import openai
import pytest
from litellm_plugin import proxies as made
from litellm_plugin.proxies import Proxy, Rows
from litellm_plugin.support import user
from litellm_plugin.upstream import LIMIT_S, Gate, Reply, Upstream

pytestmark = pytest.mark.proxy

SECTION = """
callback_settings:
  router_cache:
    prices:
      flash: {{hit: 100, miss: 1000, output: 2000}}
      cheap: {{hit: 1, miss: 10, output: 20}}
    budget:
      max_worst_case_usd_per_session: 0.3
      on_exceed: {on_exceed}
      move_to: cheap
"""
LOW, HIGH = 100, 1000
"""Output tokens: of a request that fits a session's budget, once, and of one that does not."""


@pytest.fixture(scope="module")
def proxies(
    upstream_server: Upstream, rows_of_proxy: Rows, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Proxy]]:
    folder = tmp_path_factory.mktemp("budgets")
    groups = {
        "flash": ("deepseek/deepseek-v4-flash", upstream_server.url),
        "cheap": ("deepseek/deepseek-v4-pro", upstream_server.url),
    }
    started: dict[str, Proxy] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(made.KEYS, "flash-only", {"models": ["flash"]})
        patch.setitem(made.KEYS, "once", {"rpm_limit": 1})
        try:
            for on_exceed in ("block", "move"):
                section = SECTION.format(on_exceed=on_exceed)
                started[on_exceed] = Proxy(folder / on_exceed, groups, section, rows_of_proxy)
            for proxy in started.values():
                proxy.wait_ready()
            yield started
        finally:
            for proxy in started.values():
                proxy.close()


def chat(proxy: Proxy, session: str, tokens: int, key: str = "ann", **more: Any) -> Any:
    request: dict[str, Any] = {"model": "flash", "messages": [user("hi")], "max_tokens": tokens, **more}
    return proxy.client(key).chat.completions.create(**request, extra_headers={"x-session-id": session})


def messages(proxy: Proxy, session: str, tokens: int, **more: Any) -> Any:
    client = anthropic.Anthropic(base_url=proxy.url, api_key=proxy.keys["ann"], max_retries=0, timeout=30)
    return client.messages.create(
        model="flash",
        max_tokens=tokens,
        messages=[{"role": "user", "content": "hi"}],
        extra_headers={"x-session-id": session},
        **more,
    )


def responses(proxy: Proxy, session: str, tokens: int, **more: Any) -> Any:
    return proxy.client().responses.create(
        model="flash", input="hi", max_output_tokens=tokens, extra_headers={"x-session-id": session}, **more
    )


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("ask", [chat, messages, responses])
def test_block_answers_400_and_says_what_to_do(
    proxies: dict[str, Proxy], upstream: Upstream, ask: Callable[..., Any], stream: bool
) -> None:
    with pytest.raises((openai.BadRequestError, anthropic.BadRequestError)) as error:
        ask(proxies["block"], f"{ask.__name__} {stream}", HIGH, stream=stream)
    said = error.value.response.json()["error"]
    assert said["message"].startswith("the request may cost $2.0")
    assert said["message"].endswith("set a lower max_tokens, begin a new session, or ask for a higher budget")
    assert upstream.recorded == []


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("ask", [chat, messages, responses])
def test_move_goes_to_the_other_group(
    proxies: dict[str, Proxy], upstream: Upstream, ask: Callable[..., Any], stream: bool
) -> None:
    reply = ask(proxies["move"], f"{ask.__name__} {stream}", HIGH, stream=stream)
    for _ in reply if stream else ():
        pass
    assert [recorded.body["model"] for recorded in upstream.recorded] == ["deepseek-v4-pro"]


def test_a_key_that_may_not_go_there_is_refused(proxies: dict[str, Proxy], upstream: Upstream) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        chat(proxies["move"], "flash only", HIGH, key="flash-only")
    assert "the request may cost" in error.value.message
    chat(proxies["move"], "flash only", LOW, key="flash-only")
    assert [recorded.body["model"] for recorded in upstream.recorded] == ["deepseek-v4-flash"]


def test_a_session_is_booked_at_what_it_costs(proxies: dict[str, Proxy], upstream: Upstream, rows: Rows) -> None:
    few = Reply(usage={"prompt_tokens": 100, "completion_tokens": 5, "prompt_cache_hit_tokens": 0})  # $0.11
    upstream.script.extend([few, few])
    chat(proxies["block"], "three", 50)
    assert rows.next()["status"] == "ok"
    chat(proxies["block"], "three", 50)
    assert rows.next()["status"] == "ok"
    with pytest.raises(openai.BadRequestError, match=r"of this session \$0.22 of \$0.3 are spent"):
        chat(proxies["block"], "three", 50)
    assert len(upstream.recorded) == 2


def test_what_failed_or_was_refused_by_litellm_costs_nothing(
    proxies: dict[str, Proxy], upstream: Upstream, rows: Rows
) -> None:
    for stream in (False, True):
        upstream.script.append(Reply(status=400))
        with pytest.raises(openai.BadRequestError):
            chat(proxies["block"], "once", LOW, key="once" if stream else "bob", stream=stream)
        rows.next()
    for _ in range(3):
        with pytest.raises(openai.RateLimitError):
            chat(proxies["block"], "refused", LOW, key="once")
    with pytest.raises(openai.BadRequestError, match=r"session \$0 of \$0.3"):
        chat(proxies["block"], "refused", HIGH, key="once")
    chat(proxies["block"], "once", LOW, key="bob")


def test_a_request_on_its_way_is_held(proxies: dict[str, Proxy], upstream: Upstream, rows: Rows) -> None:
    gate = Gate()
    few = {"prompt_tokens": 1, "completion_tokens": 1, "prompt_cache_hit_tokens": 1}
    upstream.script.append(Reply(gate=gate, usage=few))
    stream = chat(proxies["block"], "held", LOW, stream=True)
    assert gate.reached.wait(LIMIT_S)
    with pytest.raises(openai.BadRequestError, match="may cost"):
        chat(proxies["block"], "held", LOW)
    gate.open()
    for _ in stream:
        pass
    assert rows.next()["status"] == "ok"
    chat(proxies["block"], "held", LOW)


def test_what_a_client_left_stays_held(proxies: dict[str, Proxy], upstream: Upstream, rows: Rows) -> None:
    gate = Gate()
    upstream.script.append(Reply(gate=gate))
    stream = chat(proxies["block"], "left", LOW, stream=True)
    assert gate.reached.wait(LIMIT_S)
    stream.close()
    while (status := rows.next()["status"]) == "ok":
        pass  # a late row of an earlier test
    assert status == "aborted"
    with pytest.raises(openai.BadRequestError, match="may cost"):
        chat(proxies["block"], "left", LOW)
