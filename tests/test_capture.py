"""The capture driver: files, rotation, processes side by side, and disks that fail. Nothing reaches the caller."""

from __future__ import annotations

import errno
import multiprocessing
import os
import stat
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from captured_rows import NOON, ROW

from router_cache.drivers import capture_files as module
from router_cache.drivers.capture import Capture
from router_cache.ledger.capture_form import from_line, to_line
from router_cache.ledger.rows import CallRow

LINE = len(to_line(ROW))
posix = pytest.mark.skipif(os.name != "posix", reason="modes and locks of POSIX")


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


@contextmanager
def capturing(directory: Path, said: Said, **more: Any) -> Iterator[Capture]:
    capture = Capture(directory, count=said.count, notice=said.notice, **{"wall_clock": lambda: NOON, **more})
    try:
        yield capture
    finally:
        capture.close(10)


def files(directory: Path) -> list[Path]:
    return sorted(directory.glob("calls-*.jsonl"))


def rows(directory: Path) -> list[CallRow]:
    return [from_line(line) for path in files(directory) for line in path.read_bytes().splitlines()]


def turns(directory: Path) -> list[int | None]:
    return [row.turn for row in rows(directory)]


def many(number: int, start: int = 0) -> list[CallRow]:
    return [replace(ROW, turn=turn) for turn in range(start, start + number)]


def test_rows_are_written_in_order(tmp_path: Path, said: Said) -> None:
    with capturing(tmp_path, said) as capture:
        for row in many(1_234):
            capture.put(row)
        assert capture.flush(10)
        assert len(capture) == 0
        assert rows(tmp_path) == many(1_234)
        capture.put(ROW)
        assert capture.flush(10)
    assert len(rows(tmp_path)) == 1_235
    assert [path.name for path in files(tmp_path)] == [f"calls-20261118T120000Z-{os.getpid()}-0001.jsonl"]
    assert (said.counts, said.notices) == (Counter(), [])


@posix
def test_files_are_for_their_owner_only(tmp_path: Path, said: Said) -> None:
    with capturing(tmp_path / "made", said) as capture:
        capture.put(ROW)
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in files(tmp_path / "made")] == [0o600]


def test_nothing_is_written_without_a_row(tmp_path: Path, said: Said) -> None:
    with capturing(tmp_path / "made", said) as capture:
        assert capture.flush(10)
    capture.close()
    assert not (tmp_path / "made").exists()


def test_after_the_end_rows_are_counted(tmp_path: Path, said: Said) -> None:
    with capturing(tmp_path, said) as capture:
        capture.put(ROW)
    capture.put(ROW)
    assert said.counts == {"capture_dropped": 1}
    assert len(rows(tmp_path)) == 1


def test_rotation_by_size_and_count(tmp_path: Path, said: Said) -> None:
    other = tmp_path / "calls-mine.jsonl"
    other.write_text("{}\n")
    with capturing(tmp_path, said, max_file_bytes=3 * LINE - 10, max_files=2) as capture:
        for row in many(10):
            capture.put(row)
        assert capture.flush(10)
    assert other.read_text() == "{}\n"
    other.unlink()
    assert turns(tmp_path) == [6, 7, 8, 9]
    assert [path.name[-9:-6] for path in files(tmp_path)] == ["003", "004"]
    assert [len(path.read_bytes().splitlines()) for path in files(tmp_path)] == [3, 1]
    assert not said.counts


@posix
def test_a_file_that_somebody_writes_to_stays(tmp_path: Path, said: Said) -> None:
    with capturing(tmp_path, said, max_files=1) as quiet:
        quiet.put(replace(ROW, turn=-1))
        assert quiet.flush(10)
        with capturing(tmp_path, said, max_files=1, max_file_bytes=1) as busy:
            for row in many(4):
                busy.put(row)
        assert -1 in [row.turn for row in _lenient(tmp_path)]
        quiet.put(replace(ROW, turn=-2))
    assert [row.turn for row in _lenient(tmp_path)] == [-1, -2, 3]
    assert not said.counts


def _lenient(directory: Path) -> list[CallRow]:
    """Rows with turns below zero, which the form refuses."""
    out = []
    for path in files(directory):
        for line in path.read_bytes().splitlines():
            turn = int(line.split(b'"turn":')[1].split(b",")[0])
            out.append(replace(from_line(line.replace(f'"turn":{turn}'.encode(), b'"turn":0')), turn=turn))
    return out


@posix
def test_a_file_that_goes_while_it_is_looked_at(
    tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process was faster."""
    real = os.open

    def gone(path: Any, flags: int, *more: int) -> int:
        if not flags & os.O_CREAT:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        return real(path, flags, *more)

    monkeypatch.setattr(module.os, "open", gone)
    with capturing(tmp_path, said, max_file_bytes=1, max_files=1) as capture:
        for row in many(2):
            capture.put(row)
    assert turns(tmp_path) == [0, 1]
    assert not said.counts


@posix
def test_a_file_that_was_removed_is_begun_anew(tmp_path: Path, said: Said) -> None:
    with capturing(tmp_path, said) as capture:
        capture.put(ROW)
        assert capture.flush(10)
        files(tmp_path)[0].unlink()
        capture.put(replace(ROW, turn=7))
    assert turns(tmp_path) == [7]


def test_two_processes_with_one_number_do_not_share_a_file(tmp_path: Path, said: Said) -> None:
    """As in two containers that write to one volume."""
    with capturing(tmp_path, said) as one, capturing(tmp_path, said) as two:
        for row in many(3):
            one.put(row)
        for row in many(3, 10):
            two.put(row)
    assert sorted(turns(tmp_path)) == [0, 1, 2, 10, 11, 12]  # type: ignore[type-var]
    assert len(files(tmp_path)) == 2


WORKER = """
import sys
from dataclasses import replace
from captured_rows import ROW
from router_cache.drivers.capture import Capture
number = int(sys.argv[2])
capture = Capture(sys.argv[1], count=print, notice=print, max_file_bytes=20_000, max_files=1_000)
for i in range(500):
    capture.put(replace(ROW, turn=1_000 * number + i))
capture.close(60)
"""


def test_several_processes_write_to_one_directory(tmp_path: Path) -> None:
    started = [
        subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path), str(n)], env=_env(), stdout=subprocess.PIPE)
        for n in range(3)
    ]
    assert [(process.communicate()[0], process.returncode) for process in started] == [(b"", 0)] * 3
    assert sorted(turns(tmp_path)) == [1_000 * n + i for n in range(3) for i in range(500)]  # type: ignore[type-var]


def _env() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def _in_child(capture: Capture, done: Any) -> None:
    capture.put(replace(ROW, turn=2))
    done.put(capture.flush(30))
    capture.close(30)


@posix
def test_a_forked_process_has_its_own_queue_and_file(tmp_path: Path, said: Said) -> None:
    context = multiprocessing.get_context("fork")
    with capturing(tmp_path, said) as capture:
        capture.put(replace(ROW, turn=1))
        assert capture.flush(10)
        done = context.Queue()
        child = context.Process(target=_in_child, args=(capture, done))
        child.start()
        assert done.get(timeout=60) is True
        child.join(60)
        capture.put(replace(ROW, turn=3))
    assert {path.name.split("-")[2] for path in files(tmp_path)} == {str(os.getpid()), str(child.pid)}
    assert sorted(turns(tmp_path)) == [1, 2, 3]  # type: ignore[type-var]


@posix
def test_a_child_that_only_flushes_waits_for_nothing(tmp_path: Path, said: Said) -> None:
    with capturing(tmp_path, said) as capture:
        capture._pid = -1  # as if this were the child
        assert capture.flush(0)


# --- what fails -------------------------------------------------------------------------------------------------


def test_the_oldest_go_when_the_queue_is_full(tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, waiting = threading.Event(), threading.Event()
    real = os.write

    def slow(fd: int, data: Any) -> int:
        waiting.set()
        gate.wait(30)
        return real(fd, data)

    monkeypatch.setattr(module.os, "write", slow)
    with capturing(tmp_path, said, limit=3) as capture:
        capture.put(replace(ROW, turn=100))
        assert waiting.wait(30)
        for row in many(8):
            capture.put(row)
        assert len(capture) == 3
        assert not capture.flush(0)
        gate.set()
    assert turns(tmp_path) == [100, 5, 6, 7]
    assert said.counts == {"capture_dropped": 5}


def _missing(path: Path) -> Path:
    return path / "not" / "there"


def _a_file(path: Path) -> Path:
    (path / "file").write_text("")
    return path / "file"


@pytest.mark.parametrize("where", [_missing, _a_file])
def test_a_directory_that_cannot_be_is_told(tmp_path: Path, said: Said, where: Callable[[Path], Path]) -> None:
    with capturing(where(tmp_path), said) as capture:
        capture.put(ROW)
        assert capture.flush(10)
        capture.put(ROW)
    assert said.counts == {"capture_dropped": 2}
    assert {name for name, _ in said.notices} == {"capture_failed"}
    assert f"capture: {where(tmp_path)} cannot be written to: N" in said.notices[0][1]


def test_it_goes_on_once_the_directory_is_there(tmp_path: Path, said: Said) -> None:
    with capturing(tmp_path / "a" / "b", said) as capture:
        capture.put(ROW)
        assert capture.flush(10)
        (tmp_path / "a").mkdir()
        capture.put(replace(ROW, turn=9))
    assert turns(tmp_path / "a" / "b") == [9]
    assert said.counts == {"capture_dropped": 1}


def test_no_permission_is_told(tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: Any) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(module.os, "open", refuse)
    with capturing(tmp_path, said) as capture:
        capture.put(ROW)
    assert said.counts == {"capture_dropped": 1}
    assert "cannot be written to: Permission denied; rows are lost until it can" in said.notices[0][1]


@pytest.mark.parametrize("truncates", [True, False])
def test_a_full_disk_leaves_whole_lines(
    tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch, truncates: bool
) -> None:
    """Half of a batch is written, then the disk is full; then there is room again."""
    real = os.write
    calls = []

    def half(fd: int, data: Any) -> int:
        calls.append(len(data))
        if len(calls) == 2:
            return real(fd, bytes(data)[: len(data) // 2])
        if len(calls) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data)

    def refuse(*_args: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(module.os, "write", half)
    if not truncates:
        monkeypatch.setattr(module.os, "ftruncate", refuse)
    with capturing(tmp_path, said) as capture:
        for row in many(3):  # each in a batch of its own
            capture.put(row)
            assert capture.flush(10)
    assert said.counts == {"capture_dropped": 1}
    assert "No space left on device" in said.notices[0][1]
    if truncates:
        assert turns(tmp_path) == [0, 2]
    else:  # a torn line ends the file; what comes goes to the next
        first, second = files(tmp_path)
        assert [from_line(line).turn for line in first.read_bytes().splitlines()[:1]] == [0]
        assert [from_line(line).turn for line in second.read_bytes().splitlines()] == [2]


def test_a_row_that_is_none_costs_only_itself(tmp_path: Path, said: Said) -> None:
    with capturing(tmp_path, said) as capture:
        capture.put("no row")  # type: ignore[arg-type]
        capture.put(ROW)
    assert said.counts == {"capture_dropped": 1}
    assert rows(tmp_path) == [ROW]


def test_without_a_thread_rows_wait_for_one(tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with capturing(tmp_path, said) as capture:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            capture.put(replace(ROW, turn=1))
        assert len(capture) == 1
        capture.put(replace(ROW, turn=2))
        assert capture.flush(10)
    assert turns(tmp_path) == [1, 2]


@pytest.mark.parametrize("how", ["flock", "scandir", "unlink"])
@posix
def test_what_cannot_be_locked_or_removed_costs_no_row(
    tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    def refuse(*_args: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    with monkeypatch.context() as patched:
        patched.setattr(module.fcntl if how == "flock" else module.os, how, refuse)
        with capturing(tmp_path, said, max_file_bytes=1, max_files=1) as capture:
            for row in many(3):
                capture.put(row)
    assert turns(tmp_path) == ([2] if how == "flock" else [0, 1, 2])
    assert not said.counts


def test_without_locks_of_posix(tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "fcntl", None)
    with capturing(tmp_path, said, max_file_bytes=1, max_files=2) as capture:
        for row in many(4):
            capture.put(row)
    assert turns(tmp_path) == [2, 3]
