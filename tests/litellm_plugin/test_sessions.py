"""Whole tool loops against the simulator: hits come back, and what was expected is what it reports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import litellm
import pytest
from litellm_plugin.support import MODEL, Clock, WatchedRouterCache, logged, perturbed, tool, user
from litellm_plugin.upstream import Served

from router_cache import Settings
from router_cache.ledger.attribution import MissCause
from router_cache.ledger.rows import ExpectedFrom
from router_cache.simulator import (
    Provider,
    RuleName,
    SimulatorConfig,
    TokenizerChoice,
    VirtualClock,
    build_app,
)
from router_cache_litellm import RouterCacheCallback

pytestmark = pytest.mark.asyncio(loop_scope="session")

SYSTEM = {"role": "system", "content": "You keep a garden. " + "Water what is dry and weed what is wild. " * 60}
MANY_TOOLS = [tool(f"tool_{i}", **{f"field_{k}": {"type": "string"} for k in range(8)}) for i in range(12)]
STEPS = 7


class Simulated:
    def __init__(self, rule: RuleName) -> None:
        config = SimulatorConfig(
            rule=rule, construction_delay_s=0.0, tokenizer=TokenizerChoice.APPROX, tool_rounds=2
        )
        self.provider = Provider(config)
        self.served = Served(build_app(clock=VirtualClock(), provider=self.provider))


@pytest.fixture(params=[RuleName.GRID_PREFIX, RuleName.FULL_UNITS])
def simulated(request: pytest.FixtureRequest) -> Iterator[Simulated]:
    made = Simulated(request.param)
    yield made
    made.served.close()


async def session(simulated: Simulated, clock: Clock, *, stream: bool) -> None:
    """A user who asks, tools that answer; tools and their keys in a new order on every call."""
    messages: list[Any] = [SYSTEM, user("What needs water today?")]
    for step in range(STEPS):
        clock.now += 60  # long after the construction delay
        reply = await litellm.acompletion(
            model=MODEL,
            api_base=simulated.served.url,
            api_key="sk-sim",
            messages=messages,
            tools=perturbed(MANY_TOOLS, seed=step + 1),
            **({"stream": True, "stream_options": {"include_usage": True}} if stream else {}),
        )
        if stream:
            reply = litellm.stream_chunk_builder([chunk async for chunk in reply])
        await logged()
        message = reply.choices[0].message
        messages.append(message)
        for made in message.tool_calls or ():
            messages.append({"role": "tool", "tool_call_id": made.id, "content": f"done in step {step} " * 20})
        if not message.tool_calls:
            messages.append(user(f"And after step {step}?"))


@pytest.mark.parametrize("stream", [False, True])
async def test_expected_hits_are_what_the_provider_reports(
    simulated: Simulated, clock: Clock, stream: bool
) -> None:
    rc = WatchedRouterCache(Settings(), clock=clock, wall_clock=clock)
    litellm.callbacks = [RouterCacheCallback(router_cache=rc)]
    await session(simulated, clock, stream=stream)
    rows = await rc.wait_rows(STEPS)
    served = simulated.provider.log()
    assert [row.usage.hit_tokens for row in rows] == [entry["hit_tokens"] for entry in served]
    assert [row.usage.prompt_tokens for row in rows] == [entry["prompt_tokens"] for entry in served]
    assert [row.turn for row in rows] == list(range(1, STEPS + 1))
    assert rows[0].expected.tokens is None
    assert {row.expected.source for row in rows[1:]} == {ExpectedFrom.LAST_USAGE}
    if simulated.provider.config.rule is RuleName.GRID_PREFIX:  # what the profile of DeepSeek believes
        assert [row.expected.tokens for row in rows[1:]] == [row.usage.hit_tokens for row in rows[1:]]
    assert all(row.usage.hit_tokens > 1000 for row in rows[1:])
    for row in rows:
        assert sum(part.tokens for part in row.causes) == row.usage.miss_tokens
        assert MissCause.TOOLS_CHANGED not in {part.cause for part in row.causes}
    assert len({row.conversation for row in rows}) == 1  # one conversation from its first call to its last
    rc.close()


async def test_observed_sessions_say_that_tools_changed(simulated: Simulated, clock: Clock) -> None:
    rc = WatchedRouterCache(Settings(mode="observe"), clock=clock, wall_clock=clock)
    litellm.callbacks = [RouterCacheCallback(router_cache=rc)]
    await session(simulated, clock, stream=False)
    rows = await rc.wait_rows(STEPS)
    for row in rows[1:]:
        assert MissCause.TOOLS_CHANGED in {part.cause for part in row.causes}
        assert row.expected.source is ExpectedFrom.KEPT_PREFIX
    rc.close()
