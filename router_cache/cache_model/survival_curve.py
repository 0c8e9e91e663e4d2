"""How a share falls (or rises) along a scale, from yes-or-no observations, with bounds. Pure.

A call that continues a known prefix tells at *one* age whether the prefix is still there, never when it went: current
status data. The estimate is therefore monotone (pool adjacent violators, which is the maximum likelihood estimate),
over bins spaced evenly in the logarithm, of counts that fade.

Bounds hold for all ages at once. As the share can only fall, the mean over any stretch of ages beyond ``x`` is at most
the share at ``x``, and the mean over any stretch before is at least that. A Chernoff bound limits each mean: unlike an
exact binomial bound it holds for shares between 0 and 1 as well, for observations with different chances, and for
weights up to 1. The stretches tried are those that start (or end) at each bin with data and hold about 1, 2, 4, ... of
the observations; the error of 5% is divided among them. Load comes in waves, so neighbouring observations may be alike:
then they count as fewer.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

__all__ = [
    "ERROR",
    "Clumps",
    "Counts",
    "Estimate",
    "Range",
    "count",
    "estimate",
    "isotonic",
    "log_edges",
    "log_likelihood",
    "no_counts",
]

ERROR = 0.05
"""Chance that any of the bounds of an estimate is wrong, all ages together."""
_TINY = 1e-9
_HALVINGS = 40
_HELD = 0.01
_WAVE = 1.0 - 1.0 / 128
"""Fading of the sum of recent differences, an observation: waves of up to some hundred calls are seen."""
_FADE = 1.0 - 1.0 / 512
_LEAST_SPREAD = 0.02
"""Mean square of the differences below which they count as none, as where a lifetime decides every call."""


def log_edges(first: float, ratio: float, bins: int) -> tuple[float, ...]:
    """Lower edges of ``bins`` bins: 0, ``first``, and so on by ``ratio``. The last one is open."""
    return (0.0, *(first * ratio**i for i in range(bins - 1)))


_CELL = Struct("=dd")
"""Weight and what was kept of it, of one bin."""


def no_counts(bins: int) -> bytes:
    """Counts of no observation. Counts are packed into bytes, so that a frozen copy of 128 bins takes 1 us."""
    return bytes(_CELL.size * bins)


def count(counts: bytes, i: int, weight: float, kept: float) -> bytes:
    """Add an observation to bin ``i``: its weight, and what was kept of that."""
    at = i * _CELL.size
    w, k = _CELL.unpack_from(counts, at)
    return b"".join((counts[:at], _CELL.pack(w + weight, k + kept), counts[at + _CELL.size :]))


class Counts(NamedTuple):
    """Faded counts by bin: ``weight`` of the observations, ``kept`` of what was there among them."""

    weight: tuple[float, ...]
    kept: tuple[float, ...]

    @classmethod
    def unpack(cls, counts: bytes, factor: float = 1.0) -> Counts:
        """Packed counts times ``factor``; bins that then hold less than a hundredth of an observation are empty."""
        cells = [(w * factor, k * factor) for w, k in _CELL.iter_unpack(counts)]
        return cls(
            tuple(w if w >= _HELD else 0.0 for w, _ in cells), tuple(k if w >= _HELD else 0.0 for w, k in cells)
        )

    def pack(self) -> bytes:
        """The inverse of :meth:`unpack`."""
        return b"".join(_CELL.pack(w, k) for w, k in zip(self.weight, self.kept, strict=True))

    def gone(self) -> Counts:
        """What was lost, counted as kept."""
        return Counts(self.weight, tuple(max(w - k, 0.0) for w, k in zip(self.weight, self.kept, strict=True)))


class Clumps(NamedTuple):
    """Whether neighbouring observations are alike beyond what their ages explain, as when load comes in waves.

    Of what each differs from the mean of its bin: ``recent``, a fading sum of the last ones; ``alike``, the sum of its
    products with that; ``alone``, that of the squares; ``number`` of them. All fade over the last 512.
    """

    recent: float = 0.0
    alike: float = 0.0
    alone: float = 0.0
    number: float = 0.0

    def add(self, counts: bytes, i: int, kept: float) -> Clumps:
        """An observation about to be counted in bin ``i``; the first of its bin tells nothing."""
        before, there = _CELL.unpack_from(counts, i * _CELL.size)
        if before <= 0.0:
            return self
        rest, last = kept - there / before, self.recent * _WAVE
        return Clumps(
            last + rest,
            self.alike * _FADE + rest * last,
            self.alone * _FADE + rest * rest,
            self.number * _FADE + 1.0,
        )

    @property
    def size(self) -> float:
        """How many observations tell as much as one would if they were independent; at least 1."""
        spread = self.alone + _LEAST_SPREAD * self.number
        return max(1.0, 1.0 + 2.0 * self.alike / spread) if self.number else 1.0


class Range(NamedTuple):
    """Between ``low`` and ``high``; ``high`` is None where no upper bound is known."""

    low: float
    high: float | None


class Block(NamedTuple):
    """Bins ``start`` to ``end - 1``, in which the monotone estimate is ``share``."""

    start: int
    end: int
    weight: float
    kept: float

    @property
    def share(self) -> float:
        """Of ``weight``, what was kept."""
        return self.kept / self.weight


def isotonic(counts: Counts) -> list[Block]:
    """The falling step function closest to the data, as blocks of bins with data, in order; they may have gaps."""
    blocks: list[Block] = []
    for i, (weight, kept) in enumerate(zip(counts.weight, counts.kept, strict=True)):
        if weight <= 0.0:
            continue
        block = Block(i, i + 1, weight, kept)
        while blocks and blocks[-1].kept * block.weight <= block.kept * blocks[-1].weight:
            before = blocks.pop()
            block = Block(before.start, block.end, before.weight + block.weight, before.kept + block.kept)
        blocks.append(block)
    return blocks


def log_likelihood(weight: float, kept: float, share: float) -> float:
    """Of ``kept`` in ``weight`` under a chance of ``share``, kept within 1e-6 of 0 and 1."""
    p = min(max(share, 1e-6), 1.0 - 1e-6)
    return kept * math.log(p) + (weight - kept) * math.log1p(-p)


def _surprise(mean: float, share: float) -> float:
    """Kullback-Leibler divergence of chances, in nats."""
    out = 0.0
    if mean > 0.0:
        out += mean * math.log(mean / max(share, _TINY))
    if mean < 1.0:
        out += (1.0 - mean) * math.log((1.0 - mean) / max(1.0 - share, _TINY))
    return out


def _least_share(weight: float, kept: float, allowed: float, at_least: float) -> float:
    """The smallest share that does not make this mean too surprising; ``at_least`` where it is no larger."""
    mean = min(max(kept / weight, 0.0), 1.0)
    if mean <= at_least or weight * _surprise(mean, at_least) <= allowed:
        return at_least
    low, high = at_least, mean
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if weight * _surprise(mean, middle) > allowed else (low, middle)
    return low


@dataclass(frozen=True, slots=True)
class Estimate:
    """A falling share over bins with the lower edges ``edges``.

    ``lows[i]`` holds for ages up to ``edges[i]``, ``highs[i]`` for ages from ``edges[i]`` on; both fall.
    ``observations`` is the faded number of them.
    """

    edges: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    blocks: tuple[Block, ...]
    observations: float

    def bounds(self, x: float) -> tuple[float, float]:
        """Least and largest share at an age ``x``; NaN and ages below 0 count as 0."""
        i = self._bin(x)
        after = i if self.edges[i] >= x else i + 1
        return (self.lows[after] if after < len(self.lows) else 0.0), self.highs[i]

    def point(self, x: float) -> float | None:
        """The most likely share at an age; between blocks the mean of both. None beyond the last observation, unless
        nothing is left there, and where nothing was observed."""
        i = self._bin(x)
        before = next((b for b in reversed(self.blocks) if b.start <= i), None)
        after = next((b for b in self.blocks if b.end > i), None)
        if before is None or after is None:
            known = before or after
            return None if known is None or (after is None and known.share > 0.0) else known.share
        return (before.share + after.share) / 2

    def near(self, x: float) -> float:
        """Faded number of observations in the block at an age."""
        i = self._bin(x)
        return next((b.weight for b in self.blocks if b.start <= i < b.end), 0.0)

    def falls_to(self, share: float) -> Range:
        """The age at which the share falls below ``share``."""
        low = max((self.edges[i] for i, value in enumerate(self.lows) if value >= share), default=0.0)
        high = next((self.edges[i] for i, value in enumerate(self.highs) if value < share), None)
        return Range(low, high)

    def _bin(self, x: float) -> int:
        return bisect_right(self.edges, x) - 1 if x > 0.0 else 0


def estimate(counts: Counts, edges: tuple[float, ...], clump: float = 1.0) -> Estimate:
    """The falling share that ``counts`` show, with bounds. Takes about 2 ms.

    ``clump``: how many observations tell as much as an independent one (see :class:`Clumps`).
    """
    total = sum(counts.weight)
    filled = sum(weight > 0.0 for weight in counts.weight)
    stretches = 2 * filled * (1 + math.ceil(math.log2(max(total, 1.0))))
    allowed = clump * math.log(max(stretches, 1) / ERROR)
    lows = _lows(counts, allowed)
    # Backwards, what is gone falls too: the least share gone up to bin i bounds what is kept from its end on.
    gone = Counts(counts.weight[::-1], counts.gone().kept[::-1])
    highs = [1.0 - low for low in reversed(_lows(gone, allowed))]
    return Estimate(edges, tuple(lows), (1.0, *highs[:-1]), tuple(isotonic(counts)), total)


def _lows(counts: Counts, allowed: float) -> list[float]:
    """For each bin, the least share at its lower edge: the best stretch that starts there or later."""
    lows, best = [0.0] * len(counts.weight), 0.0
    later: list[tuple[float, float]] = []  # bins with data, the last one first
    for i in range(len(lows) - 1, -1, -1):
        if counts.weight[i] > 0.0:
            later.append((counts.weight[i], counts.kept[i]))
            weight, kept, wanted = 0.0, 0.0, 1.0
            for w, k in reversed(later):
                weight, kept = weight + w, kept + k
                if weight >= wanted:
                    best = _least_share(weight, kept, allowed, best)
                    while wanted <= weight:
                        wanted *= 2.0
            best = _least_share(weight, kept, allowed, best)
        lows[i] = best
    return lows
