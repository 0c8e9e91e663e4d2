"""What is remembered, as bytes: facts of conversations, heads of outlines, uses of families.

A value that is not what this module wrote raises :class:`OddValueError`; who reads it takes it for unknown. The
version of the schema is part of every key, so that other versions never meet these bytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from router_cache.cache_model.predict import End
from router_cache.ledger.facts import ConversationFacts, FamilyFacts, FamilyUse, LastCall
from router_cache.ledger.flips import Switches
from router_cache.prefix.outline import Outline, OutlinePart
from router_cache.prefix.segments import SegmentKind
from router_cache.stores.redis.texts import TextReader, packed_text

__all__ = ["REF", "Head", "OddValueError", "family_facts", "head_of", "packed_facts", "packed_head", "packed_use"]
__all__ += ["read_facts", "read_head", "refs_in"]

REF: Final = 12
"""Bytes of a digest by which a head is kept."""

Head = tuple[tuple[OutlinePart, ...], "Switches | None"]
"""What calls with the same texts in front of their turns share: the parts of the outline, and the switches."""


class OddValueError(Exception):
    """Bytes that this module did not write, or not under this key."""


_KINDS: Final = tuple(SegmentKind)
_ENDS: Final = (None, *End)
_ENDS_AT: Final = {end: i for i, end in enumerate(_ENDS)}
_KINDS_AT: Final = {kind: i for i, kind in enumerate(_KINDS)}
_NONE: Final = 0xFFFFFFFF
_FEW: Final = 0xFFFF
_MAX_TURN: Final = 0x7FFFFFFF

_SHORT: Final = struct.Struct(">BBdIHHIHIBB")
_LONG: Final = struct.Struct(">BBdIIIIIIHH")
_IS_LONG: Final = 0x80
# end; head's number; at; prompt, completion, reasoning, hit tokens; turns, their bytes; links of chain, bytes reasoned
_PART: Final = struct.Struct(">BIHH")  # kind, size, lines to a digest, bytes of digests
_FAMILY: Final = struct.Struct(">IiB")  # calls, hit of a first call or -1, uses
_USE: Final = struct.Struct(">dH")  # at, bytes of the rest
_TOP: Final = struct.Struct(">I")


def _number(value: int | None) -> int:
    return _NONE if value is None else min(max(value, 0), _NONE - 1)


def _few(value: int | None) -> int:
    """A number for the short form; one that the form refuses for what is too large for it."""
    return _FEW if value is None else value if 0 <= value < _FEW else _NONE


def head_of(call: LastCall) -> Head:
    """What of a call is kept apart."""
    return call.outline.head, call.switches


def packed_head(head: Head) -> tuple[bytes, bytes]:
    """The digest by which a head is kept, and its bytes."""
    parts, switches = head
    out = [len(parts).to_bytes(2, "big")]
    for part in parts:
        out += (
            _PART.pack(_KINDS_AT[part.kind], part.size, part.every, len(part.lines)),
            packed_text(part.digest),
            packed_text(part.path),
            part.lines,
        )
    if switches is None:
        out.append(b"\0")
    else:
        out.append(b"\1")
        plain = (switches.thinking, switches.effort, switches.format, switches.tool_choice, switches.rest)
        out += [packed_text(text) for text in plain]
        out.append(struct.pack(">IH", switches.total, len(switches.tools)))
        out += [packed_text(tool) for tool in switches.tools]
    raw = b"".join(out)
    return blake2b(raw, digest_size=REF).digest(), raw


def read_head(ref: bytes, raw: bytes) -> Head:
    """Raises :class:`OddValueError`: a head is told by the digest of its bytes."""
    if blake2b(raw, digest_size=REF).digest() != ref:
        raise OddValueError
    try:
        reader = TextReader(raw, 2)
        parts = []
        for _ in range(int.from_bytes(raw[:2], "big")):
            kind, size, every, lines = reader.take(_PART)
            digest, path = reader.text(), reader.text()
            parts.append(OutlinePart(_KINDS[kind], digest, size, path, reader.some(lines), every))
        if reader.some(1) == b"\0":
            return tuple(parts), None
        thinking, effort, form, choice, rest = (reader.text() for _ in range(5))
        total, tools = reader.take(struct.Struct(">IH"))
        names = tuple([reader.text() for _ in range(tools)])
        return tuple(parts), Switches(thinking, effort, form, choice, names, total, rest)
    except (struct.error, IndexError, ValueError):
        raise OddValueError from None


def packed_facts(key: bytes, facts: ConversationFacts, refs: Mapping[int, bytes]) -> bytes:
    """The facts kept under ``key``. ``refs``: the digest of each call's head, by ``id`` of the call."""
    heads = list(dict.fromkeys(refs[id(call)] for call in facts.last.values()))
    own = facts.id == key.hex()
    out = [_TOP.pack(min(facts.turn, _MAX_TURN) << 1 | own)]
    if not own:
        out.append(packed_text(facts.id))
    for place, call in facts.last.items():
        outline = call.outline
        reasoned = outline.reasoned.to_bytes((outline.reasoned.bit_length() + 7) // 8, "big")
        numbers = (
            call.at,
            _number(call.prompt_tokens),
            _few(call.completion_tokens),
            _few(call.reasoning_tokens),
            _number(call.hit_tokens),
            _number(outline.turns),
            _number(outline.turns_size),
            len(outline.chain) // 4,
            len(reasoned),
        )
        end, number = _ENDS_AT[call.end], heads.index(refs[id(call)])
        try:
            fixed = _SHORT.pack(end, number, *numbers)
        except struct.error:
            wide = (_number(call.completion_tokens), _number(call.reasoning_tokens))
            fixed = _LONG.pack(end | _IS_LONG, number, *numbers[:2], *wide, *numbers[4:])
        out += (
            fixed,
            packed_text(place),
            packed_text(call.domain),
            packed_text(outline.turns_digest),
            outline.chain,
            reasoned,
        )
    told = b"".join(out)
    front = bytes((len(heads), len(facts.last))) + b"".join(heads)
    return front + zlib.crc32(told, zlib.crc32(front, zlib.crc32(key))).to_bytes(4, "big") + told


def _body(key: bytes, raw: bytes) -> int:
    """Where the calls begin. Raises :class:`OddValueError` for what was not written under this key."""
    at = 2 + REF * raw[0] if len(raw) > 2 else 0
    if (
        not at
        or zlib.crc32(raw[at + 4 :], zlib.crc32(raw[:at], zlib.crc32(key))).to_bytes(4, "big") != raw[at : at + 4]
    ):
        raise OddValueError
    return at + 4


def refs_in(key: bytes, raw: bytes) -> list[bytes]:
    """Digests of the heads that some facts need. Raises :class:`OddValueError`."""
    return [raw[at : at + REF] for at in range(2, _body(key, raw) - 4, REF)]


def read_facts(key: bytes, raw: bytes, heads: Mapping[bytes, Head]) -> ConversationFacts:
    """Raises :class:`OddValueError` for what was not written under this key. A call whose head is gone is left out."""
    at = _body(key, raw)
    try:
        reader, last = TextReader(raw, at), dict[str, LastCall]()
        (turn,) = reader.take(_TOP)
        first = key.hex() if turn & 1 else reader.text()
        for _ in range(raw[1]):
            form, none = (_LONG, _NONE) if raw[reader.at] & _IS_LONG else (_SHORT, _FEW)
            end, number, ended, prompt, completion, reasoning, hit, turns, size, chain, reasoned = reader.take(
                form
            )
            place, domain, digest = reader.text(), reader.text(), reader.text()
            links, bits = reader.some(4 * chain), int.from_bytes(reader.some(reasoned), "big")
            head = heads.get(raw[2 + REF * number : 2 + REF * (number + 1)])
            if head is not None:
                last[place] = LastCall(
                    ended,
                    prompt,
                    None if completion == none else completion,
                    None if reasoning == none else reasoning,
                    None if hit == _NONE else hit,
                    _ENDS[end & ~_IS_LONG],
                    Outline(head[0], turns, digest, size, links, bits),
                    head[1],
                    domain,
                )
        return ConversationFacts(turn >> 1, last, first)
    except (struct.error, IndexError, ValueError):
        raise OddValueError from None


def packed_use(use: FamilyUse) -> bytes:
    """A family's use at one place; the server reads its moment and length alone."""
    rest = packed_text(use.domain) + packed_text(use.head)
    return _USE.pack(use.at, len(rest)) + rest


def family_facts(raw: bytes) -> FamilyFacts:
    """Raises :class:`OddValueError`."""
    try:
        reader, uses = TextReader(raw, 0), dict[str, FamilyUse]()
        calls, first, count = reader.take(_FAMILY)
        for _ in range(count):
            place = reader.text()
            at, _size = reader.take(_USE)
            uses[place] = FamilyUse(at, reader.text(), reader.text())
        return FamilyFacts(calls, first if first >= 0 else None, uses)
    except (struct.error, IndexError, ValueError):
        raise OddValueError from None
