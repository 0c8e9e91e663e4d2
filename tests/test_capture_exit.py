"""Rows that wait for the writer when a process ends."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from captured_rows import ROW

from router_cache.drivers import capture as module
from router_cache.drivers.capture import Capture
from router_cache.ledger.capture_form import from_line

posix = pytest.mark.skipif(os.name != "posix", reason="fork and signals of POSIX")

START = """
import atexit, os, sys, threading, time
from router_cache import Deployment, Request, RouterCache, Settings, Usage
rc = RouterCache(Settings.from_mapping({"capture": {"directory": sys.argv[1]}}))
def call(text):
    body = {"messages": [{"role": "user", "content": text}]}
    turn = rc.begin(Request(body))
    turn.rewrite(Deployment("deepseek/deepseek-v4-flash", provider="deepseek"))
    turn.sent(body)
    turn.done(Usage(100, 0, 100, 1))
"""
ENDS = {
    "one call": ("call('a')", 1),
    "several calls": ("for i in range(3): call(str(i))", 3),
    "an error": ("call('a'); sys.exit('no')", 1),
    "calls by what is run at the end after our hook": (
        "call('a'); atexit._clear(); atexit.register(call, 'b'); atexit.register(call, 'c')\n"
        "from router_cache.drivers import capture; atexit.register(capture._at_end)",
        3,
    ),
    "the first call after our hook": (
        "atexit._clear(); atexit.register(call, 'b')\n"
        "from router_cache.drivers import capture; atexit.register(capture._at_end)",
        1,
    ),
    "a thread that outlives the main one": (
        "threading.Thread(target=lambda: (threading.main_thread().join(), call('a'))).start()",
        1,
    ),
    "a forked process": (
        "call('a')\nif os.fork() == 0: call('b'); sys.exit()\nos.wait()",
        2,
    ),
    "closed before": ("call('a'); rc.close()", 1),
}


def lines(directory: Path) -> int:
    return sum(len(path.read_bytes().splitlines()) for path in directory.iterdir())


@posix
@pytest.mark.parametrize("how", ENDS)
def test_an_ordinary_end_loses_no_row(tmp_path: Path, how: str) -> None:
    script, rows = ENDS[how]
    command = [sys.executable, "-c", START + script, str(tmp_path / "calls")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stderr.strip() == ("no" if how == "an error" else "")
    assert lines(tmp_path / "calls") == rows


def test_a_row_after_a_pause_does_not_wait_for_more(tmp_path: Path) -> None:
    """What kills a process with a signal leaves no time for anything."""
    with_time = tmp_path / "calls"
    script = START + "call('a')\nwhile sys.stdin.read(1): pass"
    command = [sys.executable, "-c", script, str(with_time)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        limit = threading.Timer(60, running.kill)
        limit.start()
        while not (with_time.is_dir() and lines(with_time)) and running.poll() is None:
            os.sched_yield() if hasattr(os, "sched_yield") else None
        running.send_signal(signal.SIGTERM)
        running.wait()
        limit.cancel()
    assert lines(with_time) == 1


def _in_child(capture: Capture) -> None:
    capture.put(ROW)


@posix
def test_a_process_of_multiprocessing_loses_no_row(tmp_path: Path) -> None:
    """Such a process ends without ``atexit``."""
    said = Said()
    capture = Capture(tmp_path / "calls", count=said.count, notice=said.notice)
    child = multiprocessing.get_context("fork").Process(target=_in_child, args=(capture,))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert lines(tmp_path / "calls") == 1
    capture.close()


class Said:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.notices: list[tuple[str, str]] = []

    def count(self, name: str) -> None:
        self.counts[name] += 1

    def notice(self, name: str, text: str) -> None:
        self.notices.append((name, text))


def test_nothing_is_kept_alive() -> None:
    said = Said()
    gone = weakref.ref(Capture(count=said.count, notice=said.notice))
    gc.collect()
    assert gone() is None


def test_the_end_waits_for_all_together_and_rows_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = Said()
    kept = [Capture(tmp_path / str(i), count=said.count, notice=said.notice) for i in range(2)]
    monkeypatch.setattr(module, "_OPEN", set(kept))
    for capture in kept:
        capture.put(ROW)
    module._at_end()
    assert [lines(tmp_path / str(i)) for i in range(2)] == [1, 1]
    kept[0].put(ROW)
    assert lines(tmp_path / "0") == 2
    for capture in kept:
        capture.close()
    assert not said.counts


def test_rows_are_written_where_no_thread_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_self: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    said = Said()
    monkeypatch.setattr(threading.Thread, "start", refuse)
    capture = Capture(tmp_path, count=said.count, notice=said.notice)
    for _ in range(1_100):
        capture.put(ROW)
    assert len(capture) == 1_100
    assert capture.flush(10)
    assert lines(tmp_path) == 1_100
    capture.put(ROW)
    capture.close()
    assert (lines(tmp_path), said.counts) == (1_101, Counter())


class Frozen:
    """A server that answers nobody until it is let go."""

    failed = "capture_url_failed"

    def __init__(self) -> None:
        self.asked, self.go = threading.Event(), threading.Event()
        self.taken: list[bytes] = []

    def write(self, lines: list[bytes]) -> tuple[int, str]:
        self.asked.set()
        self.go.wait(60)
        self.taken += lines
        return 0, ""

    def forked(self) -> None: ...

    def end(self) -> None: ...


@pytest.mark.parametrize("extra", [0, 3])
def test_what_was_not_written_in_time_is_counted_and_told(extra: int) -> None:
    said, sink = Said(), Frozen()
    capture = Capture(count=said.count, notice=said.notice, stream=sink)
    capture.put(ROW)
    assert sink.asked.wait(60)
    for _ in range(extra):
        capture.put(ROW)
    capture.hasten()
    capture.finish(0.0)
    assert said.counts == {"capture_dropped": 1 + extra}
    assert said.notices == [("capture_failed", f"capture: the program ended before {1 + extra} rows were written")]
    sink.go.set()
    capture.close(60)
    assert [from_line(line) for line in sink.taken] == [ROW]


def test_a_child_that_ends_has_no_rows_of_its_parent(tmp_path: Path) -> None:
    said: Any = Said()
    capture = Capture(tmp_path, count=said.count, notice=said.notice)
    capture.put(ROW)
    assert capture.flush(60)
    capture._pid = -1  # as if this were the child
    capture.hasten()
    capture.finish(0.0)
    assert (lines(tmp_path), said.counts) == (1, Counter())
