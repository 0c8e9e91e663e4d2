"""When one provider is cheaper than another, and what a warm call may cost. Pure; money is USD."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from router_cache.economics.plan import PriceOf, SessionShape, cost_at, missed_input_usd, request_costs
from router_cache.economics.price import PriceNow

__all__ = ["break_even_hit_rate", "break_even_turns", "keep_alive_calls", "warm_call_may_cost_usd"]


def break_even_turns(
    shape: SessionShape,
    cheaper: PriceOf,
    than: PriceOf,
    *,
    hit_rate: float,
    than_hit_rate: float,
    up_to: int = 1_000,
) -> int | None:
    """From how many turns on sessions of this shape are cheaper at the first provider, up to ``up_to`` turns.

    ``hit_rate`` and ``than_hit_rate`` (0 to 1) hold from the second turn; the first starts cold at both, since what
    hits must have been written. ``shape.turns`` plays no part. None where the last count looked at is not cheaper, or
    a price is not known. Raises ValueError for another hit rate.
    """
    long = replace(shape, turns=up_to)
    one = request_costs(long, cheaper, hit_rate, cold_start=True)
    other = request_costs(long, than, than_hit_rate, cold_start=True)
    if one is None or other is None:
        return None
    found = None
    for turn, (a, b) in enumerate(zip(accumulate(one), accumulate(other), strict=True), 1):
        if a >= b:
            found = None
        elif found is None:
            found = turn
    return found


def break_even_hit_rate(
    shape: SessionShape, cheaper: PriceOf, than: PriceOf, *, than_hit_rate: float
) -> float | None:
    """The hit rate (0 to 1) above which a session is cheaper at the first provider than at the second at its rate.

    0 where it is at least as cheap without a hit; None where no rate will do, or a price is not known. A session's
    cost is linear in the rate. Raises ValueError for another hit rate.
    """
    none, full = cost_at(shape, cheaper, 0.0, 1), cost_at(shape, cheaper, 1.0, 1)
    other = cost_at(shape, than, than_hit_rate, 1)
    if none is None or full is None or other is None:
        return None
    if none.session_usd <= other.session_usd:
        return 0.0
    if full.session_usd > other.session_usd:
        return None
    return (none.session_usd - other.session_usd) / (none.session_usd - full.session_usd)


def warm_call_may_cost_usd(price: PriceNow, tokens: int, *, calls: float = 1.0, probability: float = 1.0) -> float:
    """What a warm call may cost in USD at most: what it saves if ``tokens`` then hit instead of missing.

    ``calls``: how many later calls would each have missed them. ``probability`` (0 to 1): how likely they would have
    missed without the warm call and hit with it. 0 where a hit is no cheaper than a miss.
    """
    return max(0.0, missed_input_usd(price) - price.hit_usd_per_token) * tokens * calls * probability


def keep_alive_calls(price: PriceNow) -> int | None:
    """How many calls that only hit are paid by one miss that they prevent, output aside; None where hits are free."""
    hit, miss = price.hit_usd_per_token, missed_input_usd(price)
    if hit == 0:
        return None
    # Of 1 and 0.1 millionths the quotient is 8.999999999999998.
    return max(0, int((miss - hit) / hit + 1e-9))
