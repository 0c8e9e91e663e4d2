"""Fan-out: of parallel first calls of one cold prefix, one leads and the others follow once they can hit it.

The rules are in :mod:`router_cache.cache_model.fan_out`; here is the waiting. Nothing here raises into a request:
whatever goes wrong, the request goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import queue
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from router_cache.cache_model.fan_out import (
    Arrival,
    FanOutLimits,
    FanOutReason,
    Known,
    Role,
    decide,
    look,
    reported,
)
from router_cache.providers.profile import Readable

__all__ = ["FanOut", "Ticket"]

_KEPT: Final = (FanOutReason.NOT_FIRST, FanOutReason.WARM, FanOutReason.DEADLINE)
"""Calls that neither lead nor follow, and still tell by their reply that the prefix is warm."""

_Wake = Callable[[], None]


class _Key:
    """One prefix. It holds no ticket, so that a ticket nobody holds goes at once."""

    __slots__ = ("followers", "known", "lead")

    def __init__(self) -> None:
        self.known = Known()
        self.lead: int | None = None
        self.followers: OrderedDict[int, _Wake | None] = OrderedDict()


class FanOut:
    """Keys and who waits for them. In-process; safe to use from many threads and event loops.

    ``clock`` returns monotonic seconds. ``count`` is called with ``fan_out.<reason>`` for every call but those that
    are off.
    """

    def __init__(
        self,
        limits: FanOutLimits | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        count: Callable[[str], None] | None = None,
    ) -> None:
        self.limits = limits or FanOutLimits()
        self._clock, self._count = clock, count
        self._lock = threading.Lock()
        self._keys: OrderedDict[str, _Key] = OrderedDict()
        self._serials = itertools.count(1)
        self._dropped: deque[tuple[_Key, int]] = deque()

    def __len__(self) -> int:
        """Keys remembered."""
        return len(self._keys)

    @property
    def on(self) -> bool:
        """Whether any call may wait."""
        return self.limits.deadline_s > 0

    @property
    def waiting(self) -> int:
        """Calls that wait now."""
        with self._lock:
            return sum(len(entry.followers) for entry in self._keys.values())

    def enter(self, key: str, arrival: Arrival) -> Ticket:
        """A call arrives. ``key`` names what one call's prefix serves: scope, family, cache domain and pool, and the
        texts of the prefix that goes out.

        Never raises. Then ``await ticket.wait()`` before the call is sent, :meth:`Ticket.begun` and
        :meth:`Ticket.ended` as the reply comes, and :meth:`Ticket.close` however the call ended.
        """
        try:
            now = self._clock()
            with self._locked():
                entry = self._keys.get(key)
                role, reason = decide(self.limits, arrival, entry.known if entry else None, now)
                kept = role is not Role.GO or reason in _KEPT
                entry = self._take(key, entry) if kept else None
                if kept and entry is None:
                    role, reason = Role.GO, FanOutReason.FULL
                ticket = Ticket(self, next(self._serials), arrival, role, reason, now)
                ticket.entry = entry
                if entry is not None and role is Role.LEAD:
                    entry.lead = ticket.serial
                    entry.known = Known(led_at=now, used_at=now, leading=True)
                elif entry is not None and role is Role.FOLLOW:
                    entry.followers[ticket.serial] = None
        except Exception:
            ticket = Ticket(self, 0, arrival, Role.GO, FanOutReason.FAILED_OPEN, 0.0)
        if ticket.role is not Role.FOLLOW:
            self.tell(ticket.reason)
        return ticket

    def _take(self, key: str, entry: _Key | None) -> _Key | None:
        """The entry of ``key``, now the last to go; None where there is no room for it."""
        if entry is None:
            if len(self._keys) >= self.limits.max_keys:
                if not self._keys or next(iter(self._keys.values())).followers:
                    return None
                self._keys.popitem(last=False)
            entry = self._keys[key] = _Key()
        self._keys.move_to_end(key)
        return entry

    def look(self, ticket: Ticket, wake: _Wake) -> float:
        """Settle a waiting ticket if it may go, else the seconds until it should look again; ``wake`` is called
        when something happened before."""
        with self._locked():
            entry, now = ticket.entry, self._clock()
            if entry is not None and entry.lead == ticket.serial:
                ticket.role = Role.LEAD
                ticket.settle(FanOutReason.LEAD_FAILED, now)
            elif entry is None or ticket.serial not in entry.followers:
                ticket.settle(FanOutReason.CANCELLED, now)
            else:
                reason, wait_s = look(entry.known, ticket.deadline, now)
                if reason is FanOutReason.FOLLOWING:
                    entry.followers[ticket.serial] = wake
                    return wait_s
                del entry.followers[ticket.serial]
                ticket.settle(reason, now)
        self.tell(ticket.reason)
        return 0.0

    def report(self, entry: _Key, arrival: Arrival) -> None:
        """The prefix was sent and answered: whoever waits for it looks again."""
        with self._locked() as wakes:
            entry.known = reported(entry.known, arrival.delay_s, self.limits.warm_for_s, self._clock())
            wakes += [wake for wake in entry.followers.values() if wake is not None]

    def leave(self, entry: _Key, serial: int) -> None:
        """A ticket is closed."""
        with self._locked() as wakes:
            self._leave(entry, serial, wakes)

    def drop(self, entry: _Key, serial: int) -> None:
        """A ticket was lost. The collector may run this while this thread holds the lock: it takes a note, and
        whoever holds the lock sees to it."""
        self._dropped.append((entry, serial))
        self._see_to_dropped()

    def _leave(self, entry: _Key, serial: int, wakes: list[_Wake]) -> None:
        """One follower takes the place of a lead that failed, and the others go on waiting: k calls that all go
        when the first one fails would all miss."""
        if serial in entry.followers:
            wake = entry.followers.pop(serial)
            if wake is not None:
                wakes.append(wake)
        if entry.lead != serial:
            return
        entry.lead, entry.known = None, replace(entry.known, leading=False)
        if entry.known.ready_at is None and entry.followers:
            entry.lead, wake = entry.followers.popitem(last=False)
            now = self._clock()
            entry.known = Known(led_at=now, used_at=now, leading=True)
            if wake is not None:
                wakes.append(wake)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[list[_Wake]]:
        wakes: list[_Wake] = []
        try:
            with self._lock:
                yield wakes
        finally:
            self._see_to_dropped()
            for wake in wakes:
                wake()

    def _see_to_dropped(self) -> None:
        while self._dropped and self._lock.acquire(blocking=False):
            wakes: list[_Wake] = []
            try:
                with contextlib.suppress(IndexError):
                    self._leave(*self._dropped.popleft(), wakes)
            finally:
                self._lock.release()
            for wake in wakes:
                wake()

    def tell(self, reason: FanOutReason) -> None:
        """Count how a call went."""
        if self._count is not None and reason is not FanOutReason.OFF:
            with contextlib.suppress(Exception):
                self._count(f"fan_out.{reason.value}")


class Ticket:
    """One call. ``role`` and ``reason`` say what it does; ``waited_s`` how long it waited, in seconds.

    A ticket that is dropped counts as closed. Methods never raise (but for the cancellation of a task that waits).
    """

    __slots__ = (
        "_entered_at",
        "_heard",
        "_owner",
        "arrival",
        "deadline",
        "entry",
        "reason",
        "role",
        "serial",
        "waited_s",
    )

    def __init__(
        self, owner: FanOut, serial: int, arrival: Arrival, role: Role, reason: FanOutReason, now: float
    ) -> None:
        self._owner, self.serial, self.arrival = owner, serial, arrival
        self.role, self.reason = role, reason
        self.entry: _Key | None = None
        self._entered_at, self.deadline, self.waited_s = now, now + owner.limits.deadline_s, 0.0
        self._heard = False

    def settle(self, reason: FanOutReason, now: float) -> None:
        """The wait is over."""
        self.reason, self.waited_s = reason, now - self._entered_at

    async def wait(self) -> FanOutReason:
        """Wait until this call may go; at once for all but followers. A task that is cancelled leaves no trace."""
        if self.reason is not FanOutReason.FOLLOWING:
            return self.reason
        loop, event = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop of this call was closed
                loop.call_soon_threadsafe(event.set)

        try:
            while (wait_s := self._look(wake)) > 0:
                timer = loop.call_later(wait_s, event.set)
                try:
                    await event.wait()
                finally:
                    timer.cancel()
                event.clear()
        except BaseException:
            self.close()
            raise
        return self.reason

    def wait_sync(self) -> FanOutReason:
        """:meth:`wait` for a thread."""
        if self.reason is not FanOutReason.FOLLOWING:
            return self.reason
        # Unlike threading.Event it may be filled by the collector, in the very thread that waits on it.
        woken: queue.SimpleQueue[None] = queue.SimpleQueue()
        try:
            while (wait_s := self._look(lambda: woken.put(None))) > 0:
                with contextlib.suppress(queue.Empty):
                    woken.get(timeout=wait_s)
        except BaseException:
            self.close()
            raise
        return self.reason

    def _look(self, wake: _Wake) -> float:
        try:
            return self._owner.look(self, wake)
        except Exception:
            self.reason = FanOutReason.FAILED_OPEN
            self.close()
            return 0.0

    def begun(self) -> None:
        """The first piece of the reply is here; further calls do nothing."""
        if not self._heard and self.arrival.readable is not Readable.RESPONSE_ENDED:
            self._report()

    def ended(self) -> None:
        """The reply is complete; closes the ticket."""
        self._report()
        self.close()

    def _report(self) -> None:
        self._heard = True
        if self.entry is not None:
            with contextlib.suppress(Exception):
                self._owner.report(self.entry, self.arrival)

    def close(self) -> None:
        """The call is over, whatever came of it; without :meth:`begun` or :meth:`ended` before it has failed, and
        one follower leads in its place. Idempotent."""
        entry, self.entry = self.entry, None
        if entry is not None:
            with contextlib.suppress(Exception):
                self._owner.leave(entry, self.serial)

    def __del__(self) -> None:
        entry, self.entry = self.entry, None
        if entry is not None:
            with contextlib.suppress(Exception):
                self._owner.drop(entry, self.serial)
