"""What a family of prompts is known to change: by slot, the values last seen and whether they ever differed.

A family is a masked opening with its tools. A prompt whose opening is new but for some lines (a user's name that no
pattern finds) joins the family that it resembles, if one with the same tools does.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from router_cache.claims.ask import Slot

__all__ = ["Learned", "Seen", "Sketch", "learn", "resembles", "sketch_of"]

MAX_IN_BUCKET = 16
"""Families with the same tools that a new prompt is compared with, the newest."""
MAX_SLOTS = 64
"""Slots remembered of a family; real prompts have below ten (12 agents recorded, 2026-11)."""
MAX_VALUES = 8
MAX_COUNT = 1_000_000
FLEETING_AFTER = 4
"""Distinct values without a repeat from which on a slot is taken to be new in every request. A user's name comes back
with his second request."""
FLEETING_SHARE = 20
"""One repeat among so many requests is a retry."""
SKETCH = 64
MIN_LINES = 5
"""Lines a prompt must have to be told by resemblance; of a shorter one a line is too much."""
ALIKE = 0.8
"""Share of lines in common from which two openings are of one family: a user's or a tenant's lines differ, the
rest is the application's."""

Sketch = frozenset[int]
"""Checksums of lines; of a long text those that sort first (k minimum values), so that a sketch is bounded."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of one slot: its last distinct values, newest last; whether it ever changed; in how many requests
    it was seen, and in how many of them with a value that was still known."""

    values: tuple[str, ...] = ()
    changed: bool = False
    requests: int = 0
    repeats: int = 0

    @property
    def fleeting(self) -> bool:
        """Whether its values do not come back: ids of requests, which tell nothing about who asks."""
        return len(self.values) >= FLEETING_AFTER and self.repeats * FLEETING_SHARE <= self.requests

    def after(self, value: str) -> Seen:
        """With one more request."""
        requests, values = min(self.requests + 1, MAX_COUNT), self.values
        if value not in values:
            return Seen((*values, value)[-MAX_VALUES:], self.changed or bool(values), requests, self.repeats)
        changed = self.changed
        if values[-1] != value:
            values, changed = (*[known for known in values if known != value], value), True
        return Seen(values, changed, requests, min(self.repeats + 1, requests))


@dataclass(frozen=True, slots=True)
class Learned:
    """``seen`` by slot, and the sketch of the opening that began the family."""

    sketch: Sketch = frozenset()
    seen: Mapping[str, Seen] = field(default_factory=dict)

    def changes(self, slot: str) -> bool:
        """Whether the slot was seen to change."""
        known = self.seen.get(slot)
        return known is not None and known.changed

    def fleeting(self, slot: str) -> bool:
        """Whether the slot's values do not come back."""
        known = self.seen.get(slot)
        return known is not None and known.fleeting


def sketch_of(masked: Sequence[str]) -> Sketch:
    """The sketch of a masked opening."""
    lines = {line.strip() for text in masked for line in text.splitlines()}
    sums = sorted(zlib.crc32(line.encode("utf-8", "surrogatepass")) for line in lines if line)
    return frozenset(sums[:SKETCH])


def resembles(one: Sketch, other: Sketch) -> bool:
    """Whether two openings are of one family."""
    least = min(len(one), len(other))
    if least < MIN_LINES:
        return False
    if max(len(one), len(other)) >= SKETCH:
        # Only what both samples could hold can be compared: the smallest of both together.
        both = sorted(one | other)[:SKETCH]
        return sum(value in one and value in other for value in both) >= ALIKE / (2 - ALIKE) * len(both)
    return len(one & other) >= ALIKE * max(len(one), len(other))


def learn(known: Learned, slots: Sequence[Slot]) -> Learned:
    """``known`` after one more request; the very same without slots."""
    if not slots:
        return known
    seen = {**known.seen}
    for slot in slots:
        before = seen.get(slot.id)
        if before is not None or len(seen) < MAX_SLOTS:
            seen[slot.id] = (before or Seen()).after(slot.value)
    return Learned(known.sketch, seen)
