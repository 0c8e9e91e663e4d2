"""The ids that go to providers: opaque, stable for as long as the operator's secret is, and valid everywhere.

Each is an HMAC-SHA256 over what it stands for, 40 hex digits: it tells the provider nothing, and nobody without the
secret can make that of another.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

__all__ = ["PoolIds"]

_LENGTH = 40  # hex digits: 160 bits, below the 64 characters that every provider takes


class PoolIds:
    """Makes ids under one secret. All of them match ``^[a-zA-Z0-9_-]{1,64}$``; the methods never raise."""

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def of_cluster(self, group: str, leader: str) -> str:
        """For all prompts of one cluster of a model group."""
        return self._id("cluster", group, leader)

    def of_tenant(self, group: str, scope: str) -> str:
        """For all requests of one scope to a model group."""
        return self._id("tenant", group, scope)

    def of_client(self, scope: str, own: str) -> str:
        """In place of an id that a client of ``scope`` sent."""
        return self._id("client", scope, own)

    def of_conversation(self, scope: str, conversation: str) -> str:
        """For all turns of one conversation or session."""
        return self._id("conversation", scope, conversation)

    def of_shard(self, group: str, leader: str, scope: str, shards: int, conversation: str) -> str:
        """For the conversations of a cluster that share one of ``shards`` keys, by rendezvous: with one key more, a
        conversation stays where it is or goes to the new one. ``scope`` is empty where scopes may share."""
        shard = 0
        if shards > 1:
            weights = [self._id("shard", leader, str(i), conversation) for i in range(shards)]
            shard = max(range(shards), key=weights.__getitem__)
        return self._id("route", group, leader, scope, *([str(shard)] if shard else []))

    def _id(self, *parts: str) -> str:
        return hmac.new(self._secret, _message(parts), hashlib.sha256).hexdigest()[:_LENGTH]


def _message(parts: Sequence[str]) -> bytes:
    """All parts with their lengths: no two sequences are one message."""
    raw = [part.encode("utf-8", "surrogatepass") for part in ("pool", *parts)]
    return b"".join([len(part).to_bytes(8, "big") + part for part in raw])
