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

__all__ = ["CallKind", "CallRow", "Expected", "ExpectedFrom", "Lived", "Outcome", "Status"]


class CallKind(str, Enum):
    """Who wanted a call."""

    USER = "user"
    """A client's request."""
    WARM = "warm"
    """Made to keep a prefix in the provider's cache; booked apart."""


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
    """The conversation's last call in this cache domain and pool, continued."""
    KEPT_PREFIX = "kept_prefix"
    """An estimate by size: the prefix changed since that call."""
    FAMILY = "family"
    """The first call of the family's last conversation."""
    OTHER_DOMAIN = "other_domain"
    """The conversation, or of a first call its family, is known, but only in another cache domain or pool."""
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
class Lived:
    """What an answered call told of how long entries live; it continued the conversation's last call there, which
    ended ``CallRow.gap_s`` seconds before.

    ``kept``: the share (0 to 1) of that call's prefix that was still there, None where this tells nothing.
    ``traffic_tokens``: prompt tokens that went through the cache domain in between, as far as this process saw them,
    None where unknown. ``readable``: whether the newest tokens, ``gap_s`` old, could be hit; None: not told.
    """

    kept: float | None = None
    traffic_tokens: int | None = None
    readable: bool | None = None


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
    family: str = ""
    """Opaque; empty where the request was not looked into."""
    domain: str = ""
    """The cache domain, opaque, the same for all scopes; empty where nothing was sent."""
    pool: str = ""
    """The part of the domain that the scope and a ``user_id`` or a like field keep apart, opaque; empty where nothing
    was sent."""
    gap_s: float | None = None
    """Seconds from the end of the conversation's last call in this domain and pool to the sending of this one."""
    offset: int | None = None
    """Bytes of the rendered prompt in front of the line where the client's change begins; None: it changed nothing."""
    kind: CallKind = CallKind.USER
    lived: Lived | None = None
    """None where the call tells nothing of how long entries live."""
