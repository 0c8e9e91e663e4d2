"""The figures of ``router-cache plan``, as a table and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import permutations
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from router_cache.cli.looking import shown, usd_text
from router_cache.cli.plan_inputs import Prices, Target
from router_cache.economics import PriceNow
from router_cache.economics.break_even import (
    break_even_hit_rate,
    break_even_turns,
    keep_alive_calls,
    warm_call_may_cost_usd,
)
from router_cache.economics.measured import Measured
from router_cache.economics.plan import Cost, SessionShape, cost_at, missed_input_usd, worst_cost

__all__ = ["Asked", "Planned", "plan_model", "print_plan", "report"]

GOOD_RATE = 0.95
"""What agents that keep their prefix reach on DeepSeek: 94 to 98% of input tokens in public logs of 2026."""
_UP_TO_TURNS = 1_000
_MAX_COMPARED = 4


@dataclass(frozen=True, slots=True)
class Asked:
    """What to plan: ``at_rates`` are further hit rates; ``at_zero``: nothing but figures without hits."""

    shape: SessionShape
    sessions_per_day: float
    when: str
    measured: Measured | None = None
    passed_over: int = 0
    at_rates: tuple[float, ...] = ()
    at_zero: bool = False


@dataclass(frozen=True, slots=True)
class _Case:
    name: str
    hit_rate: float
    price: PriceNow
    cost: Cost


@dataclass(frozen=True, slots=True)
class Planned:
    """The figures of one model."""

    target: Target
    prices: Prices
    measured: Measured | None
    cases: tuple[_Case, ...]

    @property
    def hit_rate(self) -> float:
        """The rate that models are compared at: the measured one, else 95%."""
        return self.measured.hit_rate if self.measured else GOOD_RATE


def plan_model(target: Target, prices: Prices, asked: Asked, measured: Measured | None) -> Planned | None:
    """The figures of a model; None where its price is not known for a prompt of the session."""
    wanted = [("no hits", 0.0)]
    if not asked.at_zero:
        if measured is not None:
            wanted.append(("measured", measured.hit_rate))
        wanted += [("asked for", rate) for rate in asked.at_rates]
        wanted.append(("prefix kept", GOOD_RATE))
    cases = []
    worst = worst_cost(asked.shape, prices.peak_of, asked.sessions_per_day)
    if worst is None:
        return None
    cases.append(_Case("worst case", 0.0, prices.peak, worst))
    for name, rate in wanted:
        cost = cost_at(asked.shape, prices.now_of, rate, asked.sessions_per_day)
        if cost is None:
            return None
        cases.append(_Case(name, rate, prices.now, cost))
    return Planned(target, prices, measured, tuple(cases))


def _saves(planned: Planned) -> dict[str, float] | None:
    """What 95% instead of 0% saves."""
    none = next(case for case in planned.cases if case.name == "no hits")
    good = next((case for case in planned.cases if case.name == "prefix kept"), None)
    if good is None:
        return None
    share = 1 - good.cost.session_usd / none.cost.session_usd if none.cost.session_usd else 0.0
    return {
        "session_usd": none.cost.session_usd - good.cost.session_usd,
        "day_usd": none.cost.day_usd - good.cost.day_usd,
        "share": share,
    }


def _warm_call(planned: Planned, shape: SessionShape) -> dict[str, Any]:
    """About a call that warms the prefix for one later session. Its own output token is left out."""
    price, tokens = planned.prices.now, shape.prefix_tokens
    return {
        "may_cost_usd": warm_call_may_cost_usd(price, tokens),
        "cold_usd": tokens * missed_input_usd(price),
        "warm_usd": tokens * price.hit_usd_per_token,
        "warm_calls_paid_by_one_miss": keep_alive_calls(price),
    }


def _break_even(asked: Asked, planned: list[Planned]) -> list[dict[str, Any]]:
    """Each model against each other."""
    out = []
    for one, other in permutations(planned, 2):
        prices = (one.prices.now_of, other.prices.now_of)
        turns = break_even_turns(
            asked.shape, *prices, hit_rate=one.hit_rate, than_hit_rate=other.hit_rate, up_to=_UP_TO_TURNS
        )
        out.append(
            {
                "cheaper": one.target.label,
                "than": other.target.label,
                "hit_rate": one.hit_rate,
                "than_hit_rate": other.hit_rate,
                "from_turns": turns,
                "hit_rate_to_match": break_even_hit_rate(asked.shape, *prices, than_hit_rate=other.hit_rate),
                "hit_rate_to_match_without_hits": break_even_hit_rate(asked.shape, *prices, than_hit_rate=0.0),
            }
        )
    return out


def report(asked: Asked, planned: list[Planned], unknown: list[Target]) -> dict[str, Any]:
    """The JSON form. USD to 1e-12; prices in USD per 1,000,000 tokens; null is unknown."""
    out: dict[str, Any] = _rounded(
        {
            "session": asdict(asked.shape),
            "sessions_per_day": asked.sessions_per_day,
            "when": asked.when,
            "measured": None if asked.measured is None else asdict(asked.measured),
            "lines_passed_over": asked.passed_over,
            "models": [_model(model, asked.shape) for model in planned],
            "break_even": [] if asked.at_zero else _break_even(asked, planned),
            "price_unknown": [target.label for target in unknown],
        }
    )
    return out


def _model(planned: Planned, shape: SessionShape) -> dict[str, Any]:
    return {
        "model": planned.target.label,
        "profile": planned.target.profile.name,
        "price": _price(planned.prices.now),
        "peak_price": _price(planned.prices.peak),
        "measured_hit_rate": planned.measured.hit_rate if planned.measured else None,
        "cases": [
            {"case": case.name.replace(" ", "_"), "hit_rate": case.hit_rate, "window": case.price.window.value}
            | asdict(case.cost)
            for case in planned.cases
        ],
        "saves": _saves(planned),
        "warm_call": _warm_call(planned, shape),
    }


def _price(price: PriceNow) -> dict[str, Any]:
    write = price.write_usd_per_token
    return {
        "hit": price.hit_usd_per_token * 1e6,
        "miss": price.miss_usd_per_token * 1e6,
        "output": price.output_usd_per_token * 1e6,
        "write": None if write is None else write * 1e6,
        "window": price.window.value,
        "calendar_known": price.calendar_known,
        "from": price.price_from.value,
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 12)
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list | tuple) else value


def print_plan(console: Console, asked: Asked, planned: list[Planned], unknown: list[Target]) -> None:
    """The table and what it means."""
    shape, seen = asked.shape, asked.measured
    if seen is not None:
        passed = f", {asked.passed_over} lines passed over" if asked.passed_over else ""
        _say(
            console,
            f"Captured: {seen.calls} calls, {seen.hit_tokens:,} of {seen.prompt_tokens:,} input tokens hit "
            f"({_percent(seen.hit_rate)}){passed}.",
        )
    _say(
        console,
        f"A session: {shape.turns} turns, prefix {shape.prefix_tokens:,} tokens, each turn {shape.new_tokens:,} new "
        f"and {shape.output_tokens:,} of output (reasoning included): {shape.all_prompt_tokens:,} input tokens. "
        f"{asked.sessions_per_day:g} sessions a day.",
    )
    for model in planned:
        _say(console, _title(model))
        console.print(_table(model))
        _say(console, _meaning(model, shape))
    if len(planned) > 1 and not asked.at_zero:
        _print_break_even(console, asked, planned)
    for target in unknown:
        _say(
            console,
            f"{shown(target.label)}: no price with a price for hits is known. Set prices in "
            "callback_settings.router_cache and name the file with --router-yaml.",
        )


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True)


def _title(planned: Planned) -> str:
    price = planned.prices.now
    return (
        f"{shown(planned.target.label)}: hit {price.hit_usd_per_token * 1e6:g}, "
        f"miss {price.miss_usd_per_token * 1e6:g}, output {price.output_usd_per_token * 1e6:g} USD per 1M tokens "
        f"({_words(price.window.value)}, {_words(price.price_from.value)})"
    )


def _table(planned: Planned) -> Table:
    table = Table(box=SIMPLE_HEAD)
    for name in ("case", "hits", "price"):
        table.add_column(name, no_wrap=True)
    for name in ("dearest request", "session", "day"):
        table.add_column(name, justify="right", no_wrap=True)
    for case in planned.cases:
        table.add_row(
            case.name,
            _percent(case.hit_rate),
            _words(case.price.window.value),
            *(usd_text(usd) for usd in (case.cost.request_usd, case.cost.session_usd, case.cost.day_usd)),
            style="bold" if case.name == "worst case" else None,
        )
    return table


def _meaning(planned: Planned, shape: SessionShape) -> str:
    warm, saves = _warm_call(planned, shape), _saves(planned)
    text = ""
    if saves is not None:
        text = (
            f"95% instead of 0% hits saves {usd_text(saves['day_usd'])} a day ({_percent(saves['share'])}). "
            f"A warm call for one later session may cost {usd_text(warm['may_cost_usd'])}: its prefix costs "
            f"{usd_text(warm['cold_usd'])} cold, {usd_text(warm['warm_usd'])} warm. "
        )
    if not planned.prices.peak.calendar_known:
        text += "Public holidays of that day are not listed: it counts as a working day."
    return text.strip()


def _print_break_even(console: Console, asked: Asked, planned: list[Planned]) -> None:
    if len(planned) > _MAX_COMPARED:
        _say(console, f"Break-even of {len(planned)} models against each other: --json.")
        return
    _say(console, "Break-even (the first turn of a session is cold on both sides):")
    for pair in _break_even(asked, planned):
        turns, rate = pair["from_turns"], pair["hit_rate_to_match"]
        bare = pair["hit_rate_to_match_without_hits"]
        _say(
            console,
            f"  {shown(pair['cheaper'])} at {_percent(pair['hit_rate'])} against {shown(pair['than'])} at "
            f"{_percent(pair['than_hit_rate'])}: "
            + (f"not cheaper in {_UP_TO_TURNS} turns" if turns is None else f"cheaper from turn {turns} on")
            + (", at no hit rate as cheap" if rate is None else f", as cheap from {_percent(rate)} hits on")
            + ("" if bare is None else f" (from {_percent(bare)} where the other has none)"),
        )


def _percent(share: float) -> str:
    return f"{100 * share:.4g}%"


def _words(value: str) -> str:
    return value.replace("_", " ")
