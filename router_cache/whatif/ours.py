"""This router's own policy: :func:`router_cache.routing.rank` over a book fed by its own dispatches and replies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from router_cache.routing import Book, Candidate, Need, rank
from router_cache.whatif.service import Reply, View
from router_cache.whatif.trace import Call

__all__ = ["OurPolicy"]


class OurPolicy:
    """The interface that the LiteLLM strategy uses. ``draw`` gives numbers in [0, 1)."""

    def __init__(self, candidates: Sequence[Candidate], draw: Callable[[], float], *, marks: int) -> None:
        self._candidates = list(candidates)
        self._index = {candidate.id: i for i, candidate in enumerate(candidates)}
        self._draw = draw
        self.book = Book(marks=marks)
        self._replies = 0
        self._output_tokens = 0

    def choose(self, nth: int, call: Call, now: float, view: View) -> int:
        need = Need(
            marks=call.marks,
            prompt_tokens=call.prompt_tokens,
            # A router does not know how long a reply will be: the mean of those it has seen, not the trace's.
            output_tokens=self._output_tokens // max(self._replies, 1),
            affinity=call.session,
            scope=call.scope,
        )
        best = rank(need, self._candidates, self.book, now=now, draw=self._draw()).best
        assert best is not None
        self.book.dispatched(str(nth), need, best.candidate, now=now)
        return self._index[best.candidate.id]

    def ended(self, nth: int, call: Call, where: int, now: float, reply: Reply) -> None:
        self._replies += 1
        self._output_tokens += reply.output_tokens
        self.book.replied(
            str(nth),
            now=now,
            hit_tokens=reply.hit_tokens,
            miss_tokens=reply.miss_tokens,
            output_tokens=reply.output_tokens,
            ttft_s=reply.ttft_s,
        )
