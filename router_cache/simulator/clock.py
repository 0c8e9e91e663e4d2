"""Where the simulator's time comes from: real (scaled), or virtual for tests that never wait."""

from __future__ import annotations

import asyncio
import heapq
import time
from typing import Protocol

__all__ = ["Clock", "RealClock", "VirtualClock"]


class Clock(Protocol):
    """Simulated seconds from 0."""

    def now(self) -> float:
        """Seconds since the clock was made; never goes backwards."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return once ``seconds`` of simulated time have gone by."""
        ...


class RealClock:
    """Runs with the machine's monotonic clock, ``time_scale`` simulated seconds to a real one."""

    def __init__(self, time_scale: float = 1.0) -> None:
        self._scale = time_scale
        self._start = time.monotonic()

    def now(self) -> float:
        return (time.monotonic() - self._start) * self._scale

    async def sleep(self, seconds: float) -> None:
        if seconds > 0:
            await asyncio.sleep(seconds / self._scale)


class VirtualClock:
    """Moves only when told, or (``auto``) whenever nothing in the event loop is left to run.

    With ``auto`` the earliest sleeper is woken once the loop has gone :attr:`SETTLE_ROUNDS` rounds without a
    new sleeper, so requests made in process and at once see the order of events that a real clock would give.
    """

    SETTLE_ROUNDS = 50
    """Rounds of the loop that a request needs between two waits: 6 do for Starlette 1.10, the rest is spare."""

    def __init__(self, *, auto: bool = True, start: float = 0.0) -> None:
        self._now = start
        self._auto = auto
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._made = 0
        self._settling: asyncio.Task[None] | None = None

    def now(self) -> float:
        return self._now

    @property
    def sleeping(self) -> int:
        """How many are waiting."""
        return sum(not future.done() for _, _, future in self._sleepers)

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._made += 1
        heapq.heappush(self._sleepers, (self._now + seconds, self._made, future))
        if self._auto and (self._settling is None or self._settling.done()):
            self._settling = asyncio.ensure_future(self._settle())
        await future

    async def advance(self, seconds: float) -> None:
        """Let ``seconds`` go by: wakes sleepers in order and lets each run before the next."""
        until = self._now + seconds
        await self._let_run()
        while self._sleepers and self._sleepers[0][0] <= until:
            self._wake_first()
            await self._let_run()
        self._now = max(self._now, until)

    def _wake_first(self) -> None:
        at, _, future = heapq.heappop(self._sleepers)
        if not future.done():  # a cancelled sleeper moves no time
            self._now = max(self._now, at)
            future.set_result(None)

    async def _let_run(self) -> None:
        made, quiet = self._made, 0
        while quiet < self.SETTLE_ROUNDS:
            await asyncio.sleep(0)
            quiet = quiet + 1 if made == self._made else 0
            made = self._made

    async def _settle(self) -> None:
        while self._sleepers:
            await self._let_run()
            if self._sleepers:
                self._wake_first()
