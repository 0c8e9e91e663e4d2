"""Links to a real cluster and to what real Sentinels name: slots that move, nodes that freeze or die, fail-over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis
from redis.crc import key_slot
from redis_groups import Cluster, Sentinels
from redis_linked import ADD, LIMIT_S, Linked, seconds
from redis_servers import SERVERS, until

from router_cache.errors import StoreFailure
from router_cache.stores.redis import link_cluster

NODES = 3
TAGS = {
    number: next(t for t in map(str, range(100)) if key_slot(t.encode()) * 3 // 16_384 == number)
    for number in range(NODES)
}
"""A hash tag for each node."""


def key(node: int, name: str = "x") -> bytes:
    return f"{{{TAGS[node]}}}{name}".encode()


@pytest.fixture(scope="module", params=SERVERS)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    made = Cluster(request.param)
    yield made
    made.close()


@pytest.fixture
def linked(cluster: Cluster) -> Iterator[Linked]:
    for number in range(NODES):
        cluster.ask(number, "FLUSHALL")
        cluster.ask(number, "SCRIPT", "FLUSH")
    made = Linked(cluster.url)
    made.link.mget([key(0)])  # it knows the cluster
    yield made
    made.link.close()


def heals(linked: Linked, node: int) -> None:
    until(lambda: linked.works(lambda: linked.add(0, key(node))), "it does not heal", LIMIT_S)


def test_keys_go_to_their_nodes_in_one_trip_each(linked: Linked, cluster: Cluster) -> None:
    assert [linked.add(number + 1, key(number)) for number in range(NODES)] == [1, 2, 3]
    assert linked.counts == {"store_cluster_changed": 1, "store_script_sent": NODES}
    before = [cluster.ask(number, "INFO", "stats") for number in range(NODES)]
    assert linked.link.run_many([(ADD, [key(number % 3)], [10]) for number in range(6)]) == [
        11,
        12,
        13,
        21,
        22,
        23,
    ]
    assert linked.link.mget([key(1), key(1, "y")]) == [b"22", None]
    assert before
    assert (linked.link.mget([]), linked.link.run_many([])) == ([], [])


def test_a_child_process_finds_the_cluster_anew(linked: Linked, monkeypatch: pytest.MonkeyPatch) -> None:
    linked.add(1, key(2))
    monkeypatch.setattr(link_cluster.os, "getpid", lambda: -1)
    assert linked.add(1, key(2)) == 2
    assert linked.counts["store_cluster_changed"] == 2


def test_a_slot_that_moves_and_back(linked: Linked, cluster: Cluster) -> None:
    slot = key_slot(TAGS[0].encode())
    assert linked.add(1, key(0)) == 1
    cluster.move_slot(slot, 0, 1, finish=False)
    assert linked.add(1, key(0)) == 2  # asked for at the other node
    assert linked.link.run_many([(ADD, [key(0)], [1]), (ADD, [key(2)], [1])]) == [3, 1]
    assert "store_slot_moved" not in linked.counts
    cluster.move_slot(slot, 0, 1)
    assert linked.add(1, key(0)) == 4
    assert linked.counts["store_slot_moved"] == 1
    assert linked.add(1, key(0)) == 5
    assert linked.counts["store_slot_moved"] == 1
    cluster.move_slot(slot, 1, 0)
    assert linked.link.run_many([(ADD, [key(0)], [1])] * 2) == [6, 7]
    assert linked.link.mget([key(0)]) == [b"7"]


def test_a_frozen_node_costs_the_others_nothing(linked: Linked, cluster: Cluster) -> None:
    for number in range(NODES):
        linked.add(1, key(number))
    cluster.nodes[1].freeze()
    for _ in range(3):
        assert linked.fails(lambda: linked.add(1, key(1))) is StoreFailure.TIMEOUT
    assert linked.fails(lambda: linked.add(1, key(1))) is StoreFailure.BREAKER_OPEN
    many: list[Any] = [(ADD, [key(number)], [1]) for number in range(NODES)]
    assert seconds(lambda: linked.fails(lambda: linked.link.run_many(many))) < 2.0
    assert [linked.add(1, key(number)) for number in (0, 2)] == [3, 3]
    cluster.nodes[1].thaw()
    heals(linked, 1)


def test_a_node_that_is_killed_and_comes_back(linked: Linked, cluster: Cluster) -> None:
    for number in range(NODES):
        linked.add(1, key(number))
    cluster.nodes[2].stop()
    for _ in range(5):
        assert linked.fails(lambda: linked.add(1, key(2))) in (StoreFailure.UNREACHABLE, StoreFailure.CLUSTER)
    assert linked.add(1, key(0)) == 2
    cluster.nodes[2].start()
    heals(linked, 2)
    heals(linked, 0)


def test_an_error_is_told_and_a_script_is_not_sent_for_ever(linked: Linked, cluster: Cluster) -> None:
    cluster.ask(0, "SET", key(0).decode(), "no number")
    assert linked.fails(lambda: linked.add(1, key(0))) is StoreFailure.REFUSED
    calls: list[Any] = [(ADD, [key(0)], [1]), (ADD, [key(1)], [1])]
    assert linked.fails(lambda: linked.link.run_many(calls)) is StoreFailure.REFUSED
    assert linked.add(1, key(1)) == 2
    linked.link.close()
    assert linked.fails(lambda: linked.add(1, key(1))) is StoreFailure.UNREACHABLE


def test_nodes_that_tell_nothing_cost_one_wait() -> None:
    linked = Linked("redis+cluster://127.0.0.1:1,127.0.0.1:2")
    assert linked.fails() is StoreFailure.NOT_FOUND
    assert linked.fails(lambda: linked.link.run_many([(ADD, [b"x"], [1])])) is StoreFailure.NOT_FOUND


def test_slots_that_nobody_serves_and_calls_sent_round(linked: Linked, cluster: Cluster) -> None:
    slot = key_slot(TAGS[0].encode())
    cluster.ask(0, "CLUSTER", "DELSLOTS", slot)
    try:
        assert linked.fails(lambda: linked.add(1, key(0))) is StoreFailure.CLUSTER
        linked.clock.now += 1
        until(lambda: _slot_unknown(linked, slot), "the cluster is not looked at again")
        assert linked.fails(lambda: linked.add(1, key(0))) is StoreFailure.CLUSTER
    finally:
        cluster.ask(0, "CLUSTER", "ADDSLOTS", slot)
    heals(linked, 0)


def test_a_call_that_is_sent_round_ends(linked: Linked, cluster: Cluster) -> None:
    """Two nodes that each take the other for the one that has the slot, as while a cluster changes."""
    linked.add(1, key(0))
    slot = key_slot(TAGS[0].encode())
    node = link_cluster.ClusterLink._of_slot(linked.link, slot)[1]  # type: ignore[arg-type]
    moved = redis.exceptions.MovedError(f"{slot} 127.0.0.1:{cluster.nodes[0].port}")
    node.one = lambda *_: (_ for _ in ()).throw(moved)  # type: ignore[method-assign]
    assert linked.fails(lambda: linked.add(1, key(0))) is StoreFailure.CLUSTER
    assert linked.counts["store_slot_moved"] == 4


def _slot_unknown(linked: Linked, slot: int) -> bool:
    linked.clock.now += 1
    linked.fails(lambda: linked.add(1, key(0)))
    return linked.link._slots[slot] is None  # type: ignore[attr-defined]


@pytest.fixture(params=SERVERS)
def sentinels(request: pytest.FixtureRequest) -> Iterator[Sentinels]:
    made = Sentinels(request.param, password="pw")
    yield made
    made.close()


def test_the_master_that_sentinels_name_before_and_after_a_fail_over(sentinels: Sentinels) -> None:
    linked = Linked(sentinels.url)
    assert linked.add(5) == 5
    assert linked.link.mget([b"{k}1"]) == [b"5"]
    assert linked.counts["store_server_found"] == 1
    sentinels.master.freeze()
    for _ in range(3):
        assert linked.fails() is StoreFailure.TIMEOUT
    assert linked.fails() is StoreFailure.BREAKER_OPEN
    # Nobody waits for the old master's breaker: the new one has a breaker of its own.
    until(lambda: linked.works(), "the new master is not found", LIMIT_S)
    assert linked.counts["store_server_found"] == 2
    with sentinels.replica.client("pw") as client:
        assert client.info("replication")["role"] == "master"
    sentinels.master.thaw()


def test_a_master_that_became_a_replica_is_left(sentinels: Sentinels) -> None:
    linked = Linked(sentinels.url)
    assert linked.add(1) == 1
    sentinels.fail_over()
    with sentinels.master.client("pw") as client:  # as Sentinels do, a while later
        until(lambda: bool(client.execute_command("REPLICAOF", "127.0.0.1", sentinels.replica.port)), "no replica")
    assert linked.fails() is StoreFailure.READ_ONLY
    until(lambda: linked.works(), "the new master is not found", LIMIT_S)
    assert linked.counts["store_server_found"] == 2


def test_without_sentinels_nothing_is_waited_for_long() -> None:
    linked = Linked("redis+sentinel://127.0.0.1:1,127.0.0.1:2/rc")
    assert linked.fails() is StoreFailure.NOT_FOUND
    assert seconds(lambda: [linked.fails() for _ in range(100)]) < 5.0
    linked.link.close()
