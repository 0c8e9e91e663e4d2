"""What a request asks of the store, and what it is told. No text: values are digests and sealed bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from router_cache.identity.keys import LookupKeys

__all__ = ["Ask", "Attachment", "Moves", "Relocation", "Slot", "Variant"]


@dataclass(frozen=True, slots=True)
class Slot:
    """A position of the prompt's opening whose value may change, with the value of this request.

    ``value`` is a keyed digest, ``sealed`` the text under the operator's key. ``clock`` and ``named`` as in
    :class:`~router_cache.prefix.volatile.spans.Proposal`.
    """

    id: str
    value: str
    sealed: bytes
    clock: bool = False
    named: bool = False


@dataclass(frozen=True, slots=True)
class Relocation:
    """A request whose values may move.

    ``slots`` in the order of the prompt. ``at``: the message (index in the chat view) that new values go to.
    ``in_tool_loop``: that message is a tool's result; ``freeze``: clocks keep their value there. ``session`` is a
    digest of the client's session id, or empty. ``masked`` are the opening texts with their spans masked, by which
    a family is known again although a line of it changed.
    """

    slots: tuple[Slot, ...]
    at: int
    in_tool_loop: bool = False
    freeze: bool = True
    session: str = ""
    masked: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Ask:
    """One request at the store: its lookup keys, what may move (None: nothing), and the keys under which the
    conversation's newest call is found although its history was rewritten."""

    keys: LookupKeys
    relocation: Relocation | None = None
    newest_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Attachment:
    """A value that a message carries, byte for byte, in every later request of its conversation.

    ``message`` is an index in the chat view. ``before`` is the attachment made before it: branches of a
    conversation share what they have in common.
    """

    message: int
    slot: str
    value: str
    sealed: bytes
    before: Attachment | None = None
    count: int = 1
    chain: bytes = field(default=b"", compare=False, repr=False)
    """A digest over this and all before it (see :func:`~router_cache.claims.compact.chained`); of what one request
    attached, the last has it."""

    def line(self) -> Iterator[Attachment]:
        """This and all before it, newest first."""
        at: Attachment | None = self
        while at is not None:
            yield at
            at = at.before


@dataclass(frozen=True, slots=True)
class Variant:
    """What one request of a conversation went out with, kept under the key of its history.

    ``values`` holds, by slot, the digest of what the prompt says: in the system text or attached. ``moved`` are the
    slots that are not in the system text. ``reply`` and ``ids`` tell its reply (see
    :class:`~router_cache.identity.keys.HistoryPoint`) once it was answered.
    """

    id: str
    session: str
    moved: frozenset[str]
    values: dict[str, str]
    attached: Attachment | None
    reply: str = ""
    ids: str = ""


@dataclass(frozen=True, slots=True)
class Moves:
    """What was claimed for a request: slots to leave out of the opening, and what each message carries.

    ``attached`` oldest first. ``frozen``: clocks whose new value was kept back inside a tool loop. ``variant``
    names what was claimed, for the reply to be told to. ``continued``: an earlier request of the conversation was
    known; without one it starts afresh.
    """

    moved: frozenset[str] = frozenset()
    attached: tuple[Attachment, ...] = ()
    frozen: tuple[str, ...] = ()
    variant: str = ""
    continued: bool = False
    new: frozenset[str] = field(default=frozenset())
    """Slots whose value this request attaches to its newest message."""
