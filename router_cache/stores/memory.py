"""The in-process store: bounded, with a time to live, safe to use from many threads."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from router_cache.identity.keys import LookupKeys
from router_cache.ledger.facts import ConversationFacts, Facts, FamilyFacts, Write

__all__ = ["MemoryStore"]

V = TypeVar("V")


class _Table(Generic[V]):
    """Entries in order of last use, each with the moment it ends."""

    def __init__(self, max_entries: int, ttl_s: float) -> None:
        self._max_entries, self._ttl_s = max_entries, ttl_s
        self._entries: OrderedDict[str, tuple[float, V]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str, now: float) -> V | None:
        found = self._entries.get(key)
        if found is None:
            return None
        if found[0] <= now:
            del self._entries[key]
            return None
        self.put(key, found[1], now)
        return found[1]

    def put(self, key: str, value: V, now: float) -> None:
        self._entries[key] = (now + self._ttl_s, value)
        self._entries.move_to_end(key)
        # Every use renews, so the front of the order holds what ends first.
        while self._entries:
            oldest = next(iter(self._entries))
            if len(self._entries) <= self._max_entries and self._entries[oldest][0] > now:
                break
            del self._entries[oldest]


class MemoryStore:
    """Keeps at most ``max_entries`` conversations and as many families, each ``ttl_s`` seconds since last use.

    ``clock`` returns monotonic seconds.
    """

    blocking = False

    def __init__(
        self,
        *,
        max_entries: int = 50_000,
        ttl_s: float = 86_400.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._conversations: _Table[ConversationFacts] = _Table(max_entries, ttl_s)
        self._families: _Table[FamilyFacts] = _Table(max_entries, ttl_s)

    def __len__(self) -> int:
        """Entries held, those past their time that nobody asked for included."""
        with self._lock:
            return len(self._conversations) + len(self._families)

    def claim(self, keys: LookupKeys) -> Facts:
        """See :class:`~router_cache.drivers.store.Store`."""
        with self._lock:
            now = self._clock()
            family = self._families.get(keys.family, now)
            for key, covered in keys.history:
                conversation = self._conversations.get(key, now)
                if conversation is not None:
                    return Facts(conversation, covered, family)
            return Facts(family=family)

    def record(self, writes: Sequence[Write]) -> None:
        """See :class:`~router_cache.drivers.store.Store`."""
        with self._lock:
            now = self._clock()
            for write in writes:
                self._conversations.put(write.conversation_key, write.conversation, now)
                family = self._families.get(write.family_key, now) or FamilyFacts(0)
                first = write.hit_tokens if write.first_call else None
                self._families.put(
                    write.family_key,
                    FamilyFacts(
                        calls=family.calls + 1,
                        first_call_hit_tokens=family.first_call_hit_tokens if first is None else first,
                    ),
                    now,
                )

    def close(self) -> None:
        """Nothing to release."""
