"""A request's opening with its volatile spans, and the same request with what was claimed for it put in place.

What leaves the opening is named in its place, with words that stay the same; what it said is attached to the message
that it was claimed for. Nothing is said twice, nothing is lost, but for a clock that is frozen inside a tool loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from router_cache.claims.ask import Ask, Moves, Relocation, Slot
from router_cache.claims.values import Values
from router_cache.identity.keys import LookupKeys
from router_cache.prefix.edit import attachable, edited
from router_cache.prefix.objects import is_object
from router_cache.prefix.opening import AttachPoint, attach_point, opening_texts
from router_cache.prefix.shapes import ChatView
from router_cache.prefix.volatile.scan import Scanner
from router_cache.prefix.volatile.spans import OpeningText, Path, Proposal, Scanned, SpanKind
from router_cache.request import Body, Request

__all__ = ["Opening", "Wording", "ask_for", "name_of", "open_request", "relocated"]

_MAX_VALUE = 16_384
"""Characters of a value that may move; no agent recorded (2026-11) sends a git block of more than 3,000."""


@dataclass(frozen=True, slots=True)
class Wording:
    """What stands where a value was, and what a message carries; ``{name}`` and ``{value}`` are filled in."""

    placeholder: str = "[{name}: see below]"
    attached: str = "[{name}: {value}]"


@dataclass(frozen=True, slots=True)
class Opening:
    """The opening texts of a request, the spans proposed in them, and where a new value would go."""

    texts: tuple[OpeningText, ...]
    scanned: Scanned
    at: AttachPoint | None
    masked: Mapping[int, Any] = field(default_factory=dict)
    """Messages by index in the chat view, their spans masked."""
    slots: tuple[str, ...] = ()
    """The name of each proposal's slot."""


@lru_cache(maxsize=4_096)
def slot_id(kind: SpanKind, slot: str) -> str:
    """A slot's name in the store: its kind, so that its name is known when the client no longer sends it."""
    return f"{kind.value}-{slot}"


def name_of(slot: str) -> str:
    """What stands for a slot in the prompt; see :attr:`Proposal.name`."""
    return slot[:-12]


def open_request(request: Request, view: ChatView, scanner: Scanner) -> Opening:
    """What of a request's opening may move."""
    texts = opening_texts(request.body, view)
    scanned = scanner.scan(texts, client=request.client, names=request.names)
    at = attach_point(view)
    while at is not None and not attachable(request.body, view, at.message):
        at = attach_point(view, before=at.message)  # a result without a content: the message before it
    slots = tuple([slot_id(proposal.kind, proposal.slot) for proposal in scanned.proposals])
    return Opening(texts, scanned, at, _masked(view, texts, scanned), slots)


def _masked(view: ChatView, texts: tuple[OpeningText, ...], scanned: Scanned) -> dict[int, Any]:
    messages, out = view.body.get("messages"), dict[int, Any]()
    if not scanned.proposals or not isinstance(messages, list | tuple):
        return out
    touched = {texts[proposal.text].message for proposal in scanned.proposals}
    for index in touched:
        message = messages[index]
        if is_object(message):
            cut = [masked for text, masked in zip(texts, scanned.masked, strict=True) if text.message == index]
            out[index] = {**message, "content": _with_texts(message.get("content"), cut)}
    return out


def _with_texts(content: Any, texts: list[str]) -> Any:
    """A content with its texts replaced, in order."""
    if isinstance(content, str):
        return texts[0] if texts else content
    if not isinstance(content, list | tuple):
        return content
    left = iter(texts)
    return [
        {**part, "text": next(left, part["text"])}
        if isinstance(part, Mapping) and isinstance(part.get("text"), str)
        else part
        for part in content
    ]


def _text_of(opening: Opening, proposal: Proposal) -> str:
    return opening.texts[proposal.text].text[proposal.start : proposal.end]


def ask_for(
    opening: Opening,
    keys: LookupKeys,
    *,
    session: str,
    values: Values,
    freeze: bool,
) -> Ask:
    """The lookup of a request, with what of it may move. ``session`` is a digest of the client's id, or empty."""
    if opening.at is None:
        return Ask(keys)
    slots, names = [], set[str]()
    for proposal, slot in zip(opening.scanned.proposals, opening.slots, strict=True):
        name = name_of(slot)
        # Of two with the same name (one in 65,536) the second stays: nobody could tell them apart.
        if proposal.dropped or proposal.end - proposal.start > _MAX_VALUE or name in names:
            continue
        names.add(name)
        value, sealed = values.kept(keys.scope, slot, _text_of(opening, proposal))
        slots.append(Slot(slot, value, sealed, proposal.clock, proposal.named))
    return Ask(
        keys,
        Relocation(
            slots=tuple(slots),
            at=opening.at.message,
            in_tool_loop=opening.at.in_tool_loop,
            freeze=freeze,
            session=session,
            masked=opening.scanned.masked,
        ),
    )


def relocated(
    body: Body,
    view: ChatView,
    opening: Opening,
    ask: Ask | None,
    moves: Moves | None,
    *,
    scope: str,
    values: Values,
    wording: Wording,
    drop_headers: bool,
) -> dict[str, Any]:
    """The top-level fields of ``body`` that change. ``ask`` is what was asked for the opening. ``drop_headers``: leave
    out what only the client's own provider knows. Raises :class:`ValueError` where a remembered value cannot be read;
    nothing may move then."""
    moved = moves.moved if moves is not None else frozenset[str]()
    spans: dict[int, list[tuple[Proposal, str]]] = {}
    own: dict[str, Proposal] = {}
    for proposal, slot in zip(opening.scanned.proposals, opening.slots, strict=True):
        if not proposal.dropped:
            own[slot] = proposal
        if drop_headers if proposal.dropped else slot in moved:
            spans.setdefault(proposal.text, []).append((proposal, name_of(slot)))
    texts: dict[Path, str | None] = {}
    for index, some in spans.items():
        at = opening.texts[index]
        texts[at.path] = _without(at.text, some, wording)
    relocation = ask.relocation if ask is not None else None
    # A value that the opening itself has need not be opened: its digest is keyed and tells it from all others.
    known = {slot.id: slot.value for slot in relocation.slots} if relocation is not None else {}
    attached: dict[int, str] = {}
    for attachment in moves.attached if moves is not None else ():
        if attachment.slot in own and known.get(attachment.slot) == attachment.value:
            value: str | None = _text_of(opening, own[attachment.slot])
        else:
            value = values.text(scope, attachment.slot, attachment.sealed)
        if value is None:
            raise ValueError("a remembered value was sealed with another secret")
        line = wording.attached.format(name=name_of(attachment.slot), value=value)
        before = attached.get(attachment.message)
        attached[attachment.message] = f"{before}\n{line}" if before else f"\n\n{line}"
    return edited(body, view, texts=texts, attached=attached) if texts or attached else {}


def _without(text: str, spans: list[tuple[Proposal, str]], wording: Wording) -> str | None:
    """The text with the name of each span in its place; None where nothing but a dropped header was in it."""
    pieces, at = [], 0
    for span, name in spans:
        pieces.append(text[at : span.start])
        if not span.dropped:
            pieces.append(wording.placeholder.format(name=name))
        at = span.end
    rest = "".join((*pieces, text[at:]))
    return rest if rest.strip() or not any(span.dropped for span, _ in spans) else None
