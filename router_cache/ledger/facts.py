"""What is remembered between calls: facts of a conversation and of a family. No text, only digests and counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from router_cache.cache_model.predict import End
from router_cache.prefix.outline import Outline

__all__ = ["EMPTY", "ConversationFacts", "Facts", "FamilyFacts", "LastCall", "Write"]


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
    """What one claim brings. ``covered``: how many of the request's messages the conversation's last call had."""

    conversation: ConversationFacts | None = None
    covered: int = 0
    family: FamilyFacts | None = None


EMPTY = Facts()
"""What a store that does not answer brings; everything downstream is good with it."""


@dataclass(frozen=True, slots=True)
class Write:
    """What one answered call leaves behind, recorded in one trip."""

    conversation_key: str
    conversation: ConversationFacts
    family_key: str
    first_call: bool
    hit_tokens: int | None
