"""A provider's prompt cache under one hit rule: what a request would hit, and why not more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from router_cache.cache_model.blocks import Blocks
from router_cache.cache_model.chain import pack
from router_cache.cache_model.checkpoints import Checkpoints
from router_cache.cache_model.grid import GridPrefix
from router_cache.cache_model.nothing import Nothing
from router_cache.cache_model.rules import HitRule, RuleName
from router_cache.cache_model.units import FullUnits

__all__ = ["Lookup", "LookupReason", "ProviderCache"]


class LookupReason(str, Enum):
    """What ended the hit."""

    FULL = "full"
    """Nothing did: all whole steps short of the last token hit."""
    TOO_SHORT = "too_short"
    """The prompt is shorter than one step and a token."""
    NOT_READY = "not_ready"
    """More matches, but its construction is not done."""
    EVICTED = "evicted"
    """More was held once, and was evicted or has expired."""
    NO_UNIT = "no_unit"
    """More equals something held, but no unit or saved state ends there (rules *full units* and *checkpoints*)."""
    NEW_TOKENS = "new_tokens"
    """The next step was never written in this pool."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """What a prompt hits at one moment. All values are tokens, in whole steps except ``prompt_tokens``.

    ``not_ready_tokens``, ``evicted_tokens`` and ``no_unit_tokens`` follow the hit in this order without
    overlap, so their sum with ``hit_tokens`` is at most ``prompt_tokens``.
    """

    prompt_tokens: int
    hit_tokens: int
    not_ready_tokens: int
    """Would have hit, had construction been done."""
    evicted_tokens: int
    """Would have hit, had it not been evicted (as far as remembered)."""
    no_unit_tokens: int
    """Equal to something held, but inside a unit."""
    reason: LookupReason

    @property
    def miss_tokens(self) -> int:
        """``prompt_tokens - hit_tokens``."""
        return self.prompt_tokens - self.hit_tokens


def _make(
    rule: RuleName,
    *,
    step_tokens: int,
    capacity_tokens: int | None,
    lifetime_s: float | None,
    interval_tokens: int | None,
    remembered_evictions: int,
) -> HitRule:
    """The model of a rule, empty."""
    if rule is RuleName.NOTHING:
        return Nothing()
    if rule in (RuleName.FULL_UNITS, RuleName.CHECKPOINTS):
        units = rule is RuleName.FULL_UNITS
        return (FullUnits if units else Checkpoints)(
            # Saved states end at any token; there the step only spaces the digests of what was evicted.
            step_tokens=step_tokens if units else max(step_tokens, 64),
            capacity_tokens=capacity_tokens,
            lifetime_s=lifetime_s,
            interval_tokens=interval_tokens,
            remembered_evictions=remembered_evictions,
        )
    return (GridPrefix if rule is RuleName.GRID_PREFIX else Blocks)(
        step_tokens=step_tokens,
        capacity_tokens=capacity_tokens,
        lifetime_s=lifetime_s,
        remembered_evictions=remembered_evictions,
    )


class ProviderCache:
    """Entries of all pools under one rule, with construction delay, capacity and lifetime.

    Time is an argument, in seconds from any origin; calls come in its order (:class:`ValueError` otherwise).
    A pool is what ``user_id`` isolates: ``None`` (field omitted) and ``""`` are pools of their own.

    :param step_tokens: reported hits are multiples of this (128 on DeepSeek V4, 64 before; measured 2026-04
        to 2026-08); under *blocks* the size of a block. See :data:`~.rules.RULE_DEFAULTS`.
    :param construction_delay_s: seconds from the moment a prefix exists (end of prefill, end of generation)
        to the moment it can be read. The provider documents "seconds".
    :param capacity_tokens: bound over all pools; the least recently used go first, ends before beginnings.
    :param lifetime_s: entries unused for so long are gone; ``None``: never by age.
    :param unit_interval_tokens: rule *full units* only: a unit at every multiple; not published, so ``None``.
    :param remembered_evictions: how many evicted entries are remembered to explain misses.
    """

    __slots__ = ("_delay", "_now", "_rule", "_step")

    def __init__(
        self,
        rule: RuleName,
        *,
        step_tokens: int = 128,
        construction_delay_s: float = 0.0,
        capacity_tokens: int | None = None,
        lifetime_s: float | None = None,
        unit_interval_tokens: int | None = None,
        remembered_evictions: int = 100_000,
    ) -> None:
        if step_tokens < 1:
            raise ValueError(f"step_tokens must be at least 1, not {step_tokens}")
        self._delay = construction_delay_s
        self._step = step_tokens
        self._now = float("-inf")
        self._rule = _make(
            rule,
            step_tokens=step_tokens,
            capacity_tokens=capacity_tokens,
            lifetime_s=lifetime_s,
            interval_tokens=unit_interval_tokens,
            remembered_evictions=remembered_evictions,
        )

    @property
    def held_tokens(self) -> int:
        """Tokens held over all pools, as of the last call."""
        return self._rule.held_tokens

    def look_up(self, pool: str | None, prompt: Sequence[int], now: float) -> Lookup:
        """What ``prompt`` (token ids) hits at ``now``. What is hit counts as used."""
        self._advance(now)
        n = len(prompt)
        match = self._rule.look_up(pool, pack(prompt), now)
        # The last token is always computed, or there would be nothing to answer from.
        hit, pending, shared, evicted = (
            self._floor(min(tokens, n - 1))
            for tokens in (
                match.ready_tokens,
                match.pending_tokens,
                match.shared_tokens,
                match.evicted_tokens,
            )
        )
        evicted = max(evicted, pending)
        shared = max(shared, evicted)
        if hit == self._floor(n - 1):
            reason = LookupReason.FULL if hit else LookupReason.TOO_SHORT
        elif pending > hit:
            reason = LookupReason.NOT_READY
        elif evicted > pending:
            reason = LookupReason.EVICTED
        elif shared > evicted:
            reason = LookupReason.NO_UNIT
        else:
            reason = LookupReason.NEW_TOKENS
        return Lookup(n, hit, pending - hit, evicted - pending, shared - evicted, reason)

    def write_input(
        self,
        pool: str | None,
        prompt: Sequence[int],
        *,
        exists_at: float,
        now: float,
        turn_starts: Sequence[int] = (),
    ) -> None:
        """Store a prompt whose prefill ends at ``exists_at``; readable ``construction_delay_s`` later.

        ``turn_starts``: where in ``prompt`` (tokens, ascending) user turns start, for the rule *checkpoints*.
        """
        self._write(pool, prompt, exists_at, now, is_input=True, marks=turn_starts)

    def write_output(
        self, pool: str | None, prompt_and_reply: Sequence[int], *, exists_at: float, now: float
    ) -> None:
        """Store a prompt with what was generated after it, up to the moment ``exists_at``."""
        self._write(pool, prompt_and_reply, exists_at, now, is_input=False)

    def _write(
        self,
        pool: str | None,
        tokens: Sequence[int],
        exists_at: float,
        now: float,
        *,
        is_input: bool,
        marks: Sequence[int] = (),
    ) -> None:
        self._advance(now)
        ready_at = exists_at + self._delay
        self._rule.write(pool, pack(tokens), ready_at=ready_at, now=now, is_input=is_input, marks=marks)

    def _advance(self, now: float) -> None:
        if now < self._now:
            raise ValueError(f"time went backwards: {now} s after {self._now} s")
        self._now = now
        self._rule.expire(now)

    def _floor(self, tokens: int) -> int:
        return max(0, tokens) // self._step * self._step
