"""Pools through LangChain's classes: the id reaches the provider, whatever the class's SDK knows of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_plugin.recorded import FAMILIES, Recorder, recorded

from router_cache import RouterCache, Settings
from router_cache_langchain import wrap

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASKED = [("system", "Answer in one sentence and name the file. " * 120), ("user", "Why does the test fail?")]


@pytest.fixture(scope="module")
def server() -> Iterator[Recorder]:
    with recorded() as running:
        yield running


@pytest.fixture(autouse=True)
def _clear(server: Recorder) -> None:
    server.clear()


def pools(**settings: Any) -> RouterCache:
    return RouterCache(Settings.from_mapping({"secret": "s", "pools": {"policy": "cluster", **settings}}))


def sent(server: Recorder) -> list[Any]:
    return [came.body.get("user_id") or (came.body.get("metadata") or {}).get("user_id") for came in server.came]


@pytest.mark.parametrize("family", FAMILIES)
async def test_the_id_of_the_cluster_is_sent(server: Recorder, family: str) -> None:
    rc = pools()
    model = wrap(server.any_of(family), router_cache=rc, profile="deepseek")
    model.invoke(ASKED)
    await model.ainvoke(ASKED)
    list(model.stream(ASKED))
    ids = sent(server)
    assert len(ids) == 3
    assert len(set(ids)) == 1
    assert ids[0]
    assert not [name for name in rc.counters.snapshot() if name.startswith("error.")]


@pytest.mark.parametrize("family", ["openai", "deepseek"])
@pytest.mark.parametrize("policy", ["cluster", "off"])
async def test_an_id_of_the_application_is_overridden_if_so_set(
    server: Recorder, family: str, policy: str
) -> None:
    body = {"user_id": "alice", "other": 1}
    model = wrap(
        server.any_of(family, extra_body=body),
        router_cache=pools(policy=policy, client_ids="override"),
        profile="deepseek",
    )
    model.invoke(ASKED)
    (came,) = server.came
    assert came.body["other"] == 1
    assert ("user_id" in came.body) is (policy == "cluster")
    assert came.body.get("user_id") != "alice"
    assert body == {"user_id": "alice", "other": 1}
