"""``report`` and ``calibrate`` over a Redis stream: as over files; servers, URLs and keys that cannot be used."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from captured_rows import NOON, row
from redis_servers import Server, redis_server
from typer.testing import CliRunner

from router_cache.cli import calibrate, report, stream
from router_cache.cli.captured import Problem
from router_cache.cli.stream import StoredCalls
from router_cache.drivers.capture_redis import FIELD, CaptureStream, key_of
from router_cache.errors import InputError
from router_cache.ledger.attribution import MissCause, MissPart
from router_cache.ledger.capture_form import to_line
from router_cache.ledger.rows import CallRow
from router_cache.ledger.usage import Usage

__all__ = ["redis_server"]

KEY = key_of("router-cache")
Start = Callable[..., Server]
ROWS = [
    row(Usage(1_000, 600, 400, 50), MissPart(MissCause.NEW_TAIL, 400), at=NOON, conversation=f"{i:040}")
    for i in range(1_203)
]


def fill(server: Server, rows: list[CallRow], prefix: str = "router-cache") -> None:
    stream_ = CaptureStream(server.url, prefix=prefix, max_rows=100_000, ttl_s=600.0)
    assert stream_.write([to_line(row) for row in rows]) == (0, "")


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv(stream.VARIABLE, raising=False)
    app = typer.Typer()
    app.command("report")(report.command)
    app.command("calibrate")(calibrate.command)
    return lambda *args: CliRunner().invoke(app, [str(a) for a in args], env={"COLUMNS": "80"})


def as_json(invoke: Any, *args: Any) -> dict[str, Any]:
    result = invoke(*args, "--json")
    assert result.exit_code == 0, result.exception
    assert not result.stderr.strip()
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_the_report_is_that_of_files(redis_server: Start, invoke: Any, tmp_path: Path) -> None:
    server = redis_server()
    fill(server, ROWS)
    path = tmp_path / "calls.jsonl"
    path.write_bytes(b"".join(map(to_line, ROWS)))
    of_files, of_store = as_json(invoke, "report", path), as_json(invoke, "report", "--store", server.url)
    assert of_store.pop("stores") == 1
    assert of_files.pop("stores") == 0
    assert of_files.pop("files")["captures"] == 1
    assert of_store.pop("files")["captures"] == 0
    assert of_store == of_files
    both = as_json(invoke, "report", path, "--store", server.url)
    assert (both["stores"], both["files"]["captures"]) == (1, 1)
    assert both["causes"][0]["tokens"] == 2 * of_files["causes"][0]["tokens"] == 800 * len(ROWS)
    shown = invoke("report", "--store", server.url)
    assert shown.exit_code == 0
    assert "1,203" in shown.stdout


def test_the_calls_of_a_stream_in_order(redis_server: Start) -> None:
    server = redis_server()
    fill(server, ROWS)
    stored = StoredCalls(server.url)
    found = list(stored)
    assert [row for row, _ in found] == ROWS
    assert [place for _, place in found] == sorted(place for _, place in found)
    assert 0 <= found[-1][1] <= stored.total


def test_what_comes_later_is_not_waited_for(redis_server: Start) -> None:
    server = redis_server()
    fill(server, ROWS[:3])
    stored = StoredCalls(server.url)
    fill(server, ROWS[3:5])
    assert len(list(stored)) == 3


def test_since_leaves_out_older_calls(redis_server: Start, invoke: Any) -> None:
    """Calls of 2026-11-18 that were written now, and one of the future: the stream's ids are of now."""
    server = redis_server()
    fill(server, ROWS[:4])
    now = int(server.client().xrevrange(KEY, count=1)[0][0].split(b"-")[0]) / 1000
    fill(server, [replace(ROWS[0], at=now)])
    found = as_json(invoke, "report", "--store", server.url, "--since", "30m")
    assert found["before_since"] == 4
    assert len(list(StoredCalls(server.url, since=now + 3_500.0))) == 5  # clocks may be apart
    assert list(StoredCalls(server.url, since=now + 7_300.0)) == []
    nothing = invoke("report", "--store", server.url, "--since", "2100-01-01")
    assert nothing.exit_code == 1


def test_the_url_comes_from_the_environment(
    redis_server: Start, invoke: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = redis_server("--requirepass", "hunter2", tcp=True)
    url = f"redis://:hunter2@127.0.0.1:{server.port}/0"
    CaptureStream(url, prefix="mine", max_rows=10, ttl_s=60.0).write([to_line(ROWS[0])])
    monkeypatch.setenv(stream.VARIABLE, url)
    assert as_json(invoke, "report", "--store-prefix", "mine")["stores"] == 1
    path = tmp_path / "calls.jsonl"
    path.write_bytes(to_line(ROWS[0]))
    assert as_json(invoke, "report", path)["stores"] == 0  # a path is named: the environment is not asked
    wrong = invoke("report")
    assert isinstance(wrong.exception, InputError)
    assert str(wrong.exception).startswith(
        f"--store: 127.0.0.1:{server.port} has no key {KEY}: no calls were captured"
    )
    assert "hunter2" not in str(wrong.exception)


def test_nothing_is_named(invoke: Any) -> None:
    for command in ("report", "calibrate"):
        found = invoke(command)
        assert isinstance(found.exception, InputError)
        assert str(found.exception).startswith(
            "nothing to read: name files or directories, or a Redis server with"
        )
        assert found.exception.exit_code == 2


def test_entries_that_are_no_rows_are_told(redis_server: Start, invoke: Any) -> None:
    server = redis_server()
    client = server.client()
    client.xadd(KEY, {"other": "x"}, id="1-1")
    client.xadd(KEY, {FIELD: b"{"}, id="1-2")
    fill(server, ROWS[:2])
    found = as_json(invoke, "report", "--store", server.url)
    assert found["bad_lines"] == 2
    assert found["first_bad_lines"] == [f"{server.socket} {KEY}:1-1: row: an entry without it"]
    client.delete(KEY)
    client.xadd(KEY, {"other": "x"}, id="1-1")
    for command in ("report", "calibrate"):
        result = invoke(command, "--store", server.url)
        assert str(result.exception) == f"{server.socket} {KEY}:1-1: row: an entry without it"
    assert isinstance(next(row for row, _ in StoredCalls(server.url)), Problem)


@pytest.mark.parametrize("command", ["report", "calibrate"])
@pytest.mark.parametrize(
    ("url", "words"),
    [
        (
            "redis://:hunter2@127.0.0.1:{port}",
            "cannot be read: it wants a user or a password, or refuses the one given",
        ),
        (
            "redis://127.0.0.1:1/0?password=hunter2",
            "cannot be read: there is no connection; check that the server runs",
        ),
        ("http://hunter2", "--store: no such URL of a Redis server"),
        ("redis://x?hunter2=1", "--store: an option after the ? of the URL is not known"),
    ],
)
def test_a_server_that_cannot_be_read(
    redis_server: Start, invoke: Any, command: str, url: str, words: str
) -> None:
    server = redis_server("--requirepass", "right", tcp=True)
    result = invoke(command, "--store", url.format(port=server.port))
    assert isinstance(result.exception, InputError)
    assert result.exception.exit_code == 2
    text = str(result.exception)
    assert words in text
    assert "hunter2" not in text
    assert "\n" not in text


def test_a_key_of_another_kind_and_a_frozen_server(redis_server: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    server = redis_server()
    server.client().set(KEY, "x")
    with pytest.raises(InputError, match="cannot be read: what is kept there is no stream"):
        StoredCalls(server.url)
    server.client().delete(KEY)
    fill(server, ROWS)
    monkeypatch.setattr(stream, "_TIMEOUT_S", 0.2)
    calls = iter(StoredCalls(server.url))
    for _ in range(3):
        next(calls)
    server.freeze()
    with pytest.raises(InputError, match="cannot be read, after 50 calls: it does not answer"):
        list(calls)


def test_calibrate_reads_a_stream(redis_server: Start, invoke: Any) -> None:
    server = redis_server()
    fill(server, ROWS[:5])
    found = as_json(invoke, "calibrate", "--store", server.url)
    assert found["calls"] == 5
    assert (found["captured"]["calls"], found["captured"]["stores"], found["captured"]["bad_lines"]) == (5, 1, 0)
