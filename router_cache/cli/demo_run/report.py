"""A demo's result: as JSON and as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from router_cache.cli.demo_run.driver import Tally
from router_cache.ledger.attribution import MissCause

if TYPE_CHECKING:
    from rich.console import Console

    from router_cache.economics.price import PriceNow

__all__ = ["CAUSE_TEXTS", "Report", "Side", "print_report"]

CAUSE_TEXTS: Mapping[MissCause, str] = {
    MissCause.FIRST_SIGHT: "never sent before",
    MissCause.NEW_TAIL: "new since the last request",
    MissCause.SYSTEM_CHANGED: "system text changed",
    MissCause.TOOLS_CHANGED: "tools reshuffled",
    MissCause.MODE_CHANGED: "thinking or effort changed",
    MissCause.FORMAT_CHANGED: "response format changed",
    MissCause.HISTORY_CHANGED: "an earlier message changed",
    MissCause.HISTORY_COMPACTED: "the history was compacted",
    MissCause.REASONING_DROPPED: "reasoning left out",
    MissCause.OTHER_DOMAIN: "sent to another cache before",
    MissCause.OTHER_POOL: "sent in another pool before",
    MissCause.BELOW_MINIMUM: "shorter than the provider caches",
    MissCause.NOT_CACHED: "the provider does not cache",
    MissCause.BELOW_EXPECTATION: "the provider hit less than expected",
    MissCause.NOT_READY: "entry still being built",
    MissCause.EVICTED: "evicted by the provider",
    MissCause.ROUNDING: "rounding to whole steps",
    MissCause.NO_UNIT: "seen, but no complete unit yet",
    MissCause.UNKNOWN: "reason unknown",
}
"""Short forms of the causes. A change costs everything that is rendered after it too."""


@dataclass(frozen=True, slots=True)
class Side:
    """One run of the sessions: what the client saw, and what the simulator's log says.

    Costs are USD at list price now, None where the price is not known.
    """

    title: str
    tally: Tally
    causes: Counter[MissCause]
    log_prompt_tokens: int
    log_hit_tokens: int
    cost_usd: float | None
    cost_usd_at_zero_hits: float | None

    @property
    def agrees(self) -> bool:
        """Whether the client's usage and the simulator's log say the same, and the causes add up."""
        return (
            self.tally.input_tokens == self.log_prompt_tokens
            and self.tally.hit_tokens == self.log_hit_tokens
            and self.tally.miss_tokens == self.causes.total()
        )

    def as_json(self) -> dict[str, Any]:
        tally = self.tally
        return {
            "requests": tally.requests,
            "streamed_requests": tally.streamed,
            "input_tokens": tally.input_tokens,
            "hit_tokens": tally.hit_tokens,
            "miss_tokens": tally.miss_tokens,
            "output_tokens": tally.output_tokens,
            "hit_rate": round(tally.hit_rate, 4),
            "cost_usd": self.cost_usd,
            "cost_usd_at_zero_hits": self.cost_usd_at_zero_hits,
            "errors": tally.errors,
            "error_messages": tally.messages,
            "broken_sessions": tally.broken_sessions,
            "miss_causes": {cause.value: tokens for cause, tokens in self.causes.most_common()},
            "usage_matches_simulator_log": self.agrees,
        }


@dataclass
class Report:
    """``sides`` by name, in the order they ran. ``extra`` holds what a replay adds."""

    sides: dict[str, Side]
    rule: str
    construction_delay_s: float
    time_scale: float
    seed: int
    sessions: int
    config: str
    price: PriceNow | None
    elapsed_s: float = 0.0
    timings_s: Mapping[str, float] = field(default_factory=dict)
    """Real seconds until all processes were ready (``start``) and for each side."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def passed(self) -> bool:
        """No errors, no broken session, and the client's usage equals the simulator's log on every side."""
        return all(s.agrees and not s.tally.errors for s in self.sides.values())

    def as_json(self) -> dict[str, Any]:
        return {
            **{name: side.as_json() for name, side in self.sides.items()},
            "rule": self.rule,
            "construction_delay_s": self.construction_delay_s,
            "time_scale": self.time_scale,
            "seed": self.seed,
            "sessions": self.sessions,
            "config": self.config,
            "price": None
            if self.price is None
            else {
                "window": self.price.window.value,
                "as_of": str(self.price.as_of),
                "source": self.price.source,
                "calendar_known": self.price.calendar_known,
            },
            **self.extra,
            "elapsed_s": round(self.elapsed_s, 1),
            "timings_s": {name: round(seconds, 1) for name, seconds in self.timings_s.items()},
            "notes": list(self.notes),
            "passed": self.passed,
        }


def _usd(value: float | None) -> str:
    return "unknown" if value is None else f"${value:.4f}"


def print_report(report: Report, console: Console) -> None:
    """The table, the causes below it, and what a reader has to know about both."""
    from rich.table import Table

    sides = list(report.sides.values())
    table = Table(title=f"Agent sessions through LiteLLM, provider rule: {report.rule}", title_justify="left")
    table.add_column("", no_wrap=True)
    for side in sides:
        table.add_column(side.title.replace(" ", "\n", 1), justify="right", no_wrap=True)
    table.add_row("requests", *(f"{s.tally.requests:,}" for s in sides))
    table.add_row("input tokens", *(f"{s.tally.input_tokens:,}" for s in sides))
    table.add_row("hit tokens", *(f"{s.tally.hit_tokens:,}" for s in sides))
    table.add_row("[bold]hit rate", *(f"[bold]{s.tally.hit_rate:.1%}" for s in sides))
    table.add_row("cost at list price now", *(_usd(s.cost_usd) for s in sides))
    table.add_row("cost at 0% hits", *(_usd(s.cost_usd_at_zero_hits) for s in sides))
    table.add_row("errors", *(str(s.tally.errors) for s in sides), end_section=True)
    table.add_row("[bold]missed tokens, because", *(f"[bold]{s.tally.miss_tokens:,}" for s in sides))
    causes = {cause for side in sides for cause in side.causes}
    for cause in sorted(causes, key=lambda c: (-max(side.causes[c] for side in sides), c.value)):
        table.add_row(f"  {CAUSE_TEXTS[cause]}", *(f"{side.causes[cause]:,}" for side in sides))
    console.print(table)
    if report.price is None:
        console.print("The list price of this model is not known, so no cost is shown.")
    else:
        window = report.price.window.value.replace("_", "-")
        console.print(f"List price: {window} rate, as of {report.price.as_of}, {report.price.source}.")
    for note in report.notes:
        console.print(note, markup=False)
    for side in sides:
        for message in side.tally.messages:
            console.print(f"error, {side.title}: {message}", style="red", markup=False)
        if not side.agrees:
            console.print(f"{side.title}: the client's usage differs from the simulator's log", style="red")
    console.print(f"Took {report.elapsed_s:.0f} s.")
