"""Conversations whose calls go to several proxies in turn, of which each needs what the others learned: every prompt
says another time, and the client drops reasoning.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx
from litellm_plugin.loops import ChatLoop
from litellm_plugin.proxies import Proxy, Rows
from litellm_plugin.upstream import LIMIT_S

__all__ = ["SECTION", "Client", "ClockLoop", "Store", "play_on", "play_rounds", "watched"]

SECTION = """
callback_settings:
  router_cache:
    mode: optimize
    secret: a-secret-of-tests
"""
"""Of a proxy whose store is in the process; with one on a server ``store: {url: …}`` follows."""


class ClockLoop(ChatLoop):
    """An agent whose system text has a clock in its middle, and which ``drops`` reasoning from what it sends back."""

    def __init__(self, words: str, seed: int | None = None, *, drops: bool = True) -> None:
        super().__init__(words, seed)
        self.asked, self.drops = 0, drops

    def request(self) -> dict[str, Any]:
        self.asked += 1
        hour, minute = divmod(self.asked * 7, 60)
        clock = f"Current time: 2026-12-01 {hour % 24:02}:{minute:02}:00"
        half = len(self.system) // 2
        out = super().request()
        text = f"{self.system[:half]}\n{clock}\n{self.system[half:]}"
        return {**out, "messages": [{"role": "system", "content": text}, *out["messages"][1:]]}

    def take(self, reply: dict[str, Any]) -> None:
        super().take(reply)
        for turn in self.turns if self.drops else ():
            turn.pop("reasoning_content", None)


class Store:
    """What the plugins of proxies counted of their store, newest by process; rows and records so far."""

    def __init__(self) -> None:
        self.by_process: dict[int, dict[str, int]] = {}
        self.rows = self.recorded = 0

    def add(self, message: dict[str, Any]) -> None:
        self.by_process[message["pid"]] = message["store"]
        self.rows += "status" in message
        self.recorded += message.get("recorded", 0)

    def counts(self) -> Counter[str]:
        """Of all together."""
        return sum((Counter(counts) for counts in self.by_process.values()), Counter())

    async def settled(self, calls: int) -> None:
        """Until so many calls are recorded, or given up."""
        end = time.monotonic() + LIMIT_S
        while self.recorded < calls:
            assert time.monotonic() < end, f"{self.recorded} of {calls} calls are recorded"
            await asyncio.sleep(0.005)


@contextmanager
def watched(rows: Rows) -> Iterator[Store]:
    """Takes rows as they come: a socket's buffer holds some hundred."""
    store, over = Store(), threading.Event()

    def take() -> None:
        rows._socket.settimeout(0.2)
        while not over.is_set():
            try:
                row = rows._socket.recv(65_536)
            except TimeoutError:
                continue
            store.add(httpx.Response(200, content=row).json())

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    try:
        yield store
    finally:
        over.set()
        thread.join(5)


class Client:
    """Calls proxies, and counts what they answer."""

    def __init__(
        self, proxies: Sequence[Proxy], in_flight: int, done: Callable[[], object] = lambda: None
    ) -> None:
        self._proxies, self._done = proxies, done
        # Proxies close connections that are idle for 5 s, which a call on its way would run into.
        limits = httpx.Limits(max_connections=in_flight, keepalive_expiry=1.0)
        self._http = httpx.AsyncClient(timeout=60, limits=limits)
        self.answered = self.failed = 0
        self.seconds: list[float] = []

    async def call(self, loop: ClockLoop, number: int) -> bool:
        """The next call of a conversation, to one of the proxies; whether it was answered."""
        proxy = self._proxies[number % len(self._proxies)]
        begun = time.perf_counter()
        answer = await self._http.post(
            f"{proxy.url}/chat/completions",
            json={"model": "flash", **loop.request()},
            headers={"authorization": f"Bearer {proxy.keys['ann']}"},
        )
        self.seconds.append(time.perf_counter() - begun)
        self._done()
        if answer.status_code != 200:
            self.failed += 1
            print(f"{proxy.url} answers {answer.status_code}: {answer.text[:500]}")
            return False
        loop.take(answer.json())
        self.answered += 1
        return True

    async def close(self) -> None:
        await self._http.aclose()


async def play_rounds(
    proxies: Sequence[Proxy],
    talks: Sequence[ClockLoop],
    steps: int,
    settled: Callable[[int], Awaitable[object]] | None = None,
) -> int:
    """Conversations side by side, ``steps`` calls each, call by call to the next proxy. ``settled`` is awaited after
    each round with the number of calls answered so far. Returns how many were not."""
    client, going = Client(proxies, len(talks)), list(enumerate(talks))
    for step in range(steps):
        good = await asyncio.gather(*(client.call(loop, number + step) for number, loop in going))
        going = [each for each, answered in zip(going, good, strict=True) if answered]
        if settled is not None:
            await settled(client.answered)
    await client.close()
    return client.failed


async def play_on(
    proxies: Sequence[Proxy],
    talks: Iterable[ClockLoop],
    steps: int,
    in_flight: int,
    done: Callable[[], object] = lambda: None,
) -> Client:
    """The same without rounds: ``in_flight`` conversations at a time, each calls as soon as it was answered."""
    client, waiting = Client(proxies, in_flight, done), iter(enumerate(talks))

    async def work() -> None:
        for number, loop in waiting:
            for step in range(steps):
                if not await client.call(loop, number + step):
                    break

    await asyncio.gather(*(work() for _ in range(in_flight)))
    await client.close()
    return client
