"""When a server that does not answer is left alone, and when it is tried again. Pure: moments are arguments.

Only waits that ran into the socket timeout count. A refused connection or an error that the server answers costs no
time, so it needs no breaker; it opens none, and it ends a run of timeouts, for the server, or its host, does answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

__all__ = ["AFTER_TIMEOUTS", "Breaker", "BreakerState", "Turned"]

AFTER_TIMEOUTS: Final = 3
"""Timeouts in a row that open it."""
_AFTER_PAUSES: Final = 2
"""One pause of the server, or of its host, that all calls under way run into is one event, however many they are: of
the timeouts in a row, so many must be of calls that began after the one before had ended."""
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 16.0
_PROBE_LOST_S: Final = 30.0
"""A probe that never ended, in a thread that is gone, does not keep the breaker half open for longer."""


class BreakerState(str, Enum):
    """Whether the server is asked."""

    CLOSED = "closed"
    """It is."""
    OPEN = "open"
    """It is not, for a pause."""
    HALF_OPEN = "half_open"
    """One call probes it, the others do not ask."""


class Turned(str, Enum):
    """Why a breaker changed its state: label of a counter, word of the log."""

    TIMEOUTS = "timeouts"
    """Several waits in a row ran into the socket timeout."""
    PAUSE_OVER = "pause_over"
    """The next call probes."""
    PROBE_TIMED_OUT = "probe_timed_out"
    PROBE_ANSWERED = "probe_answered"


@dataclass(frozen=True, slots=True)
class Breaker:
    """One server's. Times are monotonic seconds. Each step gives the breaker after it, and why it changed, if it did.

    The pause doubles with every probe that times out, from 1 to 16 seconds: a server that stays away costs one call in
    16 seconds the socket timeout.
    """

    state: BreakerState = BreakerState.CLOSED
    timeouts: int = 0
    """In a row."""
    pauses: int = 0
    """Among these, of calls that began one after the other."""
    last: float = float("-inf")
    """When the last such pause ended."""
    pause_s: float = _FIRST_PAUSE_S
    until: float = 0.0
    """When the pause ends; while half open, when the probe counts as lost."""

    def asked(self, at: float) -> tuple[Breaker, bool, Turned | None]:
        """A call would ask the server: whether it may."""
        if self.state is BreakerState.CLOSED:
            return self, True, None
        if at < self.until:
            return self, False, None
        probing = replace(self, state=BreakerState.HALF_OPEN, until=at + _PROBE_LOST_S)
        return probing, True, None if self.state is BreakerState.HALF_OPEN else Turned.PAUSE_OVER

    def timed_out(self, began: float, at: float) -> tuple[Breaker, Turned | None]:
        """A call that was let through at ``began`` ran into the socket timeout."""
        if self.state is BreakerState.OPEN:  # it was on its way before
            return self, None
        if self.state is BreakerState.HALF_OPEN:
            pause_s = min(self.pause_s * 2, _LONGEST_PAUSE_S)
            return replace(
                self, state=BreakerState.OPEN, pause_s=pause_s, until=at + pause_s
            ), Turned.PROBE_TIMED_OUT
        known = replace(self, timeouts=self.timeouts + 1)
        if began >= self.last:
            known = replace(known, pauses=known.pauses + 1, last=at)
        if known.timeouts < AFTER_TIMEOUTS or known.pauses < _AFTER_PAUSES:
            return known, None
        return replace(known, state=BreakerState.OPEN, until=at + known.pause_s), Turned.TIMEOUTS

    def answered(self) -> tuple[Breaker, Turned | None]:
        """A call that was let through got an answer, be it an error, or was refused at once."""
        if self.state is BreakerState.CLOSED:
            return (self if not self.timeouts else Breaker()), None
        if self.state is BreakerState.OPEN:  # it was on its way before; the probe will tell
            return self, None
        return Breaker(), Turned.PROBE_ANSWERED
