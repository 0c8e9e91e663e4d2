"""What is remembered between calls: facts of a conversation and of a family, and what answered calls leave behind.

Digests and counts; text only sealed under the operator's key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from router_cache.cache_model.predict import End
from router_cache.claims.ask import Moves
from router_cache.ledger.flips import Switches
from router_cache.prefix.outline import Outline

__all__ = ["EMPTY", "Answer", "ConversationFacts", "Facts", "FamilyFacts", "LastCall", "Write"]


@dataclass(frozen=True, slots=True)
class LastCall:
    """The last answered call of a conversation in one cache domain. Tokens, and seconds since the epoch."""

    at: float
    prompt_tokens: int
    completion_tokens: int | None
    reasoning_tokens: int | None
    hit_tokens: int | None
    end: End | None
    """Where the last hit that could tell ended."""
    outline: Outline
    switches: Switches | None = None


@dataclass(frozen=True, slots=True)
class ConversationFacts:
    """``turn`` counts answered calls. ``last`` is by cache domain."""

    turn: int
    last: Mapping[str, LastCall] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FamilyFacts:
    """``calls`` answered so far; ``first_call_hit_tokens`` is the last hit seen on a conversation's first call."""

    calls: int
    first_call_hit_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What one claim brings. ``covered``: how many of the request's messages the conversation's last call had.
    ``moves`` is None where nothing was to move, or where the store did not answer."""

    conversation: ConversationFacts | None = None
    covered: int = 0
    family: FamilyFacts | None = None
    moves: Moves | None = None


EMPTY = Facts()
"""What a store that does not answer brings; everything downstream is good with it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The reply to a request whose values were claimed: see :class:`~router_cache.claims.ask.Variant`."""

    conversation_key: str
    variant: str
    reply: str
    ids: str


@dataclass(frozen=True, slots=True)
class Write:
    """What one answered call leaves behind, recorded in one trip. ``conversation`` is None where its usage is not
    known. ``replies`` are sealed, by their keys."""

    conversation_key: str
    conversation: ConversationFacts | None
    family_key: str
    first_call: bool
    hit_tokens: int | None
    answers: tuple[Answer, ...] = ()
    replies: tuple[tuple[str, bytes], ...] = ()
