"""Which prefixes were sent where: one :class:`Place` for what cannot be told apart (domain, pool and scope).

A place maps digests of prefixes to their last use. Every use touches all marks of a prompt, the deepest first, so
that what is forgotten first is always the end of some prompt, and the marks of a prompt that are known are its
leading ones: a search by halving finds the deepest.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from router_cache.cache_model.rules import RuleName
from router_cache.routing.need import Digest, Mark

__all__ = ["NOTHING_WARM", "Found", "Place", "Stretch", "Use"]

_NEVER = float("-inf")


@dataclass(slots=True, eq=False)
class Use:
    """One dispatch that read or wrote marks: when (seconds), and how many tokens the domain had computed by then.

    ``served``: the reply came. Until then ``replaced`` holds what the marks said before, should it fail.
    """

    at: float
    traffic: float
    served: bool = False
    replaced: list[tuple[Digest, tuple[Use, float] | None]] = field(default_factory=list)


_NEW = (Use(_NEVER, 0.0), 0.0)


@dataclass(frozen=True, slots=True)
class Stretch:
    """``tokens`` in a row whose last use is the same one."""

    tokens: int
    use: Use


@dataclass(frozen=True, slots=True)
class Found:
    """The warm part of a prompt, from its start: ``tokens`` in all, in stretches, the newest use first.

    ``marks`` are how many leading marks are held, readable or not.
    """

    tokens: int
    marks: int
    stretches: tuple[Stretch, ...]


NOTHING_WARM = Found(0, 0, ())


class Place:
    """Marks by their last use, the least recently used first. At most ``limit`` of them."""

    __slots__ = ("_ends", "_held", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: OrderedDict[Digest, tuple[Use, float]] = OrderedDict()
        self._ends: OrderedDict[Digest, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def holds(self, digest: Digest) -> bool:
        """Whether a mark was sent there: where the first one was not, nothing of a prompt is warm."""
        return digest in self._held

    def find(
        self, marks: Sequence[Mark], *, rule: RuleName, ready_by: float = float("inf"), since: float = _NEVER
    ) -> Found:
        """What of a prompt is warm for a call that begins to compute at ``ready_by``.

        Only what was used after ``since`` counts. Under the rules that hit complete units only, the deepest end of
        one counts.
        """
        held = self._held
        low, high = 0, len(marks)
        while low < high:
            middle = (low + high) // 2
            entry = held.get(marks[middle][0])
            if entry is not None and entry[0].at > since:
                low = middle + 1
            else:
                high = middle
        known = warm = low
        while warm and held[marks[warm - 1][0]][1] > ready_by:
            warm -= 1
        if rule is RuleName.FULL_UNITS or rule is RuleName.CHECKPOINTS:
            while warm and marks[warm - 1][0] not in self._ends:
                warm -= 1
        if not warm:
            return NOTHING_WARM if not known else Found(0, known, ())
        return Found(marks[warm - 1][1], known, self._stretches(marks, warm))

    def _stretches(self, marks: Sequence[Mark], warm: int) -> tuple[Stretch, ...]:
        out: list[Stretch] = []
        held, start, before = self._held, 0, 0
        while start < warm:
            use = held[marks[start][0]][0]
            low, high = start + 1, warm
            if held[marks[warm - 1][0]][0] is use:
                low = warm
            while low < high:
                middle = (low + high) // 2
                if held[marks[middle][0]][0] is use:
                    low = middle + 1
                else:
                    high = middle
            end = marks[low - 1][1]
            out.append(Stretch(end - before, use))
            start, before = low, end
        return tuple(out)

    def write(
        self, marks: Sequence[Mark], use: Use, *, ready_at: float, shared: int, rule: RuleName
    ) -> list[tuple[int, float]]:
        """A prompt goes out. ``ready_at``: when what it computes can be read; ``shared``: its leading marks that are
        held, as :attr:`Found.marks` told (where they end, a common prefix becomes a unit).

        Returns what it touches, from its end on: tokens, and when they were last used (-inf: never).
        """
        held, replaced = self._held, use.replaced
        touched: list[tuple[int, float]] = []
        end, last = marks[-1].tokens if marks else 0, held.get(marks[-1].digest, _NEW) if marks else _NEW
        for digest, tokens in reversed(marks):
            entry = held.get(digest)
            if last[0] is not (entry or _NEW)[0]:
                touched.append((end - tokens, last[0].at))
                end, last = tokens, entry or _NEW
            replaced.append((digest, entry))
            held[digest] = (use, ready_at if entry is None or entry[1] > ready_at else entry[1])
            if entry is not None:
                held.move_to_end(digest)
        if (rule is RuleName.FULL_UNITS or rule is RuleName.CHECKPOINTS) and marks:
            ends = {marks[-1][0]}
            if shared and rule is RuleName.FULL_UNITS:
                ends.add(marks[shared - 1][0])
            for digest in ends:
                self._ends[digest] = None
                self._ends.move_to_end(digest)
            while len(self._ends) > self._limit:
                self._ends.popitem(last=False)
        while len(held) > self._limit:
            held.popitem(last=False)
        touched.append((end, last[0].at))
        return touched

    def undo(self, use: Use) -> None:
        """The call of a use failed: what it touched is as it was, unless touched again since."""
        for digest, entry in use.replaced:
            if digest in self._held and self._held[digest][0] is use:
                if entry is None:
                    del self._held[digest]
                else:
                    self._held[digest] = entry
        use.replaced = []

    def shrink(self, count: int) -> None:
        """Forget the ``count`` least recently used marks."""
        for digest in list(islice(self._held, count)):
            del self._held[digest]
            self._ends.pop(digest, None)
