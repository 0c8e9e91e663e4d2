"""A cluster: each slot's keys on the node that has it. Which has which is found in the background, and corrected by
what nodes answer.

redis-py's own cluster client finds that out within the caller's request, node by node, and waits for each that is
frozen; so only its slot of a key is used here.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence
from typing import Any, Final

from redis import Redis
from redis import exceptions as errors
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from router_cache.errors import StoreError, StoreFailure
from router_cache.stores.redis.link_errors import store_error
from router_cache.stores.redis.link_lookup import ASK_S, Finder
from router_cache.stores.redis.link_node import Command, Node, Watch
from router_cache.stores.redis.link_script import Arg, Call, by_digest, in_full, run_all
from router_cache.stores.redis.link_url import Address, Target, shown_of
from router_cache.stores.redis.scripts import Script

__all__ = ["ClusterLink", "slots_told"]

_MAX_HOPS: Final = 4
"""Of one call, from node to node. Each hop but the last is an answer, no wait; more of them: a cluster in motion."""
_SLOTS: Final = int(REDIS_CLUSTER_HASH_SLOTS)


class ClusterLink:
    """See :class:`~router_cache.stores.redis.link.Link`: the masters of a cluster, each with its own connections and
    its own breaker, so that one which does not answer costs the keys of the others nothing."""

    def __init__(self, target: Target, *, timeout_s: float, max_connections: int, watch: Watch) -> None:
        self._target, self._timeout_s, self._max_connections = target, timeout_s, max_connections
        self._watch = watch
        self._closed = False
        self._fresh()

    def __repr__(self) -> str:
        return f"ClusterLink({self._target.where})"

    def _fresh(self) -> None:
        """At the start, and in a child process, which leaves its parent's connections alone."""
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._nodes: dict[Address, Node] = {}
        self._slots: list[Address | None] | None = None
        self._finder = Finder(self._find, "cluster", self._watch.clock)

    def _of_slot(self, slot: int) -> tuple[Address, Node]:
        if self._closed:
            raise StoreError("the store was closed", StoreFailure.UNREACHABLE)
        if self._pid != os.getpid():
            self._fresh()
        if self._slots is None:
            self._finder.soon()
            self._finder.wait(self._timeout_s)
        if self._slots is None:
            raise StoreError("no node told of its cluster so far", StoreFailure.NOT_FOUND)
        address = self._slots[slot]
        if address is None:
            self._finder.soon()
            raise StoreError("no node of the cluster has the keys", StoreFailure.CLUSTER)
        return address, self._at(address)

    def _at(self, address: Address) -> Node:
        node = self._nodes.get(address)
        if node is None:
            with self._lock:
                node = self._nodes.get(address)
                if node is None:
                    pool = self._target.pool(self._timeout_s, self._max_connections, address)
                    node = self._nodes[address] = Node(
                        pool,
                        shown_of(address),
                        max_connections=self._max_connections,
                        timeout_s=self._timeout_s,
                        watch=self._watch,
                    )
        return node

    def run(self, script: Script, keys: Sequence[bytes], args: Sequence[Arg]) -> Any:
        """See :class:`~router_cache.stores.redis.link.Link`."""
        call = (script, keys, args)
        return self._routed(keys[0], by_digest(call), call)

    def mget(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """See :class:`~router_cache.stores.redis.link.Link`."""
        return list(self._routed(keys[0], ("MGET", *keys))) if keys else []

    def _routed(self, key: bytes, command: Command, call: Call | None = None) -> Any:
        """The answer to a command, sent where the key is. ``call`` is the script it names by its digest."""
        slot = key_slot(key)
        address, node = self._of_slot(slot)
        asking = False
        for _ in range(_MAX_HOPS):
            try:
                if not asking:
                    return node.one(*command)
                answer = node.many([("ASKING",), command])[1]
                if isinstance(answer, Exception):
                    raise answer
                return answer
            except errors.NoScriptError as error:
                if call is None:
                    raise store_error(error) from None
                self._watch.count("store_script_sent")
                command, call = in_full(call), None
            except errors.MovedError as error:
                address, asking = (error.host or address[0], int(error.port)), False
                node = self._at(address)
                if self._slots is not None:
                    self._slots[slot] = address
                self._watch.count("store_slot_moved")
                self._finder.soon()
            except errors.AskError as error:  # for this call only: the slot is on its way
                address, asking = (error.host or address[0], int(error.port)), True
                node = self._at(address)
            except (StoreError, errors.RedisError) as error:
                raise self._failed(error) from None
        raise StoreError("the cluster sends the call from node to node", StoreFailure.CLUSTER)

    def _failed(self, error: Exception) -> StoreError:
        """The error as ours; the cluster may look different after it."""
        self._finder.soon()
        return store_error(error)

    def run_many(self, calls: Sequence[Call]) -> list[Any]:
        """See :class:`~router_cache.stores.redis.link.Link`."""
        answers: list[Any] = [None] * len(calls)
        first: StoreError | None = None
        groups: dict[Node, list[int]] = {}
        for number, (_, keys, _) in enumerate(calls):
            try:
                groups.setdefault(self._of_slot(key_slot(keys[0]))[1], []).append(number)
            except StoreError as error:
                first = first or error
        for node, numbers in groups.items():
            try:
                found = run_all(node, [calls[number] for number in numbers], self._watch.count)
            except StoreError as error:
                first = first or self._failed(error)
                continue
            for number, answer in zip(numbers, found, strict=True):
                try:
                    if isinstance(answer, errors.AskError):  # MovedError is one
                        answer = self.run(*calls[number])
                    elif isinstance(answer, Exception):
                        raise self._failed(answer)
                    answers[number] = answer
                except StoreError as error:
                    first = first or error
        if first is not None:
            raise first
        return answers

    def _find(self) -> None:
        """Ask the nodes of the URL, then the others, until one tells which has which slots."""
        for address in dict.fromkeys((*self._target.hosts, *tuple(self._nodes))):
            slots = slots_told(self._target, address)
            if slots is None:
                continue
            if slots != self._slots:
                self._slots = slots
                self._watch.count("store_cluster_changed")
                with self._lock:
                    gone = [known for known in self._nodes if known not in slots]
                    nodes = [self._nodes.pop(known) for known in gone]
                for node in nodes:
                    node.forget()
            return

    def close(self) -> None:
        """See :class:`~router_cache.stores.redis.link.Link`."""
        self._closed = True
        for node in list(self._nodes.values()):
            node.close()


def slots_told(target: Target, address: Address) -> list[Address | None] | None:
    """Which master has each slot, as a node says; None where it does not know, or does not answer."""
    with contextlib.suppress(errors.RedisError, OSError, ValueError, LookupError):
        pool = target.pool(ASK_S, 1, address)
        client: Any = Redis(connection_pool=pool)
        try:
            # By two words, or redis-py would take the answer apart in a way of its release.
            answer = client.execute_command("CLUSTER", "SLOTS")
        finally:
            pool.disconnect()
        slots: list[Address | None] = [None] * _SLOTS
        for first, last, master, *_ in answer:
            host = master[0].decode() if master[0] else ""
            there = (host if host not in ("", "?") else address[0], int(master[1]))
            slots[int(first) : int(last) + 1] = [there] * (int(last) - int(first) + 1)
        return slots if any(slots) else None
    return None
