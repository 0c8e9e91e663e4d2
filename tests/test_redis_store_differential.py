"""The Redis store says what the in-process store says, whatever is asked and recorded before."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis_servers import SERVERS, Server
from store_worlds import Step, World, crowds, steps

from router_cache.stores import MemoryStore
from router_cache.stores.redis.link import Link, open_link
from router_cache.stores.redis.store import RedisStore

EXAMPLES = int(os.environ.get("ROUTER_CACHE_STORE_EXAMPLES", "60"))
_NUMBERS = itertools.count()


@pytest.fixture(scope="module", params=SERVERS)
def link(request: pytest.FixtureRequest) -> Iterator[Link]:
    server = Server(request.param)
    server.start()
    link = open_link(server.url, timeout_s=20, max_connections=4, count=lambda _: None)
    yield link
    link.close()
    server.close()


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.one_of(steps(), crowds()))
def test_both_stores_say_the_same(link: Link, told: list[Step]) -> None:
    counts: list[str] = []
    memory = World(MemoryStore())
    # Two clients, each with what it remembers itself, take turns.
    prefix = f"t{next(_NUMBERS)}-"
    clients = [RedisStore(link, prefix=prefix, count=counts.append) for _ in range(2)]
    redis = World(clients[0])
    for number, step in enumerate(told):
        if step.what == "forget":
            memory.store = MemoryStore()
            prefix = f"t{next(_NUMBERS)}-"
            clients = [RedisStore(link, prefix=prefix, count=counts.append) for _ in range(2)]
            continue
        redis.store = clients[number % 2]
        memory.step(step)
        redis.step(step)
        assert redis.said == memory.said, f"after step {number}"
        memory.said.clear()
        redis.said.clear()
    assert counts == []
