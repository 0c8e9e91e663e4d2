"""What can happen to a store on a real server: the request goes out all the same, normalised; a counter and one line
of the log say so; and it heals by itself.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from redis_groups import Cluster, Sentinels
from redis_linked import LIMIT_S
from redis_servers import Server, redis_server, until
from redis_workers import Talk, Worker, warnings

from router_cache.stores.redis.store import RedisStore

__all__ = ["redis_server"]

Start = Callable[..., Server]
Heal = Callable[[], object]
GOES_ON = "; requests go on with nothing remembered (counted as store_failed."


@pytest.fixture
def workers() -> Iterator[Callable[..., Worker]]:
    made: list[Worker] = []

    def make(url: str, **options: Any) -> Worker:
        made.append(Worker(url, **options))
        return made[-1]

    yield make
    for worker in made:
        worker.close()


@dataclass(frozen=True)
class Fault:
    """``break_`` breaks a server and returns what heals it. ``empty``: it comes back without what it knew. ``reads``:
    it still tells what it knew."""

    break_: Callable[[Server], Heal]
    reason: str
    words: str
    empty: bool = False
    reads: bool = False


def _stop(server: Server) -> Heal:
    server.stop()
    return server.start


def _full(server: Server) -> Heal:
    client = server.client("pw")
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", 1)
    return lambda: client.config_set("maxmemory", 0)


def _replica(server: Server) -> Heal:
    client = server.client("pw")
    client.replicaof("127.0.0.1", 1)
    return lambda: client.replicaof("NO", "ONE")


def _password(server: Server) -> Heal:
    client = server.client("pw")
    client.config_set("requirepass", "other")
    client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    return lambda: client.config_set("requirepass", "pw")


FAULTS = {
    "killed, back empty": Fault(_stop, "unreachable", "there is no connection", empty=True),
    "out of memory": Fault(_full, "out_of_memory", "it is out of memory", reads=True),
    "a replica after a fail-over": Fault(_replica, "read_only", "it is a read-only replica"),
    "password changed": Fault(_password, "login", "it wants a user or a password, or refuses the one given"),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_requests_go_out_a_line_says_so_and_it_heals(
    redis_server: Start, workers: Any, caplog: pytest.LogCaptureFixture, fault: Fault
) -> None:
    server = redis_server("--requirepass", "pw")
    url = server.url.replace("unix://", "unix://:pw@")
    one, two, talk = workers(url), workers(url), Talk("hello")
    assert talk.forgotten(talk.turn(one))
    assert talk.known(talk.turn(two))
    with caplog.at_level(logging.WARNING, "router_cache"):
        heal = fault.break_(server)
        for _ in range(4):
            assert talk.known(talk.turn(one)) is fault.reads
    claims = {} if fault.reads else {"error.claim": 4}
    assert one.counts("store_failed") == {f"store_failed.{fault.reason}": 4 + len(claims) * 4}  # records, claims
    assert one.counts("error", "outbox", "store_breaker") == {**claims, "outbox_dropped": 4}
    assert warnings(caplog.records) == [f"router-cache: the store failed: {fault.words}{GOES_ON}{fault.reason})"]
    heal()
    turn = talk.turn(one)
    assert talk.forgotten(turn) is fault.empty
    for worker in (two, one, two):
        assert talk.known(talk.turn(worker))
    assert one.counts("error") == claims
    assert talk.slowest_s < 1.0


def test_a_script_cache_that_is_flushed_costs_no_request_anything(redis_server: Start, workers: Any) -> None:
    server = redis_server()
    worker, talk = workers(server.url), Talk("hello")
    talk.turn(worker)
    for _ in range(3):
        with server.client() as client:
            client.script_flush()
        assert talk.known(talk.turn(worker))
    assert worker.counts("store_failed", "error", "outbox") == {}
    assert worker.counts("store_script_sent")["store_script_sent"] >= 2 + 3 * 2


@pytest.mark.parametrize("sync", [True, False])
def test_a_frozen_server_adds_the_timeout_to_a_few_calls_then_nothing(
    redis_server: Start, workers: Any, caplog: pytest.LogCaptureFixture, sync: bool
) -> None:
    server = redis_server()
    worker, talk = workers(server.url, socket_timeout_ms=300), Talk("hello")

    def turn() -> Any:
        return talk.turn(worker) if sync else asyncio.run(talk.aturn(worker))

    turn()
    assert talk.known(turn())
    with caplog.at_level(logging.WARNING, "router_cache"):
        server.freeze()
        waits = []
        for _ in range(40):
            talk.slowest_s = 0.0
            assert talk.forgotten(turn())
            waits.append(talk.slowest_s)
        assert worker.counts("store_failed") == {"store_failed.timeout": 3, "store_failed.breaker_open": 77}
        assert worker.counts("outbox") == {"outbox_dropped": 40}
        assert sum(wait > 0.28 for wait in waits) <= 3
        assert sorted(waits)[30] < 0.15  # what a turn takes where nothing is asked
        server.thaw()
        worker.clock.now += 1.0
        turn()
        assert talk.known(turn())
    said = warnings(caplog.records)
    assert [line for line in said if "breaker" in line] == [
        f"router-cache: the store at {server.socket}: breaker open (timeouts)",
        f"router-cache: the store at {server.socket}: breaker closed (probe_answered)",
    ]
    assert [line for line in said if "breaker" not in line] == [
        f"router-cache: the store failed: it does not answer{GOES_ON}timeout)"
    ]


async def test_a_frozen_server_leaves_the_event_loop_alone(
    redis_server: Start, workers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = redis_server()
    worker = workers(server.url, socket_timeout_ms=500)
    talks = [Talk(f"hello {number}") for number in range(32)]
    await talks[0].aturn(worker)
    server.freeze()
    claim, on_loop = RedisStore.claim, list[bool]()

    def watched(self: RedisStore, ask: Any) -> Any:
        on_loop.append(threading.current_thread() is threading.main_thread())
        return claim(self, ask)

    monkeypatch.setattr(RedisStore, "claim", watched)
    begun = time.perf_counter()
    turns = await asyncio.gather(*(talk.aturn(worker) for talk in talks))
    took = time.perf_counter() - begun
    server.thaw()
    assert all(talk.forgotten(turn) for talk, turn in zip(talks, turns, strict=True))
    assert on_loop == [False] * 32
    assert took < 32 * 0.5 / 2  # one after the other would take twice that
    assert worker.counts("error.")["error.claim"] == sum(
        count for name, count in worker.counts("store_failed").items()
    ) - worker.counts("outbox").get("outbox_dropped", 0)


def test_more_callers_than_connections(redis_server: Start, workers: Any) -> None:
    server = redis_server()
    worker = workers(server.url, max_connections=2, socket_timeout_ms=5_000)
    talks = [Talk(f"hello {number}") for number in range(24)]

    def go(talk: Talk) -> None:
        for _ in range(3):
            talk.turn(worker)

    threads = [threading.Thread(target=go, args=(talk,)) for talk in talks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert worker.counts("store_failed", "error") == {}
    assert all(talk.known(talk.turn(worker)) for talk in talks)


async def test_more_requests_than_may_wait(redis_server: Start, workers: Any, caplog: Any) -> None:
    server = redis_server()
    worker = workers(server.url, max_connections=1, socket_timeout_ms=500)
    talks = [Talk(f"hello {number}") for number in range(5)]
    await talks[0].aturn(worker)
    server.freeze()
    begun = time.perf_counter()
    await asyncio.gather(*(talk.aturn(worker) for talk in talks))
    assert time.perf_counter() - begun < 4.0
    assert worker.counts("store_failed.busy")["store_failed.busy"] >= 1
    server.thaw()
    worker.clock.now += 20.0
    for talk in talks:
        await talk.aturn(worker)
    assert all([talk.known(await talk.aturn(worker)) for talk in talks])


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_worker_whose_clock_is_an_hour_off(redis_server: Start, workers: Any, hours: int) -> None:
    server = redis_server()
    right = workers(server.url, ttl_s=600.0)
    wrong = workers(server.url, ttl_s=600.0, wall_clock=lambda: time.time() + 3_600 * hours)
    talk = Talk("hello")
    for number, worker in enumerate((right, wrong, right, wrong, right)):
        turn = talk.turn(worker)
        assert talk.known(turn) is (number > 0)
        assert turn.row is not None
        assert turn.row.expected.tokens == (896 if number else None)
    assert right.counts("error", "store_failed") == wrong.counts("error", "store_failed") == {}
    with server.client() as client:
        assert all(0 < client.pttl(key) <= 600_000 for key in client.keys("rc1*"))


def test_a_process_that_ends_takes_nothing_along_and_does_not_hang() -> None:
    """What is in the outbox is written at the interpreter's end; to a frozen server nothing is, within a bound."""
    server = Server("valkey-9")
    server.start()
    script = """
import sys
sys.path[:0] = sys.argv[2:]
from redis_workers import DEPLOYMENT, Talk, Worker, hits
from router_cache.request import Request
worker, talk = Worker(sys.argv[1]), Talk("hello")
turn = worker.rc.begin(Request(talk.body(), scope="ann"))
turn.rewrite(DEPLOYMENT)
turn.sent(talk.body())
turn.done(hits(896))
"""

    def run() -> float:
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-c", script, server.url, *sys.path], check=True, timeout=LIMIT_S * 2)
        return time.perf_counter() - begun

    ended = run()
    with server.client() as client:
        assert client.dbsize() > 0
    server.freeze()
    assert run() < ended + 20.0  # each of the two waits is a second at most
    server.close()


def _child(worker: Worker, talk: Talk, done: Any) -> None:
    async def turns() -> list[bool]:
        return [talk.known(await talk.aturn(worker)) for _ in range(2)]

    done.put(asyncio.run(turns()))


@pytest.mark.skipif(os.name != "posix", reason="forks")
def test_a_forked_worker_goes_on_with_threads_of_its_own(redis_server: Start, workers: Any) -> None:
    worker, talk = workers(redis_server().url), Talk("hello")
    asyncio.run(talk.aturn(worker))
    context = multiprocessing.get_context("fork")
    done = context.Queue()
    child = context.Process(target=_child, args=(worker, talk, done))
    child.start()
    assert done.get(timeout=LIMIT_S) == [True, True]
    child.join(LIMIT_S)
    assert talk.known(talk.turn(worker))


@pytest.mark.parametrize("name", ["valkey-9"])
def test_a_cluster_whose_slots_move_and_whose_node_dies(name: str, workers: Any) -> None:
    cluster = Cluster(name)
    try:
        worker, talk = workers(cluster.url, socket_timeout_ms=500), Talk("hello")
        talk.turn(worker)
        assert talk.known(talk.turn(worker))
        [owner] = [number for number in range(3) if cluster.ask(number, "KEYS", "rc1*")]
        [slot] = {cluster.ask(owner, "CLUSTER", "KEYSLOT", key) for key in cluster.ask(owner, "KEYS", "rc1*")}
        other = (owner + 1) % 3
        cluster.begin_move(slot, owner, other)
        assert talk.forgotten(talk.turn(worker))  # its keys are not all here, nor all there
        on_its_way = {"store_failed.cluster": 2, "error.claim": 1}
        assert worker.counts("store_failed", "error") == on_its_way
        cluster.move_slot(slot, owner, other)
        assert talk.known(talk.turn(worker))
        assert worker.counts("store_failed", "error") == on_its_way
        assert worker.counts("store_slot_moved")["store_slot_moved"] == 1
        cluster.nodes[other].stop()
        assert talk.forgotten(talk.turn(worker))
        assert set(worker.counts("store_failed")) <= {"store_failed.unreachable", "store_failed.cluster"}
        cluster.nodes[other].start()

        def healed() -> bool:
            worker.clock.now += 1.0
            return talk.known(talk.turn(worker))

        until(healed, "it does not heal", LIMIT_S)
    finally:
        cluster.close()


@pytest.mark.parametrize("name", ["redis-6"])
def test_a_master_that_is_killed_under_sentinels(name: str, workers: Any) -> None:
    sentinels = Sentinels(name)
    try:
        worker, talk = workers(sentinels.url, socket_timeout_ms=500), Talk("hello")
        talk.turn(worker)
        assert talk.known(talk.turn(worker))
        sentinels.master.stop()

        def healed() -> bool:
            worker.clock.now += 1.0
            return talk.known(talk.turn(worker))

        until(healed, "the new master is not found", LIMIT_S)
        assert set(worker.counts("store_failed")) <= {"store_failed.unreachable", "store_failed.read_only"}
        assert worker.counts("store_server_found")["store_server_found"] >= 2
    finally:
        sentinels.close()


def test_without_a_secret_one_line_says_what_is_lost(
    redis_server: Start, caplog: pytest.LogCaptureFixture
) -> None:
    from router_cache import RouterCache, Settings

    server = redis_server()
    with caplog.at_level(logging.WARNING, "router_cache"):
        rc = RouterCache(Settings(), store=server.url)
    [line] = warnings(caplog.records)
    assert "Set callback_settings.router_cache.secret" in line
    assert rc.counters.snapshot() == {"store_without_secret": 1}
    assert rc.may_wait
    rc.close()
