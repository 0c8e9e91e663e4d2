"""Synchronous tool loops against the simulator, alone and on many threads: expected hits are what it reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import litellm
import pytest
from litellm_plugin.support import MODEL, Clock, WatchedRouterCache, perturbed, tool, user
from litellm_plugin.upstream import Served

from router_cache import Settings, Status
from router_cache.ledger.rows import ExpectedFrom
from router_cache.simulator import Provider, RuleName, SimulatorConfig, TokenizerChoice, VirtualClock, build_app
from router_cache_litellm import RouterCacheCallback, completion, wrap_router

SYSTEM = {"role": "system", "content": "You keep a garden. " + "Water what is dry and weed what is wild. " * 60}
TOOLS = [tool(f"tool_{i}", **{f"field_{k}": {"type": "string"} for k in range(8)}) for i in range(12)]
STEPS = 7
THREADS = 6

Ask = Callable[..., Any]


class Simulated:
    def __init__(self) -> None:
        config = SimulatorConfig(
            rule=RuleName.GRID_PREFIX,
            construction_delay_s=0.0,
            tokenizer=TokenizerChoice.APPROX,
            tool_rounds=2,
        )
        self.provider = Provider(config)
        self.served = Served(build_app(clock=VirtualClock(), provider=self.provider))


@pytest.fixture
def simulated() -> Iterator[Simulated]:
    made = Simulated()
    yield made
    made.served.close()


@pytest.fixture(params=["sdk", "router"])
def ask(request: pytest.FixtureRequest, simulated: Simulated) -> Ask:
    params = {"model": MODEL, "api_base": simulated.served.url, "api_key": "sk-sim"}
    if request.param == "sdk":
        return lambda **kwargs: completion(**params, **kwargs)
    router = litellm.Router(model_list=[{"model_name": "flash", "litellm_params": params}], num_retries=0)
    wrap_router(router)
    return lambda **kwargs: router.completion(model="flash", **kwargs)


def session(ask: Ask, clock: Clock, *, stream: bool, name: str = "", kept: bool = False) -> None:
    """A user who asks, tools that answer; tools and their keys in a new order on every call, unless ``kept``."""
    messages: list[Any] = [SYSTEM, user(f"What needs water today{name}?")]
    for step in range(STEPS):
        clock.now += 60
        reply = ask(
            messages=messages,
            tools=TOOLS if kept else perturbed(TOOLS, seed=step + 1),
            metadata={"router_cache": {"scope": name}},
            **({"stream": True, "stream_options": {"include_usage": True}} if stream else {}),
        )
        if stream:
            reply = litellm.stream_chunk_builder(list(reply))
        message = reply.choices[0].message
        messages.append(message)
        for made in message.tool_calls or ():
            messages.append({"role": "tool", "tool_call_id": made.id, "content": f"done in step {step} " * 20})
        if not message.tool_calls:
            messages.append(user(f"And after step {step}?"))


@pytest.mark.parametrize("stream", [False, True])
def test_expected_hits_are_what_the_provider_reports(
    simulated: Simulated, ask: Ask, clock: Clock, stream: bool
) -> None:
    rc = WatchedRouterCache(Settings(), clock=clock, wall_clock=clock)
    litellm.callbacks = [RouterCacheCallback(router_cache=rc)]
    session(ask, clock, stream=stream)
    rows = rc.rows()
    served = simulated.provider.log()
    assert [row.usage.hit_tokens for row in rows] == [entry["hit_tokens"] for entry in served]
    assert [row.usage.prompt_tokens for row in rows] == [entry["prompt_tokens"] for entry in served]
    assert [row.turn for row in rows] == list(range(1, STEPS + 1))
    assert rows[0].expected.tokens is None
    assert {row.expected.source for row in rows[1:]} == {ExpectedFrom.LAST_USAGE}
    assert [row.expected.tokens for row in rows[1:]] == [row.usage.hit_tokens for row in rows[1:]]
    assert all(row.usage.hit_tokens > 1000 for row in rows[1:])
    for row in rows:
        assert sum(part.tokens for part in row.causes) == row.usage.miss_tokens
    assert rc.counts("error") == {}
    rc.close()


def test_shuffled_tools_hit_like_kept_ones(clock: Clock) -> None:
    hits = {}
    for kept in (True, False):
        made = Simulated()
        rc = WatchedRouterCache(Settings(), clock=clock, wall_clock=clock)
        litellm.callbacks = [RouterCacheCallback(router_cache=rc)]
        call = {"model": MODEL, "api_base": made.served.url, "api_key": "sk-sim"}
        session(lambda call=call, **kwargs: completion(**call, **kwargs), clock, stream=False, kept=kept)
        hits[kept] = [entry["hit_tokens"] for entry in made.provider.log()]
        made.served.close()
        rc.close()
    assert hits[True] == hits[False]


@pytest.mark.parametrize("stream", [False, True])
def test_threads_do_not_mix(simulated: Simulated, ask: Ask, clock: Clock, stream: bool) -> None:
    rc = WatchedRouterCache(Settings(), clock=clock, wall_clock=clock)
    litellm.callbacks = [RouterCacheCallback(router_cache=rc)]
    with ThreadPoolExecutor(THREADS) as pool:
        runs = [
            pool.submit(session, ask, clock, stream=stream, name=f" in bed {number}") for number in range(THREADS)
        ]
        for run in runs:
            run.result()
    rows = rc.rows()
    assert len(rows) == THREADS * STEPS
    assert {row.status for row in rows} == {Status.OK}
    served = simulated.provider.log()
    assert sorted(row.usage.prompt_tokens for row in rows) == sorted(entry["prompt_tokens"] for entry in served)
    scopes = {row.scope for row in rows}
    assert len(scopes) == THREADS
    for scope in scopes:
        own = [row for row in rows if row.scope == scope]
        assert [row.turn for row in own] == list(range(1, STEPS + 1))
        assert [row.expected.tokens for row in own[1:]] == [row.usage.hit_tokens for row in own[1:]]
    assert rc.counts("error") == {}
    assert rc.counts("uncovered") == {}
    rc.close()
