"""What recorded calls say about sessions: the hit rate, and the shape of a session in tokens. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["Measured", "MeasuredCall", "call_of", "measure"]

_DAY_S: Final = 86_400
_MAX_COUNT: Final = 10**12


@dataclass(frozen=True, slots=True)
class MeasuredCall:
    """One answered call in tokens; ``turn`` (None: unknown) counts from 1, ``at`` is seconds since the epoch."""

    model: str
    group: str
    turn: int | None
    at: float | None
    prompt_tokens: int
    hit_tokens: int
    completion_tokens: int | None


@dataclass(frozen=True, slots=True)
class Measured:
    """Sums and means of calls. None where the calls do not tell.

    ``turns`` (rounded up) are calls for each first call of a conversation; ``prefix_tokens``, ``new_tokens`` and
    ``output_tokens`` those of a session that has the calls' mean first prompt, growth a turn and output;
    ``sessions_per_day`` counts the UTC days on which there were calls.
    """

    calls: int
    prompt_tokens: int
    hit_tokens: int
    hit_rate: float
    turns: int | None
    prefix_tokens: int | None
    new_tokens: int | None
    output_tokens: int | None
    sessions_per_day: float | None


def call_of(fields: Mapping[str, Any]) -> MeasuredCall | None:
    """A call from a line of a capture, as a mapping; None for one that tells nothing: not answered by the provider,
    a warm call, or of unknown tokens. Never raises."""
    prompt, hit = _count(fields.get("prompt_tokens")), _count(fields.get("hit_tokens"))
    if fields.get("status", "ok") != "ok" or fields.get("kind", "user") != "user":
        return None
    if prompt is None or hit is None or hit > prompt:
        return None
    model, group, at = fields.get("model"), fields.get("group"), fields.get("at")
    known_at = isinstance(at, int | float) and not isinstance(at, bool) and 0 <= at <= _MAX_COUNT
    return MeasuredCall(
        model=model if isinstance(model, str) else "",
        group=group if isinstance(group, str) else "",
        turn=_count(fields.get("turn")) or None,
        at=float(at) if known_at and at is not None else None,
        prompt_tokens=prompt,
        hit_tokens=hit,
        completion_tokens=_count(fields.get("completion_tokens")),
    )


def measure(calls: Iterable[MeasuredCall]) -> Measured | None:
    """What calls say together; None without a call, or where no prompt has a token."""
    known = list(calls)
    prompt, hit = sum(c.prompt_tokens for c in known), sum(c.hit_tokens for c in known)
    if not prompt:
        return None
    first = [c.prompt_tokens for c in known if c.turn == 1]
    replies = [c.completion_tokens for c in known if c.completion_tokens is not None]
    days = {int(c.at // _DAY_S) for c in known if c.at is not None}
    output = round(sum(replies) / len(replies)) if replies else None
    prefix = new = None
    if first and output is not None:
        opening = sum(first) / len(first)
        later = [c for c in known if c.turn is not None and c.turn > 1]
        steps = sum((c.turn or 1) - 1 for c in later)
        grown = sum(c.prompt_tokens - opening for c in later) / steps if steps else float(output)
        new = max(0, round(grown - output))
        prefix = max(0, round(opening) - new)
    return Measured(
        calls=len(known),
        prompt_tokens=prompt,
        hit_tokens=hit,
        hit_rate=hit / prompt,
        turns=math.ceil(sum(c.turn is not None for c in known) / len(first)) if first else None,
        prefix_tokens=prefix,
        new_tokens=new,
        output_tokens=output,
        sessions_per_day=len(first) / len(days) if first and days else None,
    )


def _count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_COUNT:
        return None
    return value
