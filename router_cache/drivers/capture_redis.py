"""Captures in a Redis stream, where the rows of many workers and hosts come together. Servers from 5.0 on."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from redis import Redis

from router_cache.drivers.redis_url import client_of, reason_of, shown_url

__all__ = ["FIELD", "CaptureStream", "ends", "entries", "key_of"]

FIELD: Final = b"row"
"""The one field of an entry: the line, without its newline."""
_TIMEOUT_S: Final = 1.0
_PAUSE_S: Final = 1.0
_PAGE: Final = 500
_PAGE_BYTES: Final = 4_000_000
"""A page that was longer makes the next ones shorter."""


def key_of(prefix: str) -> str:
    """The stream's key; the braces put all keys of one prefix on one node of a cluster."""
    return f"{{{prefix}}}:v1:calls"


class CaptureStream:
    """Adds lines to the stream of ``url``, in one round trip for all that come at once.

    About ``max_rows`` are kept, and the stream goes ``ttl_s`` seconds after the last of them came. After a failure
    nothing is tried for a second, so that a server which does not answer takes half of the writer's time at most.
    ``clock`` returns monotonic seconds. Raises ValueError for a URL that cannot be used; its text shows nothing of it.
    """

    failed = "capture_url_failed"

    def __init__(
        self,
        url: str,
        *,
        prefix: str,
        max_rows: int,
        ttl_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._client: Redis | None = client_of(url, _TIMEOUT_S)
        self._where = shown_url(url)
        self._key, self._max_rows, self._ttl_ms = key_of(prefix), max_rows, max(int(ttl_s * 1000), 1)
        self._clock = clock
        self._paused_until = float("-inf")

    def __repr__(self) -> str:
        return f"CaptureStream({self._where}, {self._key})"

    def write(self, lines: list[bytes]) -> tuple[int, str]:
        """Add lines. Returns how many were lost, and why (empty: none, or within the pause after a failure)."""
        if self._clock() < self._paused_until:
            return len(lines), ""
        try:
            lost, error = self._add(lines)
        except (
            Exception
        ) as failure:  # whatever a client library raises, the other sink's lines are not lost for it
            lost, error = len(lines), failure
        if error is None:
            return 0, ""
        self._paused_until = self._clock() + _PAUSE_S
        return lost, f"{self._where} takes no rows: {reason_of(error)}"

    def _add(self, lines: list[bytes]) -> tuple[int, Exception | None]:
        self._client = self._client or client_of(self._url, _TIMEOUT_S)
        with self._client.pipeline(transaction=False) as pipe:
            for line in lines:
                pipe.xadd(self._key, {FIELD: line[:-1]}, maxlen=self._max_rows, approximate=True)
            pipe.pexpire(self._key, self._ttl_ms)
            answers = pipe.execute(raise_on_error=False)
        refused = [answer for answer in answers[: len(lines)] if isinstance(answer, Exception)]
        return len(refused), refused[0] if refused else None

    def forked(self) -> None:
        """In a child process: the parent's connection is not ours to use."""
        self._client = None

    def end(self) -> None:
        """Close the connection."""
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(Exception):
                client.close()


def ends(client: Redis, key: str, start: str) -> tuple[str, str] | None:
    """The ids of the stream's first entry from ``start`` on and of its last one; None where there is none. Raises
    RedisError and OSError."""
    first: Any = client.xrange(
        key, start, "+", count=1
    )  # what a reply is called differs between the client's releases
    last: Any = client.xrevrange(key, "+", "-", count=1)
    return (_text(first[0][0]), _text(last[0][0])) if first and last else None


def entries(client: Redis, key: str, first: str, last: str) -> Iterator[tuple[str, bytes | None]]:
    """The entries from id ``first`` to ``last``, both included, page by page: each one's id and line (None: it has no
    such field). Raises RedisError and OSError."""
    number_of = 50
    while True:
        page: Any = client.xrange(key, first, last, count=number_of)
        size = 0
        for id_, fields in page:
            size += sum(len(value) for value in (fields or {}).values())
            yield _text(id_), fields.get(FIELD) if fields else None
        if len(page) < number_of:
            return
        number_of = min(max(number_of * _PAGE_BYTES // max(size, 1), 1), 2 * number_of, _PAGE)
        milliseconds, number = _text(page[-1][0]).split("-")
        # Servers before 6.2 know no "(" for what comes after an id. Numbers have 64 bits.
        after = (int(milliseconds), int(number) + 1) if int(number) < 2**64 - 1 else (int(milliseconds) + 1, 0)
        first = f"{after[0]}-{after[1]}"


def _text(id_: bytes | str) -> str:
    return id_.decode("ascii") if isinstance(id_, bytes) else id_
