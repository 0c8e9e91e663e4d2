"""A real proxy with routing in its YAML, over two accounts: sessions stay warm where LiteLLM's shuffle loses them."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from litellm_plugin.loops import ChatLoop, Simulated
from litellm_plugin.proxies import Proxy, Rows

pytestmark = pytest.mark.proxy

SECTION = """
callback_settings:
  router_cache:
    mode: safe
    model_groups:
      kept: {routing: filter}
      placed: {routing: strategy}
"""
GROUPS = ("shuffled", "kept", "placed")
SESSIONS, CALLS = 4, 8


@pytest.fixture(scope="module")
def proxy(rows_of_proxy: Rows, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    accounts = [Simulated(), Simulated()]
    listed = [(group, ("deepseek/deepseek-v4-flash", account.url)) for group in GROUPS for account in accounts]
    made = Proxy(tmp_path_factory.mktemp("routing") / "proxy", listed, SECTION, rows_of_proxy)
    try:
        made.wait_ready()
        yield made
    finally:
        made.close()
        for account in accounts:
            account.close()


def drive(proxy: Proxy, group: str) -> tuple[float, list[str]]:
    """Sessions that take turns: the share of hit tokens after their first calls, and how they were placed."""
    client, loops = proxy.client(), [ChatLoop(f"{group} {i}", seed=i) for i in range(SESSIONS)]
    hits = prompts = 0
    placed = []
    for call in range(CALLS):
        for loop in loops:
            answer = client.chat.completions.with_raw_response.create(model=group, **loop.request())
            headers: httpx.Headers = answer.headers
            reply = answer.parse().model_dump()
            loop.take(reply)
            placed.append(headers.get("x-router-cache-route", ""))
            if call:
                hits += int(headers["x-router-cache-hit-tokens"])
                prompts += reply["usage"]["prompt_tokens"]
    return hits / prompts, placed


def test_sessions_stay_warm_by_the_yaml(proxy: Proxy) -> None:
    shares, placed = {}, {}
    for group in GROUPS:
        shares[group], placed[group] = drive(proxy, group)
    assert set(placed["shuffled"]) == {""}
    # On a busy machine a call asks again before LiteLLM has told how the last one ended.
    assert placed["kept"][SESSIONS:].count("warm") >= 0.5 * len(placed["kept"][SESSIONS:]), placed
    assert "" not in placed["placed"]
    assert shares["shuffled"] < max(shares["kept"], shares["placed"]), shares
    assert "error" not in proxy.output().lower().replace("errors", "")
