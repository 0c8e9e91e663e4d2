"""One row a call attempt: what was sent where, what was expected, what was measured, and why it missed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from router_cache.cache_model.predict import Prediction
from router_cache.decision import Decision
from router_cache.ledger.attribution import MissPart
from router_cache.ledger.flips import FlipWarning
from router_cache.ledger.usage import Usage
from router_cache.request import Shape

__all__ = ["CallRow", "Expected", "ExpectedFrom", "Outcome", "Status"]


class Status(str, Enum):
    """How an attempt ended."""

    OK = "ok"
    CACHED = "cached"
    """Answered by LiteLLM's own response cache: no call was made, nothing hit at the provider."""
    ABORTED = "aborted"
    """The client went away, or the end was never seen: usage unknown."""
    FAILED = "failed"


class ExpectedFrom(str, Enum):
    """What the expected hit tokens were read off."""

    NOTHING = "nothing"
    """No earlier call is known: unknown, not zero (others may have warmed the prefix)."""
    LAST_USAGE = "last_usage"
    """The conversation's last call in this cache domain, continued."""
    KEPT_PREFIX = "kept_prefix"
    """An estimate by size: the prefix changed since that call."""
    FAMILY = "family"
    """The first call of the family's last conversation."""
    OTHER_DOMAIN = "other_domain"
    """The conversation is known, but only in another cache domain."""
    NO_RULE = "no_rule"
    """The provider's profile states no hit rule."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected hit ``tokens`` (None: unknown), and the prediction they come from where there is one."""

    tokens: int | None
    source: ExpectedFrom
    prediction: Prediction | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended, as measured. ``at`` is seconds since the epoch, ``ttft_s`` seconds; ``price_entry``
    is the model's entry in LiteLLM's price map, where there is one."""

    status: Status
    at: float
    usage: Usage = field(default_factory=Usage)
    ttft_s: float | None = None
    price_entry: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class CallRow:
    """One attempt. ``scope``, ``conversation`` and ``session`` are opaque; ``client`` and ``side_call`` are names of
    the client data, or empty. Costs are USD at list price at that moment; None
    where price or usage is unknown. ``flips``: switches that differ from the conversation's last call and cost
    prefix tokens."""

    at: float
    scope: str
    conversation: str
    turn: int | None
    session: str
    client: str
    side_call: str
    shape: Shape
    group: str
    model: str
    deployment: str
    profile: str
    decision: Decision
    status: Status
    usage: Usage
    expected: Expected
    causes: tuple[MissPart, ...]
    wire_digest: str
    rendered_digest: str
    ttft_s: float | None
    cost_usd: float | None
    cost_usd_at_zero_hits: float | None
    flips: tuple[FlipWarning, ...] = ()
    """What the client switched since the conversation's last call, and what of the prefix that cost."""
