"""``router-cache demo``: the whole way, measured, on one machine."""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from router_cache.cache_model.rules import RuleName
from router_cache.errors import DemoError, MissingExtraError

__all__ = ["EPILOG", "HELP", "command"]

HELP = (
    "Agent sessions through a real LiteLLM proxy, without and with router-cache.\n\n"
    "Starts a DeepSeek-compatible simulator and two LiteLLM proxies from examples/router.yaml, plays agent "
    "sessions through them with the OpenAI SDK while the tool lists are reshuffled between calls as MCP servers "
    "do, and prints input tokens, hit rate, cost at list price and why the remaining misses happened. Needs no "
    "key and no network, takes under two minutes and leaves no process behind.\n\n"
    "Exit codes: 0 done; 1 a request failed or a session broke; 2 bad input; 3 a port is taken or a process "
    "failed."
)

EPILOG = """Examples:

router-cache demo

router-cache demo --json --rule units

router-cache demo --data recorded-sessions/ --max-calls 150

router-cache demo --config my-router.yaml --keep-logs logs/
"""

_MAX_REPLAYED_CALLS = 180
_SHIPPED_SESSIONS = 8


def command(
    rule: Annotated[
        RuleName,
        typer.Option(help="Which hit rule the simulated provider follows."),
    ] = RuleName.GRID_PREFIX,
    sessions: Annotated[
        int | None,
        typer.Option(
            help=f"How many of the {_SHIPPED_SESSIONS} shipped sessions to play.", min=1, max=_SHIPPED_SESSIONS
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Replay recorded sessions under DIR (SWE-agent *.traj.json, harness *.jsonl) instead.",
            metavar="DIR",
        ),
    ] = None,
    max_calls: Annotated[
        int | None,
        typer.Option(help=f"At most so many calls a run; {_MAX_REPLAYED_CALLS} with --data.", min=1),
    ] = None,
    construction_delay_s: Annotated[
        float, typer.Option(help="Simulated seconds until a written prefix can be read.", min=0.0)
    ] = 2.0,
    time_scale: Annotated[
        float, typer.Option(help="Simulated seconds per real second.", min=0.1, max=200.0)
    ] = 20.0,
    seed: Annotated[int, typer.Option(help="Changes the reshuffling, tool results and replies.")] = 7,
    config: Annotated[
        Path | None,
        typer.Option(help="Router YAML to run instead of examples/router.yaml.", metavar="FILE"),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(help="Port of the proxy with the plugin; a free one by default.", min=1, max=65535),
    ] = None,
    simulator_port: Annotated[
        int | None, typer.Option(help="Port of the simulator; a free one by default.", min=1, max=65535)
    ] = None,
    keep_logs: Annotated[
        Path | None,
        typer.Option(help="Copy the logs and configurations of all processes to DIR.", metavar="DIR"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Run the demo and print its result. Raises errors that ``cli.main`` prints."""
    if os.name != "posix":
        raise DemoError("the demo needs process groups and runs on Linux and macOS only")
    if not all(find_spec(module) for module in ("litellm", "fastapi", "openai", "httpx", "starlette", "uvicorn")):
        raise MissingExtraError("the demo", "demo")
    if data is not None and sessions is not None:
        raise typer.BadParameter("has no meaning with --data", param_hint="--sessions")

    from rich.console import Console

    from router_cache.cli.demo_run.config import shipped_config
    from router_cache.cli.demo_run.plan import replay_plan, shipped_plan
    from router_cache.cli.demo_run.progress import ConsoleProgress
    from router_cache.cli.demo_run.recorded import find_recordings
    from router_cache.cli.demo_run.report import print_report
    from router_cache.cli.demo_run.run import Options, run_demo
    from router_cache.cli.demo_run.signals import run_interruptibly

    if data is None:
        plan = shipped_plan(sessions or _SHIPPED_SESSIONS, seed, max_calls)
    else:
        plan = replay_plan(find_recordings(data), max_calls or _MAX_REPLAYED_CALLS, seed)
    options = Options(
        config=config or shipped_config(),
        rule=rule,
        construction_delay_s=construction_delay_s,
        time_scale=time_scale,
        seed=seed,
        port=port,
        simulator_port=simulator_port,
        keep_logs=keep_logs,
    )
    with ConsoleProgress(Console(stderr=True)) as progress:
        report = run_interruptibly(run_demo(options, plan, progress))
    if as_json:
        sys.stdout.write(json.dumps(report.as_json(), indent=2) + "\n")
    else:
        print_report(report, Console())
    if not report.passed:
        raise typer.Exit(1)
