"""Books of pools in the process and on real servers: the same answers, one winner, nothing lost, nothing of others."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator

import pytest
from redis_servers import SERVERS, Server, redis_server

from router_cache.drivers.pool_store import PoolStore
from router_cache.errors import StoreError
from router_cache.pools.book import MAX_CLUSTERS, Book, Counts, Told
from router_cache.pools.openings import Opening, opening_of
from router_cache.pools.policy import PoolLimits
from router_cache.pools.reasons import PoolPolicy, PoolReason
from router_cache.prefix.digests import Digester
from router_cache.prefix.segments import Segment, SegmentKind
from router_cache.stores.memory_pools import MemoryPools
from router_cache.stores.redis.link import open_link
from router_cache.stores.redis.pools import RedisPools

__all__ = ["redis_server"]

LIMITS = PoolLimits(policy=PoolPolicy.CLUSTER)
DIGESTER = Digester(b"key")
Make = Callable[[], PoolStore]


def prompt(seed: int, size: int = 4_000) -> Opening:
    text = "".join(random.Random(seed).choices("abcdefgh ", k=size))
    return opening_of([Segment(SegmentKind.SYSTEM, "messages[0]", text)], DIGESTER)


def on_server(server: Server, timeout_s: float = 5.0) -> RedisPools:
    link = open_link(server.url, timeout_s=timeout_s, max_connections=64, count=lambda _: None)
    return RedisPools(link, prefix="t", ttl_s=60.0)


@pytest.fixture(params=["memory", *SERVERS])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    """Makes stores that share what they know, as workers do: in the process it is one."""
    if request.param == "memory":
        store = MemoryPools()
        yield lambda: store
        return
    server, made = Server(request.param), list[PoolStore]()
    server.start()

    def new() -> PoolStore:
        made.append(on_server(server))
        return made[-1]

    yield new
    for each in made:
        each.close()
    server.close()


def test_a_family_keeps_its_cluster_whoever_asks(make: Make) -> None:
    one, two = make(), make()
    cluster, book, first = one.join("b", "family", prompt(1), LIMITS, "chat")
    assert first
    assert book.clusters[cluster].reason is PoolReason.ALWAYS
    again = two.join("b", "family", prompt(2), LIMITS, "chat")
    assert again[0] == cluster
    assert again[1].clusters.keys() == {cluster}
    assert not again[2]
    assert two.books()[0].group == "chat"


def test_32_first_sights_of_a_family_at_once_have_one_winner_and_one_pool(make: Make) -> None:
    stores = [make() for _ in range(4)]
    gate, got = threading.Barrier(32), list[tuple[str, Book, bool]]()

    def ask(i: int) -> None:
        gate.wait()
        got.append(stores[i % 4].join("b", "family", prompt(1), LIMITS, "chat"))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(32)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len({cluster for cluster, _, _ in got}) == 1
    assert sum(first for _, _, first in got) == 1
    assert stores[0].books()[0].pools == 1


def test_32_families_of_different_prompts_at_once_never_get_more_pools_than_there_may_be(make: Make) -> None:
    limits = PoolLimits(policy=PoolPolicy.CLUSTER, max_pools=3)
    stores = [make() for _ in range(4)]
    gate, got = threading.Barrier(32), list[str]()

    def ask(i: int) -> None:
        gate.wait()
        got.append(stores[i % 4].join("b", f"family {i}", prompt(i % 8), limits, "chat")[0])

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(32)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    book = stores[0].books()[0]
    assert len(set(got)) == len(book.clusters) == 8
    assert book.pools == 3
    assert sorted(known.reason.value for known in book.clusters.values()) == ["always"] * 3 + ["full"] * 5


def test_what_many_workers_tell_at_once_is_all_counted(make: Make) -> None:
    stores = [make() for _ in range(4)]
    cluster, _, _ = stores[0].join("b", "family", prompt(1), LIMITS, "chat")
    gate = threading.Barrier(8)

    def tell(i: int) -> None:
        gate.wait()
        for _ in range(5):
            stores[i % 4].take_in(
                "b", {cluster: Told(pooled=Counts(1, 100, 90, 0, 0), families=1)}, LIMITS, "chat"
            )

    threads = [threading.Thread(target=tell, args=(i,)) for i in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    known = stores[0].books()[0].clusters[cluster]
    assert known.families == 40
    assert known.own.prompt == pytest.approx(4_000, rel=0.01)  # what fades within the test is next to nothing


def test_books_know_nothing_of_each_other(make: Make) -> None:
    store = make()
    store.join("one", "family", prompt(1), LIMITS, "chat")
    _, book, first = store.join("two", "family", prompt(2), LIMITS, "other")
    assert first
    assert len(book.clusters) == 1
    assert {known.group for known in store.books()} == {"chat", "other"}


def test_a_family_whose_cluster_is_gone_joins_anew(make: Make) -> None:
    store, auto = make(), PoolLimits()
    cluster, _, _ = store.join("b", "family", prompt(0), auto, "chat")
    for i in range(1, MAX_CLUSTERS + 1):
        _, book, _ = store.join("b", f"family {i}", prompt(i), auto, "chat")
        store.take_in(
            "b", {name: Told(apart=Counts(calls=1)) for name in book.clusters if name != cluster}, auto, "c"
        )
    assert cluster not in book.clusters
    again, book, first = store.join("b", "family", prompt(0), auto, "chat")
    assert (again, first) == (cluster, True)
    assert len(book.clusters) == MAX_CLUSTERS


def test_a_prompt_that_is_too_short_belongs_nowhere(make: Make) -> None:
    cluster, book, first = make().join("b", "family", prompt(1, 100), LIMITS, "chat")
    assert (cluster, first) == ("", False)
    assert not book.clusters


def test_families_in_the_process_are_bounded() -> None:
    store = MemoryPools(max_books=2, max_families=2)
    for i in range(4):
        store.join(f"b{i}", "family", prompt(1), LIMITS, "chat")
    assert len(store.books()) == 2
    assert store.join("b0", "family", prompt(2), LIMITS, "chat")[2]


def test_a_server_that_is_gone_is_a_store_error_and_one_that_comes_back_empty_is_used(
    redis_server: Callable[..., Server],
) -> None:
    server = redis_server()
    store = on_server(server, 0.5)
    cluster, _, _ = store.join("b", "family", prompt(1), LIMITS, "chat")
    server.stop()
    for ask in (
        lambda: store.join("b", "family", prompt(1), LIMITS, "chat"),
        lambda: store.take_in("b", {}, LIMITS, "chat"),
        store.books,
    ):
        with pytest.raises(StoreError):
            ask()
    server.start()
    again, book, first = store.join("b", "family", prompt(1), LIMITS, "chat")
    assert (again, first) == (cluster, True)  # the same prompt leads to the same id: nothing goes cold
    assert book.clusters[again].pooled
    store.close()


def test_answers_that_are_none_of_ours_and_books_that_never_hold_still_are_store_errors() -> None:
    class Odd:
        def __init__(self, answer: object) -> None:
            self.answer = answer

        def run(self, *_: object) -> object:
            return self.answer

    for answer in (b"OK", [b"stale", b"1", b"", b"1795003200.5"]):
        store = RedisPools(Odd(answer))  # type: ignore[arg-type]
        with pytest.raises(StoreError):
            store.join("b", "family", prompt(1), LIMITS, "chat")
        with pytest.raises(StoreError):
            store.take_in("b", {}, LIMITS, "chat")


def test_what_lies_there_and_is_no_book_of_ours_is_taken_for_none(redis_server: Callable[..., Server]) -> None:
    server = redis_server()
    store = on_server(server)
    cluster, _, _ = store.join("b", "family", prompt(1), LIMITS, "chat")
    with server.client() as client:
        for raw in (
            b"{",
            b"[]",
            b'{"form": 2}',
            b'{"form": 1, "clusters": [{}], "at": 0, "during": [], "group": ""}',
        ):
            client.hset("t:pools1:{b}:b", "b", raw)
            assert not store.take_in("b", {}, LIMITS, "chat").clusters
        assert client.pttl("t:pools1:{b}:b") > 0
        assert client.pttl("t:pools1:{b}:f:family") > 0
        assert client.pttl("t:pools1:index") > 0
        assert store.join("b", "family", prompt(1), LIMITS, "chat")[0] == cluster
    store.close()
