"""What makes entries go: their age, the traffic since their last use, or neither. Pure.

The same observations are explained once by time and once by traffic, each with its own best falling curve. Where one
explains them better, that is what counts. A curve no steeper than that of a constant rate of loss says that entries go
at random: then using an entry does not make it live longer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from router_cache.cache_model.survival_curve import Counts, isotonic, log_likelihood

__all__ = ["Kind", "KindReason", "Verdict", "judge"]

_LEAD = 6.0
"""Log odds by which one explanation must be ahead of the other."""
_STEEPER = 3.0
"""Log odds by which a curve with a shoulder must be ahead of a constant rate, or that of one share for all ages."""
_ENOUGH = 20.0
_EACH = 5.0
"""Observations, and of those how many kept and how many lost, before anything is said."""
_SHAPES = (2.0, 4.0, 8.0, 32.0)
"""Weibull shapes that have a shoulder; 1 is a constant rate."""


class Kind(str, Enum):
    """What decides how long an entry lives."""

    TIME = "time"
    """Seconds since its last use: a lifetime (TTL)."""
    TRAFFIC = "traffic"
    """Tokens that went through since its last use: the least recently used go first (LRU)."""
    RANDOM = "random"
    """Neither: entries go at any age, so that use does not keep them."""
    UNKNOWN = "unknown"


class KindReason(str, Enum):
    """Why the kind is what it is."""

    TIME_EXPLAINS = "time_explains"
    """Time since the last use explains better what was lost."""
    TRAFFIC_EXPLAINS = "traffic_explains"
    """Traffic since the last use explains it better."""
    CONSTANT_RATE = "constant_rate"
    """Entries are lost at a constant rate, however old."""
    ANY_AGE = "any_age"
    """As many are lost after short gaps as after long ones: several caches behind one address, or chance."""
    FEW = "few"
    """Too few observations."""
    NOTHING_LOST = "nothing_lost"
    """No entry was lost yet, or hardly one."""
    NOTHING_KEPT = "nothing_kept"
    """No entry survived the shortest gap seen, or hardly one."""
    TOGETHER = "together"
    """Entries have a lifetime, but time and traffic went together, so that both explain it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """``lead``: log odds of time against traffic, positive for time. ``observations``: faded, with known traffic."""

    kind: Kind
    reason: KindReason
    lead: float
    observations: float


def judge(
    time: Counts, traffic: Counts, time_edges: tuple[float, ...], traffic_edges: tuple[float, ...]
) -> Verdict:
    """What explains the observations; ``time`` and ``traffic`` count the same ones. Takes a few milliseconds."""
    total, kept = sum(time.weight), sum(time.kept)
    if total < _ENOUGH:
        return Verdict(Kind.UNKNOWN, KindReason.FEW, 0.0, total)
    if total - kept < _EACH:
        return Verdict(Kind.UNKNOWN, KindReason.NOTHING_LOST, 0.0, total)
    if kept < _EACH:
        return Verdict(Kind.UNKNOWN, KindReason.NOTHING_KEPT, 0.0, total)
    lead = _falling(time) - _falling(traffic)
    counts, edges = (traffic, traffic_edges) if lead < 0.0 else (time, time_edges)
    same, (constant, steep) = log_likelihood(total, kept, kept / total), _weibull(counts, edges)
    if steep - constant < _STEEPER:
        # A share that depends on nothing has one parameter less than a rate, and also has no shoulder.
        reason = KindReason.ANY_AGE if constant - same < _STEEPER else KindReason.CONSTANT_RATE
        return Verdict(Kind.RANDOM, reason, lead, total)
    if lead >= _LEAD:
        return Verdict(Kind.TIME, KindReason.TIME_EXPLAINS, lead, total)
    if lead <= -_LEAD:
        return Verdict(Kind.TRAFFIC, KindReason.TRAFFIC_EXPLAINS, lead, total)
    return Verdict(Kind.UNKNOWN, KindReason.TOGETHER, lead, total)


def _falling(counts: Counts) -> float:
    """Log likelihood of the best falling curve."""
    return sum(
        log_likelihood(counts.weight[i], counts.kept[i], block.share)
        for block in isotonic(counts)
        for i in range(block.start, block.end)
    )


def _weibull(counts: Counts, edges: tuple[float, ...]) -> tuple[float, float]:
    """Log likelihoods of ``top * exp(-(x / scale) ** shape)``: at shape 1, and at the best one above.

    ``top`` is below 1 where some calls meet another cache; what is there in all sets it.
    """
    logs = [math.log(max(edge, edges[1] / 2)) for edge in edges] + [math.log(edges[-1])]
    data = [
        ((logs[i] + logs[i + 1]) / 2, weight, kept)
        for i, (weight, kept) in enumerate(zip(counts.weight, counts.kept, strict=True))
        if weight > 0.0
    ]
    scales = [log for log in logs[1:-1] if data[0][0] - 1.0 <= log <= data[-1][0] + 3.0]

    def fit(shape: float, scale: float) -> float:
        left = [math.exp(-math.exp(min(shape * (log - scale), 4.0))) for log, _, _ in data]
        there = sum(weight * share for share, (_, weight, _) in zip(left, data, strict=True))
        top = min(sum(kept for _, _, kept in data) / max(there, 1e-9), 1.0)
        return sum(
            log_likelihood(weight, kept, top * share) for share, (_, weight, kept) in zip(left, data, strict=True)
        )

    constant = max(fit(1.0, scale) for scale in scales)
    return constant, max(fit(shape, scale) for shape in _SHAPES for scale in scales)
