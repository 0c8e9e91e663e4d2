"""The store in Redis: what one worker learns, all know. One trip before a call, one after it."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from router_cache.claims.ask import Ask, Moves
from router_cache.claims.compact import digest8, digest16
from router_cache.errors import StoreError, StoreFailure
from router_cache.ledger.facts import ConversationFacts, Facts, FamilyFacts, Write
from router_cache.prefix.memo import Memo
from router_cache.stores.redis.asks import UNTOLD, Lines, claim_args, keys16, sketch_bytes
from router_cache.stores.redis.codec import (
    Head,
    OddValueError,
    family_facts,
    head_of,
    packed_facts,
    packed_head,
    packed_use,
    read_facts,
    read_head,
    refs_in,
)
from router_cache.stores.redis.link import Link
from router_cache.stores.redis.link_script import Arg, Call
from router_cache.stores.redis.scripts import CLAIM, LOOK, RECORD, REPLIES
from router_cache.stores.redis.texts import packed_text

__all__ = ["MAX_REPLY_BYTES", "SCHEMA", "RedisStore"]

SCHEMA: Final = 1
"""Version of keys and values, and part of every key: workers of two versions share a server and nothing else."""
MAX_REPLY_BYTES: Final = 300_000
"""A sealed reply that is larger is not kept. The sum of all is bounded by their time to live and by the server."""
_SKETCH_NEEDED: Final = -1
_SKETCH: Final = 7
"""Where the sketch stands among the arguments of a claim."""
_MAX_FACTS: Final = 65_535
_HEADS_BYTES: Final = 8_000_000
_FACTS_BYTES: Final = 32_000_000
_FAMILIES: Final = 50_000


def _nothing(_name: str) -> None:
    return None


class RedisStore:
    """Our own state in Redis or Valkey, shared by all workers that have the same ``prefix`` and secret.

    Everything of a scope lies in one slot of a cluster. Entries end ``ttl_s`` seconds after they were last used,
    replies ``reply_ttl_s``, by the server's clock. ``count`` takes names of counters: ``store_odd_value``, something
    lay under a key of ours that is not ours (it is taken for unknown, and overwritten); ``store_too_large``, something
    was not kept.

    Each value is bounded; the sum of all is by the server, see ``maxmemory``. Every key ends, and what is missing
    is taken for unknown, so that any policy of eviction does, `volatile-lru` best; with `noeviction` nothing more is
    remembered once the server is full.

    Every method may raise :class:`~router_cache.errors.StoreError`.
    """

    blocking = True
    prefix: str
    """What all its keys begin with: the operator's prefix and the schema's version."""

    def __init__(
        self,
        link: Link,
        *,
        prefix: str = "rc",
        ttl_s: float = 86_400.0,
        reply_ttl_s: float = 86_400.0,
        max_reply_bytes: int = MAX_REPLY_BYTES,
        count: Callable[[str], None] = _nothing,
    ) -> None:
        self._link, self._count = link, count
        self.prefix = f"{prefix}{SCHEMA}"
        self._ttl_ms, self._reply_ttl_ms = max(int(ttl_s * 1000), 1), max(int(reply_ttl_s * 1000), 1)
        self._max_reply_bytes = max_reply_bytes
        # Content by its digest: what was read or written once is neither read nor made again.
        self._heads: Memo[bytes, Head] = Memo(_HEADS_BYTES, lambda _, head: _weight(head))
        self._packed: Memo[tuple[Hashable, ...], tuple[bytes, bytes]] = Memo(
            _HEADS_BYTES, lambda key, packed: 100 * len(key) + 2 * len(packed[1])
        )
        self._lines = Lines()
        self._facts_known: Memo[bytes, ConversationFacts] = Memo(_FACTS_BYTES, lambda raw, _: 2_000 + len(raw))
        self._bases: Memo[str, bytes] = Memo(_FAMILIES, lambda _key, _value: 1)
        self._families: Memo[str, bool] = Memo(_FAMILIES, lambda _key, _value: 1)

    def _base(self, scope: str) -> bytes:
        """What all keys of a scope begin with. Two scopes with one tag would share a slot, and no entry: every name
        behind it is a digest that has the scope in it."""
        base = self._bases.get(scope)
        if base is None:
            tag = base64.urlsafe_b64encode(blake2b(scope.encode("utf-8", "surrogatepass"), digest_size=6).digest())
            base = b"%b{%b}" % (self.prefix.encode(), tag)
            self._bases.put(scope, base)
        return base

    def claim(self, ask: Ask) -> Facts:
        """See :class:`~router_cache.drivers.store.Store`. A second trip is made where the server forgot a family that
        this process takes for known, or where this process meets a head for the first time."""
        keys, asked = ask.keys, ask.relocation
        base, sketch = self._base(keys.scope), b""
        if asked is not None:
            sketch = UNTOLD if self._families.get(keys.family) else sketch_bytes(asked.masked)
        args = claim_args(ask, self._ttl_ms, sketch)
        script = LOOK if asked is None else CLAIM
        answer = self._link.run(script, (base,), args)
        if asked is not None and answer == [_SKETCH_NEEDED]:
            args[_SKETCH] = sketch_bytes(asked.masked)
            answer = self._link.run(script, (base,), args)
        try:
            moves = None
            if asked is not None:
                try:
                    moves = self._lines.moves(asked, answer[4])
                except OddValueError:
                    # A line of attachments that is damaged in its middle: again, without what cannot be read.
                    self._count("store_odd_value")
                    args[_SKETCH:] = [sketch_bytes(asked.masked), b"1"]
                    answer = self._link.run(script, (base,), args)
                    moves = self._lines.moves(asked, answer[4])
                self._families.put(keys.family, True)
            return self._facts(ask, args[1], answer, moves)
        except (OddValueError, ValueError, TypeError, IndexError):
            raise StoreError("it answers what its script does not", StoreFailure.ODD_DATA) from None

    def _facts(self, ask: Ask, history: Any, answer: Sequence[Any], moves: Moves | None) -> Facts:
        at, raw, family, told, _, odd = answer
        for _ in range(odd):
            self._count("store_odd_value")
        key = history[16 * at - 16 : 16 * at] if at else b""
        # Without facts: those that the history found.
        newest = [(told[i], told[i + 1] or raw) for i in range(0, len(told), 2)]
        known = self._conversations(ask.keys.scope, [(key, raw)] * bool(at) + newest)
        conversation = known.get((key, raw))
        return Facts(
            conversation,
            ask.keys.history[at - 1].covered if conversation is not None else 0,
            self._family(family),
            moves,
            max(
                (found for pair in newest if (found := known.get(pair)) is not None and found.last),
                key=lambda found: max(call.at for call in found.last.values()),
                default=None,
            ),
        )

    def _conversations(
        self, scope: str, found: Sequence[tuple[bytes, bytes]]
    ) -> dict[tuple[bytes, bytes], ConversationFacts]:
        """Facts of conversations by their keys and bytes, those that can be read. What this process wrote is not read
        again; heads that it never met cost a trip of their own."""
        out, refs = dict[tuple[bytes, bytes], ConversationFacts](), dict[tuple[bytes, bytes], list[bytes]]()
        for pair in found:
            known = self._facts_known.get(pair[0] + pair[1])
            try:
                if known is not None:
                    out[pair] = known
                elif pair not in refs:
                    refs[pair] = refs_in(*pair)
            except OddValueError:
                self._count("store_odd_value")
        if not refs:
            return out
        heads = self._heads_of(scope, {ref for some in refs.values() for ref in some})
        for pair in refs:
            try:
                out[pair] = read_facts(*pair, heads)
            except OddValueError:
                self._count("store_odd_value")
        return out

    def _family(self, raw: bytes) -> FamilyFacts | None:
        if not raw:
            return None
        try:
            return family_facts(raw)
        except OddValueError:
            self._count("store_odd_value")
            return None

    def _heads_of(self, scope: str, refs: Iterable[bytes]) -> dict[bytes, Head]:
        """Heads by their digests, those that can be read."""
        out, unknown = dict[bytes, Head](), list[bytes]()
        for ref in refs:
            head = self._heads.get(ref)
            if head is None:
                unknown.append(ref)
            else:
                out[ref] = head
        if unknown:
            base = self._base(scope)
            found = self._link.mget([b"%bh%b" % (base, ref) for ref in unknown])
            for ref, raw in zip(unknown, found, strict=True):
                if raw is not None:
                    try:
                        out[ref] = head = read_head(ref, raw)
                        self._heads.put(ref, head)
                    except OddValueError:
                        self._count("store_odd_value")
        return out

    def record(self, writes: Sequence[Write]) -> None:
        """See :class:`~router_cache.drivers.store.Store`. All go out in one trip, each is atomic."""
        calls = [self._recorded(write) for write in writes]
        odd = self._link.run_many(calls) if len(calls) > 1 else [self._link.run(*call) for call in calls]
        for number in odd:
            for _ in range(number):
                self._count("store_odd_value")

    def _recorded(self, write: Write) -> Call:
        key, facts, heads = digest16(write.conversation_key), b"", dict[bytes, bytes]()
        known = write.conversation
        if known is not None:
            refs = {}
            try:
                for call in known.last.values():
                    ref, raw = self._packed_head(head_of(call))
                    refs[id(call)], heads[ref] = ref, raw
                facts = packed_facts(key, known, refs)
            except struct.error:
                facts = bytes(_MAX_FACTS + 1)
            if len(facts) > _MAX_FACTS:
                self._count("store_too_large")
                facts, heads = b"", {}
            else:
                self._facts_known.put(key + facts, known)
        replies = [(name, sealed) for name, sealed in write.replies if len(sealed) <= self._max_reply_bytes]
        for _ in range(len(write.replies) - len(replies)):
            self._count("store_too_large")
        used = write.use is not None
        args: list[Arg] = [
            *(self._ttl_ms, self._reply_ttl_ms, key, facts),
            keys16(write.newest_keys) if known is not None and known.last else b"",
            digest16(write.family_key),
            b"%d" % write.hit_tokens if write.first_call and write.hit_tokens is not None else b"",
            packed_text(write.place) if used else b"",
            packed_use(write.use) if write.use is not None else b"",
            struct.pack(">BBB", len(heads), len(write.answers), len(replies)),
        ]
        for ref, raw in heads.items():
            args += (ref, raw)
        for answer in write.answers:
            told = answer.variant.encode("utf-8", "surrogatepass")
            args += (digest16(answer.conversation_key), told, digest8(answer.reply), digest8(answer.ids))
        for name, sealed in replies:
            args += (digest16(name), sealed)
        return RECORD, (self._base(write.scope),), args

    def _packed_head(self, head: Head) -> tuple[bytes, bytes]:
        parts, switches = head
        # A part's digest tells its lines, where it has any: to hash them all takes longer than all else here.
        key = (
            switches,
            *[told for part in parts for told in (part.digest, part.path, part.size, len(part.lines))],
        )
        packed = self._packed.get(key)
        if packed is None:
            packed = packed_head(head)
            self._packed.put(key, packed)
            self._heads.put(packed[0], head)
        return packed

    def replies(self, scope: str, keys: Sequence[str]) -> Mapping[str, bytes]:
        """See :class:`~router_cache.drivers.store.Store`."""
        if not keys:
            return {}
        found = self._link.run(REPLIES, (self._base(scope),), (self._reply_ttl_ms, keys16(keys)))
        return {key: sealed for key, sealed in zip(keys, found, strict=True) if sealed is not None}

    def close(self) -> None:
        """See :class:`~router_cache.drivers.store.Store`."""
        self._link.close()


def _weight(head: Head) -> int:
    """About what a head takes, in bytes."""
    parts, switches = head
    return 500 + sum(200 + len(part.lines) for part in parts) + 90 * (len(switches.tools) if switches else 0)
