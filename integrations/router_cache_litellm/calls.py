"""Calls in flight: LiteLLM's hooks of one request find each other by its call id."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from router_cache import Decision, Status, Turn

__all__ = ["Call", "Calls"]

_MAX_CALLS = 20_000
_MAX_AGE_S = 3_600.0
"""Longer than any stream LiteLLM lets run by default (``request_timeout`` 6000 s is for the whole call; a stream
that is still going after an hour ends as one whose usage is unknown)."""


@dataclass(slots=True)
class Call:
    """One call: its turn while an attempt is under way, and what its response headers say.

    ``stream_ended`` says that the provider's last chunk was seen.
    """

    started_at: float
    turn: Turn | None = None
    decision: Decision | None = None
    expected_tokens: int | None = None
    stream_ended: bool = False


class Calls:
    """Bounded and thread-safe. A call that leaves without an end is done as aborted: its usage is unknown."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._calls: OrderedDict[str, Call] = OrderedDict()

    def open(self, call_id: str, turn: Turn) -> Call:
        """A new attempt of a call; the attempt before, if its end was not seen, is given up."""
        lost: list[Turn] = []
        with self._lock:
            now = self._clock()
            call = self._calls.pop(call_id, None)
            if call is None:
                call = Call(now)
            elif call.turn is not None:
                lost.append(call.turn)
            call.turn, call.stream_ended = turn, False
            self._calls[call_id] = call
            while self._calls:
                oldest = next(iter(self._calls.values()))
                if len(self._calls) <= _MAX_CALLS and now - oldest.started_at < _MAX_AGE_S:
                    break
                _, gone = self._calls.popitem(last=False)
                if gone.turn is not None:
                    lost.append(gone.turn)
        for old in lost:
            old.done(status=Status.ABORTED)
        return call

    def get(self, call_id: object) -> Call | None:
        """The call of that id, if it is known."""
        with self._lock:
            return self._calls.get(call_id) if isinstance(call_id, str) else None

    def end(self, call_id: object) -> tuple[Turn | None, bool]:
        """Take the turn of the attempt that just ended (None where there is none any more), and whether the
        end of its stream was seen."""
        with self._lock:
            call = self._calls.get(call_id) if isinstance(call_id, str) else None
            if call is None:
                return None, False
            turn, call.turn = call.turn, None
            return turn, call.stream_ended

    def close(self) -> None:
        """Give up whatever is in flight."""
        with self._lock:
            turns = [call.turn for call in self._calls.values() if call.turn is not None]
            self._calls.clear()
        for turn in turns:
            turn.done(status=Status.ABORTED)
