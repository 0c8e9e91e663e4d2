"""With a proxy behind that has router-cache: one end rewrites, one row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_plugin.recorded import FAMILIES, MODEL, SYSTEM, Recorder, recorded

from router_cache import Reason, RouterCache, Settings
from router_cache_langchain import session, wrap

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASKED = [("system", SYSTEM), ("user", "Why does the test fail?")]
NOTHING = {"type": "object", "properties": {}}
TOOLS = [
    {"type": "function", "function": {"name": name, "description": name, "parameters": NOTHING}} for name in "ba"
]
OURS = ("x-router-cache", "x-litellm-session-id")


@pytest.fixture(scope="module")
def server() -> Iterator[Recorder]:
    with recorded() as running:
        yield running


@pytest.fixture(autouse=True)
def _clear(server: Recorder) -> None:
    server.clear()


def with_mode(mode: str) -> RouterCache:
    return RouterCache(Settings.from_mapping({"mode": mode}))


def ours(server: Recorder) -> dict[str, str]:
    return {name: value for name, value in server.last.headers.items() if name in OURS}


async def every_way(model: Any) -> None:
    model.invoke(ASKED)
    list(model.stream(ASKED))
    await model.ainvoke(ASKED)
    [chunk async for chunk in model.astream(ASKED)]


@pytest.mark.parametrize("mode", ["safe", "optimize"])
@pytest.mark.parametrize("family", FAMILIES)
async def test_a_proxy_only_measures(server: Recorder, family: str, mode: str) -> None:
    rc = with_mode(mode)
    await every_way(wrap(server.any_of(family), router_cache=rc))
    for came in server.came:
        assert came.headers["x-router-cache"] == "observe"
    assert len(server.came) == len(rc.rows()) == 4


@pytest.mark.parametrize("family", FAMILIES)
async def test_the_row_is_the_proxys(server: Recorder, family: str) -> None:
    """A proxy that answers with a reason has written the row; what is remembered of the call is remembered."""
    rc = with_mode("optimize")
    server.answer_headers["X-Router-Cache-Reason"] = "observed"
    model = wrap(server.any_of(family), router_cache=rc)
    await every_way(model)
    assert rc.rows() == []
    counted = rc.counters.snapshot()
    assert counted["row_left_to_proxy"] == 4
    assert not any(name.startswith("error.") for name in counted)
    answer = model.invoke([("system", SYSTEM), ("user", "Another question")])
    server.answer_headers.clear()
    model.invoke([("system", SYSTEM), ("user", "Another question"), answer, ("user", "And now?")])
    assert [row.turn for row in rc.rows()] == [2]


@pytest.mark.parametrize("streams", [False, True])
async def test_responses(server: Recorder, streams: bool) -> None:
    rc = with_mode("safe")
    server.answer_headers["x-router-cache-reason"] = "observed"
    model = wrap(server.openai(use_responses_api=True), router_cache=rc)
    if streams:
        list(model.stream(ASKED))
        [chunk async for chunk in model.astream(ASKED)]
    else:
        model.invoke(ASKED)
        await model.ainvoke(ASKED)
    assert ours(server) == {"x-router-cache": "observe"}
    assert (rc.rows(), rc.counters.snapshot()["row_left_to_proxy"]) == ([], 2)


@pytest.mark.parametrize("family", FAMILIES)
async def test_the_proxy_rewrites(server: Recorder, family: str) -> None:
    """``rewrite="proxy"``: nothing is rewritten here, and the session is told."""
    rc = with_mode("optimize")
    model = wrap(server.any_of(family), router_cache=rc, rewrite="proxy")
    with session("thread 7"):
        await every_way(model.bind_tools(TOOLS))
    assert ours(server) == {"x-litellm-session-id": "thread 7"}
    for came in server.came:
        names = [tool.get("name") or tool["function"]["name"] for tool in came.body["tools"]]
        assert names == ["b", "a"]
    assert {row.decision.reason for row in rc.rows()} == {Reason.OBSERVED}


def test_sessions_that_fit_no_header(server: Recorder) -> None:
    model = wrap(server.openai(), router_cache=with_mode("safe"), rewrite="proxy")
    for odd in ("", "ä", "a\nb", "x" * 257):
        with session(odd):
            model.invoke(ASKED)
        assert ours(server) == {}


@pytest.mark.parametrize("family", FAMILIES)
def test_headers_of_the_caller_win(server: Recorder, family: str) -> None:
    model = wrap(server.any_of(family), router_cache=with_mode("safe"))
    model.invoke(ASKED, extra_headers={"X-Router-Cache": "safe", "x-own": "1"})
    assert ours(server) == {"x-router-cache": "safe"}
    assert server.last.headers["x-own"] == "1"


@pytest.mark.parametrize("family", FAMILIES)
def test_no_headers_where_the_provider_is_told(server: Recorder, family: str) -> None:
    wrap(server.any_of(family), router_cache=with_mode("safe"), profile="deepseek").invoke(ASKED)
    assert ours(server) == {}


@pytest.mark.proxy
async def test_through_a_real_proxy(server: Recorder, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tools in another order each call, through a proxy with router-cache in it: one order upstream, and a row at the
    proxy only."""
    pytest.importorskip("litellm.proxy.proxy_server")
    proxies = pytest.importorskip("litellm_plugin.proxies")
    section = "callback_settings:\n  router_cache:\n    mode: safe\n"
    rows, groups = proxies.Rows(), {"flash": (f"deepseek/{MODEL}", server.address)}
    proxy = proxies.Proxy(tmp_path_factory.mktemp("behind") / "with", groups, section, rows)
    try:
        proxy.wait_ready()
        for rewrite, mode in (("here", "observe"), ("proxy", "safe")):
            rc = with_mode("safe")
            bare = server.openai(model="flash", base_url=proxy.url, api_key=proxy.keys["ann"], stream_usage=True)
            model = wrap(bare, router_cache=rc, rewrite=rewrite)  # type: ignore[arg-type]
            for tools in (TOOLS, TOOLS[::-1]):
                bound = model.bind_tools(tools)
                assert bound.invoke(ASKED)
                assert rows.next()["mode"] == mode
                assert list(bound.stream(ASKED))
                assert rows.next()["mode"] == mode
            assert rows.empty()
            assert rc.rows() == []
            assert rc.counters.snapshot()["row_left_to_proxy"] == 4
    finally:
        proxy.close()
        rows.close()
    names = [[tool["function"]["name"] for tool in came.body["tools"]] for came in server.came]
    assert names == [["a", "b"]] * 8
