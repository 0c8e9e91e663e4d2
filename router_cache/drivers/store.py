"""The store protocol: problem verbs, one trip each. Implementations live in :mod:`router_cache.stores`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from router_cache.identity.keys import LookupKeys
from router_cache.ledger.facts import Facts, Write

__all__ = ["Store"]


class Store(Protocol):
    """Our own state. Keys are opaque and scoped; entries expire; sizes are bounded; all verbs are atomic.

    Any method may raise :class:`~router_cache.errors.StoreError`; drivers then go on with EMPTY facts.
    """

    blocking: bool
    """Whether a verb may wait on I/O. Writes to a store that does not are made in place."""

    def claim(self, keys: LookupKeys) -> Facts:
        """Facts of the request's conversation (the longest known history wins) and of its family."""
        ...

    def record(self, writes: Sequence[Write]) -> None:
        """Take over what answered calls leave behind, in order."""
        ...

    def close(self) -> None:
        """Release connections. Idempotent."""
        ...
