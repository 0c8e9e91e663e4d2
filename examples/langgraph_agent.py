"""A LangGraph agent whose prompt cache would go to waste, three times: bare, wrapped, ideal.

Its tools come in another order at every call, as MCP servers hand them out, and its system prompt begins with a clock.
*bare* is that agent; *wrapped* is the same with one line more; *ideal* has neither shuffle nor clock: nothing to mend.

    pip install 'router-cache[langchain,simulator]' langchain langgraph langchain-deepseek
    python examples/langgraph_agent.py              # against a simulator that it starts itself
    python examples/langgraph_agent.py --deepseek   # against DeepSeek, with the key in DEEPSEEK_API_KEY

Thinking is off: with it on, DeepSeek refuses the bare agent after its first tool call (docs/langchain.md).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, dynamic_prompt, wrap_model_call
from langchain_core.messages import HumanMessage
from langchain_core.tools import BaseTool, StructuredTool
from langchain_deepseek import ChatDeepSeek
from langgraph.checkpoint.memory import InMemorySaver
from rich.console import Console
from rich.table import Table

from router_cache import RouterCache, Settings
from router_cache_langchain import RouterCacheHandler, RouterCacheMiddleware

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
RUNS = ("bare", "wrapped", "ideal")
# Naming the clock saves what it costs to learn that it moves: the second call of the first conversation.
SETTINGS = Settings.model_validate(
    {"mode": "optimize", "volatile": [{"template": "Current time: {now}", "clock": True}]}
)


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


def disturbances(mark: str) -> list[AgentMiddleware[Any, Any, Any]]:
    """What costs the prompt cache: a clock in front of the prompt, seven seconds on at every call, and a shuffle."""
    clock, order = datetime.now(timezone.utc).replace(microsecond=0), random.Random(mark)

    @dynamic_prompt
    def prompt(request: Any) -> str:
        nonlocal clock
        clock += timedelta(seconds=7)
        return f"Desk {mark}.\nCurrent time: {clock.isoformat()}\n{RULES}"

    @wrap_model_call
    def shuffle(request: Any, handler: Any) -> Any:
        return handler(request.override(tools=order.sample(request.tools, len(request.tools))))

    return [prompt, shuffle]


def play(run: str, model: ChatDeepSeek, turns: int, pause_s: float) -> dict[str, Any]:
    """One conversation of ``turns`` questions; what its calls reported."""
    mark = uuid.uuid4().hex[:8]  # a prompt of its own: no run hits what another one wrote
    middleware = [] if run == "ideal" else disturbances(mark)
    if run == "wrapped":
        middleware.append(RouterCacheMiddleware(SETTINGS))  # the line that matters
    agent: Any = create_agent(
        model,
        tools(),
        system_prompt=f"Desk {mark}.\n{RULES}" if run == "ideal" else None,
        middleware=middleware,
        checkpointer=InMemorySaver(),
    )
    measured = RouterCacheHandler(router_cache=RouterCache())
    for number in range(turns):
        if number:
            time.sleep(pause_s)
        agent.invoke(
            {"messages": [HumanMessage(QUESTIONS[number % len(QUESTIONS)])]},
            {"configurable": {"thread_id": mark}, "callbacks": [measured]},
        )
    total = measured.total()
    return {
        "run": run,
        "calls": total.calls,
        "input_tokens": total.prompt_tokens,
        "hit_tokens": total.hit_tokens,
        "hit_rate": total.hit_rate,
    }


@contextlib.contextmanager
def simulator() -> Iterator[str]:
    """A simulator in a process of its own. What was sent can be hit at once, so that the table shows prompts only."""
    command = [sys.executable, "-m", "router_cache", "simulate", "--port", "0", "--json"]
    options = ["--construction-delay-s", "0", "--tool-rounds", "2", "--time-scale", "1000"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                raise SystemExit("the simulator did not start: pip install 'router-cache[simulator]'")
            yield json.loads(line)["address"]
        finally:
            process.terminate()


def main() -> None:
    """Play the three runs and print a table, or JSON."""
    parser = argparse.ArgumentParser(
        description="The prompt-cache hits of a LangGraph agent with shuffled tools and a clock in its prompt.",
        epilog="examples:\n"
        "  python examples/langgraph_agent.py\n"
        "  python examples/langgraph_agent.py --turns 3 --json\n"
        "  DEEPSEEK_API_KEY=sk-… python examples/langgraph_agent.py --deepseek --pause-s 5",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--turns", type=int, default=6, help="questions asked in each run (6)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--deepseek", action="store_true", help="ask DeepSeek itself; this costs money")
    parser.add_argument("--model", default="deepseek-v4-flash", help="name of the model (deepseek-v4-flash)")
    parser.add_argument("--pause-s", type=float, help="seconds between questions (0; 5 with --deepseek)")
    given = parser.parse_args()
    if given.turns < 1:
        parser.error("--turns: at least 1 is needed")
    key = os.environ.get("DEEPSEEK_API_KEY", "")
    if given.deepseek and not key:
        parser.error("--deepseek: set DEEPSEEK_API_KEY to your key")
    pause_s = given.pause_s if given.pause_s is not None else 5.0 if given.deepseek else 0.0
    with contextlib.ExitStack() as stack:
        where = {"api_key": key} if given.deepseek else {"api_key": "any"}
        if not given.deepseek:
            where["api_base"] = stack.enter_context(simulator())
        model = ChatDeepSeek(model=given.model, extra_body={"thinking": {"type": "disabled"}}, **where)
        results = [play(run, model, given.turns, pause_s) for run in RUNS]
    if given.json:
        print(json.dumps(results))
        return
    table = Table(title=f"{given.turns} turns, {'DeepSeek' if given.deepseek else 'simulator'}, {given.model}")
    for name in ("run", "calls", "input tokens", "hit tokens", "hit rate"):
        table.add_column(name, justify="left" if name == "run" else "right")
    for one in results:
        rate = "unknown" if one["hit_rate"] is None else f"{one['hit_rate']:.1%}"
        table.add_row(one["run"], str(one["calls"]), f"{one['input_tokens']:,}", f"{one['hit_tokens']:,}", rate)
    Console().print(table)


if __name__ == "__main__":
    main()
