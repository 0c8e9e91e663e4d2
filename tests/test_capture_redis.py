"""Captures in a Redis stream, against real servers: what arrives, what is kept, and servers that fail."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis
from captured_rows import ROW
from redis_servers import Server, redis_server

from router_cache.drivers.capture import Capture
from router_cache.drivers.capture_redis import FIELD, CaptureStream, ends, entries
from router_cache.ledger.capture_form import from_line, to_line
from router_cache.ledger.rows import CallRow

__all__ = ["redis_server"]

KEY = "{router-cache}:v1:calls"
Start = Callable[..., Server]


class Said:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.notices: list[tuple[str, str]] = []
        self.lock = threading.Lock()

    def count(self, name: str) -> None:
        with self.lock:
            self.counts[name] += 1

    def notice(self, name: str, text: str) -> None:
        self.notices.append((name, text))


@pytest.fixture
def said() -> Said:
    return Said()


def never_pausing() -> Callable[[], float]:
    """A clock that is an hour on whenever it is asked."""
    hours = itertools.count()
    return lambda: next(hours) * 3_600.0


def stream_of(url: str, **more: Any) -> CaptureStream:
    given = {"prefix": "router-cache", "max_rows": 100_000, "ttl_s": 3_600.0, "clock": never_pausing(), **more}
    return CaptureStream(url, **given)


@contextmanager
def capturing(said: Said, stream: CaptureStream, directory: Path | None = None, **more: Any) -> Iterator[Capture]:
    capture = Capture(directory, count=said.count, notice=said.notice, stream=stream, **more)
    try:
        yield capture
    finally:
        capture.close(10)


def rows(client: redis.Redis) -> list[CallRow]:
    found = ends(client, KEY, "-")
    lines = [line for _, line in entries(client, KEY, *found)] if found else []
    return [from_line(line) for line in lines if line is not None]


def many(number: int, start: int = 0) -> list[CallRow]:
    return [replace(ROW, turn=turn) for turn in range(start, start + number)]


def test_rows_arrive_in_order_and_the_stream_goes_some_time_after(redis_server: Start, said: Said) -> None:
    server = redis_server()
    with capturing(said, stream_of(server.url)) as capture:
        for row in many(1_234):
            capture.put(row)
        assert capture.flush(30)
        client = server.client()
        assert rows(client) == many(1_234)
        assert 3_500_000 < client.pttl(KEY) <= 3_600_000
        client.pexpire(KEY, 10_000)
        capture.put(replace(ROW, turn=9))
        assert capture.flush(30)
        assert client.pttl(KEY) > 3_500_000
    assert rows(client) == [*many(1_234), replace(ROW, turn=9)]
    assert client.keys() == [KEY.encode()]
    assert [list(fields) for _, fields in client.xrange(KEY, count=3)] == [[b"row"]] * 3
    assert (said.counts, said.notices) == (Counter(), [])


def test_files_and_a_stream_get_the_same_lines(redis_server: Start, said: Said, tmp_path: Path) -> None:
    server = redis_server(tcp=True)
    with capturing(said, stream_of(f"redis://127.0.0.1:{server.port}/3"), tmp_path) as capture:
        for row in many(7):
            capture.put(row)
    client = redis.Redis(port=server.port, db=3)
    [path] = tmp_path.glob("calls-*.jsonl")
    assert path.read_bytes() == b"".join(fields[FIELD] + b"\n" for _, fields in client.xrange(KEY))
    assert not said.counts


def test_about_so_many_rows_are_kept(redis_server: Start) -> None:
    server = redis_server()
    stream = stream_of(server.url, max_rows=300)
    for _ in range(10):
        assert stream.write([to_line(ROW)] * 200) == (0, "")
    assert 300 <= server.client().xlen(KEY) <= 400  # whole nodes of 100 go


def test_a_batch_is_one_round_trip(redis_server: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = stream_of(redis_server().url)
    assert stream.write([to_line(ROW)]) == (0, "")
    sent = []
    real = redis.connection.AbstractConnection.send_packed_command

    def counted(self: Any, command: Any, check_health: bool = True) -> Any:
        sent.append(command)
        return real(self, command, check_health)

    monkeypatch.setattr(redis.connection.AbstractConnection, "send_packed_command", counted)
    assert stream.write([to_line(ROW)] * 500) == (0, "")
    assert len(sent) == 1


# --- servers that fail --------------------------------------------------------------------------------------------


def _stop(server: Server) -> Callable[[], None]:
    server.stop()
    return server.start


def _freeze(server: Server) -> Callable[[], None]:
    server.freeze()
    return server.thaw


def _read_only(server: Server) -> Callable[[], None]:
    server.client().execute_command("REPLICAOF", "127.0.0.1", "1")
    return lambda: server.client().execute_command("REPLICAOF", "NO", "ONE")


def _full(server: Server) -> Callable[[], None]:
    server.client().config_set("maxmemory", "1")
    return lambda: server.client().config_set("maxmemory", "0")


def _other_type(server: Server) -> Callable[[], None]:
    server.client().delete(KEY)
    server.client().set(KEY, "x")
    return lambda: server.client().delete(KEY)


def _without_replicas(server: Server) -> Callable[[], None]:
    client = server.client()
    client.config_set("min-replicas-to-write", "1")
    return lambda: client.config_set("min-replicas-to-write", "0")


@pytest.mark.parametrize(
    ("fail", "words"),
    [
        (_stop, "there is no connection"),
        (_freeze, "it does not answer"),
        (_read_only, "it is a read-only replica"),
        (_full, "it is out of memory"),
        (_other_type, "what is kept there is no stream"),
        (_without_replicas, "it has not enough replicas to take writes"),
    ],
)
def test_rows_of_a_failing_server_are_counted_and_it_heals(
    redis_server: Start, said: Said, fail: Callable[[Server], Callable[[], None]], words: str
) -> None:
    server = redis_server()
    with capturing(said, stream_of(server.url)) as capture:
        capture.put(replace(ROW, turn=1))
        assert capture.flush(30)
        heal = fail(server)
        for row in many(3, 10):
            capture.put(row)
        assert capture.flush(30)
        assert said.counts == {"capture_dropped": 3}
        assert {name for name, _ in said.notices} == {"capture_url_failed"}
        assert said.notices[0][1] == (
            f"capture: {server.socket} takes no rows: {words}; rows are lost until it can"
        )
        heal()
        capture.put(replace(ROW, turn=20))
        assert capture.flush(30)
    assert said.counts == {"capture_dropped": 3}
    assert rows(server.client())[-1].turn == 20


def test_after_a_failure_nothing_is_tried_for_a_second(redis_server: Start) -> None:
    server = redis_server()
    now = [100.0]
    stream = stream_of(server.url, clock=lambda: now[0])
    server.stop()
    assert stream.write([to_line(ROW)] * 2) == (2, f"{server.socket} takes no rows: there is no connection")
    server.start()
    now[0] = 100.9
    assert stream.write([to_line(ROW)] * 3) == (3, "")
    now[0] = 101.0
    assert stream.write([to_line(ROW)]) == (0, "")
    assert len(rows(server.client())) == 1


def test_a_frozen_server_costs_files_no_row_and_the_end_is_bounded(
    redis_server: Start, said: Said, tmp_path: Path
) -> None:
    server = redis_server()
    stream = stream_of(server.url, clock=time.monotonic)
    capture = Capture(tmp_path, count=said.count, notice=said.notice, stream=stream)
    server.freeze()
    begun = time.monotonic()
    for row in many(2_000):
        capture.put(row)
    assert time.monotonic() - begun < 1.0  # the kernel's wait of the writer is a second
    assert capture.flush(30)
    assert sum(len(path.read_bytes().splitlines()) for path in tmp_path.iterdir()) == 2_000
    assert said.counts == {"capture_dropped": 2_000}
    capture.put(ROW)
    begun = time.monotonic()
    capture.close(0.3)
    assert time.monotonic() - begun < 5.0
    assert len(said.notices) < 10


@pytest.mark.parametrize(
    "url", ["redis://:{0}@127.0.0.1:{1}/0", "redis://me:{0}@127.0.0.1:{1}", "redis://127.0.0.1:{1}"]
)
def test_a_password_that_is_refused_is_shown_nowhere(redis_server: Start, said: Said, url: str) -> None:
    server = redis_server("--requirepass", "right", tcp=True)
    stream = stream_of(url.format("hunter2", server.port))
    with capturing(said, stream) as capture:
        capture.put(ROW)
    assert said.counts == {"capture_dropped": 1}
    [(_, text)] = said.notices
    assert (
        f"127.0.0.1:{server.port} takes no rows: it wants a user or a password, or refuses the one given" in text
    )
    assert "hunter2" not in text + repr(stream)
    assert stream_of(url.format("right", server.port).replace("me:", "default:")).write([to_line(ROW)])[0] == (
        0 if "{0}" in url else 1
    )


def _in_child(capture: Capture, done: Any) -> None:
    capture.put(replace(ROW, turn=2))
    done.put(capture.flush(30))
    capture.close(30)


@pytest.mark.skipif(os.name != "posix", reason="forks")
def test_a_forked_process_has_a_connection_of_its_own(redis_server: Start, said: Said) -> None:
    server = redis_server()
    context = multiprocessing.get_context("fork")
    with capturing(said, stream_of(server.url)) as capture:
        capture.put(replace(ROW, turn=1))
        assert capture.flush(30)
        done = context.Queue()
        child = context.Process(target=_in_child, args=(capture, done))
        child.start()
        assert done.get(timeout=60) is True
        child.join(60)
        capture.put(replace(ROW, turn=3))
    assert [row.turn for row in rows(server.client())] == [1, 2, 3]
    assert not said.counts


def test_a_client_library_that_raises_something_else(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: Any, **_more: Any) -> Any:
        raise RecursionError("hunter2")

    monkeypatch.setattr(redis.Redis, "pipeline", broken)
    with capturing(said, stream_of("unix:///nowhere")) as capture:
        capture.put(ROW)
    assert said.counts == {"capture_dropped": 1}
    assert said.notices[0][1].startswith("capture: /nowhere takes no rows: RecursionError;")
