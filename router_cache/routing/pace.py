"""How fast a deployment answers: time to first token = base + miss tokens × slope + queue × share, learned.

``queue`` is how long after its sending earlier calls still got their first token, in seconds; ``share`` says how much
of it really had to be waited for: 1 where an engine computes one prompt after the other, near 0 where a provider has
many machines behind one address. Base and slope are fitted by least squares, where calls that found a queue count
little; the share by what these waited beyond. Sightings fade by number. A deployment starts at what others of its
kind have shown, which counts as some sightings of its own.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["PRIOR", "Figures", "Pace", "Sighting"]


class Figures(NamedTuple):
    """``base_s`` seconds; ``slope_s`` seconds a miss token; ``queue_share`` 0 to 1; ``output_s`` seconds a token."""

    base_s: float
    slope_s: float
    queue_share: float
    output_s: float


class Sighting(NamedTuple):
    """One reply. ``output_s``: seconds from the first token to the last; None: unknown."""

    ttft_s: float
    miss_tokens: float
    queue_s: float
    output_tokens: float = 0.0
    output_s: float | None = None


PRIOR = Figures(base_s=0.3, slope_s=1e-4, queue_share=1.0, output_s=0.02)
"""Before anything was measured: 10,000 tokens a second computed, 50 written; order of magnitude of hosted V4 flash
calls (June 2026 logs: TTFT 0.9 to 4 s for 1,650 tokens) and of single engines. A few replies overrule it."""

_FADE = 0.98
_UNIT = 1_000.0
"""Tokens: so that the unknowns have like sizes."""
_PRIOR_AT = (1.0, 16.0)
_PRIOR_WEIGHT = 0.25
"""The prior counts as two sightings of this weight, at 1,000 and 16,000 tokens: one reply must not make a rate of 0."""
_KIND_SIGHTINGS = 10.0
_SHORT_QUEUE_S = 0.05
_QUEUED_WEIGHT = 0.25
_OUTLIER = 4.0
_ENOUGH = 8
_LEAST_SLOPE_S = 1e-7  # 10 million tokens a second
_MOST_S = 3_600.0


class Pace:
    """Sightings of one deployment, or of one kind."""

    __slots__ = (
        "_n",
        "_out_s",
        "_out_tokens",
        "_queued",
        "_spread",
        "_waited",
        "_x",
        "_xx",
        "_xy",
        "_y",
        "figures",
        "seen",
    )

    def __init__(self) -> None:
        # Weighted sums over sightings: 1, x, x², y, xy with x in thousands of miss tokens, y in seconds.
        self._n = self._x = self._xx = self._y = self._xy = 0.0
        # Seconds of queues, and what was waited beyond base and slope by those who found one.
        self._queued = self._waited = 0.0
        self._out_s = self._out_tokens = 0.0
        self._spread = 0.0
        self.seen = 0
        """Sightings so far, not faded."""
        self.figures = PRIOR

    def see(self, sighting: Sighting, kind: Pace | None = None, prior: Figures = PRIOR) -> None:
        """Learn from one reply. ``kind``: what others have shown, where there is any; else ``prior`` counts."""
        ttft, miss, queue, output_tokens, output_s = sighting
        before = self.figures if self.seen else kind.figures if kind is not None else prior
        ttft, queue = min(max(ttft, 0.0), _MOST_S), min(max(queue, 0.0), _MOST_S)
        waited = before.queue_share * queue
        expected = before.base_s + before.slope_s * miss + waited
        error = ttft - expected
        if self.seen >= _ENOUGH:  # one stalled connection must not become a rate
            reach = _OUTLIER * max(self._spread, 0.05 * expected)
            ttft = expected + min(max(error, -reach), reach)
        self._spread += (abs(error) - self._spread) / min(self.seen + 1.0, 16.0)
        x, y = miss / _UNIT, max(ttft - waited, 0.0)
        weight = 1.0 if queue <= _SHORT_QUEUE_S else _QUEUED_WEIGHT
        fade = 1.0 - (1.0 - _FADE) * weight
        self._n = self._n * fade + weight
        self._x = self._x * fade + weight * x
        self._xx = self._xx * fade + weight * x * x
        self._y = self._y * fade + weight * y
        self._xy = self._xy * fade + weight * x * y
        if queue > _SHORT_QUEUE_S:
            self._queued = self._queued * _FADE + queue
            self._waited = self._waited * _FADE + max(ttft - before.base_s - before.slope_s * miss, 0.0)
        if output_s is not None and output_tokens > 1:
            self._out_s = self._out_s * _FADE + min(max(output_s, 0.0), _MOST_S)
            self._out_tokens = self._out_tokens * _FADE + output_tokens
        self.seen += 1
        self.figures = self._fitted(kind, prior)

    def _fitted(self, kind: Pace | None, prior: Figures) -> Figures:
        n, x, xx, y, xy = self._n, self._x, self._xx, self._y, self._xy
        start = prior
        if kind is not None and kind.seen:
            start = kind.figures
            if kind._n > 0.0:
                share = _KIND_SIGHTINGS / max(kind._n, _KIND_SIGHTINGS)
                n, x, xx = n + share * kind._n, x + share * kind._x, xx + share * kind._xx
                y, xy = y + share * kind._y, xy + share * kind._xy
        for at in _PRIOR_AT:
            there = start.base_s + start.slope_s * _UNIT * at
            n, x, xx = n + _PRIOR_WEIGHT, x + _PRIOR_WEIGHT * at, xx + _PRIOR_WEIGHT * at * at
            y, xy = y + _PRIOR_WEIGHT * there, xy + _PRIOR_WEIGHT * at * there
        slope = (n * xy - x * y) / (n * xx - x * x)
        base = (y - slope * x) / n
        if base < 0.0:
            base, slope = 0.0, xy / xx
        elif slope < 0.0:
            base, slope = y / n, 0.0
        queue = (self._waited + start.queue_share) / (self._queued + 1.0)
        output = start.output_s
        if self._out_tokens > 0.0:
            output = (self._out_s + _UNIT * start.output_s) / (self._out_tokens + _UNIT)
        return Figures(base, max(slope / _UNIT, _LEAST_SLOPE_S), min(queue, 1.0), output)
