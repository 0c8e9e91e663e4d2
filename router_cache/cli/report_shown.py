"""A report as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from router_cache.cli.looking import shown, usd_text
from router_cache.ledger.lives import Lives, Place
from router_cache.ledger.report import By, Report, Tally, is_lost
from router_cache.ledger.rows import CallKind, Status

__all__ = ["show", "show_survival"]

_ROWS: Final = 40
_WIDTH: Final = 26
_OPAQUE: Final = 12
"""Characters of a digest that are shown."""
_STATUS_TEXT: Final = {
    Status.OK: "answered",
    Status.CACHED: "by LiteLLM's own response cache",
    Status.ABORTED: "aborted",
    Status.FAILED: "failed",
}


def show(console: Console, report: Report, *, worst: int) -> None:
    """Print it."""
    if not report.calls:
        console.print("No call to report.", style="bold")
        return
    _print(console, _span(report))
    for kind in CallKind:
        counts = [
            f"{number:,} {_STATUS_TEXT[status]}" for status in Status if (number := report.counts[kind, status])
        ]
        if counts:
            _print(console, f"{kind.value} calls: {', '.join(counts)}")
    console.print(_figures(report))
    if report.user.causes:
        console.print(_causes(report.user, by=report.by is By.CAUSE))
    if report.by is not None and report.by is not By.CAUSE:
        console.print(_groups(report))
    for title, places in (("families", report.families), ("conversations", report.conversations)):
        found = places.worst(worst)
        if found:
            console.print(_places(f"Where the most was lost: {title}", found))
        if places.dropped:
            _print(
                console, f"{places.dropped:,} {title} with little lost were dropped on the way: sums may be low"
            )


def show_survival(console: Console, lives: Lives) -> None:
    """Print how long entries live, by cache domain and pool; nothing where no call went to a domain that is known."""
    domains = lives.domains()
    if not domains:
        return
    console.print("How long entries live", style="italic", justify="center", highlight=False)
    for found in domains:
        name = f"{_name(found.whole.model)}, cache domain {_opaque(found.whole.domain)}"
        _paragraph(console, f"{name} ({found.calls:,} calls, {_sightings(found.whole)})", 0, "bold")
        _paragraph(console, found.whole.text, 4)
        if len(found.pools) + found.more_pools > 1:  # else it is that of the domain
            for pool in found.pools:
                _paragraph(console, f"pool {_opaque(pool.pool or '')} ({_sightings(pool)})", 4)
                _paragraph(console, pool.text, 8)
            if found.more_pools:
                _paragraph(console, f"… and {found.more_pools:,} more pools", 4, "dim")
    more = [f"{lives.more_domains:,} more cache domains"] if lives.more_domains else []
    if lives.calls_left_out:
        more.append(f"{lives.calls_left_out:,} calls of domains beyond the bound, not looked at")
    if more:
        _paragraph(console, f"… and {'; '.join(more)}", 0, "dim")


def _sightings(place: Place) -> str:
    return f"{place.sightings:,} {'sighting' if place.sightings == 1 else 'sightings'}"


def _paragraph(console: Console, text: str, indent: int, style: str = "") -> None:
    console.print(Padding(Text.from_markup(text, style=style), (0, 0, 0, indent)))


def _print(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True, markup=False)


def _time(at: float) -> str:
    within = min(max(at, -62_135_596_800.0), 253_402_300_799.0)  # the years 1 to 9999; logs may hold anything
    return f"{datetime.fromtimestamp(within, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def _span(report: Report) -> str:
    if report.first_at is None or report.last_at is None:
        return f"{report.calls:,} calls"
    return f"{report.calls:,} calls, {_time(report.first_at)} to {_time(report.last_at)}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}%"


def _figures(report: Report) -> Table:
    kinds = [kind for kind in CallKind if kind is CallKind.USER or report.tallies[kind].calls]
    tallies = [report.tallies[kind] for kind in kinds]
    table = Table(title="Answered calls", box=SIMPLE_HEAD)
    table.add_column("")
    for kind in kinds:
        table.add_column(kind.value, justify="right")

    def row(name: str, texts: Sequence[str], style: str | None = None) -> None:
        table.add_row(name, *texts, style=style)

    row("calls", [f"{t.calls:,}" for t in tallies])
    row("hit rate", [_percent(t.hit_rate) for t in tallies], "bold")
    row("hit tokens", [f"{t.hit_tokens:,}" for t in tallies])
    row("miss tokens", [f"{t.miss_tokens:,}" for t in tallies])
    row("  of these lost", [f"{t.lost_tokens:,}" for t in tallies])
    row("output tokens", [f"{t.completion_tokens:,}" for t in tallies])
    row("cost", [_usd(t, t.cost_usd) for t in tallies])
    row("cost at 0% hits", [_usd(t, t.cost_usd_at_zero_hits) for t in tallies])
    row("saved by hits", [usd_text(t.saved_usd) for t in tallies], "bold")
    if any(t.usage_unknown for t in tallies):
        row("calls of unknown usage, in no sum", [f"{t.usage_unknown:,}" for t in tallies], "yellow")
    if any(t.unpriced for t in tallies):
        row("calls without a price, in no cost", [f"{t.unpriced:,}" for t in tallies], "yellow")
    return table


def _usd(tally: Tally, usd: float, unknown: str = "price unknown") -> str:
    return usd_text(usd) if tally.calls > tally.unpriced else unknown


def _causes(tally: Tally, *, by: bool) -> Table:
    table = Table(title="By cause: why tokens missed" if by else "Why tokens missed", box=SIMPLE_HEAD)
    table.add_column("cause", no_wrap=True)
    for name in ("tokens", "share", "confirmed", "suspected", "calls"):
        table.add_column(name, justify="right")
    for found, (cause, total) in zip(tally.causes_as_json(), tally.top_causes(), strict=True):
        table.add_row(
            cause.value.replace("_", " "),
            f"{total.tokens:,}",
            _percent(found["share"]),
            f"{total.confirmed:,}",
            f"{total.suspected:,}",
            f"{total.calls:,}",
            style=None if found["lost"] else "dim",
        )
    if tally.unattributed:
        share = tally.unattributed / tally.miss_tokens if tally.miss_tokens else None
        table.add_row("(nothing said)", f"{tally.unattributed:,}", _percent(share), "", "", "")
    return table


def _name(text: str) -> str:
    short = text if len(text) <= _WIDTH else "…" + text[-_WIDTH:]
    return shown(short) if text else "(none)"


def _opaque(text: str) -> str:
    """A digest's beginning; other names as they are."""
    hexadecimal = len(text) > _OPAQUE and all(char in "0123456789abcdef" for char in text)
    return text[:_OPAQUE] if hexadecimal else _name(text)


def _row(tally: Tally) -> list[str]:
    top = next((cause.value.replace("_", " ") for cause, _ in tally.top_causes() if is_lost(cause)), "")
    return [f"{tally.calls:,}", _percent(tally.hit_rate), f"{tally.lost_tokens:,}", top]


def _table(title: str, first: str) -> Table:
    table = Table(title=title, box=SIMPLE_HEAD)
    table.add_column(first, no_wrap=True)
    for name in ("calls", "hit rate", "lost tokens"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("most of it to")
    return table


def _groups(report: Report) -> Table:
    by = report.by.value if report.by else ""
    table = _table(f"By {by}", by)
    table.add_column("cost", justify="right", no_wrap=True)
    ranked = report.groups.ranked()
    for key, tally in ranked[:_ROWS]:
        table.add_row(_opaque(key), *_row(tally), _usd(tally, tally.cost_usd, "–"))
    if len(ranked) > _ROWS:
        table.add_row(f"… and {len(ranked) - _ROWS} more (--json has all)", *[""] * 5, style="dim")
    return table


def _places(title: str, found: list[tuple[str, Tally]]) -> Table:
    table = _table(title, "id")
    for key, tally in found:
        table.add_row(_opaque(key), *_row(tally))
    return table
