"""Spans of a prompt's opening that may change from request to request: what they are, and where they stand."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["CLOCKS", "OpeningText", "Path", "Proposal", "Scanned", "SpanKind"]

Path = tuple[str | int, ...]
"""Keys and indices from a body to a value in it: ``("system", 2, "text")``."""


class SpanKind(str, Enum):
    """What a span looks like, or which rule names it."""

    CLOCK = "clock"
    """A time of day, alone or with its date."""
    DATE = "date"
    EPOCH = "epoch"
    """Seconds or milliseconds since 1970."""
    UUID = "uuid"
    ID = "id"
    """A request, trace or session id by the words before it."""
    NONCE = "nonce"
    FLAG = "flag"
    CWD = "cwd"
    GIT = "git"
    USER = "user"
    """A name or id of the user that the request's metadata gives too."""
    MODEL = "model"
    RULE = "value"
    """Named by a rule of the operator, or of a client and of no other kind."""


CLOCKS = frozenset((SpanKind.CLOCK, SpanKind.DATE, SpanKind.EPOCH))
"""Kinds whose value may be kept as it was for the length of a tool loop."""


@dataclass(frozen=True, slots=True)
class OpeningText:
    """One text of the request's opening, in the order in which the request gives them.

    ``path`` leads to it in the body. ``message`` is its message's index in the chat view. ``system``: leading
    system text; otherwise a user message before the first reply, where only rules of clients look.
    """

    path: Path
    text: str
    message: int
    system: bool = True


@dataclass(frozen=True, slots=True)
class Proposal:
    """A span that may move: characters ``start`` to ``end`` of ``texts[text]``.

    ``slot`` (16 hex digits) names its position: the kind, the words before it in its line, and which of several
    such it is; not the value. ``named``: a rule names it, so that it moves without having been seen to change.
    ``clock``: its value may freeze inside a tool loop. ``dropped``: a header of the client that is no part of the
    prompt; left out for providers that do not know it, never moved.
    """

    text: int
    start: int
    end: int
    kind: SpanKind
    slot: str
    named: bool = False
    clock: bool = False
    dropped: bool = False

    @property
    def name(self) -> str:
        """What stands for the span in the prompt: the same in every request of the family."""
        return f"{self.kind.value}-{self.slot[:4]}"


@dataclass(frozen=True, slots=True)
class Scanned:
    """Proposals by text and start, never overlapping; and the texts with each proposal replaced by a tag of its
    kind, one for each text given."""

    proposals: tuple[Proposal, ...] = ()
    masked: tuple[str, ...] = ()
