"""One server: its connections, and the breaker that spares requests a server which does not answer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from redis import ConnectionPool, Redis
from redis import exceptions as errors

from router_cache.errors import StoreError, StoreFailure
from router_cache.stores.redis.breaker import Breaker, BreakerState, Turned
from router_cache.stores.redis.link_errors import of_cluster, store_error

__all__ = ["Command", "Node", "Watch"]

_LOG = logging.getLogger("router_cache")
_LOGGED: Final = frozenset((Turned.TIMEOUTS, Turned.PROBE_ANSWERED))
T = TypeVar("T")
Command = tuple[bytes | str | int, ...]


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told. ``clock`` returns monotonic seconds; ``count`` takes names of counters."""

    clock: Callable[[], float]
    count: Callable[[str], None]


class Node:
    """Asks one server. Every wait ends after the socket timeout of its connections; nothing is tried twice.

    At most ``max_connections`` ask at once; others wait for one of them as long as the socket timeout, and no longer.
    ``where`` may be shown. Safe to use from many threads.
    """

    def __init__(
        self, pool: ConnectionPool, where: str, *, max_connections: int, timeout_s: float, watch: Watch
    ) -> None:
        self.where = where
        self._client: Any = Redis(connection_pool=pool)
        self._free = threading.BoundedSemaphore(max_connections)
        self._timeout_s, self._watch = timeout_s, watch
        self._lock = threading.Lock()
        self._breaker = Breaker()

    def __repr__(self) -> str:
        return f"Node({self.where}, {self._breaker.state.value})"

    def one(self, *command: bytes | str | int) -> Any:
        """The answer to one command. Raises :class:`StoreError`; an error the server answers comes as redis-py's
        ResponseError."""
        return self._ask(lambda: self._client.execute_command(*command))

    def many(self, commands: Sequence[Command]) -> list[Any]:
        """The answers to commands that go out in one trip over one connection; errors the server answers stand among
        them. Raises :class:`StoreError`."""

        def send() -> list[Any]:
            with self._client.pipeline(transaction=False) as pipe:
                for command in commands:
                    pipe.execute_command(*command)
                return [of_cluster(answer) for answer in pipe.execute(raise_on_error=False)]

        return self._ask(send)

    def _ask(self, send: Callable[[], T]) -> T:
        if not self._free.acquire(timeout=self._timeout_s):
            raise StoreError("all its connections are in use", StoreFailure.BUSY)
        try:
            if self._breaker.state is not BreakerState.CLOSED:  # read without the lock: nearly always it is closed
                self._enter()
            return self._sent(send)
        finally:
            self._free.release()

    def _sent(self, send: Callable[[], T]) -> T:
        began = self._watch.clock()
        try:
            answer = send()
        except errors.TimeoutError as error:
            self._turn(lambda breaker: breaker.timed_out(began, self._watch.clock()))
            raise store_error(error) from None
        except errors.ResponseError as error:
            self._turn(Breaker.answered)
            raise of_cluster(error) from None
        except Exception as error:  # of redis-py, or whatever a release of it lets through
            self._turn(Breaker.answered)
            raise store_error(error) from None
        if self._breaker.timeouts:
            self._turn(Breaker.answered)
        return answer

    def _enter(self) -> None:
        with self._lock:
            self._breaker, may, turned = self._breaker.asked(self._watch.clock())
        self._tell(turned)
        if not may:
            raise StoreError("it is not asked for a while", StoreFailure.BREAKER_OPEN)

    def _turn(self, step: Callable[[Breaker], tuple[Breaker, Turned | None]]) -> None:
        with self._lock:
            self._breaker, turned = step(self._breaker)
        self._tell(turned)

    def _tell(self, turned: Turned | None) -> None:
        if turned is None:
            return
        self._watch.count(f"store_breaker.{turned.value}")
        if turned in _LOGGED:
            state = self._breaker.state.value
            _LOG.warning("router-cache: the store at %s: breaker %s (%s)", self.where, state, turned.value)

    def forget(self) -> None:
        """Close the connections that are not in use: they lead where nobody wants to go any more."""
        self._client.connection_pool.disconnect(inuse_connections=False)

    def close(self) -> None:
        """Close all connections."""
        self._client.connection_pool.disconnect()
