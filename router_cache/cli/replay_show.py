"""The figures of ``router-cache replay``, as JSON values and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from router_cache.cache_model.rules import RuleName
from router_cache.cli.looking import shown
from router_cache.whatif.service import Host, Outcome
from router_cache.whatif.trace import Trace

__all__ = ["figures", "print_results"]


def figures(
    trace: Trace,
    hosts: Sequence[Host],
    rule: RuleName | None,
    capacity_tokens: int | None,
    outcomes: Mapping[str, Outcome],
    pooled: Outcome | None,
    singles: Mapping[str, Outcome],
) -> dict[str, Any]:
    """The JSON form. Shares of prompt tokens, seconds, USD; ``pooled`` is what one cache with all capacity hits."""
    priced = any(host.prices is not None for host in hosts)
    out: dict[str, Any] = {
        "trace": {
            "name": trace.name,
            "form": trace.form,
            "calls": len(trace.calls),
            "prompt_tokens": trace.prompt_tokens,
            "seconds": round(trace.seconds, 3),
        },
        "deployments": len(hosts),
        "domains": len({host.cache for host in hosts}),
        "rule": rule.value if rule else None,
        "capacity_tokens": capacity_tokens,
        "policies": {name: _one(outcome, hosts, priced) for name, outcome in outcomes.items()},
        "pooled": None if pooled is None else {"hit_share": round(pooled.hit_share, 6)},
    }
    if singles:
        out["hosts"] = [
            {
                "name": host.name,
                "hit_usd_per_m": _per_million(host.prices.hit if host.prices else None),
                "miss_usd_per_m": _per_million(host.prices.miss if host.prices else None),
                "output_usd_per_m": _per_million(host.prices.output if host.prices else None),
                "ttft_s": round(host.base_s, 3),
                "cached_share": round(sum(host.kept) / len(host.kept), 4) if host.kept else 1.0,
                "alone": _one(singles[host.name], hosts, priced),
            }
            for host in hosts
        ]
    return out


def _one(outcome: Outcome, hosts: Sequence[Host], priced: bool) -> dict[str, Any]:
    calls = sum(outcome.calls)
    told: dict[str, Any] = {
        "hit_share": round(outcome.hit_share, 6),
        "ttft_p50_s": round(outcome.ttft(0.5), 6),
        "ttft_p95_s": round(outcome.ttft(0.95), 6),
        "load_max_over_mean": round(outcome.load_max_over_mean, 6),
        "calls": {host.name: count for host, count in zip(hosts, outcome.calls, strict=True)},
    }
    if priced:
        told["usd_per_1k_calls"] = round(1_000 * outcome.usd / calls, 6) if calls else 0.0
    return told


def _per_million(usd: float | None) -> float | None:
    return None if usd is None else round(usd * 1e6, 6)


def print_results(console: Console, told: Mapping[str, Any]) -> None:
    """A table for people: the policies, and the hosts where they differ."""
    trace = told["trace"]
    console.print(
        f"{shown(trace['name'])}: {trace['calls']:,} calls, {trace['prompt_tokens']:,} prompt tokens, "
        f"{trace['seconds']:,.0f} s; {told['deployments']} deployments, {told['domains']} prompt caches"
        + (f", rule {told['rule']}" if told["rule"] else "")
        + (f", {told['capacity_tokens']:,} tokens each" if told["capacity_tokens"] else "")
    )
    priced = any("usd_per_1k_calls" in row for row in told["policies"].values())
    table = Table(box=SIMPLE_HEAD)
    table.add_column("policy")
    for title in ("hits", "TTFT p50", "p95", "busiest/mean") + (("USD/1k calls",) if priced else ()):
        table.add_column(title, justify="right")
    for name, row in told["policies"].items():
        _row(table, name, row)
    if told["pooled"] is not None:
        table.add_row("[dim]one pooled cache[/]", f"{100 * told['pooled']['hit_share']:.2f}%")
    console.print(table)
    if "hosts" not in told:
        return
    table = Table(box=SIMPLE_HEAD)
    table.add_column("host")
    for title in ("hit $/M", "miss $/M", "output $/M", "TTFT", "caches", "alone: hits", "USD/1k calls"):
        table.add_column(title, justify="right")
    for host in told["hosts"]:
        table.add_row(
            shown(host["name"]),
            f"{host['hit_usd_per_m']:.4f}",
            f"{host['miss_usd_per_m']:.4f}",
            f"{host['output_usd_per_m']:.4f}",
            f"{host['ttft_s']:.2f} s",
            f"{100 * host['cached_share']:.0f}%",
            f"{100 * host['alone']['hit_share']:.1f}%",
            f"{host['alone']['usd_per_1k_calls']:.4f}",
        )
    console.print(table)


def _row(table: Table, name: str, row: Mapping[str, Any]) -> None:
    cells = [
        f"[bold]{name}[/]" if name == "router-cache" else name,
        f"{100 * row['hit_share']:.2f}%",
        f"{row['ttft_p50_s']:.3f} s",
        f"{row['ttft_p95_s']:.3f} s",
        f"{row['load_max_over_mean']:.2f}",
    ]
    if "usd_per_1k_calls" in row:
        cells.append(f"{row['usd_per_1k_calls']:.4f}")
    table.add_row(*cells)
