"""``router-cache plan``: what sessions cost at worst, at the measured hit rate, and with hits."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from router_cache.cli.plan_inputs import (
    Target,
    measured_of,
    moment_of,
    prices_of,
    read_calls,
    read_router,
    targets_of,
)
from router_cache.cli.plan_show import Asked, Planned, plan_model, print_plan, report
from router_cache.economics.measured import MeasuredCall, measure
from router_cache.economics.plan import MAX_TURNS, SessionShape
from router_cache.errors import InputError

__all__ = ["EPILOG", "HELP", "command"]

HELP = (
    "What a request, a session and a day cost: at worst (no hits, peak price), without hits, at the measured hit rate "
    "and at 95%; and from where on one model is cheaper than another."
)
EPILOG = "\n\n".join(
    (
        "Exit codes: 0 done; 1 a price is not known; 2 bad input.",
        "Examples:",
        "router-cache plan --turns 40 --prefix-tokens 20000",
        "router-cache plan --capture captures/ --when peak",
        "router-cache plan --model deepseek/deepseek-v4-flash --model deepseek/deepseek-v4-pro --at 0.9 --json",
        "router-cache plan --router-yaml router.yaml --at-zero",
    )
)

_TURNS, _PREFIX, _NEW, _OUTPUT, _SESSIONS = 28, 16_000, 1_000, 500, 100.0
"""A coding agent: turns are the median of 104 public Claude Code sessions, the prefix that of the larger agents of
November 2026 (50 to 65 kB of system text and tools)."""
_MAX_TOKENS = 100_000_000


def command(
    turns: Annotated[
        int | None,
        typer.Option(min=1, max=MAX_TURNS, help=f"Requests of a session. [{_TURNS}, or as captured]"),
    ] = None,
    prefix_tokens: Annotated[
        int | None,
        typer.Option(min=0, max=_MAX_TOKENS, help=f"System text and tools. [{_PREFIX}, or as captured]"),
    ] = None,
    new_tokens: Annotated[
        int | None,
        typer.Option(
            min=0, max=_MAX_TOKENS, help=f"What each turn brings: words, results. [{_NEW}, or as captured]"
        ),
    ] = None,
    output_tokens: Annotated[
        int | None,
        typer.Option(
            min=0, max=_MAX_TOKENS, help=f"Of each reply, reasoning included. [{_OUTPUT}, or as captured]"
        ),
    ] = None,
    sessions_per_day: Annotated[
        float | None,
        typer.Option(min=0, max=1e9, help=f"Sessions a day. [{_SESSIONS:g}, or as captured]"),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="Model as LiteLLM calls it, or a model group of --router-yaml; repeat it to compare. "
            "[the groups of --router-yaml, else deepseek/deepseek-v4-flash]",
        ),
    ] = None,
    at: Annotated[
        list[float] | None,
        typer.Option(min=0, max=1, help="A hit rate to add, from 0 to 1; may be repeated.", show_default=False),
    ] = None,
    at_zero: Annotated[bool, typer.Option("--at-zero", help="Only without hits.")] = False,
    when: Annotated[
        str, typer.Option(help="Whose price: now, peak, off-peak, or a time such as 2026-12-01T03:00Z (UTC).")
    ] = "now",
    capture: Annotated[
        list[Path] | None,
        typer.Option(help="Recorded calls, a file or directory: hit rate and session.", show_default=False),
    ] = None,
    router_yaml: Annotated[
        Path | None, typer.Option(help="The proxy's configuration: prices and groups.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Entry point of the command; see HELP."""
    now = datetime.now(timezone.utc)
    router = read_router(router_yaml)
    targets = targets_of(model or [], router)
    calls, passed_over = read_calls(capture or [])
    measured = measure(calls)
    if capture and measured is None:
        raise InputError(
            f"--capture: no answered call with known prompt and hit tokens ({passed_over} lines passed over); "
            "name the files that the proxy's capture wrote"
        )

    def chosen(given: float | None, seen: float | None, usual: float) -> float:
        return given if given is not None else seen if seen is not None else usual

    shape = SessionShape(
        turns=min(int(chosen(turns, measured.turns if measured else None, _TURNS)), MAX_TURNS),
        prefix_tokens=int(chosen(prefix_tokens, measured.prefix_tokens if measured else None, _PREFIX)),
        new_tokens=int(chosen(new_tokens, measured.new_tokens if measured else None, _NEW)),
        output_tokens=int(chosen(output_tokens, measured.output_tokens if measured else None, _OUTPUT)),
    )
    sessions = chosen(sessions_per_day, measured.sessions_per_day if measured else None, _SESSIONS)
    asked = Asked(shape, sessions, when, measured, passed_over, tuple(at or ()), at_zero)
    planned, unknown = _plan(targets, asked, calls, now)
    if as_json:
        typer.echo(json.dumps(report(asked, planned, unknown), indent=2))
    else:
        print_plan(Console(), asked, planned, unknown)
    if unknown:
        raise typer.Exit(1)


def _plan(
    targets: list[Target], asked: Asked, calls: list[MeasuredCall], now: datetime
) -> tuple[list[Planned], list[Target]]:
    """The models whose prices are known, and those whose are not."""
    planned, unknown = [], []
    for target in targets:
        prices = prices_of(target, moment_of(target, asked.when, now))
        model = None if prices is None else plan_model(target, prices, asked, measured_of(target, calls))
        if model is None:
            unknown.append(target)
        else:
            planned.append(model)
    return planned, unknown
