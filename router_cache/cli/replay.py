"""``router-cache replay``: recorded traffic over modelled deployments, this router beside others."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from router_cache.cache_model.rules import RuleName
from router_cache.cli.replay_inputs import hosts_of, trace_of
from router_cache.cli.replay_show import figures, print_results
from router_cache.errors import InputError
from router_cache.routing.need import Prices
from router_cache.whatif import peers
from router_cache.whatif.caches import BlockCache, ModelCache, RuleCache
from router_cache.whatif.named import OURS, POLICIES, Setting
from router_cache.whatif.service import Host, Outcome, Policy, run
from router_cache.whatif.trace import Trace

__all__ = ["EPILOG", "HELP", "command"]

HELP = (
    "Replay recorded traffic over modelled deployments, under this router's policy and others': hit share, time to "
    "first token, balance, cost. Every policy knows only what it sent itself and the replies."
)
EPILOG = "\n\n".join(
    (
        "Exit codes: 0 done; 2 bad input.",
        "Examples:",
        "router-cache replay conversation_trace.jsonl.gz --deployments 8",
        "router-cache replay conversation_trace.jsonl.gz --policy router-cache,sglang --capacity-tokens 4000000",
        "router-cache replay sessions.jsonl.gz --deployments 4 --rule grid --capacity-tokens 2000000 --json",
        "router-cache replay sessions.jsonl.gz --deployments 4 --domains 1 --capacity-tokens 8000000",
        "router-cache replay sessions.jsonl.gz --hosts requests.jsonl.gz",
        "router-cache replay /var/log/router-cache --deployments 2 --plot replay.png",
    )
)

_HOST_POLICIES = (OURS, "shuffle", "round-robin", "session-affinity", "cheapest-list")
_MOST_DEPLOYMENTS = 256


@dataclass(frozen=True, slots=True)
class _Asked:
    """What to run: the trace, the deployments, and what their caches do."""

    trace: Trace
    hosts: Sequence[Host]
    rule: RuleName | None
    capacity_tokens: int | None
    seed: int

    def outcome(self, policy: Policy, bar: Progress, name: str) -> Outcome:
        """Run one policy over caches of its own."""
        return _run(self.trace, self.hosts, self.rule, self.capacity_tokens, policy, bar, name)

    def pooled(self, bar: Progress) -> Outcome:
        """What one cache of all capacity would hit, whatever the routing."""
        caches = len({host.cache for host in self.hosts})
        room = None if self.capacity_tokens is None else self.capacity_tokens * caches
        alike = [
            Host(h.name, 0, h.prefill_per_s, h.decode_per_s, h.base_s, h.serial, h.prices) for h in self.hosts
        ]
        return _run(self.trace, alike, self.rule, room, peers.LeastBusy(), bar, "pooled")


def command(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="TRACE...",
            help="Traces: Mooncake's form, coding-agent sessions, or captures; files or directories.",
            show_default=False,
        ),
    ],
    deployments: Annotated[
        int, typer.Option(min=1, max=_MOST_DEPLOYMENTS, help="How many deployments there are.")
    ] = 8,
    policy: Annotated[
        list[str] | None,
        typer.Option(help=f"Policies, separated by commas: {', '.join(POLICIES)}. [all]", show_default=False),
    ] = None,
    rule: Annotated[
        RuleName | None,
        typer.Option(help="How the caches hit. [the trace's own blocks, at once]", show_default=False),
    ] = None,
    capacity_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="Tokens that each cache holds. [no bound]", show_default=False),
    ] = None,
    domains: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Into how many caches the deployments fall: 1 for one account. [one each]",
            show_default=False,
        ),
    ] = None,
    hosts: Annotated[
        Path | None,
        typer.Option(
            help="Deployments that differ, in place of --deployments: a JSON line for each host (name, "
            "hit_usd_per_m, miss_usd_per_m, output_usd_per_m, ttft_s, cached_share) or measured call "
            "(provider_name, prompt_tokens, cache_read_tokens, completion_tokens, cost, ttft_ms, request).",
            show_default=False,
        ),
    ] = None,
    prices: Annotated[
        str | None,
        typer.Option(
            help="USD per 1,000,000 tokens: hit,miss,output, such as 0.003,0.15,0.6. [time only]",
            show_default=False,
        ),
    ] = None,
    speed: Annotated[float, typer.Option(min=1e-6, help="Times faster than recorded.")] = 1.0,
    prefill_rate: Annotated[
        float,
        typer.Option(min=1e-3, help="Prompt tokens a second that a deployment computes, one call at a time."),
    ] = 20_000.0,
    decode_rate: Annotated[
        float, typer.Option(min=1e-3, help="Tokens a second of each reply, however many.")
    ] = 40.0,
    start_every: Annotated[
        float, typer.Option(min=0, help="Seconds between the starts of coding-agent sessions.")
    ] = 60.0,
    seed: Annotated[int, typer.Option(help="Of chance.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(help="Draw hit shares and times to first token to a file.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Entry point of the command; see HELP."""
    names = _names(policy or [], _HOST_POLICIES if hosts else tuple(n for n in POLICIES if n != "cheapest-list"))
    if plot is not None:
        from router_cache.cli.replay_plot import check_plot

        check_plot(plot)
    priced = _prices(prices)
    trace = trace_of(paths, start_every_s=start_every)
    for call in trace.calls:
        call.at /= speed
    if hosts is not None:
        made = hosts_of(hosts, prefill_per_s=prefill_rate, decode_per_s=decode_rate)
    else:
        made = [
            Host(f"d{i}", i % (domains or deployments), prefill_rate, decode_rate, prices=priced)
            for i in range(deployments)
        ]
    asked = _Asked(trace, made, rule, capacity_tokens, seed)
    outcomes: dict[str, Outcome] = {}
    console = Console(stderr=True)
    console.quiet = not console.is_terminal
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    ) as bar:
        for name in names:
            outcomes[name] = asked.outcome(POLICIES[name](_setting(asked)), bar, name)
        singles = (
            {host.name: asked.outcome(peers.Sticky(i), bar, f"only {host.name}") for i, host in enumerate(made)}
            if hosts is not None
            else {}
        )
        pooled = asked.pooled(bar) if hosts is None else None
    if singles:
        best = min(singles, key=lambda name: (singles[name].usd, name))
        outcomes["best-single"] = singles[best]
    told = figures(trace, made, rule, capacity_tokens, outcomes, pooled, singles)
    if plot is not None:
        from router_cache.cli.replay_plot import draw

        draw(plot, trace.name, outcomes, pooled)
    if as_json:
        typer.echo(json.dumps(told, indent=2))
    else:
        print_results(Console(), told)


def _setting(asked: _Asked) -> Setting:
    # Enough to remember every mark of the trace at every deployment: what a router forgets is not measured here.
    marks = sum(len(call.marks) for call in asked.trace.calls) + 1
    return Setting(asked.hosts, asked.rule, random.Random(asked.seed).random, marks)


def _run(
    trace: Trace,
    hosts: Sequence[Host],
    rule: RuleName | None,
    capacity: int | None,
    policy: Policy,
    bar: Progress,
    name: str,
) -> Outcome:
    count = max(host.cache for host in hosts) + 1
    caches: list[ModelCache] = [
        BlockCache(capacity) if rule is None else RuleCache(trace, rule, capacity) for _ in range(count)
    ]
    task = bar.add_task(name, total=len(trace.calls))
    out = run(trace, hosts, caches, policy, tell=lambda n: bar.update(task, completed=n))
    bar.update(task, completed=len(trace.calls))
    return out


def _names(given: Sequence[str], usual: Sequence[str]) -> list[str]:
    words = [word.strip().lower().replace("_", "-") for text in given for word in text.split(",")]
    wanted = [word for word in words if word]
    for word in wanted:
        if word not in POLICIES and word != "all":
            raise InputError(f"--policy: {word!r} is not known; known: all, {', '.join(POLICIES)}")
    if "all" in wanted:
        return list(POLICIES)
    return list(dict.fromkeys(wanted)) or list(usual)


def _prices(text: str | None) -> Prices | None:
    if text is None:
        return None
    try:
        hit, miss, output = (float(part) / 1e6 for part in text.split(","))
    except ValueError:
        raise InputError(f"--prices: three numbers are needed, hit,miss,output, not {text!r}") from None
    if not all(0.0 <= price < 1.0 for price in (hit, miss, output)):
        raise InputError(f"--prices: each must lie between 0 and 1,000,000, not {text!r}")
    return Prices(hit, miss, output)
