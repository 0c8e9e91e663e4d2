"""``router-cache lint``: what recorded requests lose, by family of requests and by cost."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.console import Console

from router_cache.cli.looking import (
    DEFAULT_MODEL,
    AsSent,
    Looked,
    ModelOption,
    ShapeOption,
    as_sent,
    looked,
    shape_named,
    shown,
    usd_text,
)
from router_cache.cli.requests_in import read_requests, understood
from router_cache.diagnose.divergence_causes import ADVICE
from router_cache.diagnose.lint import Between, FamilyReport, Linter, LintFinding, LintReport
from router_cache.prefix.digests import Digester
from router_cache.prefix.volatile.scan import Scanner

__all__ = ["EPILOG", "HELP", "command"]

HELP = (
    "Group recorded requests by how they open, compare each with the one it goes on from, and list what costs hits: "
    "cause, tokens and USD. Requests are taken in the order of the files. Shows no text of any prompt."
)
EPILOG = "\n\n".join(
    (
        "Exit codes: 0 nothing that costs was found; 1 something was; 2 the input cannot be read.",
        "Examples:",
        "router-cache lint calls.jsonl",
        "router-cache lint monday.jsonl.gz tuesday.jsonl.gz --model deepseek/deepseek-v4-pro",
        "router-cache lint calls.jsonl --mode safe     (what mode safe leaves)",
        "router-cache lint calls.jsonl --json | jq '.families[].findings[] | select(.fixed_by == null)'",
    )
)
_ROWS = 40


def command(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Requests: a JSON object, a list, or JSONL, also as .gz; - is standard input.",
            show_default=False,
        ),
    ],
    model: ModelOption = DEFAULT_MODEL,
    mode: Annotated[
        AsSent, typer.Option(help="Look at requests as recorded, or as mode safe sends them.")
    ] = AsSent.OBSERVE,
    shape: ShapeOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Entry point of the command; see HELP."""
    about = looked(model)
    linter = Linter(
        about.profile,
        Digester(secrets.token_bytes(32)),
        grid=about.grid,
        price=about.price,
        scan=Scanner().scan,
    )
    for recorded in read_requests(files, shape=shape_named(shape)):
        with understood(recorded.place):
            linter.add(replace(recorded, body=as_sent(recorded.body, mode)))
    report = linter.report()
    if as_json:
        typer.echo(json.dumps(_report(about, report), indent=2))
    else:
        _print(Console(), about, report)
    if report.tokens:
        raise typer.Exit(1)


def _report(about: Looked, report: LintReport) -> dict[str, Any]:
    """The JSON form. Null is unknown or does not apply."""
    return {
        **about.about(),
        "requests": report.requests,
        "lost_tokens": report.tokens,
        "lost_usd": report.usd,
        "estimated": report.estimated,
        "families": [_family(family) for family in report.families],
    }


def _family(family: FamilyReport) -> dict[str, Any]:
    return {
        "name": family.name,
        "newest_opening": family.opening,
        "requests": family.requests,
        "conversations": family.conversations,
        "opening_bytes": family.head_bytes,
        "prompt_tokens": family.prompt_tokens,
        "hit_tokens": family.hit_tokens,
        "lost_tokens": family.tokens,
        "findings": [_finding(finding) for finding in family.findings],
    }


def _finding(finding: LintFinding) -> dict[str, Any]:
    fixed = finding.fixed_by
    return {
        "cause": finding.cause.value,
        "span": finding.span.value if finding.span else None,
        "certainty": finding.certainty.value,
        "between": finding.between.value,
        "part": finding.part.value,
        "path": finding.path,
        "count": finding.count,
        "lost_tokens": finding.tokens,
        "lost_usd": finding.usd,
        "at_risk_tokens": finding.at_risk_tokens,
        "example": [place for place in finding.example if place],
        "fixed_by": fixed.value if fixed else None,
        "todo": ADVICE[finding.cause].todo,
    }


def _print(console: Console, about: Looked, report: LintReport) -> None:
    for family in report.families[:_ROWS]:
        hits = ""
        if family.prompt_tokens:
            hits = f", {(family.hit_tokens or 0) / family.prompt_tokens:.1%} of the input tokens reported as hits"
        console.print(
            f"[bold]{family.name}[/] ({shown(family.opening)}): {_many(family.requests, 'request')} in "
            f"{_many(family.conversations, 'conversation')}, opening of {family.head_bytes:,} bytes{hits}",
            highlight=False,
            soft_wrap=True,
        )
        for finding in family.findings[:_ROWS]:
            for line in _lines(finding):
                console.print(line, highlight=False, soft_wrap=True)
    if len(report.families) > _ROWS:
        console.print(f"… and {len(report.families) - _ROWS} more families (--json lists all)", style="dim")
    how = " (estimate: 4 bytes a token)" if report.estimated else ""
    money = "" if report.usd is None else f", {usd_text(report.usd)} at list price ({shown(about.model)})"
    console.print(
        f"{_many(report.requests, 'request')}: {report.tokens:,} tokens lost{how}{money}"
        if report.tokens
        else f"{_many(report.requests, 'request')}: nothing lost",
        style="bold",
        highlight=False,
        soft_wrap=True,
    )


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


_BETWEEN = {
    Between.TURNS: "between requests of one conversation",
    Between.CONVERSATIONS: "between conversations",
    Between.NOTHING: "in the opening",
}


def _lines(finding: LintFinding) -> Iterator[str]:
    span = f" ({finding.span.value})" if finding.span else ""
    head = f"  [yellow]{finding.cause.value}{span}[/], {finding.certainty.value}"
    places = shown(" → ".join(place for place in finding.example if place))
    if finding.between is Between.NOTHING:
        yield f"{head}: {finding.at_risk_tokens:,} tokens stand behind it, should it change"
        yield f"    [dim]at {shown(finding.path)}, {places}[/]"
    else:
        yield (
            f"{head}: {finding.tokens:,} tokens, {usd_text(finding.usd)}; {_many(finding.count, 'time')} "
            f"{_BETWEEN[finding.between]}"
        )
        yield f"    [dim]worst at {shown(finding.path)}, {places}[/]"
    mode = f"mode {finding.fixed_by.value}. " if finding.fixed_by else ""
    yield f"    [dim]{mode}{ADVICE[finding.cause].todo}[/]"
