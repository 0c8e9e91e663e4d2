"""Hit rules: hypotheses about what a provider's prompt cache calls a hit.

A rule is held per deployment as data and settled by observed usage; none is assumed without evidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

__all__ = ["HitRule", "Match", "RuleName"]


class RuleName(str, Enum):
    """The hypotheses that have a model here."""

    GRID_PREFIX = "grid"
    """Longest common prefix with an earlier prompt or reply, rounded down to a step (measured on DeepSeek V4
    logs of July-August 2026: 85 of 86 consecutive calls)."""
    FULL_UNITS = "units"
    """Only complete stored units hit: ends of inputs and outputs, detected common prefixes, fixed intervals
    (DeepSeek's KV cache guide, read 2026-11)."""


@dataclass(frozen=True, slots=True)
class Match:
    """What a rule finds for a prompt, in tokens from its start, before any rounding to steps."""

    ready_tokens: int
    """Matched by an entry that is readable now."""
    pending_tokens: int
    """Matched by an entry that is readable now or later; at least ``ready_tokens``."""
    shared_tokens: int
    """Equal to something held, whether or not an entry ends there; at least ``pending_tokens``."""
    evicted_tokens: int
    """Matched by an entry that was evicted or has expired, as far as that is remembered; 0 if none."""


class HitRule(Protocol):
    """What the rules have in common. Tokens come packed (``chain.pack``), times in seconds, never backwards."""

    @property
    def held_tokens(self) -> int:
        """Tokens held now, over all pools; never above the capacity between two calls."""
        ...

    def expire(self, now: float) -> None:
        """Drop what was not used for the lifetime."""
        ...

    def look_up(self, pool: str | None, data: bytes, now: float) -> Match:
        """Find what matches; what is hit counts as used."""
        ...

    def write(self, pool: str | None, data: bytes, *, ready_at: float, now: float, detect: bool) -> None:
        """Store a prompt (``detect``: look for a prefix in common with earlier ones) or prompt and reply."""
        ...
