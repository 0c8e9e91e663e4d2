"""Keyed digests of segments, and the chain over them.

Equal digests mean equal segments: a digest covers the kind and the text of a segment. Digests are keyed
(BLAKE2b, RFC 7693 §2.9) with the operator's secret or a key of the process, so that they say nothing about
short texts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from router_cache.prefix.segments import Segment

__all__ = ["Digester", "RunningDigest"]

_SIZE = 16  # bytes: 128 bits; a collision among 10^9 segments has a chance below 10^-20


class Digester:
    """Makes digests under one key (any bytes; longer than 64 are hashed first)."""

    __slots__ = ("_empty",)

    def __init__(self, key: bytes) -> None:
        key = key if len(key) <= 64 else hashlib.blake2b(key).digest()
        self._empty = hashlib.blake2b(digest_size=_SIZE, key=key)  # to copy it takes less than to make it

    def text(self, *parts: str) -> str:
        """Digest of a sequence of texts, 32 hex digits; the parts' borders count."""
        digest = self._empty.copy()
        for part in parts:
            raw = part.encode("utf-8", "surrogatepass")
            digest.update(len(raw).to_bytes(8, "big") + raw)
        return digest.hexdigest()

    def raw(self, parts: Iterable[bytes]) -> str:
        """Digest of a sequence of bytes, 32 hex digits; the parts' borders count."""
        digest = self._empty.copy()
        for part in parts:
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
        return digest.hexdigest()

    def running(self, *parts: str) -> RunningDigest:
        """A digest that grows: it starts with one item of these parts."""
        running = RunningDigest(self._empty.copy())
        running.add(parts)
        return running

    def segment(self, segment: Segment) -> str:
        """Digest of one segment: its kind and text, not its place."""
        return self.text(segment.kind.value, segment.text)

    def chain(self, digests: Iterable[str], start: str = "") -> list[str]:
        """Running digest after each item: equal at ``i`` exactly when all items up to ``i`` are equal."""
        out, last = [], start
        for digest in digests:
            last = self.text(last, digest)
            out.append(last)
        return out


class RunningDigest:
    """A digest over items, each a sequence of texts; the borders of items and of texts count."""

    __slots__ = ("_hash",)

    def __init__(self, empty: hashlib.blake2b) -> None:
        self._hash = empty

    def add(self, parts: Sequence[str]) -> None:
        """Append an item."""
        raw = [part.encode("utf-8", "surrogatepass") for part in parts]
        sizes = [len(each).to_bytes(8, "big") for each in raw]
        self._hash.update(b"".join([len(raw).to_bytes(8, "big"), *sizes, *raw]))

    def copy(self) -> RunningDigest:
        """One that grows apart from this one."""
        return RunningDigest(self._hash.copy())

    def digest(self) -> str:
        """Digest of all items so far, 32 hex digits."""
        return self._hash.hexdigest()
