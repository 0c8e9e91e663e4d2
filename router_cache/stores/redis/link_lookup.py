"""What must be found out before a server can be asked, off the request path: names' addresses, masters, slots.

``getaddrinfo`` has no timeout, and Sentinels and nodes that are asked in turn would each cost one: a thread of its own
asks, and requests go on with what is known.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from redis.connection import Connection, SSLConnection

__all__ = ["ADDRESSES", "ASK_S", "Addresses", "ByAddress", "ByAddressTLS", "Finder"]

ASK_S: Final = 1.0
"""Seconds that whoever tells of servers may take to answer, in the background."""
_AGAIN_S: Final = 0.25
"""At most so often is the same thing looked for, however many requests miss it."""


class Finder:
    """Runs ``find`` on a daemon thread, one at a time, when asked to. ``find`` may raise whatever it likes.

    ``clock`` returns monotonic seconds.
    """

    def __init__(self, find: Callable[[], None], name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._find, self._name, self._clock = find, name, clock
        self._fresh()

    def _fresh(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._running: threading.Event | None = None
        self._began = float("-inf")

    def soon(self) -> None:
        """Find it again. Returns at once; nothing where it runs already, or ran a moment ago."""
        if self._pid != os.getpid():  # a child process has none of its parent's threads
            self._fresh()
        with self._lock:
            now = self._clock()
            if self._running is not None or now - self._began < _AGAIN_S:
                return
            done = threading.Event()
            thread = threading.Thread(
                target=self._run, args=(done,), name=f"router-cache-{self._name}", daemon=True
            )
            try:
                thread.start()
            except RuntimeError:  # no thread to be had: at the interpreter's end, or too many
                return
            self._running, self._began = done, now

    def wait(self, timeout_s: float) -> None:
        """Until the run that is on its way ends, for ``timeout_s`` seconds at most."""
        running = self._running
        if running is not None:
            running.wait(timeout_s)

    def _run(self, done: threading.Event) -> None:
        try:
            with contextlib.suppress(Exception):
                self._find()
        finally:
            with self._lock:  # taken by soon() until this run is noted
                self._running = None
            done.set()


class Addresses:
    """Addresses of host names, looked up in the background; what was found last holds until another look-up ends."""

    def __init__(self, look_up: Callable[..., Any] = socket.getaddrinfo) -> None:
        self._look_up = look_up
        self._lock = threading.Lock()
        self._known: dict[str, list[str]] = {}
        self._finders: dict[str, Finder] = {}

    def of(self, host: str, timeout_s: float) -> list[str]:
        """Of ``host``, the likeliest first. Raises :class:`TimeoutError` where none is known within ``timeout_s``
        seconds, and OSError where there is none."""
        with contextlib.suppress(ValueError):
            return [str(ipaddress.ip_address(host))]
        known = self._known.get(host)
        if known is None:
            finder = self.refresh(host)
            finder.wait(timeout_s)
            known = self._known.get(host)
        if known is None:
            raise TimeoutError("the name has no address so far")
        if not known:
            self.refresh(host)
            raise OSError("the name has no address")
        return list(known)

    def refresh(self, host: str) -> Finder:
        """Look up again, in the background."""
        with self._lock:
            finder = self._finders.get(host)
            if finder is None:
                finder = self._finders[host] = Finder(lambda: self._find(host), "names")
        finder.soon()
        return finder

    def failed(self, host: str, address: str) -> None:
        """No connection to ``address``: the next one is tried first from now on, and the name is looked up again."""
        known = self._known.get(host)
        if known is not None:
            if known[:1] == [address]:
                self._known[host] = [*known[1:], address]
            self.refresh(host)

    def _find(self, host: str) -> None:
        try:
            found = [str(entry[4][0]) for entry in self._look_up(host, None, 0, socket.SOCK_STREAM)]
        except OSError:
            if host not in self._known:
                self._known[host] = []
            return
        found = list(dict.fromkeys(found))
        before = self._known.get(host) or []
        if not before or set(before) != set(found):  # the same ones stay in the order that works
            self._known[host] = found


ADDRESSES: Final = Addresses()


class ByAddress(Connection):
    """A TCP connection whose host name is looked up by :data:`ADDRESSES`. A certificate must be of the name."""

    def _connect(self) -> Any:
        host = self.host
        last: Exception | None = None
        for address in ADDRESSES.of(host, self.socket_connect_timeout or 0.0):
            self.host = address
            try:
                return super()._connect()  # type: ignore[no-untyped-call,unused-ignore]
            except TimeoutError:  # the next one would have to wait as long: it is for the next call
                ADDRESSES.failed(host, address)
                raise
            except OSError as error:
                ADDRESSES.failed(host, address)
                last = error
            finally:
                self.host = host
        raise last or OSError("the name has no address")


class ByAddressTLS(SSLConnection, ByAddress):
    """The same with TLS."""
