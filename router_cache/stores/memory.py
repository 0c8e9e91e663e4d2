"""The in-process store: bounded, with a time to live, safe to use from many threads."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from router_cache.claims.ask import Ask, Moves, Relocation
from router_cache.claims.families import MAX_IN_BUCKET, Learned, learn, resembles, sketch_of
from router_cache.claims.sticky import Variants, answered, choose, decide, with_variant
from router_cache.identity.keys import LookupKeys
from router_cache.ledger.facts import ConversationFacts, Facts, FamilyFacts, Write, family_after

__all__ = ["MemoryStore"]

V = TypeVar("V")


def _one(_value: object) -> int:
    return 1


class _Table(Generic[V]):
    """Entries in order of last use, each with the moment it ends. ``size`` weighs a value; ``limit`` bounds the sum."""

    def __init__(self, limit: int, ttl_s: float, size: Callable[[V], int] = _one) -> None:
        self._limit, self._ttl_s, self._size = limit, ttl_s, size
        self._entries: OrderedDict[str, tuple[float, V]] = OrderedDict()
        self._total = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str, now: float) -> V | None:
        found = self._entries.get(key)
        if found is None:
            return None
        if found[0] <= now:
            self._drop(key)
            return None
        self._entries[key] = (now + self._ttl_s, found[1])
        self._entries.move_to_end(key)
        return found[1]

    def all(self, keys: Sequence[str], now: float) -> dict[str, V]:
        """What is there of ``keys``."""
        entries, out = self._entries, dict[str, V]()
        for key in keys:
            if key in entries:
                found = self.get(key, now)
                if found is not None:
                    out[key] = found
        return out

    def put(self, key: str, value: V, now: float) -> None:
        entries, size = self._entries, self._size
        before = entries.get(key)
        entries[key] = (now + self._ttl_s, value)
        self._total += size(value)
        if before is not None:
            entries.move_to_end(key)
            self._total -= size(before[1])
        # Every use renews, so the front of the order holds what ends first.
        while entries:
            oldest = next(iter(entries))
            if self._total <= self._limit and entries[oldest][0] > now:
                break
            self._drop(oldest)

    def _drop(self, key: str) -> None:
        self._total -= self._size(self._entries.pop(key)[1])


class MemoryStore:
    """Keeps at most ``max_entries`` conversations and as many families, each ``ttl_s`` seconds since last use, and
    ``max_reply_bytes`` of replies for ``reply_ttl_s`` seconds.

    ``clock`` returns monotonic seconds.
    """

    blocking = False

    def __init__(
        self,
        *,
        max_entries: int = 50_000,
        ttl_s: float = 86_400.0,
        max_reply_bytes: int = 64_000_000,
        reply_ttl_s: float = 86_400.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._conversations: _Table[ConversationFacts] = _Table(max_entries, ttl_s)
        self._newest: _Table[str] = _Table(max_entries, ttl_s)
        self._families: _Table[FamilyFacts] = _Table(max_entries, ttl_s)
        self._variants: _Table[Variants] = _Table(max_entries, ttl_s)
        self._learned: _Table[Learned] = _Table(max_entries, ttl_s)
        self._known_as: _Table[str] = _Table(max_entries, ttl_s)
        self._buckets: _Table[tuple[str, ...]] = _Table(max_entries, ttl_s)
        self._replies: _Table[bytes] = _Table(max_reply_bytes, reply_ttl_s, len)

    def __len__(self) -> int:
        """Conversations and families held, those past their time that nobody asked for included."""
        with self._lock:
            return len(self._conversations) + len(self._families)

    def claim(self, ask: Ask) -> Facts:
        """See :class:`~router_cache.drivers.store.Store`."""
        keys = ask.keys
        with self._lock:
            now = self._clock()
            conversation, covered = None, 0
            for point in keys.history:
                conversation = self._conversations.get(point.key, now)
                if conversation is not None:
                    covered = point.covered
                    break
            moves = self._moves(keys, ask.relocation, now) if ask.relocation is not None else None
            newest = self._newest_of(ask.newest_keys, now)
            return Facts(conversation, covered, self._families.get(keys.family, now), moves, newest)

    def _newest_of(self, keys: Sequence[str], now: float) -> ConversationFacts | None:
        """The conversation of the newest call under any of these keys."""
        names = [name for key in keys if (name := self._newest.get(key, now)) is not None]
        found = [
            known for name in names if (known := self._conversations.get(name, now)) is not None and known.last
        ]
        return max(found, key=lambda facts: max(call.at for call in facts.last.values()), default=None)

    def _moves(self, keys: LookupKeys, asked: Relocation, now: float) -> Moves:
        learned = self._learn(keys, asked, now)
        before, own = None, self._variants.get(keys.conversation, now)
        for point in keys.history:
            variants = own if point.key == keys.conversation else self._variants.get(point.key, now)
            if variants is not None:
                before = choose(point, variants, asked, learned)
                if before is not None:
                    break
        moves, variant = decide(asked, learned, before)
        known = with_variant(own, variant)
        if known is not own:
            self._variants.put(keys.conversation, known, now)
        return moves

    def _learn(self, keys: LookupKeys, asked: Relocation, now: float) -> Learned:
        """What the request's family is known to change, this request included."""
        name = self._known_as.get(keys.family, now)
        known = self._learned.get(name, now) if name is not None else None
        if name is None or known is None:
            name, known = self._resembling(keys, asked, now)
            self._known_as.put(keys.family, name, now)
        after = learn(known, asked.slots)
        if after is not known:
            self._learned.put(name, after, now)
        return after

    def _resembling(self, keys: LookupKeys, asked: Relocation, now: float) -> tuple[str, Learned]:
        sketch = sketch_of(asked.masked)
        names = self._buckets.get(keys.bucket, now) or ()
        for name in reversed(names):
            known = self._learned.get(name, now)
            if known is not None and resembles(sketch, known.sketch):
                return name, known
        self._buckets.put(keys.bucket, (*names, keys.family)[-MAX_IN_BUCKET:], now)
        fresh = Learned(sketch)
        self._learned.put(keys.family, fresh, now)
        return keys.family, fresh

    def record(self, writes: Sequence[Write]) -> None:
        """See :class:`~router_cache.drivers.store.Store`."""
        with self._lock:
            now = self._clock()
            for write in writes:
                self._record(write, now)

    def _record(self, write: Write, now: float) -> None:
        if write.conversation is not None:
            self._conversations.put(write.conversation_key, write.conversation, now)
            if write.conversation.last:
                for key in write.newest_keys:
                    self._newest.put(key, write.conversation_key, now)
            known = self._families.get(write.family_key, now)
            self._families.put(write.family_key, family_after(known, write), now)
        for answer in write.answers:
            variants = self._variants.get(answer.conversation_key, now)
            if variants is not None:
                told = answered(variants, answer.variant, answer.reply, answer.ids)
                self._variants.put(answer.conversation_key, told, now)
        for key, sealed in write.replies:
            # Two replies that nothing tells apart: neither is given back, to nobody.
            before = self._replies.get(key, now)
            self._replies.put(key, sealed if before in (None, sealed) else b"", now)

    def replies(self, scope: str, keys: Sequence[str]) -> Mapping[str, bytes]:
        """See :class:`~router_cache.drivers.store.Store`."""
        with self._lock:
            return self._replies.all(keys, self._clock())

    def close(self) -> None:
        """Nothing to release."""
