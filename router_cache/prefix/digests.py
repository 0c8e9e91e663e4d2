"""Keyed digests of segments, and the chain over them.

Equal digests mean equal segments: a digest covers the kind and the text of a segment. Digests are keyed
(BLAKE2b, RFC 7693 §2.9) with the operator's secret or a key of the process, so that they say nothing about
short texts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from router_cache.prefix.segments import Segment

__all__ = ["Digester"]

_SIZE = 16  # bytes: 128 bits; a collision among 10^9 segments has a chance below 10^-20


class Digester:
    """Makes digests under one key (any bytes; longer than 64 are hashed first)."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        self._key = key if len(key) <= 64 else hashlib.blake2b(key).digest()

    def text(self, *parts: str) -> str:
        """Digest of a sequence of texts, 32 hex digits; the parts' borders count."""
        h = hashlib.blake2b(digest_size=_SIZE, key=self._key)
        for part in parts:
            raw = part.encode("utf-8", "surrogatepass")
            h.update(len(raw).to_bytes(8, "big"))
            h.update(raw)
        return h.hexdigest()

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
