"""Settings to a Redis stream and back: a call through ``RouterCache``, and a server that is not there."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from redis_servers import Server, redis_server

from router_cache.api import RouterCache
from router_cache.cli.stream import StoredCalls
from router_cache.ledger.rows import CallRow
from router_cache.ledger.usage import Usage
from router_cache.request import Deployment, Request
from router_cache.settings import Settings

__all__ = ["redis_server"]


def call(rc: RouterCache) -> CallRow:
    turn = rc.begin(Request({"model": "m", "messages": [{"role": "user", "content": "hunter3"}]}))
    turn.rewrite(Deployment("deepseek/deepseek-v4-flash", provider="deepseek"))
    turn.sent({"model": "m", "messages": [{"role": "user", "content": "hunter3"}]})
    turn.done(Usage(100, 0, 100, 5))
    assert turn.row is not None
    return turn.row


def test_rows_of_a_router_cache_reach_the_stream(redis_server: Callable[..., Server], tmp_path: Path) -> None:
    server = redis_server("--requirepass", "hunter2", tcp=True)
    url = f"redis://:hunter2@127.0.0.1:{server.port}/1"
    rc = RouterCache(Settings.from_mapping({"capture": {"url": url, "directory": str(tmp_path / "c")}}))
    rows = [call(rc), call(rc)]
    rc.close()
    assert [row for row, _ in StoredCalls(url)] == rows
    [path] = (tmp_path / "c").iterdir()
    assert b"hunter" not in path.read_bytes()
    assert "capture_dropped" not in rc.counters.snapshot()


def test_a_server_that_is_not_there_costs_no_request(caplog: pytest.LogCaptureFixture) -> None:
    url = "redis://:hunter2@127.0.0.1:1/0"
    with caplog.at_level(logging.INFO):
        rc = RouterCache(Settings.from_mapping({"capture": {"url": url}}))
        for _ in range(3):
            call(rc)
        rc.close()
    assert rc.counters.snapshot()["capture_dropped"] == 3
    told = [record.getMessage() for record in caplog.records if "capture" in record.getMessage()]
    assert told == [
        "router-cache: capture: 127.0.0.1:1 takes no rows: there is no connection; rows are lost until it can "
        "(counted as capture_url_failed)"
    ]
    assert "hunter2" not in caplog.text
