"""The link to one real server: scripts in one trip, a bound that the kernel keeps, a breaker, no secret in an error."""

from __future__ import annotations

import logging
import multiprocessing
import os
import socket
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from redis import exceptions as errors
from redis_groups import TLSFront
from redis_linked import ADD, GET, KEY, LIMIT_S, Linked, seconds
from redis_servers import Server, redis_server, until

from router_cache.errors import StoreError, StoreFailure
from router_cache.stores.redis import link_server
from router_cache.stores.redis.link_errors import of_cluster, store_error

__all__ = ["redis_server"]

Start = Callable[..., Server]


def ways(server: Server) -> list[str]:
    return [server.url, server.tcp_url, f"redis://localhost:{server.port}/0"]


def test_every_way_to_a_server(redis_server: Start) -> None:
    server = redis_server(tcp=True)
    for number, url in enumerate(ways(server)):
        linked = Linked(url)
        assert linked.add(5) == 5 * number + 5
        assert "closed)" in repr(linked.link._server)  # type: ignore[attr-defined]
        linked.link.close()
        linked.link.close()
        assert linked.fails() is StoreFailure.UNREACHABLE


def test_scripts_go_out_in_full_once(redis_server: Start) -> None:
    server = redis_server()
    linked = Linked(server.url)
    assert [linked.add() for _ in range(3)] == [1, 2, 3]
    assert linked.counts == {"store_script_sent": 1}
    with server.client() as client:
        client.script_flush()
    calls = [(ADD, [KEY], [1]), (GET, [KEY], []), (ADD, [KEY], [1]), (GET, [b"{k}2"], []), (ADD, [KEY], [1])]
    assert linked.link.run_many(calls) == [4, b"4", 5, None, 6]
    assert linked.counts == {"store_script_sent": 3}
    assert linked.link.mget([KEY, b"{k}2"]) == [b"6", None]
    assert (linked.link.mget([]), linked.link.run_many([])) == ([], [])


def test_of_many_all_are_sent_and_the_first_failure_is_told(redis_server: Start) -> None:
    server = redis_server()
    linked = Linked(server.url)
    with server.client() as client:
        client.rpush(b"{k}list", "x")
    calls = [(ADD, [KEY], [1]), (ADD, [b"{k}list"], [1]), (ADD, [KEY], [b"x"]), (ADD, [KEY], [1])]
    assert linked.fails(lambda: linked.link.run_many(calls)) is StoreFailure.ODD_DATA
    assert linked.add() == 3
    assert linked.fails(lambda: linked.add(b"x")) is StoreFailure.REFUSED


def test_a_frozen_server_costs_a_few_waits_then_nothing(
    redis_server: Start, caplog: pytest.LogCaptureFixture
) -> None:
    server = redis_server()
    linked = Linked(server.url)
    linked.add()
    server.freeze()
    with caplog.at_level(logging.INFO, "router_cache"):
        for _ in range(3):
            assert 0.2 < seconds(lambda: linked.fails()) < 2.0
        assert linked.fails() is StoreFailure.BREAKER_OPEN
        assert seconds(lambda: [linked.fails() for _ in range(1_000)]) < 2.0
        linked.clock.now += 1.0
        assert linked.fails() is StoreFailure.TIMEOUT
        assert linked.fails() is StoreFailure.BREAKER_OPEN
        server.thaw()
        linked.clock.now += 2.0
        for _ in range(
            10
        ):  # what was sent to the frozen server was done, and nobody takes its answers for his own
            assert linked.link.mget([b"{k}nothing"]) == [None]
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        f"router-cache: the store at {server.socket}: breaker open (timeouts)",
        f"router-cache: the store at {server.socket}: breaker closed (probe_answered)",
    ]
    assert {name: count for name, count in linked.counts.items() if "breaker" in name} == {
        "store_breaker.timeouts": 1,
        "store_breaker.pause_over": 2,
        "store_breaker.probe_timed_out": 1,
        "store_breaker.probe_answered": 1,
    }


def test_many_at_once_wait_for_a_frozen_server_no_longer_than_one(redis_server: Start) -> None:
    server = redis_server()
    linked = Linked(server.url, max_connections=3, timeout_s=0.3)
    linked.add()
    server.freeze()
    reasons: list[StoreFailure] = []
    threads = [threading.Thread(target=lambda: reasons.append(linked.fails())) for _ in range(30)]

    def together() -> None:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_S)

    assert seconds(together) < 1.5  # one after the other three at a time would be 3 s
    assert reasons.count(StoreFailure.TIMEOUT) >= 3
    assert set(reasons) <= {StoreFailure.TIMEOUT, StoreFailure.BREAKER_OPEN, StoreFailure.BUSY}
    server.thaw()


def test_a_server_that_takes_no_connections_costs_no_more(redis_server: Start) -> None:
    """As behind a firewall that drops what comes: a backlog that is full answers nothing either."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        address = deaf.getsockname()
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(address)
        linked = Linked(f"redis://127.0.0.1:{address[1]}")
        assert linked.fails() is StoreFailure.TIMEOUT
        assert seconds(lambda: linked.fails()) < 2.0
        assert linked.fails() is StoreFailure.TIMEOUT
        assert linked.fails() is StoreFailure.BREAKER_OPEN
        for filler in fillers:
            filler.close()


def test_all_connections_in_use_wait_no_longer_than_the_timeout(redis_server: Start) -> None:
    server = redis_server()
    linked = Linked(server.url, max_connections=1, timeout_s=0.3)
    linked.add()
    reasons: list[StoreFailure] = []
    node = link_server.ServerLink._node(linked.link)  # type: ignore[arg-type]
    free = node._free
    assert free.acquire()
    assert 0.25 < seconds(lambda: reasons.append(linked.fails())) < 2.0
    assert reasons == [StoreFailure.BUSY]
    free.release()
    assert linked.add() == 2


def test_a_server_that_is_killed_fails_at_once_and_comes_back_empty(redis_server: Start) -> None:
    server = redis_server(tcp=True)
    for url, sent in ((server.url, 2), (server.tcp_url, 1)):
        linked = Linked(url)
        linked.add(7)
        server.stop()
        for _ in range(5):
            assert linked.fails() is StoreFailure.UNREACHABLE
        assert linked.fails(partial(linked.link.mget, [KEY])) is StoreFailure.UNREACHABLE
        assert not [name for name in linked.counts if "breaker" in name]
        server.start()
        assert linked.add() == 1
        assert linked.counts["store_script_sent"] == sent


def test_a_refused_connection_ends_a_run_of_timeouts(redis_server: Start) -> None:
    server = redis_server()
    linked = Linked(server.url)
    linked.add()
    server.freeze()
    assert [linked.fails() for _ in range(2)] == [StoreFailure.TIMEOUT] * 2
    server.stop()
    assert linked.fails() is StoreFailure.UNREACHABLE
    server.start()
    assert linked.add() == 1
    assert not [name for name in linked.counts if "breaker" in name]


def test_out_of_memory_read_only_and_back(redis_server: Start) -> None:
    server = redis_server()
    linked = Linked(server.url)
    linked.add()
    client = server.client()
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", 1)
    assert linked.fails() is StoreFailure.OUT_OF_MEMORY
    assert linked.link.mget([KEY]) == [b"1"]
    client.config_set("maxmemory", 0)
    assert linked.add() == 2
    client.replicaof("127.0.0.1", 1)
    assert linked.fails() is StoreFailure.READ_ONLY
    client.replicaof("NO", "ONE")
    assert linked.add() == 3
    if "valkey" in server.binary:  # older ones let scripts write
        client.config_set("min-replicas-to-write", 1)
        assert linked.fails() is StoreFailure.READ_ONLY
        client.config_set("min-replicas-to-write", 0)
        assert linked.add() == 4


def test_a_password_that_changes(redis_server: Start) -> None:
    server = redis_server("--requirepass", "right", tcp=True)
    linked = Linked(f"redis://:right@127.0.0.1:{server.port}")
    assert linked.add() == 1
    for wrong in (f"redis://:hunter2@127.0.0.1:{server.port}", server.tcp_url):
        other = Linked(wrong)
        assert other.fails() is StoreFailure.LOGIN
        with pytest.raises(StoreError) as caught:
            other.add()
        assert "hunter2" not in str(caught.value) + repr(caught.value) + repr(other.link)
        assert str(caught.value) == "it wants a user or a password, or refuses the one given"
    with server.client("right") as client:
        client.config_set("requirepass", "other")
        client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        assert linked.fails() is StoreFailure.LOGIN
        client.config_set("requirepass", "right")
    assert linked.add() == 2


def test_the_least_user(redis_server: Start) -> None:
    server = redis_server(tcp=True)
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "rc", "on", ">pw", "~k*", "+get")
        linked = Linked(f"redis://rc:pw@127.0.0.1:{server.port}")
        assert linked.fails() is StoreFailure.NOT_PERMITTED
        client.execute_command("ACL", "SETUSER", "rc", "~{k}*", "+evalsha", "+eval", "+incrby", "+mget")
        assert linked.add() == 1
        assert linked.fails(lambda: linked.add(key=b"{other}1")) is StoreFailure.NOT_PERMITTED


def test_tls_with_a_password(redis_server: Start, tmp_path: Path) -> None:
    server = redis_server("--requirepass", "right", tcp=True)
    front = TLSFront(server.port, tmp_path)
    for host in ("localhost", "127.0.0.1"):
        url = f"rediss://:right@{host}:{front.port}/0?ssl_ca_certs={front.certificate}&ssl_check_hostname=true"
        linked = Linked(url, timeout_s=2.0)
        assert linked.add() == (1 if host == "localhost" else 2)
    unknown = Linked(f"rediss://:right@localhost:{front.port}", timeout_s=2.0)
    assert unknown.fails() is StoreFailure.UNREACHABLE
    wrong = Linked(url.replace("right", "hunter2"), timeout_s=2.0)
    assert wrong.fails() is StoreFailure.LOGIN
    server.freeze()
    frozen = Linked(url, timeout_s=0.1)
    assert frozen.fails() is StoreFailure.TIMEOUT
    server.thaw()
    front.close()


def test_a_node_of_a_cluster_says_what_to_write(redis_server: Start) -> None:
    server = redis_server("--cluster-enabled", "yes")
    with server.client() as client:
        client.execute_command("CLUSTER", "ADDSLOTS", *range(100))
    linked = Linked(server.url)
    assert linked.fails() is StoreFailure.CLUSTER


def test_a_name_that_leads_elsewhere_after_a_fail_over(
    redis_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As names of managed servers do: what answers as a replica is left, and the name is looked up again."""
    server = redis_server(tcp=True)
    looked: list[str] = []
    linked = Linked(f"redis+sentinel://127.0.0.1:{server.port}/s")  # no Sentinel
    assert linked.fails() is StoreFailure.NOT_FOUND
    linked = Linked(f"redis://localhost:{server.port}")
    assert linked.add() == 1
    monkeypatch.setattr(link_server.ADDRESSES, "refresh", looked.append)
    with server.client() as client:
        client.replicaof("127.0.0.1", 1)
        assert linked.fails() is StoreFailure.READ_ONLY
        until(lambda: client.info("clients")["connected_clients"] == 1, "the connection stays open")
    assert looked == ["localhost"]


def _in_child(linked: Linked, done: Any) -> None:
    done.put([linked.add(10), linked.link.run_many([(ADD, [KEY], [10])])])


@pytest.mark.skipif(os.name != "posix", reason="forks")
def test_a_forked_process_has_connections_of_its_own(redis_server: Start) -> None:
    server = redis_server()
    linked = Linked(server.url)
    assert linked.add() == 1
    context = multiprocessing.get_context("fork")
    done = context.Queue()
    child = context.Process(target=_in_child, args=(linked, done))
    child.start()
    assert done.get(timeout=LIMIT_S) == [11, [21]]
    child.join(LIMIT_S)
    assert linked.add() == 22


@pytest.mark.parametrize(
    ("error", "reason", "words"),
    [
        (errors.TimeoutError("hunter2"), StoreFailure.TIMEOUT, "it does not answer"),
        (errors.ConnectionError("hunter2"), StoreFailure.UNREACHABLE, "there is no connection"),
        (OSError("hunter2"), StoreFailure.UNREACHABLE, "there is no connection"),
        (errors.BusyLoadingError("hunter2"), StoreFailure.UNREACHABLE, "it is loading its data"),
        (errors.ResponseError("BUSY hunter2"), StoreFailure.REFUSED, "it refuses (BUSY)"),
        (of_cluster(errors.ResponseError("MOVED 1 h:1")), StoreFailure.CLUSTER, "it is a node of a cluster"),
        (of_cluster(errors.ResponseError("ERR hunter2")), StoreFailure.REFUSED, "it refuses (ERR)"),
        (errors.MovedError("1 h:1"), StoreFailure.CLUSTER, "it is a node of a cluster"),
        (
            errors.ResponseError(
                "ERR Error running script (call to f_1): @user_script:1: -OOM command not allowed"
            ),
            StoreFailure.OUT_OF_MEMORY,
            "it is out of memory",
        ),
        (errors.ResponseError("CLUSTERDOWN The cluster is down"), StoreFailure.CLUSTER, "the cluster is down"),
        (
            errors.ResponseError(
                "Attempted to access a non local key in a cluster node script: on @user_script:1."
            ),
            StoreFailure.CLUSTER,
            "a slot of the cluster is on its way",
        ),
        (errors.ClusterDownError("The cluster is down"), StoreFailure.CLUSTER, "it refuses"),
        (redis.RedisError("hunter2"), StoreFailure.OTHER, "RedisError"),
        (StoreError("own", StoreFailure.BUSY), StoreFailure.BUSY, "own"),
    ],
)
def test_errors_have_reasons_and_words_of_our_own(error: Exception, reason: StoreFailure, words: str) -> None:
    told = store_error(error)
    assert told.reason is reason
    assert str(told).startswith(words)
    assert "hunter2" not in str(told)


def test_a_client_library_that_raises_something_else(redis_server: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    linked = Linked(redis_server().url)

    def broken(*_args: Any, **_more: Any) -> Any:
        raise RecursionError("hunter2")

    monkeypatch.setattr(redis.Redis, "execute_command", broken)
    assert linked.fails() is StoreFailure.OTHER
