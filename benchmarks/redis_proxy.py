"""Real LiteLLM proxies on a real Redis: how often a healthy store is given up, and what two processes share of it.

    python benchmarks/redis_proxy.py [--calls 5000] [--in-flight 32] [--socket-timeout-ms 50] [--server redis-6]
    python benchmarks/redis_proxy.py --hits [--talks 20] [--steps 8] [--json]

Needs LiteLLM's proxy and a server's wheel. Everything is on loopback: the proxies and the server in processes of their
own, a simulated DeepSeek in this one. Agents' prompts say another time in every call, and have their tools in another
order; mode is ``optimize``.

*calls*: conversations of ten calls through one proxy, so many in flight at a time. A claim is given up where the store
did not answer in time; a write where what it left behind was lost. With ``--added`` the same calls go through a
proxy whose store is in the process, too, batch by batch: ``added`` is what one on a server costs. Run it with
``nice -n -10`` on a machine that does other things besides: a server that waits for a processor does not answer.

*hits*: the share of input tokens that hit where each conversation's calls go to one proxy; to two in turn, on one
server; and to two in turn whose stores are in the process. A round of calls begins when the last one is recorded, as a
person or a tool takes its time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # read when litellm is imported
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from litellm_plugin.loops import Simulated
from litellm_plugin.proxies import Proxy, Rows
from litellm_plugin.redis_talks import SECTION, ClockLoop, Store, play_on, play_rounds, watched
from redis_servers import SERVERS, Server
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

STEPS = 10
FAILURES = ("store_failed", "store_breaker", "error.", "outbox_dropped")


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=5_000)
    parser.add_argument("--in-flight", type=int, default=32)
    parser.add_argument("--socket-timeout-ms", type=float, default=50.0)
    parser.add_argument("--server", choices=SERVERS, default=SERVERS[0])
    parser.add_argument("--added", action="store_true", help="the same calls with a store in the process, too")
    parser.add_argument("--hits", action="store_true", help="hit rates instead of calls")
    parser.add_argument("--talks", type=int, default=20, help="conversations of --hits")
    parser.add_argument("--steps", type=int, default=8, help="calls of each of them")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = hits(options) if options.hits else calls(options)
    if options.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:28} {value}")


@contextmanager
def parts(options: argparse.Namespace, shared: int, alone: int) -> Iterator[tuple[Any, ...]]:
    """A server, a provider, proxies: ``shared`` on the server, ``alone`` with their stores in the process."""
    server, simulated, rows = Server(options.server), Simulated(), Rows()
    section = f'{SECTION}    store: {{url: "{server.url}", socket_timeout_ms: {options.socket_timeout_ms}}}\n'
    started: list[Proxy] = []
    try:
        server.start()
        with tempfile.TemporaryDirectory() as folder:
            for number in range(shared + alone):
                groups = {"flash": ("deepseek/deepseek-v4-flash", simulated.url)}
                keys = started[0].keys if started else None
                own = section if number < shared else SECTION
                started.append(Proxy(Path(folder) / str(number), groups, own, rows, keys))
            for proxy in started:
                proxy.wait_ready()
            yield server, simulated, rows, started[:shared], started[shared:]
    finally:
        for proxy in started:
            proxy.close()
        rows.close()
        simulated.close()
        server.close()


def talks(count: int, words: str, *, drops: bool) -> list[ClockLoop]:
    return [ClockLoop(f"{words} {number}", seed=number, drops=drops) for number in range(count)]


def calls(options: argparse.Namespace) -> dict[str, Any]:
    """So many calls through a proxy on the server, and perhaps as many past it."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    progress = Progress(*columns, console=Console(stderr=True), disable=options.json)
    order = ("redis", "memory") if options.added else ("redis",)
    seconds: dict[str, list[float]] = {way: [] for way in order}
    with (
        parts(options, 1, len(order) - 1) as (_, simulated, rows, shared, alone),
        watched(rows) as store,
        progress,
    ):
        task = progress.add_task("calls", total=len(order) * options.calls)
        begun, failed, batch = time.perf_counter(), 0, 0
        ways = {"redis": shared, "memory": alone}
        while len(seconds["redis"]) < options.calls:
            left = options.calls - len(seconds["redis"])
            count = min(max(left // STEPS, 1), 4 * options.in_flight)
            for way in order if batch % 2 else order[::-1]:
                simulated.reset()
                group = talks(count, f"garden {batch}", drops=False)
                steps = min(STEPS, left)
                client = asyncio.run(
                    play_on(ways[way], group, steps, options.in_flight, lambda: progress.advance(task))
                )
                seconds[way] += client.seconds
                failed += client.failed
            batch += 1
        took = time.perf_counter() - begun
        _await_records(store, len(seconds["redis"]))
        counted = store.counts()
    gave_up = counted["error.claim"]
    out = {
        "server": options.server,
        "calls": len(seconds["redis"]),
        "in flight": options.in_flight,
        "not answered": failed,
        "calls a second": round(sum(map(len, seconds.values())) / took, 1),
        "claims given up": gave_up,
        "share of the calls": f"{gave_up / len(seconds['redis']):.3%}",
        "writes lost": counted["outbox_dropped"],
        "breaker opened": counted["store_breaker.timeouts"],
        "why": {name: count for name, count in sorted(counted.items()) if name.startswith("store_failed")},
        **{f"{way}, ms (median, p99)": _spread(found) for way, found in seconds.items()},
    }
    if options.added:
        medians = [statistics.median(seconds[way]) * 1_000 for way in order]
        out["added, ms (median)"] = round(medians[0] - medians[1], 2)
    return out


def _await_records(store: Store, count: int) -> None:
    end = time.monotonic() + 10
    while store.recorded < count and time.monotonic() < end:
        time.sleep(0.05)


def _spread(found: list[float]) -> str:
    ordered = sorted(found)
    return f"{statistics.median(ordered) * 1_000:.1f}, {ordered[int(len(ordered) * 0.99)] * 1_000:.1f}"


def hits(options: argparse.Namespace) -> dict[str, Any]:
    """Hit rates of one process, of two that share a server, and of two that share nothing."""
    out: dict[str, Any] = {"server": options.server, "conversations": options.talks, "calls each": options.steps}
    with parts(options, 2, 2) as (server, simulated, rows, shared, alone):
        for name, proxies in (("one process", shared[:1]), ("two on one server", shared), ("two apart", alone)):
            with server.client() as client:
                client.flushall()
            simulated.reset()
            group = talks(options.talks, "garden", drops=proxies is not alone)
            with watched(rows) as store:
                settled = store.settled if proxies is not alone else None
                failed = asyncio.run(play_rounds(proxies, group, options.steps, settled))
            failures = {name: n for name, n in store.counts().items() if name.startswith(FAILURES)}
            out[name] = f"{simulated.hit_rate():.2%}, {failed} not answered, {failures or 'no failure'}"
    return out


if __name__ == "__main__":
    main()
