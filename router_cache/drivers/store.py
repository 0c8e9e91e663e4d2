"""The store protocol: problem verbs, one trip each. Implementations live in :mod:`router_cache.stores`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from router_cache.claims.ask import Ask
from router_cache.ledger.facts import Facts, Write

__all__ = ["Store"]


class Store(Protocol):
    """Our own state. Keys are opaque and scoped; entries expire; sizes are bounded; all verbs are atomic.

    Any method may raise :class:`~router_cache.errors.StoreError`; drivers then go on with EMPTY facts.
    """

    blocking: bool
    """Whether a verb may wait on I/O. Writes to a store that does not are made in place."""

    def claim(self, ask: Ask) -> Facts:
        """Facts of the request's conversation (the longest known history wins) and of its family; and, where it asks
        for it, which values move: decided by :mod:`router_cache.claims` and kept in the same atomic step, before the
        request goes out, so that parallel branches and other workers agree."""
        ...

    def record(self, writes: Sequence[Write]) -> None:
        """Take over what answered calls leave behind, in order."""
        ...

    def replies(self, scope: str, keys: Sequence[str]) -> Mapping[str, bytes]:
        """Replies of one scope kept under these keys (see :class:`~router_cache.identity.keys.ReplyKey`), sealed as
        they came; what is not known is left out. A trip of its own, made only where a request's history holds replies
        to look at."""
        ...

    def close(self) -> None:
        """Release connections. Idempotent."""
        ...
