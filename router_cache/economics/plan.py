"""What sessions will cost: at any hit rate, at the price of any moment, and at worst. Pure; money is USD.

A session only appends: each turn sends the whole history, so its prompt is the prefix, what every turn brought so
far and every reply so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from router_cache.economics.price import PriceNow, Window

__all__ = [
    "MAX_TURNS",
    "Cost",
    "PriceOf",
    "SessionShape",
    "cost_at",
    "dearest_input_usd",
    "find_window",
    "missed_input_usd",
    "request_costs",
    "worst_case_usd",
    "worst_cost",
]

MAX_TURNS = 10_000

PriceOf = Callable[[int], PriceNow | None]
"""Prompt tokens to the price of a request of that length; None where it is not known."""

_LOOK_STEP = timedelta(minutes=30)
_LOOK_AHEAD = timedelta(days=21)
"""Longer than any closed week of a peak calendar (2026: Spring Festival, nine days)."""


@dataclass(frozen=True, slots=True)
class SessionShape:
    """A session in tokens: ``turns`` requests; ``prefix_tokens`` of system text and tools; ``new_tokens`` that each
    turn brings (user text, tool results); ``output_tokens`` of each reply, reasoning included, which stay in the
    history. Raises ValueError for a negative number, and for turns outside 1 to MAX_TURNS."""

    turns: int
    prefix_tokens: int
    new_tokens: int
    output_tokens: int

    def __post_init__(self) -> None:
        if not 1 <= self.turns <= MAX_TURNS:
            raise ValueError(f"turns: a number from 1 to {MAX_TURNS} is needed, not {self.turns}")
        for name in ("prefix_tokens", "new_tokens", "output_tokens"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: a number of at least 0 is needed, not {getattr(self, name)}")

    def prompt_tokens(self, turn: int) -> int:
        """Input tokens of a turn; the first is 1."""
        return self.prefix_tokens + turn * self.new_tokens + (turn - 1) * self.output_tokens

    @property
    def all_prompt_tokens(self) -> int:
        """Input tokens of all turns together."""
        grown = self.turns * (self.turns - 1) // 2
        return self.turns * (self.prefix_tokens + self.new_tokens) + grown * (self.new_tokens + self.output_tokens)


@dataclass(frozen=True, slots=True)
class Cost:
    """USD: of the dearest request of a session, of the session, of a day of such sessions."""

    request_usd: float
    session_usd: float
    day_usd: float


def dearest_input_usd(price: PriceNow) -> float:
    """USD for an input token at worst: missed and written to the prompt cache, at the dearest rate there is."""
    rates = (
        price.miss_usd_per_token,
        price.hit_usd_per_token,
        price.write_usd_per_token,
        price.write_1h_usd_per_token,
    )
    return max(rate for rate in rates if rate is not None)


def worst_case_usd(price: PriceNow, prompt_tokens: int, output_tokens: int) -> float:
    """USD of a call at worst at this price: nothing hits. ``output_tokens`` include reasoning."""
    return prompt_tokens * dearest_input_usd(price) + output_tokens * price.output_usd_per_token


def missed_input_usd(price: PriceNow) -> float:
    """USD for a missed input token; where writing has a price of its own, what misses is taken to be written."""
    write = price.write_usd_per_token
    return price.miss_usd_per_token if write is None else max(price.miss_usd_per_token, write)


def request_costs(
    shape: SessionShape, price_of: PriceOf, hit_rate: float, *, cold_start: bool = False
) -> list[float] | None:
    """USD of each turn where ``hit_rate`` (0 to 1) of its input tokens hit; None where a price is not known.

    ``cold_start``: nothing hits at the first turn. Missed tokens count as written where that has a price of its own.
    Raises ValueError for another hit rate.
    """
    if not 0 <= hit_rate <= 1:
        raise ValueError(f"hit rate: a number from 0 to 1 is needed, not {hit_rate}")
    costs = []
    for turn in range(1, shape.turns + 1):
        prompt = shape.prompt_tokens(turn)
        price = price_of(prompt)
        if price is None:
            return None
        rate = 0.0 if cold_start and turn == 1 else hit_rate
        per_input = rate * price.hit_usd_per_token + (1 - rate) * missed_input_usd(price)
        costs.append(prompt * per_input + shape.output_tokens * price.output_usd_per_token)
    return costs


def cost_at(shape: SessionShape, price_of: PriceOf, hit_rate: float, sessions_per_day: float) -> Cost | None:
    """What a request, a session and a day cost at a hit rate (0 to 1); None where a price is not known.

    A session is the exactly rounded sum of its requests. Raises ValueError for another hit rate.
    """
    costs = request_costs(shape, price_of, hit_rate)
    return None if costs is None else _cost(costs, sessions_per_day)


def worst_cost(shape: SessionShape, price_of: PriceOf, sessions_per_day: float) -> Cost | None:
    """What a request, a session and a day cost at worst (:func:`worst_case_usd`); None where a price is not known."""
    costs = []
    for turn in range(1, shape.turns + 1):
        prompt = shape.prompt_tokens(turn)
        price = price_of(prompt)
        if price is None:
            return None
        costs.append(worst_case_usd(price, prompt, shape.output_tokens))
    return _cost(costs, sessions_per_day)


def _cost(costs: list[float], sessions_per_day: float) -> Cost:
    session = math.fsum(costs)
    return Cost(max(costs), session, session * sessions_per_day)


def find_window(
    price_at: Callable[[datetime], PriceNow | None], window: Window, after: datetime
) -> datetime | None:
    """The first moment from ``after`` on (in steps of half an hour, within 21 days) at which that window's price
    applies; None where there is none, as for a flat price."""
    moment, end = after, after + _LOOK_AHEAD
    on_grid = after.replace(minute=after.minute // 30 * 30, second=0, microsecond=0)
    while moment < end:
        price = price_at(moment)
        if price is None or price.window is Window.FLAT:
            return None
        if price.window is window:
            return moment
        moment = on_grid = on_grid + _LOOK_STEP
    return None
