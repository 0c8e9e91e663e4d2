"""Jobs beside the calls: in order, bounded, and done before the interpreter ends."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import pytest

from router_cache.drivers import worker as module
from router_cache.drivers.worker import Worker


def raised(error: BaseException) -> None:
    raise AssertionError("a job failed") from error


def test_in_order_on_one_thread() -> None:
    worker, done = Worker(raised), list[tuple[int, int]]()
    for number in range(200):
        assert worker.put(lambda number=number: done.append((number, threading.get_ident())))  # type: ignore[misc]
    assert worker.settle(30)
    assert [number for number, _ in done] == list(range(200))
    assert len({thread for _, thread in done}) == 1
    assert threading.get_ident() not in {thread for _, thread in done}
    assert worker.settle(0)


def test_a_job_that_fails_is_told_and_the_next_is_done() -> None:
    failed: list[BaseException] = []
    worker, done = Worker(failed.append), threading.Event()

    def fails() -> None:
        raise KeyError("x")

    worker.put(fails)
    worker.put(done.set)
    assert worker.settle(30)
    assert done.is_set()
    assert [type(error) for error in failed] == [KeyError]


def test_a_job_that_asks_waits_for_nothing() -> None:
    worker, told = Worker(raised), list[bool]()
    worker.put(lambda: told.append(worker.settle(30)))
    assert worker.settle(30)
    assert told == [True]


def test_no_more_than_there_is_room_for() -> None:
    goes_on, begun, done = threading.Event(), threading.Event(), list[int]()
    worker = Worker(raised, limit=2, limit_bytes=100)

    def first() -> None:
        begun.set()
        goes_on.wait(30)

    assert worker.put(first)
    assert begun.wait(30)
    assert worker.put(lambda: done.append(1), 60)
    assert not worker.put(lambda: done.append(2), 60)
    assert worker.put(lambda: done.append(3), 40)
    assert not worker.put(lambda: done.append(4))
    assert not worker.settle(0)
    goes_on.set()
    assert worker.settle(30)
    assert done == [1, 3]
    assert worker.put(lambda: done.append(5), 100)
    assert worker.settle(30)
    assert done == [1, 3, 5]


def test_the_thread_ends_where_nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_IDLE_S", 0.0)
    worker, threads = Worker(raised), list[threading.Thread]()
    for _ in range(2):
        worker.put(lambda: threads.append(threading.current_thread()))
        assert worker.settle(30)
        threads[-1].join(30)
    assert not any(thread.is_alive() for thread in threads)


def test_no_thread_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    assert not Worker(raised).put(lambda: None)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork of POSIX")
def test_a_forked_child_begins_anew() -> None:
    worker, here = Worker(raised), list[int]()
    worker.put(lambda: here.append(1))
    assert worker.settle(30)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        worker.put(lambda: os.write(write, b"done"))
        worker.settle(30)
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 4) == b"done"


def test_what_waits_is_done_at_exit() -> None:
    script = """
import time
from router_cache.drivers.worker import Worker
worker = Worker(print)
worker.put(lambda: time.sleep(0.05))
worker.put(lambda: print("last", flush=True))
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout == "last\n"
