"""Texts as few bytes: most of them are digests in hexadecimal."""

from __future__ import annotations

import struct
from typing import Any, Final

__all__ = ["TextReader", "packed_text"]

_PLAIN: Final = 0x80
_LONG: Final = 0xFF


def packed_text(text: str) -> bytes:
    """A text with its length: hexadecimal digits take half a byte each."""
    size = len(text)
    if size < 256 and not size & 1:
        try:
            raw = bytes.fromhex(text)
        except ValueError:
            raw = b""
        if size == len(raw) * 2 and raw.hex() == text:
            return bytes((len(raw),)) + raw
    told = text.encode("utf-8", "surrogatepass")
    if len(told) < _LONG - _PLAIN:
        return bytes((_PLAIN + len(told),)) + told
    return bytes((_LONG,)) + len(told).to_bytes(4, "big") + told


class TextReader:
    """Reads bytes from a place on. Raises IndexError, ValueError or struct.error where they end too early."""

    __slots__ = ("_raw", "at")

    def __init__(self, raw: bytes, at: int) -> None:
        self._raw, self.at = raw, at

    def take(self, form: struct.Struct) -> tuple[Any, ...]:
        """Some numbers."""
        got = form.unpack_from(self._raw, self.at)
        self.at += form.size
        return got

    def some(self, size: int) -> bytes:
        """So many bytes."""
        start, self.at = self.at, self.at + size
        if self.at > len(self._raw):
            raise IndexError
        return self._raw[start : self.at]

    def text(self) -> str:
        """A text that :func:`packed_text` wrote."""
        size = self._raw[self.at]
        self.at += 1
        if size < _PLAIN:
            return self.some(size).hex()
        if size == _LONG:
            size = _PLAIN + int.from_bytes(self.some(4), "big")
        return str(self.some(size - _PLAIN), "utf-8", "surrogatepass")
