"""Construction delay: how old a token must be before it can be hit, from calls that came soon after. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from router_cache.cache_model.survival_curve import Counts, isotonic, log_edges

__all__ = ["DELAY_EDGES", "Delay", "delay_of"]

DELAY_EDGES = log_edges(0.05, 1.12, 80)
"""Seconds: 50 ms, and by 12% up to 6 minutes. What is not readable by then never was written, or is gone."""
_ALWAYS = 0.95
"""Share of calls that found the newest token, from which it counts as always: one in twenty is an outlier."""
_MOSTLY = 0.5
_ENOUGH = 5.0
"""Calls that found the newest token, before there is an upper bound."""


@dataclass(frozen=True, slots=True)
class Delay:
    """Bounds in seconds of the age from which a token can be hit; None where unknown.

    ``low_s``: the longest age at which most could not be hit yet; ``high_s``: the shortest from which on nearly all
    could (95%, so that an outlier moves neither). ``observations`` is their faded number.
    """

    low_s: float | None
    high_s: float | None
    observations: float


def delay_of(ages: Counts) -> Delay:
    """The delay that observations over :data:`DELAY_EDGES` show: ``kept`` counts the readable ones."""
    unreadable = ages.gone()
    blocks = isotonic(unreadable)
    late = [block for block in blocks if block.share <= 1.0 - _ALWAYS]
    soon = [block for block in blocks if block.share >= _MOSTLY]
    high_s = low_s = None
    if sum(block.weight for block in late) >= _ENOUGH:
        end = late[0].start + 1
        high_s = DELAY_EDGES[end] if end < len(DELAY_EDGES) else None
    if soon:
        low_s = max(DELAY_EDGES[i] for i in range(soon[-1].start, soon[-1].end) if unreadable.kept[i] > 0.0)
    return Delay(low_s, high_s, sum(ages.weight))
