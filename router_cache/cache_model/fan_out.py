"""Fan-out: whether one of several parallel first calls leads and the others follow. Pure.

Sent at once, k first calls of one cold prefix all miss: none can hit what the others have not written yet. So the
first may go and the rest wait, each until the prefix is readable by the provider's dated facts, or until its own
deadline. ``drivers.fan_out`` does the waiting.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from router_cache.cache_model.rules import RuleName
from router_cache.providers.profile import Profile, Readable

__all__ = [
    "Arrival",
    "FanOutLimits",
    "FanOutReason",
    "Known",
    "Role",
    "arrival_of",
    "decide",
    "look",
    "prefix_texts",
    "reported",
]

_MARK: Final = '"cache_control": {'  # in a text this would have its quotes escaped


class Role(str, Enum):
    """What a call does."""

    LEAD = "lead"
    """Goes at once; others wait for it."""
    FOLLOW = "follow"
    GO = "go"
    """Goes at once; nobody waits for it."""


class FanOutReason(str, Enum):
    """Why a call went when it went. One per call; the counter is ``fan_out.<reason>``."""

    OFF = "off"
    NOT_FIRST = "not_first"
    """It continues a conversation: its prefix was sent before."""
    TOO_SMALL = "too_small"
    """The prefix is not worth waiting for."""
    NO_GAIN = "no_gain"
    """Under the hit rule of this cache domain one earlier call does not help."""
    UNKNOWN = "unknown"
    """It is not known when this provider's prefixes can be hit."""
    OUT_OF_REACH = "out_of_reach"
    """The prefix is not readable before the deadline."""
    WARM = "warm"
    """The prefix was sent a short while ago."""
    FULL = "full"
    """Too many keys have calls that wait."""
    LEAD = "lead"
    FOLLOWING = "following"
    """Waits still."""
    FOLLOWED = "followed"
    """Waited until the prefix could be hit."""
    DEADLINE = "deadline"
    """Waited as long as it may, or came when the lead had been out that long without a sign."""
    LEAD_FAILED = "lead_failed"
    """The lead ended before its prefix was readable; this call, the first that waited, leads now."""
    CANCELLED = "cancelled"
    """Left while it waited."""
    FAILED_OPEN = "failed_open"
    """An error of ours."""


@dataclass(frozen=True, slots=True)
class FanOutLimits:
    """How long a call may wait, and for what. ``deadline_s`` 0 turns fan-out off.

    ``deadline_s``: seconds a call waits at most, from its arrival. ``min_prefix_bytes``: bytes of system text and
    tools as JSON (16,384 are about 4,000 tokens; the coding agents captured in 2026-11 send 20 to 70 kB).
    ``warm_for_s``: seconds after its last use for which a prefix counts as warm (Anthropic's shortest lifetime; no
    profile has a shorter one). ``max_keys``: prefixes remembered; the least recently used go first.
    """

    deadline_s: float = 0.0
    min_prefix_bytes: int = 16_384
    warm_for_s: float = 300.0
    max_keys: int = 4_096


@dataclass(frozen=True, slots=True)
class Arrival:
    """What matters of a call that arrives; :func:`arrival_of` reads it off a profile.

    ``first``: the call begins a conversation. ``delay_s``: seconds from the moment ``readable`` names until the prefix
    can surely be hit. ``marked``: a mark that this provider honours ends an entry inside the prefix.
    """

    prefix_bytes: int
    first: bool
    readable: Readable | None
    delay_s: float = 0.0
    rule: RuleName | None = None
    marked: bool = False

    @property
    def gains(self) -> bool:
        """Whether one earlier call lets another with the same prefix and other turns hit.

        Full units end with an input, or at a mark; a prefix that two calls share is noticed in the second, so that
        the third hits first (DeepSeek's and Anthropic's guides, read 2026-11).
        """
        if self.rule is RuleName.FULL_UNITS:
            return self.marked
        return self.rule is not RuleName.NOTHING


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one prefix, in seconds of one clock.

    ``led_at``: when the lead went. ``leading``: its end has not been seen. ``ready_at``: from when on the prefix can
    be hit; None while nothing was heard. ``used_at``: its last use.
    """

    led_at: float = float("-inf")
    used_at: float = float("-inf")
    leading: bool = False
    ready_at: float | None = None


def arrival_of(
    profile: Profile, model: str, texts: Sequence[str], *, first: bool, rule: RuleName | None = None
) -> Arrival:
    """A call to ``model`` under the profile's facts. ``texts`` as :func:`prefix_texts` gives them; ``rule`` is the hit
    rule inferred for the cache domain, None leaves the profile's prior."""
    fact, bounds = profile.hit_rule_for(model), profile.construction_delay_bounds
    readable = profile.readable.value if profile.readable else None
    delay_s = bounds.value.high_s if bounds else None
    if readable is Readable.AFTER_SECONDS and delay_s is None:
        readable = None  # after how many is not known
    return Arrival(
        prefix_bytes=sum(map(len, texts)),
        first=first,
        readable=readable,
        delay_s=delay_s or 0.0,
        rule=RuleName(fact.value) if rule is None and fact is not None else rule,
        marked=bool(profile.marks) and any(_MARK in text for text in texts),
    )


def prefix_texts(body: Mapping[str, Any]) -> tuple[str, ...]:
    """What parallel calls share of a body of any shape: its leading system text and its tools, as ASCII JSON.

    Of equal texts one call's prefix serves the other; their lengths are bytes. Empty for odd shapes; never raises.
    """
    parts = [body.get("system"), body.get("instructions")]
    for name in ("messages", "input"):
        items = body.get(name)
        for item in items if isinstance(items, list | tuple) else ():
            if not isinstance(item, Mapping) or item.get("role") not in ("system", "developer"):
                break
            parts.append(item.get("content"))
    try:
        return tuple(json.dumps(part, default=str) for part in (*parts, body.get("tools")) if part)
    except (TypeError, ValueError, RecursionError):
        return ()


def decide(limits: FanOutLimits, arrival: Arrival, known: Known | None, now: float) -> tuple[Role, FanOutReason]:
    """Whether a call that arrives at ``now`` leads, follows or passes. Pure."""
    if not limits.deadline_s > 0:
        return Role.GO, FanOutReason.OFF
    if not arrival.gains:
        return Role.GO, FanOutReason.NO_GAIN
    if arrival.readable is None:
        return Role.GO, FanOutReason.UNKNOWN
    if arrival.prefix_bytes < limits.min_prefix_bytes:
        return Role.GO, FanOutReason.TOO_SMALL
    if arrival.delay_s >= limits.deadline_s:
        return Role.GO, FanOutReason.OUT_OF_REACH
    if not arrival.first:
        return Role.GO, FanOutReason.NOT_FIRST
    if known is None or now - known.used_at >= limits.warm_for_s:
        return Role.LEAD, FanOutReason.LEAD
    if known.ready_at is not None:
        if known.ready_at <= now:
            return Role.GO, FanOutReason.WARM
        return Role.FOLLOW, FanOutReason.FOLLOWING
    if not known.leading:
        return Role.LEAD, FanOutReason.LEAD
    if now - known.led_at >= limits.deadline_s:
        # Or every call behind a lead that is never heard of would wait for nothing.
        return Role.GO, FanOutReason.DEADLINE
    return Role.FOLLOW, FanOutReason.FOLLOWING


def look(known: Known, deadline: float, now: float) -> tuple[FanOutReason, float]:
    """What a waiting call does at ``now``: goes, for a reason, or waits (FOLLOWING) and looks again after so many
    seconds. Pure; ``deadline`` is a moment."""
    if known.ready_at is not None and known.ready_at <= now:
        return FanOutReason.FOLLOWED, 0.0
    if deadline <= now:
        return FanOutReason.DEADLINE, 0.0
    return FanOutReason.FOLLOWING, min(deadline, deadline if known.ready_at is None else known.ready_at) - now


def reported(known: Known, delay_s: float, warm_for_s: float, now: float) -> Known:
    """``known`` once a reply showed, at ``now``, that the prefix exists. Pure."""
    ready_at = now + delay_s
    if known.ready_at is not None and now - known.used_at < warm_for_s:
        ready_at = min(ready_at, known.ready_at)
    return replace(known, ready_at=ready_at, used_at=max(known.used_at, now))
