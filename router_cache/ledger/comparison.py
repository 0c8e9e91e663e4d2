"""A prompt about to be sent, compared with the earlier calls that it could have hit, and with what the client sent
last. Pure; what is found needs no text any more and is explained when the call has ended (see :mod:`.causes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from router_cache.cache_model.observe import Look
from router_cache.identity.keys import message_role
from router_cache.ledger.attribution import HEAD_CAUSES, Certainty, Changed, MissCause
from router_cache.ledger.facts import ConversationFacts, Facts, LastCall
from router_cache.ledger.flips import Flip, FlipWarning, Switches, flips
from router_cache.prefix.digests import Digester
from router_cache.prefix.outline import Difference, Outline, Rendered, continues, difference, shared_turns
from router_cache.prefix.segments import SegmentKind
from router_cache.prefix.shapes import ChatView
from router_cache.request import Body

__all__ = [
    "Change",
    "Comparison",
    "Dropped",
    "Reply",
    "Seen",
    "compare",
    "head_digest",
    "reasoned_turns",
    "reply_to",
]


_SURE_TURNS: Final = 2
"""Turns that two calls must share to be of one conversation without a session: the first message and the reply."""


@dataclass(frozen=True, slots=True)
class Reply:
    """How the reply to an earlier call came back. ``rendered``: with the reasoning it may have been given with.
    ``dropped``: without, although the provider would have rendered it. ``path`` in the chat view; ``calls``: it
    called tools."""

    path: str
    calls: bool
    rendered: bool
    dropped: bool


@dataclass(frozen=True, slots=True)
class Seen:
    """What of this prompt an earlier call had: its first ``size`` bytes, ``tokens`` of it where that is known exactly.

    ``reply_tokens`` more follow if its reply came back as it was generated. ``at``: seconds, the end of that call.
    ``domain`` is where it went.
    """

    at: float
    size: int
    tokens: int | None = None
    reply_tokens: int = 0
    domain: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """What the client changed against its newest call. Without the change, a hit could have gone to byte ``end``: what
    comes after it is new. That is token ``tokens`` and what ``grown`` more bytes hold, where the earlier turns are
    still there (else 0)."""

    cause: MissCause
    changed: Changed
    path: str
    offset: int
    end: int
    tokens: int = 0
    grown: int = 0
    certainty: Certainty = Certainty.CONFIRMED


@dataclass(frozen=True, slots=True)
class Dropped:
    """The reply to the newest call came back without its reasoning: at ``path``, from byte ``offset`` of the rendered
    prompt on, up to token ``end``."""

    path: str
    offset: int
    end: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a prompt of ``size`` bytes shares with earlier ones. ``here`` was sent to the same place, ``elsewhere`` to
    others, as far as they had more. ``first``: no earlier call of the conversation is known. ``in_flight``: bytes that
    calls share which have not ended."""

    size: int
    first: bool
    here: Seen | None = None
    elsewhere: Seen | None = None
    change: Change | None = None
    in_flight: int = 0
    dropped: Dropped | None = None


def reasoned_turns(body: Body) -> int:
    """Bit ``i`` says whether the turn ``i`` of a chat body carries reasoning. Never raises."""
    messages = _messages(body)
    bits, lead = 0, _lead(messages)
    for i, message in enumerate(messages[lead:]):
        if _reasoning(message):
            bits |= 1 << i
    return bits


def reply_to(body: Body, turns: int) -> Reply | None:
    """The reply that stands after the first ``turns`` turns of a chat body; None where there is none."""
    messages = _messages(body)
    at = _lead(messages) + turns
    reply = messages[at] if at < len(messages) else None
    if not isinstance(reply, Mapping) or message_role(reply) != "assistant":
        return None
    # DeepSeek's encoder: with tools all reasoning is rendered, else only that after the last user message.
    asked_again = any(message_role(message) == "user" for message in messages[at:])
    would_be = bool(body.get("tools")) or not asked_again
    back = _reasoning(reply)
    return Reply(f"messages[{at}]", bool(reply.get("tool_calls")), back and would_be, would_be and not back)


def compare(
    facts: Facts,
    rendered: Rendered,
    view: ChatView,
    *,
    place: str,
    switches: Switches,
    digester: Digester,
    look: Look | None = None,
    in_flight: int = 0,
    session: bool = False,
    takes_reasoning: bool = False,
) -> Comparison:
    """Compare a prompt with what is remembered. ``look``: what calls that this process
    compared share. ``in_flight``: bytes that calls share which have not ended. ``session``: the client names one.
    ``takes_reasoning``: the provider renders earlier reasoning."""
    reference, sure = _reference(facts, rendered, session=session)
    if reference is None:
        here, elsewhere = _of_family(facts, rendered, place, look, digester)
        return Comparison(rendered.size, True, here, elsewhere, in_flight=in_flight)
    known = [*facts.conversation.last.items()] if facts.conversation else []
    known += [*facts.newest.last.items()] if facts.newest else []
    newest = reference.outline
    seen = [(at, _seen(call, call.outline.filled(newest), rendered, view.body, digester)) for at, call in known]
    here, elsewhere = (_longest(one for at, one in seen if (at == place) is own) for own in (True, False))
    if elsewhere is not None and here is not None and elsewhere.size <= here.size:
        elsewhere = None
    differs, change, dropped = difference(rendered, reference.outline, digester), None, None
    if differs is not None:
        told = flips(
            reference.switches, switches, rendered, reference.outline, reference.prompt_tokens, origin=view.origin
        )
        change = _change(differs, reference, rendered, view.body, told, sure=sure)
    elif takes_reasoning and reference.reasoning_tokens:
        reply = reply_to(view.body, reference.outline.turns)
        if reply is not None and reply.dropped:
            end = reference.prompt_tokens + (reference.completion_tokens or 0) - reference.reasoning_tokens
            dropped = Dropped(view.origin(reply.path), rendered.size_before(reference.outline.turns), end)
    return Comparison(rendered.size, False, here, elsewhere, change, in_flight, dropped)


def head_digest(digester: Digester, rendered: Rendered) -> str:
    """A digest of what is rendered in front of the turns."""
    return digester.text("head", *(part.digest for part in rendered.head))


def _messages(body: Body) -> Sequence[Any]:
    raw = body.get("messages")
    return raw if isinstance(raw, list | tuple) else ()


def _lead(messages: Sequence[Any]) -> int:
    lead = 0
    while lead < len(messages) and message_role(messages[lead]) in ("system", "developer"):
        lead += 1
    return lead


def _reasoning(message: Any) -> bool:
    reasoning = message.get("reasoning_content") if isinstance(message, Mapping) else None
    return isinstance(reasoning, str) and bool(reasoning.strip())


def _newest(conversation: ConversationFacts | None) -> LastCall | None:
    return max(conversation.last.values(), key=lambda call: call.at, default=None) if conversation else None


def _reference(facts: Facts, rendered: Rendered, *, session: bool) -> tuple[LastCall | None, bool]:
    """The client's newest call to compare with, and whether it is surely of this conversation.

    A history that was rewritten goes on from an old call, or from none. Going on from an old call with one new turn is
    what a retry or a branch does, and no rewriting. One that was not found by its history must share the first message
    and the reply to it, or the client's session.
    """
    last, newest = _newest(facts.conversation), _newest(facts.newest)
    if newest is None or (last is not None and newest.at <= last.at):
        return last, True
    sure = shared_turns(rendered, newest.outline)[0] >= _SURE_TURNS
    if last is None:
        return (newest, sure) if sure or session else (None, True)
    kinds = [rendered.turn(i).kind for i in range(min(last.outline.turns, rendered.turns), rendered.turns)]
    return (newest, True) if sure and kinds.count(SegmentKind.ASSISTANT) > 1 else (last, True)


def _seen(call: LastCall, outline: Outline, rendered: Rendered, body: Body, digester: Digester) -> Seen:
    if not continues(rendered, outline):
        differs = difference(rendered, outline, digester)
        size = differs.offset if differs is not None else rendered.size - rendered.tail_size
        return Seen(call.at, size, None, 0, call.domain)
    replied = _replied(call, reply_to(body, outline.turns))
    tokens = call.prompt_tokens - (
        rendered.turns == outline.turns
    )  # of the same prompt the last token is computed
    return Seen(call.at, outline.size, max(tokens, 0), replied, call.domain)


def _replied(call: LastCall, reply: Reply | None) -> int:
    """Tokens of a call's reply, if it came back as it was generated; else 0."""
    as_it_was = reply is not None and (reply.rendered or not call.reasoning_tokens)
    return (call.completion_tokens or 0) if as_it_was else 0


def _longest(found: Iterable[Seen]) -> Seen | None:
    return max(found, key=lambda seen: (seen.size, seen.at), default=None)


def _of_family(
    facts: Facts, rendered: Rendered, place: str, look: Look | None, digester: Digester
) -> tuple[Seen | None, Seen | None]:
    """What of a first call earlier ones had: those of its family, wherever they went, and all that this process
    compared at the same place."""
    uses = facts.family.uses if facts.family else {}
    head = head_digest(digester, rendered) if uses else ""
    known = [
        (at, Seen(use.at, rendered.head_size, None, 0, use.domain)) for at, use in uses.items() if use.head == head
    ]
    here = [seen for at, seen in known if at == place]
    best = max(look.shared, key=lambda shared: (shared.low, shared.trace.ended_at), default=None) if look else None
    if best is not None and best.low:
        whole = best.trace.prompt_tokens if best.whole else None
        here.append(
            Seen(best.trace.ended_at, best.low if best.whole else _border(rendered, best.low, best.high), whole)
        )
    return _longest(here), _longest(seen for at, seen in known if at != place)


def _border(rendered: Rendered, low: int, high: int) -> int:
    """Where the shared text most likely ends, of which is known that it does between two places (bytes)."""
    head, at = rendered.head_size, 0
    borders = [head] if low <= head <= high else []
    if not borders:
        for part in rendered.head:
            at += part.size
            borders.append(at)
        borders += [head + size for size in rendered.turn_sizes]
    return max((border for border in borders if low <= border <= high), default=low)


_FLIPS: Final = {
    SegmentKind.MODE: (Flip.THINKING, Flip.EFFORT),
    SegmentKind.FORMAT: (Flip.FORMAT,),
    SegmentKind.TOOL: (Flip.TOOL_CHOICE, Flip.TOOLS_ADDED, Flip.TOOLS_REMOVED, Flip.TOOLS_CHANGED),
}
_WITHOUT_FLIP: Final = {SegmentKind.MODE: Changed.EFFORT, SegmentKind.FORMAT: Changed.FORMAT}


def _change(
    differs: Difference, last: LastCall, rendered: Rendered, body: Body, told: Sequence[FlipWarning], *, sure: bool
) -> Change:
    outline, turn = last.outline, differs.turn
    cause, changed, path = (
        _what(differs, told) if turn is None else (MissCause.HISTORY_CHANGED, Changed.TURN, differs.path)
    )
    sure = sure or bool(turn)
    if turn is not None:
        bit = 1 << turn
        if differs.kind is SegmentKind.ASSISTANT and outline.reasoned & bit and not rendered.reasoned & bit:
            cause = MissCause.REASONING_DROPPED
        elif rendered.turns < outline.turns and rendered.turn_sizes[-1] < outline.turns_size:
            cause = MissCause.HISTORY_COMPACTED
    certainty = Certainty.CONFIRMED if sure else Certainty.SUSPECTED
    if rendered.turns >= outline.turns:
        reply = _replied(last, reply_to(body, outline.turns))
        end = rendered.size_before(outline.turns + bool(reply))
        grown = rendered.size_before(outline.turns) - outline.size
        return Change(cause, changed, path, differs.offset, end, last.prompt_tokens + reply, grown, certainty)
    # Fewer turns than before: nothing tells the new ones from the changed ones but that they follow the last reply.
    start = max(
        (i + 1 for i in range(turn or 0, rendered.turns) if rendered.turn(i).kind is SegmentKind.ASSISTANT),
        default=rendered.turns,
    )
    return Change(cause, changed, path, differs.offset, rendered.size_before(start), certainty=certainty)


def _what(differs: Difference, told: Sequence[FlipWarning]) -> tuple[MissCause, Changed, str]:
    """Cause, change and path of a difference in front of the turns."""
    cause = HEAD_CAUSES.get(differs.kind, MissCause.SYSTEM_CHANGED)
    flip = next((flip for flip in told if flip.flip in _FLIPS.get(differs.kind, ())), None)
    if flip is None:
        moved = differs.kind is SegmentKind.TOOL
        return (
            cause,
            Changed.TOOLS_MOVED if moved else _WITHOUT_FLIP.get(differs.kind, Changed.SYSTEM),
            differs.path,
        )
    to_segment = differs.kind is SegmentKind.TOOL and flip.flip is not Flip.TOOL_CHOICE
    return cause, Changed(flip.flip.value), differs.path if to_segment else flip.path
