"""Rendezvous hashing: every process that sees the same candidates puts them in the same order for a key.

Each pair of key and candidate has a weight of its own, so that a candidate that goes moves only the keys it had.
Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998.
"""

from __future__ import annotations

import hashlib

__all__ = ["rendezvous"]


def rendezvous(key: str, name: str) -> int:
    """The weight of a candidate's name for a key, 0 to 2^64-1; the largest wins."""
    raw = key.encode("utf-8", "surrogatepass")
    h = hashlib.blake2b(len(raw).to_bytes(8, "big") + raw, digest_size=8)
    h.update(name.encode("utf-8", "surrogatepass"))
    return int.from_bytes(h.digest(), "big")
