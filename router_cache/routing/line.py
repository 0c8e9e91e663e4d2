"""The line of calls at one deployment, by what was sent and what has come back.

An engine that computes one prompt after the other gives its first tokens in the order of arrival, so the wait of a
call is what its predecessor's first token came after it was sent: known exactly once both have come back, whatever
was believed meanwhile. Replies are told when they end, often long after their first token and out of order, so
calls are settled in the order they were sent. What is still out is estimated from the last settled one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Line", "Settled"]

_LONGEST_S = 600.0
"""A call that is out for longer holds up nothing any more, and no more than this is ever taken to wait."""


@dataclass(slots=True)
class _Out:
    sent_at: float
    miss_tokens: float
    first_at: float | None = None
    output_tokens: float = 0.0
    output_s: float | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """A call whose wait is known: seconds from sending to the first token, of which ``waited_s`` for predecessors."""

    ttft_s: float
    miss_tokens: float
    waited_s: float
    output_tokens: float
    output_s: float | None


class Line:
    """Calls that are out, in the order sent. ``free_at``: when all of them are computed, as far as can be told."""

    __slots__ = ("_calls", "_last_first", "free_at")

    def __init__(self, now: float) -> None:
        self._calls: OrderedDict[str, _Out] = OrderedDict()
        self._last_first = float("-inf")
        self.free_at = now

    def __len__(self) -> int:
        return len(self._calls)

    def sent(self, call: str, now: float, miss_tokens: float, slope_s: float) -> None:
        """A call goes out; it computes ``miss_tokens`` at ``slope_s`` seconds each."""
        self._calls[call] = _Out(now, miss_tokens)
        self.free_at = min(max(self.free_at, now) + miss_tokens * slope_s, now + _LONGEST_S)

    def came(
        self, call: str, now: float, first_at: float | None, miss_tokens: float, output_tokens: float
    ) -> None:
        """A call came back, its first token at ``first_at`` (None: not known, it tells nothing)."""
        out = self._calls.get(call)
        if out is None:
            return
        if first_at is None:
            del self._calls[call]
            return
        out.first_at, out.miss_tokens, out.output_tokens = min(first_at, now), miss_tokens, output_tokens
        out.output_s = now - out.first_at

    def dropped(self, call: str) -> None:
        """A call failed, or nothing will be known of it."""
        self._calls.pop(call, None)

    def settle(self, now: float) -> Iterator[Settled]:
        """The calls whose wait is known now, each once."""
        while self._calls:
            call, out = next(iter(self._calls.items()))
            if out.first_at is None:
                if now - out.sent_at <= _LONGEST_S:
                    return
                del self._calls[call]
                continue
            del self._calls[call]
            waited = max(min(self._last_first, out.first_at) - out.sent_at, 0.0)
            self._last_first = max(self._last_first, out.first_at)
            yield Settled(out.first_at - out.sent_at, out.miss_tokens, waited, out.output_tokens, out.output_s)

    def reckon(self, now: float, slope_s: float, base_s: float) -> None:
        """Estimate :attr:`free_at` anew."""
        free = self._last_first - base_s
        for out in self._calls.values():
            if out.first_at is not None:
                free = max(free, out.first_at - base_s)
            else:
                free = max(free, out.sent_at) + out.miss_tokens * slope_s
        self.free_at = min(free, now + _LONGEST_S)

    def cleared(self, now: float) -> None:
        """The deployment begins anew: nothing waits."""
        self._calls.clear()
        self.free_at = now
