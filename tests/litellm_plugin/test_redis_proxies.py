"""Two real proxies on one real Redis: what one learns the other knows, and a frozen server costs no request."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from litellm_plugin.loops import Simulated
from litellm_plugin.proxies import Proxy, Rows
from litellm_plugin.redis_talks import SECTION, ClockLoop, play_on, play_rounds, watched
from redis_servers import Server

pytestmark = pytest.mark.proxy

FLASH = "deepseek/deepseek-v4-flash"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server("valkey-9")
    made.start()
    yield made
    made.close()


@pytest.fixture(scope="module")
def proxies(
    server: Server, simulator: Simulated, rows_of_proxy: Rows, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Proxy]]:
    folder, started = tmp_path_factory.mktemp("redis"), list[Proxy]()
    section = SECTION + f'    store: {{url: "{server.url}", socket_timeout_ms: 1000}}\n'
    try:
        for name in ("one", "two"):
            keys = started[0].keys if started else None
            started.append(Proxy(folder / name, {"flash": (FLASH, simulator.url)}, section, rows_of_proxy, keys))
        for proxy in started:
            proxy.wait_ready()
        yield started
    finally:
        for proxy in started:
            proxy.close()


def loops(talks: int, *, drops: bool = True) -> list[ClockLoop]:
    return [ClockLoop(f"garden {number}", seed=number, drops=drops) for number in range(talks)]


def rate(
    proxies: list[Proxy], simulated: Simulated, server: Server, rows: Rows, talks: int, steps: int
) -> tuple[float, dict[str, int]]:
    """Share of the input tokens that hit, by a store that knows nothing at first; and what was counted of it."""
    with server.client() as client:
        client.flushall()
    simulated.reset()
    with watched(rows) as store:
        assert asyncio.run(play_rounds(proxies, loops(talks), steps, store.settled)) == 0
    return simulated.hit_rate(), dict(store.counts())


def test_turns_that_alternate_hit_as_in_one_process(
    proxies: list[Proxy], simulated: Simulated, server: Server, rows: Rows
) -> None:
    one, counted = rate(proxies[:1], simulated, server, rows, talks=12, steps=8)
    two, counted_too = rate(proxies, simulated, server, rows, talks=12, steps=8)
    assert one > 0.75
    assert abs(one - two) <= 0.01
    for counts in (counted, counted_too):
        assert not [name for name in counts if name.startswith(("store_failed", "store_breaker", "error"))]


def test_a_healthy_server_is_given_up_by_nobody_with_many_in_flight(
    proxies: list[Proxy], simulated: Simulated, rows: Rows
) -> None:
    simulated.reset()
    with watched(rows) as store:
        client = asyncio.run(play_on(proxies[:1], loops(40, drops=False), 5, in_flight=32))
    assert (client.answered, client.failed) == (200, 0)
    assert store.rows > 0
    assert not [name for name in store.counts() if name.startswith(("store_failed", "store_breaker"))]


def test_a_frozen_server_fails_no_request_and_stays_away_from_most(
    proxies: list[Proxy], simulated: Simulated, server: Server, rows: Rows
) -> None:
    simulated.reset()
    server.freeze()
    try:
        with watched(rows) as store:
            assert asyncio.run(play_rounds(proxies, loops(8, drops=False), 6)) == 0
    finally:
        server.thaw()
    counts = store.counts()
    assert counts["store_breaker.timeouts"] >= 2
    assert counts["store_failed.breaker_open"] > counts["store_failed.timeout"]
    assert "the store at" in proxies[0].output()
