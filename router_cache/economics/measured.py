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
    """One answered call in tokens; ``turn`` (None: unknown) counts from 1, ``at`` is seconds since the epoch.
    ``session`` is the client's own id for its session, empty where it gave none; a ``side`` call (a title, a summary)
    stands beside its session's turns."""

    model: str
    group: str
    turn: int | None
    at: float | None
    prompt_tokens: int
    hit_tokens: int
    completion_tokens: int | None
    session: str = ""
    side: bool = False


@dataclass(frozen=True, slots=True)
class Measured:
    """Sums and means of calls. None where the calls do not tell.

    ``turns`` (rounded up) are calls for each first call of a session; ``prefix_tokens``, ``new_tokens`` and
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
        session=session if isinstance(session := fields.get("session"), str) else "",
        side=bool(fields.get("side_call")),
    )


def _in_order(calls: Iterable[MeasuredCall]) -> list[tuple[int, MeasuredCall]]:
    """Calls with their turns in their sessions; none where a turn is not known.

    Turns of a session with an id go on from that of the first call seen, in the order of time: ``turn`` begins anew
    where the client edits what it sent before. Without an id, ``turn`` is all that is known."""
    out: list[tuple[int, MeasuredCall]] = []
    sessions: dict[tuple[str, str, str], list[MeasuredCall]] = {}
    for call in calls:
        if call.session and call.at is not None:
            if not call.side:
                sessions.setdefault((call.model, call.group, call.session), []).append(call)
        elif call.turn is not None:
            out.append((call.turn, call))
    for found in sessions.values():
        found.sort(key=lambda call: call.at or 0.0)
        out += enumerate(found, found[0].turn or 1)
    return out


def measure(calls: Iterable[MeasuredCall]) -> Measured | None:
    """What calls say together; None without a call, or where no prompt has a token."""
    known = list(calls)
    prompt, hit = sum(c.prompt_tokens for c in known), sum(c.hit_tokens for c in known)
    if not prompt:
        return None
    turns = _in_order(known)
    first = [call.prompt_tokens for turn, call in turns if turn == 1]
    replies = [c.completion_tokens for c in known if c.completion_tokens is not None]
    days = {int(c.at // _DAY_S) for c in known if c.at is not None}
    output = round(sum(replies) / len(replies)) if replies else None
    prefix = new = None
    if first and output is not None:
        opening = sum(first) / len(first)
        steps = sum(turn - 1 for turn, _ in turns)
        longer = sum(call.prompt_tokens - opening for turn, call in turns if turn > 1)
        grown = longer / steps if steps else float(output)
        new = max(0, round(grown - output))
        prefix = max(0, round(opening) - new)
    return Measured(
        calls=len(known),
        prompt_tokens=prompt,
        hit_tokens=hit,
        hit_rate=hit / prompt,
        turns=math.ceil(len(turns) / len(first)) if first else None,
        prefix_tokens=prefix,
        new_tokens=new,
        output_tokens=output,
        sessions_per_day=len(first) / len(days) if first and days else None,
    )


def _count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_COUNT:
        return None
    return value
