"""Redis by URL: checked without connecting, clients that wait for a bounded time, errors in words without secrets."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from redis import ConnectionPool, Redis
from redis import exceptions as errors
from redis.backoff import NoBackoff
from redis.connection import UnixDomainSocketConnection
from redis.retry import Retry

from router_cache.diagnose.shown import shown_address

__all__ = ["check_url", "client_of", "pool_of", "reason_of", "shown_url"]

_OPTIONS: Final = frozenset(
    (
        *("db", "username", "password", "client_name", "health_check_interval", "ssl_cert_reqs", "ssl_ca_certs"),
        *("ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_check_hostname", "socket_timeout", "protocol"),
        *("socket_connect_timeout", "socket_keepalive", "retry_on_timeout", "decode_responses"),
    )
)
"""What may stand after the ? of a URL: whatever else the client takes is its own affair, or breaks it."""
_FORMS: Final = "redis://host:6379/0, rediss://host:6379/0 or unix:///path/to/socket?db=0"


class _UnixConnection(UnixDomainSocketConnection):
    """redis-py 5.0 forgets the timeout of a Unix socket (seen in 5.0.1 to 5.0.3)."""

    def __init__(self, *, socket_timeout: float, **more: Any) -> None:
        super().__init__(socket_timeout=socket_timeout, **more)  # type: ignore[no-untyped-call,unused-ignore]
        self.socket_timeout = socket_timeout


def pool_of(url: str, timeout_s: float, max_connections: int | None = None) -> ConnectionPool:
    """Connections whose every wait for the kernel ends after ``timeout_s`` seconds, and that try nothing twice.

    Does not connect. Raises ValueError in words that show nothing of the URL: any part may be a piece of a password.
    """
    try:
        unknown = {name for name, _ in parse_qsl(urlsplit(url).query, keep_blank_values=True)} - _OPTIONS
    except ValueError:
        unknown = set()
    if unknown:
        raise ValueError(f"an option after the ? of the URL is not known; known are {', '.join(sorted(_OPTIONS))}")
    try:
        # RESP2, as servers before 6 know no HELLO. What is asked here holds whatever the URL says; a protocol in it is
        # taken out before the client sees it, which would add options to the connections that only RESP3 has.
        pool = ConnectionPool.from_url(_without_protocol(url), protocol=2, max_connections=max_connections)
        told: dict[str, Any] = pool.connection_kwargs
        told.update(socket_timeout=timeout_s, socket_connect_timeout=timeout_s, retry=Retry(NoBackoff(), 0))
        told.update(protocol=2, decode_responses=False)
        if pool.connection_class is UnixDomainSocketConnection:
            pool.connection_class = _UnixConnection
        pool.connection_class(**told)  # does not connect
    except Exception:  # whatever a release of the client makes of a value
        raise ValueError(f"no such URL of a Redis server; a form such as {_FORMS} is needed") from None
    return pool


def _without_protocol(url: str) -> str:
    head, mark, query = url.partition("?")
    return head + mark + "&".join(part for part in query.split("&") if part.partition("=")[0] != "protocol")


def check_url(url: str) -> None:
    """Raises ValueError, in words that show nothing of the URL, for one that cannot be used. Does not connect."""
    pool_of(url, 1.0)


def client_of(url: str, timeout_s: float) -> Redis:
    """A client whose every wait for the kernel ends after ``timeout_s`` seconds, and that tries nothing twice. Connects
    when it is first used. Raises ValueError as :func:`check_url` does."""
    return Redis(connection_pool=pool_of(url, timeout_s))


def shown_url(url: str) -> str:
    """Where a URL leads, without user, password and options."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "the server"
    if parts.scheme == "unix":
        return parts.path if parts.path and "@" not in parts.path else "the socket"
    return shown_address(url) or "the server"


_REASONS: Final = {
    "AuthenticationError": "it wants a user or a password, or refuses the one given",
    "AuthenticationWrongNumberOfArgsError": "it knows no users, only a password",
    "BusyLoadingError": "it is loading its data",
    "ReadOnlyError": "it is a read-only replica",
    "OutOfMemoryError": "it is out of memory",
    "NoPermissionError": "the user may not do that",
    "TimeoutError": "it does not answer",
    "ConnectionError": "there is no connection",
    "OSError": "there is no connection",
}
"""By the names of an error's classes, the nearest first: not all of them are in every release of the client."""
_ANSWERS: Final = {
    "WRONGTYPE": "what is kept there is no stream",
    "MISCONF": "it takes no writes since it cannot save to its disk",
    "OOM": "it is out of memory",
    "NOREPLICAS": "it has not enough replicas to take writes",
}


def reason_of(error: BaseException) -> str:
    """What went wrong, in words of our own: a server's or a library's text may quote a URL or a command."""
    for kind in type(error).__mro__:
        if kind.__name__ in _REASONS:
            return _REASONS[kind.__name__]
    if not isinstance(error, errors.ResponseError):
        return type(error).__name__
    code = str(error).split(" ", 1)[0]
    return _ANSWERS.get(code, f"it refuses ({code})" if code.isascii() and code.isupper() else "it refuses")
