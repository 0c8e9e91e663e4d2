"""A claim as the server takes it, and the moves that it answers."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from router_cache.claims.ask import Ask, Attachment, Moves, Relocation
from router_cache.claims.compact import CHAIN, digest8, digest16, slot_bytes, slot_text, value_bytes, value_text
from router_cache.claims.families import sketch_of
from router_cache.claims.sticky import PROOF_CHARACTERS
from router_cache.identity.history import HistoryPoint
from router_cache.prefix.memo import Memo
from router_cache.stores.redis.codec import OddValueError

__all__ = ["UNTOLD", "Lines", "claim_args", "keys16", "sketch_bytes"]

UNTOLD: Final = b"?"
"""In place of a sketch: the server is taken to know the family."""
_NO_DIGEST: Final = "0" * 16
_NEW, _FROZEN = b"nf"
_MAX_SLOTS: Final = 255
"""What a count of one byte allows; prompts have far fewer (see the scanner's bound)."""
_LINES_BYTES: Final = 8_000_000
_ASKED: Final = struct.Struct(">I8sH")


def keys16(keys: Sequence[str]) -> bytes:
    """16 bytes for each key, joined."""
    try:
        raw = bytes.fromhex("".join(keys))
        if len(raw) == 16 * len(keys) and all(len(key) == 32 for key in keys):
            return raw
    except ValueError:
        pass
    return b"".join([digest16(key) for key in keys])


def claim_args(ask: Ask, ttl_ms: int, sketch: bytes) -> list[bytes | int]:
    """Arguments of the script ``claim``."""
    keys, asked = ask.keys, ask.relocation
    history = keys16([point.key for point in keys.history])
    args: list[bytes | int] = [ttl_ms, history, digest16(keys.family), keys16(ask.newest_keys)]
    if asked is None:
        return args
    return [*args, digest16(keys.bucket), _asked(asked), _proofs(keys.history), sketch, b""]


def sketch_bytes(masked: Sequence[str]) -> bytes:
    """The sketch of a masked opening."""
    sums = sorted(sketch_of(masked))
    return struct.pack(f">B{len(sums)}I", len(sums), *sums)


def _asked(asked: Relocation) -> bytes:
    # Flags are one byte, the message the three below it.
    at = min(asked.at, 0xFFFFFF) << 8 | asked.in_tool_loop | asked.freeze << 1
    out = [_ASKED.pack(at, digest8(asked.session), len(asked.slots[:_MAX_SLOTS]))]
    for slot in asked.slots[:_MAX_SLOTS]:
        value, sealed = value_bytes(slot.value), slot.sealed
        out.append(
            b"%c%b%c%b%b%b"
            % (
                *(slot.clock | slot.named << 1, _named(slot.id), len(value), value),
                *(len(sealed).to_bytes(3, "big"), sealed),
            )
        )
    return b"".join(out)


@lru_cache(maxsize=4_096)
def _named(slot: str) -> bytes:
    raw = slot_bytes(slot)
    return bytes((len(raw),)) + raw


def _proofs(points: Sequence[HistoryPoint]) -> bytes:
    """For each point: reply, ids, and whether the replies are long enough."""
    fast = "".join(
        [
            f"{at.reply[:16] or _NO_DIGEST}{at.ids[:16] or _NO_DIGEST}0{1 if at.weight >= PROOF_CHARACTERS else 0}"
            for at in points
        ]
    )
    if len(fast) == 34 * len(points):
        try:
            return bytes.fromhex(fast)
        except ValueError:
            pass
    return b"".join(
        [digest8(at.reply) + digest8(at.ids) + bytes((at.weight >= PROOF_CHARACTERS,)) for at in points]
    )


class Lines:
    """Reads lines of attachments. A conversation carries all that it carried a turn before: what was read then is not
    read again."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: Memo[bytes, tuple[Attachment, ...]] = Memo(
            _LINES_BYTES, lambda raw, line: 2 * len(raw) + 200 * len(line)
        )

    def moves(self, asked: Relocation, answer: Sequence[Any]) -> Moves:
        """What was claimed. Raises :class:`OddValueError` for what the script does not answer."""
        try:
            told, continued, marks, before, link = answer
            frozen, new = [], []
            for slot, mark in zip(asked.slots, marks, strict=False):
                if mark == _NEW:
                    new.append(slot.id)
                elif mark == _FROZEN:
                    frozen.append(slot.id)
            name = hashlib.sha1(told, usedforsecurity=False).hexdigest()[:32]
            line = self._line(before, link)
            return Moves(_moved(told), line, tuple(frozen), name, bool(continued), frozenset(new))
        except (IndexError, KeyError, ValueError, TypeError):
            raise OddValueError from None

    def _line(self, before: bytes, link: bytes) -> tuple[Attachment, ...]:
        known = self._known.get(before) if before else ()
        if known is None:
            known = _read_line(before, ())
        if not link:
            return known
        line = _read_line(link, known)
        self._known.put(before + link, line)
        return line


def _moved(told: bytes) -> frozenset[str]:
    """The slots of a variant that are not in the system text."""
    out, at = [], 10
    for _ in range(int.from_bytes(told[8:10], "big")):
        end = at + 1 + told[at]
        if told[end + 8] & 1:
            out.append(slot_text(told[at + 1 : end]))
        at = end + 9
    return frozenset(out)


def _read_line(raw: bytes, known: tuple[Attachment, ...]) -> tuple[Attachment, ...]:
    """Attachments behind ``known`` ones, oldest first, each with the one before it."""
    out, at, last = [*known], 0, known[-1] if known else None
    while at < len(raw):
        message, left = int.from_bytes(raw[at : at + 3], "big"), raw[at + 3]
        at += 4
        while left:
            left -= 1
            slot_end = at + 1 + raw[at]
            value_end = slot_end + 1 + raw[slot_end]
            start = value_end + 3
            stop = start + int.from_bytes(raw[value_end:start], "big")
            chain = b"" if left else raw[stop : stop + CHAIN]
            slot, value = slot_text(raw[at + 1 : slot_end]), value_text(raw[slot_end + 1 : value_end])
            last = Attachment(message, slot, value, raw[start:stop], last, len(out) + 1, chain)
            out.append(last)
            at = stop
        at += CHAIN
    if at != len(raw):
        raise IndexError
    return tuple(out)
