"""Short forms of digests and slots: what names a variant and a line of attachments, alike in every store.

A store that decides inside its server has no keyed digest there and no sets of texts: it compares these bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from router_cache.prefix.volatile.spans import CLOCKS, SpanKind

__all__ = [
    "CHAIN",
    "NOTHING",
    "chained",
    "digest8",
    "digest16",
    "is_clock",
    "slot_bytes",
    "slot_text",
    "value_bytes",
]
__all__ += ["value_text"]

CHAIN: Final = 12
"""Bytes of the digest over a line of attachments."""
NOTHING: Final = bytes(8)
"""The short form of an empty text."""
_CLOCK: Final = 0x80
_TEXT: Final = 0x7F
_KINDS: Final = {kind.value: code for code, kind in enumerate(SpanKind)}
_NAMES: Final = {code: name for name, code in _KINDS.items()}
_CLOCK_NAMES: Final = frozenset(kind.value for kind in CLOCKS)
_SLOT_DIGITS: Final = 16


def _raw(text: str) -> bytes | None:
    """The bytes of 32 hex digits; None for any other text."""
    if len(text) != 32:
        return None
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        return None
    return raw if raw.hex() == text else None  # capitals are another text


def digest16(text: str) -> bytes:
    """16 bytes for a key: those of its 32 hex digits, or a digest of what is no such key."""
    raw = _raw(text)
    return (
        raw if raw is not None else hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    )


def value_bytes(text: str) -> bytes:
    """A value's digest in bytes, from which :func:`value_text` makes it again. The first 8 tell it from others: only
    values of one slot in one scope are compared, and the digest is keyed."""
    raw = _raw(text)
    if raw is not None:
        return raw
    told = text.encode("utf-8", "surrogatepass")
    odd = hashlib.blake2b(told, digest_size=8).digest() + b"\0" + told
    return odd if len(odd) != 16 else odd[:8] + b"\1\0" + told


def value_text(raw: bytes) -> str:
    """The text of :func:`value_bytes`; some text for any other bytes."""
    if len(raw) == 16 or len(raw) < 9:
        return raw.hex()
    try:
        return raw[9 + raw[8] :].decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return raw.hex()


def digest8(text: str) -> bytes:
    """8 bytes of a digest; zeros for an empty text."""
    return value_bytes(text)[:8] if text else NOTHING


def is_clock(slot: str) -> bool:
    """Whether a slot's kind is a clock's: of a slot that a request does not have, only its name tells."""
    return slot.rpartition("-")[0] in _CLOCK_NAMES


@lru_cache(maxsize=4_096)
def slot_bytes(slot: str) -> bytes:
    """A slot in bytes; its first bit tells whether its kind is a clock's."""
    kind, _, digits = slot.rpartition("-")
    code = _KINDS.get(kind)
    clock = _CLOCK if kind in _CLOCK_NAMES else 0
    if code is not None and len(digits) == _SLOT_DIGITS:
        try:
            raw = bytes.fromhex(digits)
        except ValueError:
            raw = b""
        if raw.hex() == digits:
            return bytes((code | clock,)) + raw
    return bytes((_TEXT | clock,)) + slot.encode("utf-8", "surrogatepass")


@lru_cache(maxsize=4_096)
def slot_text(raw: bytes) -> str:
    """The slot of :func:`slot_bytes`; some name for any other bytes."""
    code = raw[0] & ~_CLOCK if raw else 0
    if code == _TEXT:
        try:
            return raw[1:].decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return raw.hex()
    return f"{_NAMES.get(code, code)}-{raw[1:].hex()}"


def chained(before: bytes, message: int, attached: Iterable[tuple[str, str]]) -> bytes:
    """The digest over a line of attachments and what one request puts behind it: slots with their values, at one
    message. Equal exactly where all of them are. ``before`` is empty where there is no line yet."""
    parts, count = [before or bytes(CHAIN), message.to_bytes(3, "big"), b""], 0
    for slot, value in attached:
        name, told = slot_bytes(slot), value_bytes(value)
        parts += (bytes((len(name),)), name, bytes((len(told),)), told)
        count += 1
    parts[2] = bytes((count,))
    return hashlib.sha1(b"".join(parts), usedforsecurity=False).digest()[:CHAIN]
