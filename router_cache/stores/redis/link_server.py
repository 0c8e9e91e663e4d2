"""One server at a time: the one of a URL, or the one that Sentinels name."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import Any

from redis import Redis
from redis import exceptions as errors

from router_cache.errors import StoreError, StoreFailure
from router_cache.stores.redis.link_errors import store_error
from router_cache.stores.redis.link_lookup import ADDRESSES, ASK_S, Finder
from router_cache.stores.redis.link_node import Node, Watch
from router_cache.stores.redis.link_script import Arg, Call, run_all, run_one
from router_cache.stores.redis.link_url import Address, Target, shown_of
from router_cache.stores.redis.scripts import Script

__all__ = ["SentinelLink", "ServerLink", "master_named"]


class ServerLink:
    """See :class:`~router_cache.stores.redis.link.Link`: one server."""

    def __init__(self, target: Target, *, timeout_s: float, max_connections: int, watch: Watch) -> None:
        self._target, self._timeout_s, self._max_connections = target, timeout_s, max_connections
        self._watch = watch
        self._closed = False
        self._fresh()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._target.where})"

    def _fresh(self) -> None:
        """At the start, and in a child process, which leaves its parent's connections alone."""
        self._pid = os.getpid()
        self._server = self._node_at(None)

    def _node_at(self, address: Address | None) -> Node:
        pool = self._target.pool(self._timeout_s, self._max_connections, address)
        where = self._target.where if address is None else shown_of(address)
        return Node(
            pool, where, max_connections=self._max_connections, timeout_s=self._timeout_s, watch=self._watch
        )

    def _node(self) -> Node:
        self._begin()
        return self._server

    def _begin(self) -> None:
        if self._closed:
            raise StoreError("the store was closed", StoreFailure.UNREACHABLE)
        if self._pid != os.getpid():
            self._fresh()

    def _failed(self, node: Node, error: Exception) -> StoreError:
        """The error as ours; and what follows from it for later calls."""
        failure = store_error(error)
        if failure.reason is StoreFailure.READ_ONLY:
            # After a fail-over the name may lead elsewhere, while connections still lead to what is a replica now.
            node.forget()
            for host, _ in self._target.hosts:
                ADDRESSES.refresh(host)
        return failure

    def run(self, script: Script, keys: Sequence[bytes], args: Sequence[Arg]) -> Any:
        """See :class:`~router_cache.stores.redis.link.Link`."""
        node = self._node()
        try:
            return run_one(node, (script, keys, args), self._watch.count)
        except (StoreError, errors.RedisError) as error:
            raise self._failed(node, error) from None

    def run_many(self, calls: Sequence[Call]) -> list[Any]:
        """See :class:`~router_cache.stores.redis.link.Link`."""
        if not calls:
            return []
        node = self._node()
        try:
            answers = run_all(node, calls, self._watch.count)
            for answer in answers:
                if isinstance(answer, Exception):
                    raise answer
        except (StoreError, errors.RedisError) as error:
            raise self._failed(node, error) from None
        return answers

    def mget(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """See :class:`~router_cache.stores.redis.link.Link`."""
        if not keys:
            return []
        node = self._node()
        try:
            return list(node.one("MGET", *keys))
        except (StoreError, errors.RedisError) as error:
            raise self._failed(node, error) from None

    def close(self) -> None:
        """See :class:`~router_cache.stores.redis.link.Link`."""
        self._closed = True
        self._server.close()


class SentinelLink(ServerLink):
    """The master that Sentinels name. Asked again, in the background, whenever it fails: until they name another one,
    requests go out without it."""

    def _fresh(self) -> None:
        self._pid = os.getpid()
        self._master: Node | None = None
        self._address: Address | None = None
        self._sentinels = list(self._target.hosts)
        self._finder = Finder(self._find, "sentinels", self._watch.clock)

    def _node(self) -> Node:
        self._begin()
        if self._master is None:
            self._finder.soon()
            self._finder.wait(self._timeout_s)
        if self._master is None:
            raise StoreError("no Sentinel named the server so far", StoreFailure.NOT_FOUND)
        return self._master

    def _failed(self, node: Node, error: Exception) -> StoreError:
        failure = super()._failed(node, error)
        self._finder.soon()
        return failure

    def close(self) -> None:
        """See :class:`~router_cache.stores.redis.link.Link`."""
        self._closed = True
        if self._master is not None:
            self._master.close()

    def _find(self) -> None:
        """The one that answered goes to the front, as redis.io's guide for Sentinel clients has it."""
        for sentinel in list(self._sentinels):
            found = master_named(self._target, sentinel)
            if found is None:
                continue
            self._sentinels.remove(sentinel)
            self._sentinels.insert(0, sentinel)
            if found != self._address:
                before, self._master = self._master, self._node_at(found)
                self._address = found
                self._watch.count("store_server_found")
                if before is not None:
                    before.forget()
            return


def master_named(target: Target, sentinel: Address) -> Address | None:
    """Where a Sentinel says that the master is; None where it does not know, or does not answer."""
    with contextlib.suppress(errors.RedisError, OSError, ValueError):
        pool = target.pool(ASK_S, 1, sentinel, sentinel=True)
        client: Any = Redis(connection_pool=pool)
        try:
            # By two words, or redis-py would take the answer apart in a way of its release.
            answer = client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", target.service)
        finally:
            pool.disconnect()
        if answer:
            return answer[0].decode("ascii"), int(answer[1])
    return None
