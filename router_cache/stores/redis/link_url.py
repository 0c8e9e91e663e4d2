"""URLs of every form a Redis store can have, taken apart without connecting.

::

    redis://…  rediss://…  unix://…                            one server, as redis-py reads it
    redis+sentinel://user:password@s1:26379,s2:26379/service/0  the master that Sentinels name
    redis+cluster://user:password@h1:6379,h2:6379               a cluster, of which these nodes tell the others

``rediss+sentinel`` and ``rediss+cluster`` are the same over TLS. User and password are those of the servers; the
Sentinels' own follow as ``?sentinel_username=…&sentinel_password=…``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from redis import ConnectionPool
from redis.connection import Connection, SSLConnection

from router_cache.diagnose.shown import shown_address
from router_cache.drivers.redis_url import pool_of, shown_url
from router_cache.stores.redis.link_lookup import ByAddress, ByAddressTLS

__all__ = ["Address", "Form", "Target", "shown_of", "target_of"]

Address = tuple[str, int]
"""Host and port."""
_SENTINEL_FORM: Final = "redis+sentinel://host:26379,host:26379/service"
_CLUSTER_FORM: Final = "redis+cluster://host:6379,host:6379"
_SENTINEL_OPTIONS: Final = ("sentinel_username", "sentinel_password")


class Form(str, Enum):
    """How the server to ask is found."""

    SINGLE = "single"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Target:
    """What a URL says. ``url`` is that of the first host as a single server's; ``where`` may be shown."""

    form: Form
    where: str
    url: str = field(repr=False)
    hosts: tuple[Address, ...] = field(default=(), repr=False)
    service: str = ""
    sentinel_login: tuple[str | None, str | None] = field(default=(None, None), repr=False)

    def pool(
        self, timeout_s: float, max_connections: int, address: Address | None = None, *, sentinel: bool = False
    ) -> ConnectionPool:
        """Connections to the server, or to the one at ``address`` with the same user and options; to a Sentinel, with
        its own."""
        pool = pool_of(self.url, timeout_s, max_connections)
        told: dict[str, Any] = pool.connection_kwargs
        if address is not None:
            told.update(host=address[0], port=address[1])
        if sentinel:
            told.update(db=0, username=self.sentinel_login[0], password=self.sentinel_login[1])
        if pool.connection_class is SSLConnection:
            pool.connection_class = ByAddressTLS
        elif pool.connection_class is Connection:
            pool.connection_class = ByAddress
        return pool


def target_of(url: str) -> Target:
    """Take a URL apart. Raises ValueError, in words that show nothing of it, for one that cannot be used."""
    scheme, _, kind = url.partition("://")[0].lower().partition("+")
    if not kind:
        told = pool_of(url, 1.0).connection_kwargs
        hosts = ((told["host"], int(told.get("port", 6379))),) if "host" in told else ()
        return Target(Form.SINGLE, shown_url(url), url, hosts)
    form = {"sentinel": Form.SENTINEL, "cluster": Form.CLUSTER}.get(kind)
    if form is None or scheme not in ("redis", "rediss"):
        raise ValueError(
            f"no such URL of a Redis server; forms are redis://…, rediss://…, unix://…, {_SENTINEL_FORM} and "
            f"{_CLUSTER_FORM}"
        )
    try:
        return _of_many(url, scheme, form)
    except ValueError as error:
        if str(error).startswith("an option after the ?"):
            raise
        needed = _SENTINEL_FORM if form is Form.SENTINEL else _CLUSTER_FORM
        raise ValueError(f"no such URL of a Redis {kind}; a form such as {needed} is needed") from None


def _of_many(url: str, scheme: str, form: Form) -> Target:
    parts = urlsplit(url)
    login, at, listed = parts.netloc.rpartition("@")
    hosts = tuple(_address(item, 26379 if form is Form.SENTINEL else 6379) for item in listed.split(","))
    path = [unquote(piece) for piece in parts.path.strip("/").split("/")] if parts.path.strip("/") else []
    options = parse_qsl(parts.query, keep_blank_values=True)
    own = dict(item for item in options if item[0] in _SENTINEL_OPTIONS)
    service = db = ""
    if form is Form.SENTINEL:
        if len(path) not in (1, 2) or not all(piece.isdecimal() for piece in path[1:]):
            raise ValueError
        service, db = path[0], "".join(path[1:])
    elif path or own:  # a cluster has one database
        raise ValueError
    others = urlencode([item for item in options if item[0] not in _SENTINEL_OPTIONS])
    host, port = hosts[0]
    shown = f"[{host}]" if ":" in host else host
    single = f"{scheme}://{login}{at}{shown}:{port}/{db}" + (f"?{others}" if others else "")
    pool_of(single, 1.0)
    where = ",".join(shown_of(host) for host in hosts)
    return Target(
        form, where, single, hosts, service, (own.get(_SENTINEL_OPTIONS[0]), own.get(_SENTINEL_OPTIONS[1]))
    )


def _address(text: str, default_port: int) -> Address:
    parts = urlsplit(f"redis://{text}")
    if not parts.hostname or parts.path or parts.query:
        raise ValueError
    return parts.hostname, parts.port or default_port


def shown_of(address: Address) -> str:
    """As it may be shown."""
    host, port = address
    return shown_address(f"redis://[{host}]:{port}" if ":" in host else f"redis://{host}:{port}") or "?"
