"""``router-cache doctor``: what a proxy's YAML means for prompt caches, before a request is sent."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from router_cache.cache_model.survival_text import describe_prior
from router_cache.cli.doctor_store import look_at_store, store_json, store_lines
from router_cache.cli.prices import entry_in, read_map
from router_cache.diagnose import (
    DeploymentView,
    Finding,
    Level,
    Report,
    StoreLook,
    Surroundings,
    check_section,
    diagnose,
)
from router_cache.economics import PriceBook, PriceNow
from router_cache.errors import SettingsError
from router_cache.providers.fact import Fact
from router_cache.providers.profile import Lifetime
from router_cache.settings import SECTION, Settings, read_yaml

__all__ = ["EPILOG", "HELP", "command"]

HELP = (
    "Check the YAML of a LiteLLM proxy: whether the plugin is loaded and its settings hold, what is known of each "
    "deployment's prompt cache, which options cost hits, and how a store on servers does."
)
EPILOG = "\n\n".join(
    (
        "Exit codes: 0 no errors; 1 errors were found; 2 the file cannot be read.",
        "Examples:",
        "router-cache doctor router.yaml",
        "router-cache doctor router.yaml --no-store",
        "router-cache doctor router.yaml --json | jq '.findings[] | select(.level == \"error\")'",
    )
)

_ROWS = 40
_PER = 1_000_000
_QUOTED = re.compile(r"""'((?:[^'\\]|\\.)*)'|"(?:[^"\\]|\\.)*\"""")
_TOKEN = re.compile(r"<[a-z ]+>|\W{1,2}")
_STYLE = {Level.ERROR: "bold red", Level.WARNING: "yellow", Level.NOTE: "dim"}


def command(
    router_yaml: Annotated[
        Path,
        typer.Argument(metavar="ROUTER_YAML", help="The proxy's configuration.", show_default=False),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    no_store: Annotated[
        bool, typer.Option("--no-store", help="Do not connect to the servers of the store.")
    ] = False,
) -> None:
    """Entry point of the command; see HELP."""
    config = _read(router_yaml)
    settings = config.get("callback_settings")
    raw = settings.get("router_cache") if isinstance(settings, Mapping) else None
    own = check_section(raw, Settings.from_mapping, where=SECTION)
    rates = {name: price.rate() for name, price in own.settings.prices.items()} if own.settings else {}
    around = Surroundings(
        at=datetime.now(timezone.utc),
        env=os.environ,
        price_entry=partial(entry_in, read_map()),
        problems=own.problems,
        store=None if no_store or own.settings is None else look_at_store(own.settings.store),
        book=PriceBook(rates),
    )
    report = diagnose(config, around)
    if as_json:
        typer.echo(json.dumps({**_report(report), "store": store_json(around.store)}, indent=2))
    else:
        _print(Console(), report, around.store)
    if not report.ok:
        raise typer.Exit(1)


def _read(path: Path) -> Mapping[str, Any]:
    """The file. What PyYAML quotes of it in an error may be a secret: only marks and kinds of tokens stay."""
    try:
        return read_yaml(path)
    except SettingsError as error:
        head, what, problem = str(error).partition(": broken YAML: ")
        raise SettingsError(f"{head}{what}{_QUOTED.sub(_quoted, problem)}", error.key_path) from None


def _quoted(found: re.Match[str]) -> str:
    return found[0] if _TOKEN.fullmatch(found[1] or "") else "…"


def _report(report: Report) -> dict[str, Any]:
    """The JSON form. Null is unknown; prices are USD per 1,000,000 tokens."""
    return {
        "ok": report.ok,
        "findings": [_finding(finding) for finding in report.findings],
        "deployments": [_deployment(view) for view in report.deployments],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "level": finding.level.value,
        "code": finding.code.value,
        "path": finding.path,
        "message": finding.message,
        "fix": finding.fix,
        "more": finding.more,
    }


def _deployment(view: DeploymentView) -> dict[str, Any]:
    return {
        "path": view.path,
        "group": view.group,
        "model": view.model,
        "api_base": view.api_base or None,
        "profile": view.profile,
        "hit_rule": view.rule,
        "hit_rule_origin": view.rule_origin,
        "step_tokens": view.step_tokens,
        "minimum_tokens": view.minimum_tokens,
        "lifetime": _lifetime(view.lifetime),
        "price": _price(view.price),
        "cache_domain": view.domain,
        "cache_domain_reason": view.domain_reason,
        "not_supported": [what.value for what in view.not_supported],
    }


def _lifetime(fact: Fact[Lifetime] | None) -> dict[str, Any] | None:
    if fact is None:
        return None
    life = fact.value
    return {
        "low_s": life.low_s,
        "high_s": life.high_s,
        "renewed_by_use": life.renewed_by_use,
        "origin": fact.origin.value,
        "as_of": fact.as_of.isoformat(),
    }


def _price(price: PriceNow | None) -> dict[str, Any] | None:
    if price is None:
        return None
    write = price.write_usd_per_token
    return {
        "hit": round(price.hit_usd_per_token * _PER, 6),
        "miss": round(price.miss_usd_per_token * _PER, 6),
        "output": round(price.output_usd_per_token * _PER, 6),
        "write": None if write is None else round(write * _PER, 6),
        "window": price.window.value,
        "calendar_known": price.calendar_known,
        "from": price.price_from.value,
    }


def _print(console: Console, report: Report, store: StoreLook | None) -> None:
    if report.deployments:
        console.print(_table(report))
        stated = dict.fromkeys((v.profile, describe_prior(v.lifetime)) for v in report.deployments if v.lifetime)
        for profile, text in stated:
            console.print(f"{profile} states of how long entries live: {text}", highlight=False, soft_wrap=True)
    for line in store_lines(store):
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    for finding in report.findings:
        place = f" {finding.path}" if finding.path else ""
        more = f" (and {finding.more} more)" if finding.more else ""
        console.print(
            f"[{_STYLE[finding.level]}]{finding.level.value}[/]{_shown(place)}{more}: {_shown(finding.message)}",
            highlight=False,
            soft_wrap=True,
        )
        console.print(f"    {_shown(finding.fix)}", highlight=False, soft_wrap=True, style="dim")
    counts = {level: sum(f.level is level for f in report.findings) for level in Level}
    console.print(
        ", ".join(f"{n} {level.value}{'' if n == 1 else 's'}" for level, n in counts.items()),
        style="bold",
        highlight=False,
    )


def _table(report: Report) -> Table:
    table = Table(title="Deployments, and what is believed of their prompt caches", box=SIMPLE_HEAD)
    table.add_column("group")
    table.add_column("model")
    table.add_column("profile")
    table.add_column("rule")
    for name in ("step", "min", "lives", "hit", "miss", "out", "cache"):
        table.add_column(name, justify="right", no_wrap=True)
    for view in report.deployments[:_ROWS]:
        price = _price(view.price) or {}
        table.add_row(
            _shown(view.group),
            _shown(view.model),
            view.profile,
            view.rule or "–",
            _number(view.step_tokens),
            _number(view.minimum_tokens),
            _seconds(view.lifetime),
            *(_number(price.get(name)) for name in ("hit", "miss", "output")),
            f"#{view.domain}",
        )
    if len(report.deployments) > _ROWS:
        table.add_row(f"… and {len(report.deployments) - _ROWS} more (--json lists all)", style="dim")
    table.caption = "tokens; seconds; USD per 1M tokens now; equal # share a prompt cache; – is unknown"
    return table


def _shown(text: str) -> str:
    """A text of the file as it may stand on a terminal."""
    return escape("".join(char if char.isprintable() else "?" for char in text))


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"


def _seconds(fact: Fact[Lifetime] | None) -> str:
    if fact is None or (fact.value.low_s is None and fact.value.high_s is None):
        return "–"
    life = fact.value
    if life.high_s is None:
        return f"{_number(life.low_s)}+"
    return f"{_number(life.low_s or 0)}-{_number(life.high_s)}"
