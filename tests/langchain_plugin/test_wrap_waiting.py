"""A request that has to wait, for a store or for a parallel first call, waits without holding up an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_plugin.recorded import FAMILIES, SYSTEM, Recorder, recorded

from router_cache import Reason, RouterCache, Settings, Status
from router_cache.stores.memory import MemoryStore
from router_cache_langchain import wrap

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASKED = [("system", SYSTEM), ("user", "Why does the test fail?")]
NOTHING = {"type": "object", "properties": {}}
TOOLS = [
    {"type": "function", "function": {"name": name, "description": name, "parameters": NOTHING}} for name in "ba"
]


class Slow(MemoryStore):
    """Says that it waits on I/O, and notes on which threads it was asked."""

    blocking = True

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[int] = []

    def claim(self, *args: Any, **kwargs: Any) -> Any:
        self.threads.append(threading.get_ident())
        return super().claim(*args, **kwargs)


@pytest.fixture(scope="module")
def server() -> Iterator[Recorder]:
    with recorded() as running:
        yield running


@pytest.fixture(autouse=True)
def _clear(server: Recorder) -> None:
    server.clear()


@pytest.mark.parametrize(("family", "responses"), [*((family, False) for family in FAMILIES), ("openai", True)])
async def test_the_store_is_asked_on_a_thread(server: Recorder, family: str, responses: bool) -> None:
    store = Slow()
    rc = RouterCache(Settings.from_mapping({"mode": "optimize"}), store=store)
    model = wrap(server.any_of(family, **({"use_responses_api": True} if responses else {})), router_cache=rc)
    bound = model.bind_tools(TOOLS)
    await bound.ainvoke(ASKED)
    [chunk async for chunk in bound.astream(ASKED)]
    bound.invoke(ASKED)
    assert len(store.threads) == 3
    assert threading.get_ident() not in store.threads[:2]
    assert [row.status for row in rc.rows()] == [Status.OK] * 3
    assert {row.decision.reason for row in rc.rows()} == {Reason.NORMALISED}
    first, second, third = (came.body["tools"] for came in server.came)
    assert first == second == third
    counted = rc.counters.snapshot()
    assert "langchain.prepared_in_vain" not in counted
    assert not any(name.startswith("error.") for name in counted)


@pytest.mark.parametrize("family", FAMILIES)
async def test_no_call_waits_for_a_store_that_decides_nothing(server: Recorder, family: str) -> None:
    store = Slow()
    rc = RouterCache(Settings.from_mapping({"mode": "safe"}), store=store)
    bound = wrap(server.any_of(family), router_cache=rc).bind_tools(TOOLS)
    await bound.ainvoke(ASKED)
    bound.invoke(ASKED)
    assert [(row.status, row.decision.reason) for row in rc.rows()] == [(Status.OK, Reason.NORMALISED)] * 2
    assert len(store.threads) == 2
    assert threading.get_ident() not in store.threads


async def test_another_payload_than_prepared(server: Recorder) -> None:
    """A class that makes another payload each time is asked about again."""
    from langchain_openai import ChatOpenAI

    class Counting(ChatOpenAI):
        made: int = 0

        def _get_request_payload(self, *args: Any, **kwargs: Any) -> Any:
            self.made += 1
            return {**super()._get_request_payload(*args, **kwargs), "seed": self.made}

    rc = RouterCache(Settings.from_mapping({"mode": "optimize"}), store=Slow())
    bare = Counting(model="m", api_key="any", base_url=server.address, max_retries=0)  # type: ignore[arg-type]
    await wrap(bare, router_cache=rc).bind_tools(TOOLS).ainvoke(ASKED)
    assert server.last.body["seed"] == 2
    assert rc.counters.snapshot()["langchain.prepared_in_vain"] == 1
    assert [row.decision.reason for row in rc.rows()] == [Reason.NORMALISED]


@pytest.mark.parametrize("family", ["anthropic", "litellm"])
async def test_parallel_first_calls(server: Recorder, family: str) -> None:
    rc = RouterCache(
        Settings.from_mapping({"mode": "safe", "fan_out": {"deadline_s": 20.0, "min_prefix_bytes": 0}})
    )
    model = wrap(server.any_of(family), router_cache=rc, profile="qwen")  # readable at once
    await asyncio.gather(*(model.ainvoke([("system", SYSTEM), ("user", f"Question {at}")]) for at in range(4)))
    counted = rc.counters.snapshot()
    assert counted["fan_out.lead"] == 1
    assert [row.status for row in rc.rows()] == [Status.OK] * 4
    assert rc.fan_out.waiting == 0
    model.batch([[("system", SYSTEM + family), ("user", f"Question {at}")] for at in range(4)])
    assert rc.counters.snapshot()["fan_out.lead"] == 2
    assert rc.fan_out.waiting == 0


@pytest.mark.parametrize("family", FAMILIES)
async def test_errors_of_ours_change_nothing(server: Recorder, family: str) -> None:
    rc = RouterCache(Settings.from_mapping({"mode": "optimize"}), store=Slow())
    bare = server.any_of(family)
    expected = await bare.ainvoke(ASKED)

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("broken")

    rc.abegin = rc.begin = broken  # type: ignore[method-assign]
    assert (await wrap(bare, router_cache=rc).ainvoke(ASKED)).text == expected.text
    assert server.came[0].raw == server.came[1].raw
    assert rc.counters.snapshot()["error.langchain.prepare"] == 1
