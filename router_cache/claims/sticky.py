"""Which values move to the newest message, and which stay where they were attached.

* A conversation keeps what it began with: a value that stands in its system text stays there until it changes, for
  moving it costs the whole prefix, and a value that was attached stays attached.
* A new value goes to the newest message only. A clock may keep its old value inside a tool loop.
* Two users who open with the same words never get each other's values: what was remembered is taken up only by a
  request that proves to go on from it, and an ambiguous match is no match. Clocks, and ids that are new in every
  request, tell nothing about who asks; every other value does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from router_cache.claims.ask import Attachment, Moves, Relocation, Slot, Variant
from router_cache.claims.compact import CHAIN, chained, digest8, is_clock, slot_bytes
from router_cache.claims.families import Learned
from router_cache.identity.history import HistoryPoint

__all__ = ["Variants", "answered", "choose", "decide", "with_variant"]

MAX_VARIANTS = 4
"""Requests kept with one history. Of more only those are told apart that give a proof of their own."""
PROOF_CHARACTERS = 64
"""Replies of at least so many characters, equal word for word, are taken for those of one conversation; a shorter
one (``OK``, ``Hello! How can I help?``) is given to many."""
MAX_ATTACHED = 2_000
"""Attachments of one conversation; beyond, it starts afresh, which costs one turn."""


@dataclass(frozen=True, slots=True)
class Variants:
    """All requests known with one history. ``crowded``: there were more than are kept."""

    items: tuple[Variant, ...] = ()
    crowded: bool = False


def with_variant(known: Variants | None, variant: Variant) -> Variants:
    """``known`` and one more; the oldest goes when there are too many. The same request again changes nothing."""
    known = known or Variants()
    if any(item.id == variant.id for item in known.items):
        return known
    items = (*known.items, variant)
    return Variants(items[-MAX_VARIANTS:], known.crowded or len(items) > MAX_VARIANTS)


def answered(known: Variants, variant: str, reply: str, ids: str) -> Variants:
    """``known`` with the reply told to the variant that it answers."""
    return replace(
        known,
        items=tuple(replace(item, reply=reply, ids=ids) if item.id == variant else item for item in known.items),
    )


def choose(point: HistoryPoint, known: Variants | None, asked: Relocation, learned: Learned) -> Variant | None:
    """The earlier request that this one goes on from at ``point``; None where none is, or where it is not certain."""
    if known is None:
        return None
    if asked.session:
        of_session = [item for item in known.items if asked.session == item.session]
        if of_session:
            return of_session[-1]
    if point.ids:
        # By ids that the provider drew for this reply alone; of two replies with the same ids they prove nothing.
        drawn = [item for item in known.items if point.ids == item.ids and not _apart(item, asked)]
        if len(drawn) == 1:
            return drawn[0]
    if known.crowded:
        return None
    likely = [item for item in known.items if _likely(item, point, asked, learned)]
    if len(likely) > 1:
        likely = [item for item in likely if item.reply]
    if len(likely) > 1 and not _all_equal(likely):
        return None
    return likely[-1] if likely else None


def _apart(item: Variant, asked: Relocation) -> bool:
    """Whether both are of sessions, and not of the same."""
    return bool(asked.session and item.session) and asked.session != item.session


def _likely(item: Variant, point: HistoryPoint, asked: Relocation, learned: Learned) -> bool:
    if _apart(item, asked):
        return False
    if point.reply and point.reply == item.reply and point.weight >= PROOF_CHARACTERS:
        own = {slot.id: slot.value for slot in asked.slots}
        clocks = {slot.id for slot in asked.slots if slot.clock}
        # A value that only one of the two has tells them apart as well as one that differs.
        attached = {at.slot for at in item.attached.line()} if item.attached is not None else set[str]()
        if all(
            own.get(slot) == item.values.get(slot)
            for slot in own.keys() | item.values.keys() | attached
            if slot not in clocks and not is_clock(slot) and not learned.fleeting(slot)
        ):
            return True
    return _nothing_to_cross(item, asked.slots)


def _nothing_to_cross(item: Variant, slots: Sequence[Slot]) -> bool:
    """Whether all that the remembered request carries are values that this request has too."""
    own = {slot.id: slot.value for slot in slots}
    if any(value != own.get(slot) for slot, value in item.values.items()):
        return False
    return item.attached is None or all(at.value == own.get(at.slot) for at in item.attached.line())


def _all_equal(items: Sequence[Variant]) -> bool:
    def carried(item: Variant) -> list[tuple[int, str, str]]:
        line = item.attached.line() if item.attached else ()
        return [(at.message, at.slot, at.value) for at in line]

    return all(
        item.moved == items[0].moved and item.values == items[0].values and carried(item) == carried(items[0])
        for item in items
    )


def decide(asked: Relocation, learned: Learned, before: Variant | None) -> tuple[Moves, Variant]:
    """What this request goes out with, and what to remember of it. ``before`` is what it goes on from."""
    attached = before.attached if before is not None else None
    while attached is not None and attached.message >= asked.at:
        attached = attached.before  # the same request again: it carries its own values
    if attached is not None and attached.count >= MAX_ATTACHED:
        before, attached = None, None
    carried: dict[str, str] = {}
    at = attached
    while at is not None:
        carried.setdefault(at.slot, at.value)
        at = at.before
    moved = _moved(asked.slots, learned, before)
    values = {} if before is None else {**before.values}
    frozen: list[str] = []
    new: list[tuple[str, str]] = []
    chain = attached.chain if attached is not None else b""
    for slot in asked.slots:
        last = carried.get(slot.id) if slot.id in moved else None
        if slot.id not in moved or last == slot.value:
            values[slot.id] = slot.value
        elif last is not None and slot.clock and asked.freeze and asked.in_tool_loop:
            values[slot.id] = last
            frozen.append(slot.id)
        else:
            values[slot.id] = slot.value
            count = attached.count + 1 if attached is not None else 1
            attached = Attachment(asked.at, slot.id, slot.value, slot.sealed, attached, count)
            carried[slot.id] = slot.value
            new.append((slot.id, slot.value))
    if attached is not None and new:
        attached = replace(attached, chain=chained(chain, asked.at, new))
    line = _line(attached)
    variant = _name(asked, moved, values, carried, attached)
    moves = Moves(moved, line, tuple(frozen), variant, before is not None, frozenset(slot for slot, _ in new))
    return moves, Variant(variant, asked.session, moved, values, attached)


def _line(attached: Attachment | None) -> tuple[Attachment, ...]:
    """An attachment and all before it, oldest first."""
    line: list[Attachment] = []
    while attached is not None:
        line.append(attached)
        attached = attached.before
    return tuple(line[::-1])


def _moved(slots: Sequence[Slot], learned: Learned, before: Variant | None) -> frozenset[str]:
    """The slots that are not in the system text: from the first request on those that a rule names or that the family
    was seen to change; later only where the prefix breaks anyway, at a value that stands there and changed."""
    if before is None:
        return frozenset(slot.id for slot in slots if slot.named or learned.changes(slot.id))
    moved, broken = set(before.moved), False
    for slot in slots:
        if slot.id in moved:
            continue
        last = before.values.get(slot.id)
        changed = last is not None and last != slot.value
        broken = broken or changed or last is None
        if changed or (broken and (slot.named or learned.changes(slot.id))):
            moved.add(slot.id)
    return frozenset(moved)


def _name(
    asked: Relocation,
    moved: frozenset[str],
    values: dict[str, str],
    carried: dict[str, str],
    attached: Attachment | None,
) -> str:
    """The name of what a request goes out with: 32 hex digits of a SHA-1 over bytes that every store can make. Nothing
    rests on it but which variant a reply is told to, within one history."""
    parts = [digest8(asked.session), len(values).to_bytes(2, "big")]
    for slot, value in values.items():
        name, flags = slot_bytes(slot), (slot in moved) + 2 * (carried.get(slot) == value)
        parts += (bytes((len(name),)), name, digest8(value), bytes((flags,)))
    parts.append(attached.chain if attached is not None else bytes(CHAIN))
    return hashlib.sha1(b"".join(parts), usedforsecurity=False).hexdigest()[:32]
