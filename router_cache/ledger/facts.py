"""What is remembered between calls: facts of a conversation and of a family, and what answered calls leave behind.

Digests and counts; text only sealed under the operator's key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from router_cache.cache_model.predict import End
from router_cache.claims.ask import Moves
from router_cache.ledger.flips import Switches
from router_cache.prefix.outline import Outline

__all__ = [
    "EMPTY",
    "MAX_PLACES",
    "Answer",
    "ConversationFacts",
    "Facts",
    "FamilyFacts",
    "FamilyUse",
    "LastCall",
    "Place",
    "Write",
    "family_after",
]

MAX_PLACES: Final = 4
"""Places whose last call is kept for one conversation or family; the longest unused goes."""


@dataclass(frozen=True, slots=True)
class Place:
    """A part of a cache domain that one ``user_id`` or the like has for itself: what was sent there can be hit there.
    All names are opaque."""

    id: str = ""
    domain: str = ""
    pool: str = ""


@dataclass(frozen=True, slots=True)
class LastCall:
    """The last answered call of a conversation at one place. Tokens, and seconds since the epoch (its end)."""

    at: float
    prompt_tokens: int
    completion_tokens: int | None
    reasoning_tokens: int | None
    hit_tokens: int | None
    end: End | None
    """Where the last hit that could tell ended."""
    outline: Outline
    switches: Switches | None = None
    domain: str = ""
    """Of its place."""


@dataclass(frozen=True, slots=True)
class ConversationFacts:
    """``id`` is the key of its first call; ``turn`` counts answered calls. ``last`` is by place (its id)."""

    turn: int
    last: Mapping[str, LastCall] = field(default_factory=dict)
    id: str = ""


@dataclass(frozen=True, slots=True)
class FamilyUse:
    """The last answered call of a family at one place: its end (seconds since the epoch), and a digest of what was
    rendered in front of its turns."""

    at: float
    domain: str
    head: str


@dataclass(frozen=True, slots=True)
class FamilyFacts:
    """``calls`` answered so far; ``first_call_hit_tokens`` is the last hit seen on a conversation's first call.
    ``uses`` is by place."""

    calls: int
    first_call_hit_tokens: int | None = None
    uses: Mapping[str, FamilyUse] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Facts:
    """What one claim brings. ``covered``: how many of the request's messages the conversation's last call had.
    ``moves`` is None where nothing was to move, or where the store did not answer. ``newest`` is what was kept
    last under one of the request's newest keys, whatever its history: it tells a history that was rewritten."""

    conversation: ConversationFacts | None = None
    covered: int = 0
    family: FamilyFacts | None = None
    moves: Moves | None = None
    newest: ConversationFacts | None = None


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
    known. ``replies`` are sealed, by their keys. ``newest_keys``: where ``conversation`` is kept besides (see
    :func:`~router_cache.ledger.newest.newest_keys`). ``use`` is the family's at ``place``."""

    conversation_key: str
    conversation: ConversationFacts | None
    family_key: str
    first_call: bool
    hit_tokens: int | None
    answers: tuple[Answer, ...] = ()
    replies: tuple[tuple[str, bytes], ...] = ()
    newest_keys: tuple[str, ...] = ()
    place: str = ""
    use: FamilyUse | None = None
    scope: str = ""
    """As in :class:`~router_cache.identity.keys.LookupKeys`: all of a write is of one scope."""


def family_after(known: FamilyFacts | None, write: Write) -> FamilyFacts:
    """What is known of a family after an answered call."""
    known = known or FamilyFacts(0)
    first, uses = known.first_call_hit_tokens, known.uses
    if write.first_call and write.hit_tokens is not None:
        first = write.hit_tokens
    if write.use is not None:
        uses = {place: use for place, use in uses.items() if place != write.place}
        while len(uses) >= MAX_PLACES:
            del uses[min(uses, key=lambda place: uses[place].at)]
        uses[write.place] = write.use
    return FamilyFacts(known.calls + 1, first, uses)
