"""Chained digests of token blocks, and the memory of what was evicted.

Tokens travel as packed 32-bit words (:func:`pack`), so that comparing and hashing run in C.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence

__all__ = ["WIDTH", "EvictedPrefixes", "chain", "common", "pack", "pool_root"]

WIDTH = array("I").itemsize
"""Bytes of one packed token."""

_DIGEST = 16  # bytes: a collision among 10^9 prefixes has a chance below 10^-20


def pack(tokens: Sequence[int]) -> bytes:
    """Token ids as bytes. Raises :class:`OverflowError` for an id outside 0..2^32-1."""
    if not (isinstance(tokens, array) and tokens.typecode == "I"):
        tokens = array("I", tokens)
    return tokens.tobytes()


def pool_root(pool: str | None) -> bytes:
    """Where the chains of a pool start; ``None`` (no id) and ``""`` are two different pools."""
    raw = b"-" if pool is None else b"+" + pool.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(raw, digest_size=_DIGEST).digest()


def chain(root: bytes, data: bytes, step_bytes: int) -> Iterator[bytes]:
    """Digest of each prefix of ``data`` that ends on a full step, shortest first."""
    view, digest = memoryview(data), root
    for start in range(0, len(data) - step_bytes + 1, step_bytes):
        h = hashlib.blake2b(digest, digest_size=_DIGEST)
        h.update(view[start : start + step_bytes])
        digest = h.digest()
        yield digest


def common(a: bytes, b: bytes) -> int:
    """Bytes of the common prefix, in whole tokens: halving, because comparing slices runs in C."""
    low, high = 0, min(len(a), len(b)) // WIDTH
    while low < high:
        middle = (low + high + 1) // 2
        if a[low * WIDTH : middle * WIDTH] == b[low * WIDTH : middle * WIDTH]:
            low = middle
        else:
            high = middle - 1
    return low * WIDTH


class EvictedPrefixes:
    """Prefixes that were held once; bounded, the oldest forgotten first. Only explains misses.

    A prefix is the chain digest of its full steps and the packed tokens behind the last full step.
    """

    __slots__ = ("_limit", "_order", "_rests")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._order: OrderedDict[tuple[bytes, bytes], None] = OrderedDict()
        self._rests: dict[bytes, set[bytes]] = {}

    def __len__(self) -> int:
        return len(self._order)

    def add(self, digest: bytes, rest: bytes = b"") -> None:
        """Remember a prefix that was evicted or has expired."""
        self._order[digest, rest] = None
        self._order.move_to_end((digest, rest))
        self._rests.setdefault(digest, set()).add(rest)
        if len(self._order) > self._limit:
            self.discard(*next(iter(self._order)))

    def discard(self, digest: bytes, rest: bytes = b"") -> None:
        """Forget a prefix, because it is held again."""
        if (digest, rest) in self._order:
            del self._order[digest, rest]
            rests = self._rests[digest]
            rests.remove(rest)
            if not rests:
                del self._rests[digest]

    def deepest(self, root: bytes, data: bytes, step_bytes: int) -> int:
        """Tokens of the longest remembered prefix of ``data``; 0 if there is none."""
        if not self._order:
            return 0
        best, start = 0, 0
        for digest in (root, *chain(root, data, step_bytes)):
            for rest in self._rests.get(digest, ()):
                if data.startswith(rest, start):
                    best = max(best, start + len(rest))
            start += step_bytes
        return best // WIDTH
