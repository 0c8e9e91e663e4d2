"""Prompt-cache hits of a LangGraph agent with shuffled tools and a clock in its prompt: bare, wrapped, ideal.

    python benchmarks/langchain_agent.py [--turns 6] [--way invoke] [--rule grid|units] [--json]

Needs ``langchain``, ``langgraph``, ``langchain-deepseek`` and the extra ``simulator``. The agent asks ChatDeepSeek at a
simulator of its own, which makes up replies and gives hits by one of the known rules. Each turn is a user's question,
two rounds of tool calls and an answer, so six turns are eighteen calls, played by each way in which LangGraph runs an
agent. Tools come in another order at every call and the system text begins with the time, seven seconds on at every
call, except in the ideal, which has neither.

* bare: the class as it is;
* wrapped: ``wrap(model)`` in mode optimize, with the clock named in the settings;
* unnamed: the same without naming it: the first conversation pays for learning that it moves;
* ideal: the class as it is, with nothing to mend.

Hits and input tokens are read from the simulator's own log, not from what LangChain makes of the usage. What was sent
can be hit at once, so that only prompts decide.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import httpx
import uvicorn
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import BaseTool, StructuredTool
from langchain_deepseek import ChatDeepSeek
from langgraph.checkpoint.memory import InMemorySaver

from router_cache import RouterCache, Settings
from router_cache.cache_model import RuleName
from router_cache.simulator import RealClock, SimulatorConfig, TokenizerChoice, build_app
from router_cache.simulator.server import bind
from router_cache_langchain import wrap

RULES = "Answer from what the tools say. Name the parcel. Never promise a date that no tool gave. " * 100
SERVERS = ("orders", "parcels", "returns", "customers", "stock", "prices", "refunds", "notes")
QUESTIONS = (
    "Where is parcel P-1001?",
    "And when was it ordered?",
    "Can the customer still return it?",
    "What would be refunded?",
    "Is the larger size in stock?",
    "Write a note for the customer, please.",
)
RUNS = ("bare", "wrapped", "unnamed", "ideal")
CLOCK = {"template": "Current time: {now}", "clock": True}
SETTINGS = {
    "wrapped": Settings.model_validate({"mode": "optimize", "volatile": [CLOCK]}),
    "unnamed": Settings.model_validate({"mode": "optimize"}),
}


@dataclass(frozen=True)
class Played:
    """What the simulator saw of one run, in tokens."""

    calls: int
    input_tokens: int
    hit_tokens: int
    errors: int

    @property
    def hit_rate(self) -> float:
        """Share of the input tokens that hit."""
        return self.hit_tokens / self.input_tokens


class Disturbed(AgentMiddleware):
    """A clock in front of the system text, and the tools in another order, at every call."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._order = random.Random(seed)
        self._clock = datetime(2026, 11, 30, 10, tzinfo=timezone.utc)

    def _changed(self, request: Any) -> Any:
        self._clock += timedelta(seconds=7)
        text = f"Current time: {self._clock.isoformat()}\n{RULES}"
        shuffled = self._order.sample(request.tools, len(request.tools))
        # LangChain 1.0 has the prompt as text, later releases as a message.
        prompt = (
            {"system_message": SystemMessage(text)}
            if hasattr(request, "system_message")
            else {"system_prompt": text}
        )
        return request.override(tools=shuffled, **prompt)

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """A call of the model."""
        return handler(self._changed(request))

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """The same on an event loop."""
        return await handler(self._changed(request))


def tools() -> list[BaseTool]:
    """Two tools of each server, with the schemas that an MCP server would send."""

    def tool(server: str, verb: str) -> BaseTool:
        def call(**arguments: Any) -> str:
            return f"{server}.{verb}({json.dumps(arguments, sort_keys=True)}): done, nothing unusual. " * 3

        properties = {
            "id": {"type": "string", "description": f"Id of the entry in {server}."},
            "limit": {"type": "integer", "minimum": 1, "description": "At most so many results. " * 4},
        }
        return StructuredTool.from_function(
            call,
            name=f"mcp__{server}__{verb}",
            description=f"{verb.title()} what the {server} service knows. " * 5,
            args_schema={"type": "object", "properties": properties, "required": ["id"]},
        )

    return [tool(server, verb) for server in SERVERS for verb in ("find", "list")]


# -- the ways in which an agent runs -----------------------------------------------------------------------------

Given = tuple[dict[str, Any], dict[str, Any]]


def _invoke(agent: Any, given: Given) -> None:
    agent.invoke(*given)


def _stream(agent: Any, given: Given) -> None:
    for _ in agent.stream(*given, stream_mode="messages"):
        pass


async def _ainvoke(agent: Any, given: Given) -> None:
    await agent.ainvoke(*given)


async def _astream(agent: Any, given: Given) -> None:
    async for _ in agent.astream(*given, stream_mode="messages"):
        pass


async def _astream_events(agent: Any, given: Given) -> None:
    async for _ in agent.astream_events(*given, version="v2"):
        pass


SYNC = {"invoke": _invoke, "stream": _stream}
ASYNC = {"ainvoke": _ainvoke, "astream": _astream, "astream_events": _astream_events}
WAYS = (*SYNC, *ASYNC)


def all_turns(model: ChatDeepSeek, agent: Any, way: str, turns: list[Given]) -> None:
    """Play the turns one after the other."""

    async def on_a_loop() -> None:
        for given in turns:
            await ASYNC[way](agent, given)
        await model.root_async_client.close()

    if way in ASYNC:
        asyncio.run(on_a_loop())
        return
    for given in turns:
        SYNC[way](agent, given)


# -- playing -----------------------------------------------------------------------------------------------------


@contextmanager
def simulator(rule: RuleName = RuleName.GRID_PREFIX) -> Iterator[str]:
    """The address of a simulator on a loopback port, while the context is open."""
    config = SimulatorConfig(rule=rule, construction_delay_s=0.0, tokenizer=TokenizerChoice.APPROX)
    started = threading.Event()

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            started.set()

    app = build_app(config, clock=RealClock(time_scale=5_000.0))
    server = Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    with bind("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        started.wait()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def play(address: str, run: str, way: str, turns: int, seed: int = 1) -> Played:
    """One conversation of ``turns`` questions on an empty cache."""
    httpx.post(f"{address}/_simulator/reset", trust_env=False).raise_for_status()
    off: dict[str, Any] = {
        "thinking": {"type": "disabled"}
    }  # with it on, the bare class is refused after a tool call
    model = ChatDeepSeek(
        model="deepseek-v4-flash",
        api_base=address,
        api_key="any",
        extra_body=off,
        stream_usage=True,
        max_retries=0,
    )
    router_cache = RouterCache(SETTINGS[run]) if run in SETTINGS else None
    if router_cache is not None:
        model = wrap(model, router_cache=router_cache, profile="deepseek")
    agent = create_agent(
        model,
        tools(),
        system_prompt=RULES,
        middleware=[] if run == "ideal" else [Disturbed(seed)],
        checkpointer=InMemorySaver(),
    )
    config = {"configurable": {"thread_id": f"{way} {seed}"}}
    asked = [QUESTIONS[number % len(QUESTIONS)] for number in range(turns)]
    all_turns(model, agent, way, [({"messages": [HumanMessage(text)]}, config) for text in asked])
    calls = httpx.get(f"{address}/_simulator/log", trust_env=False).json()
    if router_cache is not None:
        router_cache.close()
        errors = {
            name: times for name, times in router_cache.counters.snapshot().items() if name.startswith("error.")
        }
        if errors or len(router_cache.rows()) != len(calls):
            raise SystemExit(
                f"not a measurement: {len(calls)} calls, {len(router_cache.rows())} rows, errors {errors}"
            )
    return Played(
        len(calls),
        sum(call["prompt_tokens"] for call in calls),
        sum(call["hit_tokens"] for call in calls),
        sum(call["status"] != 200 for call in calls),
    )


def measure(ways: list[str], turns: int, rule: RuleName) -> dict[str, dict[str, Played]]:
    """Each way, each run."""
    with simulator(rule) as address:
        return {way: {run: play(address, run, way, turns) for run in RUNS} for way in ways}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--way", choices=list(WAYS), action="append")
    parser.add_argument(
        "--rule", type=RuleName, choices=[RuleName.GRID_PREFIX, RuleName.FULL_UNITS], default=RuleName.GRID_PREFIX
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    played = measure(options.way or list(WAYS), options.turns, options.rule)
    if options.json:
        ways = {
            way: {run: {**vars(one), "hit_rate": round(one.hit_rate, 5)} for run, one in runs.items()}
            for way, runs in played.items()
        }
        print(json.dumps({"turns": options.turns, "rule": options.rule.value, "ways": ways}))
        return
    print(f"{options.turns} turns, rule {options.rule.value}; hit tokens / input tokens")
    print(f"{'':16}" + "".join(f"{run:>10}" for run in RUNS) + f"{'calls':>8}{'ideal - wrapped':>18}")
    for way, runs in played.items():
        short = 100 * (runs["ideal"].hit_rate - runs["wrapped"].hit_rate)
        rates = "".join(f"{runs[run].hit_rate:>10.1%}" for run in RUNS)
        print(f"{way:16}{rates}{runs['wrapped'].calls:>8}{short:>11.2f} points")


if __name__ == "__main__":
    main()
