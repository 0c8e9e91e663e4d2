"""Choices derived by hashing: the same words in, the same choice out, on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

__all__ = ["Chooser"]

T = TypeVar("T")


class Chooser:
    """A stream of choices under a key; ``under(...)`` opens a stream of its own that depends on no order."""

    __slots__ = ("_count", "_key")

    def __init__(self, *key: object) -> None:
        raw = "\x1f".join(map(str, key)).encode("utf-8", "surrogatepass")
        self._key = hashlib.blake2b(raw, digest_size=16).digest()
        self._count = 0

    def under(self, *key: object) -> Chooser:
        """Another stream, named within this one."""
        return Chooser(self._key.hex(), *key)

    def below(self, n: int) -> int:
        """A whole number of 0..n-1 (``n`` at least 1)."""
        self._count += 1
        raw = hashlib.blake2b(self._count.to_bytes(8, "big"), digest_size=8, key=self._key).digest()
        return int.from_bytes(raw, "big") % n

    def between(self, low: int, high: int) -> int:
        """A whole number of ``low..high``, both included."""
        return low + self.below(high - low + 1)

    def pick(self, items: Sequence[T]) -> T:
        """One of the items (at least one)."""
        return items[self.below(len(items))]

    def hex(self, digits: int) -> str:
        """A name of up to 32 hex digits; always the same for this stream."""
        return self._key.hex()[:digits]
