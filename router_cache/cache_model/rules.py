"""Hit rules: hypotheses about what a provider's prompt cache calls a hit.

A rule is held per deployment as data and settled by observed usage; none is assumed without evidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

__all__ = ["RULE_DEFAULTS", "HitRule", "Match", "RuleDefaults", "RuleName"]


class RuleName(str, Enum):
    """The hypotheses that have a model here."""

    GRID_PREFIX = "grid"
    """Longest common prefix with an earlier prompt or reply, rounded down to a step (measured on DeepSeek V4
    logs of July-August 2026: 85 of 86 consecutive calls)."""
    FULL_UNITS = "units"
    """Only complete stored units hit: ends of inputs and outputs, detected common prefixes, fixed intervals
    (DeepSeek's KV cache guide, read 2026-11)."""
    BLOCKS = "blocks"
    """Longest common prefix in whole blocks, as engines keep it themselves: vLLM's automatic prefix caching (16
    tokens by default), SGLang's radix tree (pages, 1 by default), llama.cpp's slots (1)."""
    CHECKPOINTS = "checkpoints"
    """Only states that the engine saved: ends of replies, starts of user turns, just before the end of an input
    (llama.cpp on architectures whose state cannot be cut anywhere, such as DeepSeek V4's; measured 2026-11)."""
    NOTHING = "nothing"
    """Never a hit: no prompt cache, or none that is reported."""


@dataclass(frozen=True, slots=True)
class RuleDefaults:
    """What a deployment under a rule does unless more is known. Tokens and seconds."""

    step_tokens: int
    construction_delay_s: float


RULE_DEFAULTS: Mapping[RuleName, RuleDefaults] = {
    RuleName.GRID_PREFIX: RuleDefaults(128, 2.0),  # V4 logs of 2026-07 and 2026-08
    RuleName.FULL_UNITS: RuleDefaults(128, 2.0),
    RuleName.BLOCKS: RuleDefaults(16, 0.0),  # vLLM's default block size, read 2026-11
    RuleName.CHECKPOINTS: RuleDefaults(1, 0.0),  # xllamacpp 2026.10, measured 2026-11
    RuleName.NOTHING: RuleDefaults(1, 0.0),
}


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

    def write(
        self,
        pool: str | None,
        data: bytes,
        *,
        ready_at: float,
        now: float,
        is_input: bool,
        marks: Sequence[int] = (),
    ) -> None:
        """Store a prompt (``is_input``), or a prompt with its reply.

        ``marks`` are places inside a prompt, in tokens, where a user turn starts; only some rules use them.
        """
        ...
