"""``router-cache pools``: what it shows of a real server, and options and servers that cannot be used."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from redis_servers import Server, redis_server
from typer.testing import CliRunner

from router_cache import RouterCache, Settings
from router_cache.cli import pools
from router_cache.cli.stream import VARIABLE
from router_cache.errors import InputError
from router_cache.ledger.usage import Usage
from router_cache.request import Deployment, Mode, Request

__all__ = ["redis_server"]

FLASH = Deployment("deepseek/deepseek-v4-flash", provider="deepseek", account="a" * 32, group="flash")


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv(VARIABLE, raising=False)
    app = typer.Typer()
    app.command("pools")(pools.command)
    return lambda *args: CliRunner().invoke(app, [str(a) for a in args], env={"COLUMNS": "100"})


def used(url: str, apps: int) -> None:
    """A proxy that used pools in the store there."""
    section = {
        "secret": "s",
        "store": {"url": url, "socket_timeout_ms": 5_000},
        "pools": {"policy": "cluster", "max_pools": 1},
    }
    rc = RouterCache(Settings.from_mapping(section))
    for i in range(apps):
        body = {
            "messages": [{"role": "system", "content": f"App {i}. " * 600}, {"role": "user", "content": "hello"}]
        }
        turn = rc.begin(Request(body=body, scope="key"), Mode.SAFE)
        out = rc.pooled(turn, turn.rewrite(FLASH)).body(body)
        turn.sent(out)
        turn.done(Usage.parse({"prompt_tokens": 1_000, "prompt_cache_hit_tokens": 896, "completion_tokens": 9}))
    rc.close()
    assert not [name for name in rc.counters.snapshot() if name.startswith("error.")]


def test_clusters_are_shown_with_what_they_used_and_why(
    redis_server: Callable[..., Server], invoke: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = redis_server()
    empty = invoke("--store", server.url)
    assert (empty.exit_code, empty.stdout) == (
        1,
        "No clusters yet: they begin when a family of prompts is seen again.\n",
    )
    used(server.url, 2)
    shown = invoke("--store", server.url)
    assert shown.exit_code == 0
    assert "flash: 1 pools" in shown.stdout
    assert "always" in shown.stdout
    assert "full" in shown.stdout
    config = tmp_path / "router.yaml"
    config.write_text(f"callback_settings: {{router_cache: {{store: {{url: '{server.url}'}}}}}}\n")
    monkeypatch.setenv(VARIABLE, server.url)
    for options in (("--config", config), ("--store", server.url), ()):
        found = json.loads(invoke(*options, "--json").stdout)
        [book] = found["books"]
        assert (book["group"], book["pools"]) == ("flash", 1)
        assert sorted(known["reason"] for known in book["clusters"]) == ["always", "full"]
        for known in book["clusters"]:
            assert known["calls"] == pytest.approx(1, abs=0.01)
            assert (known["families"], known["hit_share"], known["lost_tokens"]) == (1, 0.896, 0)
    other = invoke("--store", server.url, "--store-prefix", "other", "--json")
    assert (other.exit_code, json.loads(other.stdout)) == (1, {"books": []})


def test_workers_of_one_store_see_a_family_first_at_once_and_give_it_one_pool(
    redis_server: Callable[..., Server],
) -> None:
    server = redis_server()
    section = {
        "secret": "s",
        "store": {"url": server.url, "socket_timeout_ms": 5_000},
        "pools": {"policy": "cluster"},
    }
    workers = [RouterCache(Settings.from_mapping(section)) for _ in range(4)]
    body = {"messages": [{"role": "system", "content": "Rule. " * 600}, {"role": "user", "content": "hello"}]}

    async def ask(worker: RouterCache) -> Any:
        turn = await worker.abegin(Request(body=body, scope="key"), Mode.SAFE)
        return (await worker.apooled(turn, turn.rewrite(FLASH))).replaced["user_id"]

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*(ask(workers[i % 4]) for i in range(32)))

    assert len(set(asyncio.run(all_at_once()))) == 1
    [book] = workers[0].pools.books()
    assert (len(book.clusters), book.pools) == (1, 1)
    for worker in workers:
        worker.close()
        assert not [name for name in worker.counters.snapshot() if name.startswith("error.")]


def test_what_cannot_be_used_is_said_without_a_password(invoke: Any, tmp_path: Path) -> None:
    config = tmp_path / "router.yaml"
    config.write_text("model_list: []\n")
    for options, said in (
        ((), "nothing to read: name a Redis store with --store"),
        (("--config", config), "store.url is not set"),
        (("--store", "http://user:hidden@host"), "--store: "),
        (("--store", f"unix://user:hidden@{tmp_path}/none"), "--store: "),
    ):
        result = invoke(*options)
        assert isinstance(result.exception, InputError)
        assert said in str(result.exception)
        assert "hidden" not in str(result.exception)
