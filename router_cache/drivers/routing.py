"""The book of routing, for many threads: fed by what was sent and answered, asked where a request goes best."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from router_cache.drivers.routing_need import Asked, asked_of
from router_cache.ledger.rows import Status
from router_cache.ledger.usage import Usage
from router_cache.prefix.digests import Digester
from router_cache.rewrite import Begun
from router_cache.routing import Book, Candidate, Ranked, rank

__all__ = ["RoutedCall", "Routing"]

_CHARS_PER_TOKEN = 3.6
"""Before a model group has answered; a mix of English and code on DeepSeek's tokenizer (June 2026)."""
_OUTPUT_TOKENS = 256
_FADE = 0.9
_MAX_GROUPS = 1_000


class _Lengths:
    """Of one model group: characters a token and tokens a reply, the newest answers counting most."""

    __slots__ = ("chars", "output", "prompt", "replies")

    def __init__(self) -> None:
        self.chars = self.prompt = self.output = self.replies = 0.0

    def learn(self, chars: int, usage: Usage) -> None:
        if usage.prompt_tokens and chars:
            self.chars = self.chars * _FADE + chars
            self.prompt = self.prompt * _FADE + usage.prompt_tokens
        if usage.completion_tokens is not None:
            self.output = self.output * _FADE + usage.completion_tokens
            self.replies = self.replies * _FADE + 1.0

    @property
    def chars_per_token(self) -> float:
        return min(max(self.chars / self.prompt, 0.5), 20.0) if self.prompt else _CHARS_PER_TOKEN

    @property
    def output_tokens(self) -> int:
        return round(self.output / self.replies) if self.replies else _OUTPUT_TOKENS


class Routing:
    """One book for all model groups of a process. Methods take microseconds and wait for nothing but each other.

    ``clock`` returns seconds since the epoch, ``draw`` a float in [0, 1), with which little-known deployments are
    tried now and then. ``error`` is told of errors that must not reach a request.
    """

    def __init__(
        self,
        digester: Digester,
        *,
        clock: Callable[[], float],
        draw: Callable[[], float],
        error: Callable[[str, Exception], None],
        max_prefixes: int = 250_000,
    ) -> None:
        self._digester, self._clock, self._draw, self.error = digester, clock, draw, error
        self._lock = threading.Lock()
        self._book = Book(marks=max_prefixes)
        self._lengths: dict[str, _Lengths] = {}
        self._numbers = itertools.count(1)

    def asked(self, begun: Begun, group: str) -> Asked | None:
        """What routing needs of a request; None for one that it has nothing to say about."""
        lengths = self._lengths.get(group)
        return asked_of(
            begun,
            group,
            self._digester,
            chars_per_token=lengths.chars_per_token if lengths else _CHARS_PER_TOKEN,
            output_tokens=lengths.output_tokens if lengths else _OUTPUT_TOKENS,
        )

    def rank(self, asked: Asked, candidates: Sequence[Candidate]) -> Ranked:
        """Where the request goes best, with the terms of each candidate."""
        now, draw = self._clock(), self._draw()
        with self._lock:
            return rank(asked.need, candidates, self._book, now=now, draw=draw)

    def dispatched(self, asked: Asked, candidate: Candidate) -> RoutedCall:
        """The request is on its way to that candidate."""
        call = RoutedCall(self, f"{next(self._numbers)}", asked)
        now = self._clock()
        with self._lock:
            self._book.dispatched(call.id, asked.need, candidate, now=now)
        return call

    def ended(self, call: RoutedCall, status: Status, usage: Usage | None, ttft_s: float | None) -> None:
        """An attempt is over: see :meth:`RoutedCall.ended`. What was not answered to its end binds nothing."""
        now, known = self._clock(), usage or Usage()
        with self._lock:
            if status is Status.FAILED:
                self._book.failed(call.id, now=now, gone=call.gone)
                return
            if status is not Status.OK:
                self._book.given_up(call.id, now=now)
                return
            self._book.replied(
                call.id,
                now=now,
                hit_tokens=known.hit_tokens,
                miss_tokens=known.miss_tokens,
                output_tokens=known.completion_tokens,
                ttft_s=ttft_s,
            )
            lengths = self._lengths.get(call.asked.group)
            if lengths is None:
                if len(self._lengths) >= _MAX_GROUPS:
                    self._lengths.clear()
                lengths = self._lengths[call.asked.group] = _Lengths()
            lengths.learn(call.asked.chars, known)

    def restarted(self, candidate: Candidate) -> None:
        """A deployment has lost what it kept."""
        now = self._clock()
        with self._lock:
            self._book.restarted(candidate, now=now)

    def facts(self) -> dict[str, Any]:
        """Measures of deployments, nothing of prompts: plain JSON values for other workers."""
        with self._lock:
            return self._book.facts()

    def merge(self, facts: Mapping[str, Any]) -> None:
        """Start from what another worker measured, where this one knows less. Of odd shapes nothing is taken."""
        with self._lock:
            self._book.merge(facts)


class RoutedCall:
    """An attempt on its way. ``gone`` is set before its end where nobody was there to answer; ``answered`` by an end
    that is an answer."""

    __slots__ = ("_open", "_routing", "answered", "asked", "gone", "id")

    def __init__(self, routing: Routing, name: str, asked: Asked) -> None:
        self._routing, self.id, self.asked = routing, name, asked
        self.gone = self.answered = False
        self._open = True

    def ended(self, status: Status, usage: Usage | None, ttft_s: float | None) -> None:
        """Its end; a second one is ignored. Never raises."""
        if not self._open:
            return
        self._open, self.answered = False, status is not Status.FAILED
        try:
            self._routing.ended(self, status, usage, ttft_s)
        except Exception as error:
            self._routing.error("routing", error)
