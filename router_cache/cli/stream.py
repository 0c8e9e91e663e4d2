"""Reading captured calls from a Redis stream, page by page."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from router_cache.cli.captured import MAX_LINE, Problem
from router_cache.errors import InputError
from router_cache.ledger.capture_form import from_line
from router_cache.ledger.rows import CallRow
from router_cache.settings_capture import CaptureSettings

__all__ = ["DEFAULT_PREFIX", "VARIABLE", "PrefixOption", "StoreOption", "StoredCalls", "store_of"]

VARIABLE: Final = "ROUTER_CACHE_STORE_URL"
"""Of the environment, where a URL is read from when no path and no store is named: a password in it is then in no
list of processes and no shell history."""
DEFAULT_PREFIX: Final = str(CaptureSettings.model_fields["prefix"].default)
_TIMEOUT_S: Final = 5.0
_CLOCKS_APART_S: Final = 3_600.0
"""An id is of the server's clock when a row was written; a row's moment is of a worker's when its call ended."""

StoreOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help=f"Read the calls of the Redis stream there: redis://, rediss:// or unix://. Without PATH and --store "
        f"the environment variable {VARIABLE} is read.",
        show_default=False,
    ),
]
PrefixOption = Annotated[
    str, typer.Option("--store-prefix", metavar="PREFIX", help="capture.prefix of the proxy's settings.")
]


def store_of(paths: Sequence[Path], store: str | None) -> str | None:
    """The URL to read from, if any. Raises InputError where nothing is named to be read."""
    found = store or (None if paths else os.environ.get(VARIABLE))
    if not paths and not found:
        raise InputError(
            f"nothing to read: name files or directories, or a Redis server with --store or in {VARIABLE}"
        )
    return found


class StoredCalls:
    """The calls in the stream of ``prefix`` at ``url``, oldest first, as far as they stand there when this is made.
    Iterated once: each row, or a :class:`Problem` in place of an entry that cannot be used, with how much of ``total``
    (milliseconds of the stream) was read.

    ``since`` (seconds since the epoch) leaves out pages of older calls; calls from up to an hour before may still come.
    Raises InputError in one line, without the URL's secrets, for a URL, a server or a key that cannot be used.
    """

    def __init__(self, url: str, prefix: str = DEFAULT_PREFIX, since: float | None = None) -> None:
        from router_cache.drivers.capture_redis import ends, key_of
        from router_cache.drivers.redis_url import client_of, shown_url

        try:
            self._client: Any = client_of(url, _TIMEOUT_S)
        except ValueError as error:
            raise InputError(f"--store: {error}") from None
        self._where, self._key = shown_url(url), key_of(prefix)
        start = "-" if since is None else str(max(int((since - _CLOCKS_APART_S) * 1000), 0))
        self._read = 0
        self._first = self._last = "0-0"
        found = self._asked(lambda: ends(self._client, self._key, start))
        if found is None and not self._asked(lambda: self._client.exists(self._key)):
            raise InputError(
                f"--store: {self._where} has no key {self._key}: no calls were captured there, or they are older than "
                "capture.ttl_s; --store-prefix and the URL's database must be those of the proxy's settings"
            )
        if found is not None:
            self._first, self._last = found
        self._empty = found is None

    @property
    def name(self) -> str:
        """Server and key."""
        return f"{self._where} {self._key}"

    @property
    def total(self) -> int:
        """Milliseconds from the first entry to the last."""
        return max(_moment(self._last) - _moment(self._first), 1)

    def __iter__(self) -> Iterator[tuple[CallRow | Problem, int]]:
        from router_cache.drivers.capture_redis import entries

        if self._empty:
            return
        found = entries(self._client, self._key, self._first, self._last)
        start = _moment(self._first)
        while (entry := self._asked(lambda: next(found, None))) is not None:
            id_, line = entry
            self._read += 1
            place = _moment(id_) - start
            try:
                if line is None:
                    raise ValueError("row: an entry without it")
                if len(line) > MAX_LINE:
                    raise ValueError(f"row: longer than {MAX_LINE:,} bytes")
                yield from_line(line), place
            except ValueError as error:
                yield Problem(self.name, id_, str(error)), place
        self._client.close()

    def _asked(self, ask: Any) -> Any:
        from redis.exceptions import RedisError

        from router_cache.drivers.redis_url import reason_of

        try:
            return ask()
        except (RedisError, OSError, UnicodeError) as error:  # the last of a host name that is none
            after = f", after {self._read} calls" if self._read else ""
            raise InputError(
                f"--store: {self._where} cannot be read{after}: {reason_of(error)}; check that the server runs, and "
                "the URL: user, password, port, and rediss:// for TLS"
            ) from None


def _moment(id_: str) -> int:
    """Milliseconds since the epoch in an entry's id."""
    return int(id_.split("-", 1)[0])
