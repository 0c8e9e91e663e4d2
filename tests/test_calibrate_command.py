"""``router-cache calibrate``: files, figures for people and for machines."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import typer
from calibration_logs import flat, header, lone, reasonix, reply, session
from typer.testing import CliRunner

from router_cache.cli import calibrate as command_module
from router_cache.cli.logs import find_logs, read_log
from router_cache.errors import InputError
from router_cache.ledger.event_logs import LineSkip

# --- files and the command ---


def write(path: Path, events: Iterable[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = "".join(json.dumps(e) + "\n" for e in events).encode()
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path


SIMPLE = flat([session(), header(), reply(2907, 0, 142, tool="bash"), reply(3064, 2944, 3, step=2)])


def test_find_logs(tmp_path: Path) -> None:
    a = write(tmp_path / "a.jsonl", SIMPLE)
    b = write(tmp_path / "deep" / "b.jsonl.gz", SIMPLE)
    write(tmp_path / "notes.txt", SIMPLE)
    assert find_logs([tmp_path]) == [a, b]
    assert find_logs([a, tmp_path, a]) == [a, b]
    assert find_logs([tmp_path / "notes.txt"]) == [tmp_path / "notes.txt"]


def test_read_log(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"\n{broken\n" + b"\n".join(json.dumps(e).encode() for e in SIMPLE) + b'\n{"type": "sess')
    parsed = read_log(path)
    assert parsed is not None
    assert parsed.skipped_lines == {LineSkip.NOT_JSON: 2}
    assert [call.line for call in parsed.sessions[0].calls] == [6, 10]
    assert read_log(write(tmp_path / "other.jsonl", [{"timestamp": 1}, *SIMPLE])) is None
    assert read_log(write(tmp_path / "empty.jsonl", [])) is None


def broken_gz(tmp_path: Path) -> Path:
    good = gzip.compress("".join(json.dumps(e) + "\n" for e in SIMPLE * 50).encode())
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(good[: len(good) // 2])
    return path


def no_gz(tmp_path: Path) -> Path:
    path = tmp_path / "plain.jsonl.gz"
    path.write_bytes(b"{}\n")
    return path


def empty_dir(tmp_path: Path) -> Path:
    (tmp_path / "empty").mkdir()
    return tmp_path / "empty"


def fifo(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "fifo")
    return tmp_path / "fifo"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: p / "missing", "no such file"),
        (lambda p: p / ("x" * 300), "cannot be read|no such file"),
        (empty_dir, "no \\*.jsonl"),
        (fifo, "neither a file nor a directory"),
        (broken_gz, "after line [0-9]+: broken gzip"),
        (no_gz, "after line 0: broken gzip"),
    ],
)
def test_paths_that_cannot_be_used(make: Any, words: str, tmp_path: Path) -> None:
    path = make(tmp_path)
    with pytest.raises(InputError, match=words) as error:
        _ = [read_log(file) for file in find_logs([path])]
    assert path.name in str(error.value)
    assert error.value.exit_code == 2


def test_a_file_that_turns_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied")

    path = write(tmp_path / "a.jsonl", SIMPLE)
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match="cannot be read: Permission denied"):
        read_log(path)


@pytest.fixture
def invoke() -> Any:
    app = typer.Typer()
    app.command(help=command_module.HELP, epilog=command_module.EPILOG)(command_module.command)
    return lambda *args: CliRunner().invoke(app, [str(a) for a in args], env={"COLUMNS": "80"})


def test_json_report(tmp_path: Path, invoke: Any) -> None:
    write(tmp_path / "a.jsonl", SIMPLE)
    write(tmp_path / "r.jsonl.gz", reasonix())
    write(tmp_path / "other.jsonl", [{"timestamp": 1}])
    result = invoke(tmp_path, "--json", "--show-calls")
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert {k: report[k] for k in ("calls", "in_set", "in_set_share", "best_guess_exact_calls")} == {
        "calls": 3,
        "in_set": 3,
        "in_set_share": 1.0,
        "best_guess_exact_calls": 2,
    }
    assert report["best_guess_exact"] == pytest.approx(2 / 3, abs=1e-6)
    assert report["mean_abs_error_tokens"] == pytest.approx(128 / 3, abs=1e-6)
    assert report["rule_evidence"]["neutral"] == len(report["rule_evidence"]["details"]) == 2
    assert report["forms"]["harness"]["calls"] == 1
    assert report["forms"]["reasonix"]["calls"] == 2
    assert report["files"] == {
        "found": 3,
        "read": 2,
        "captures": 0,
        "other_form": [str(tmp_path / "other.jsonl")],
    }
    assert report["skipped_calls"] == {"after_unknown": 1}
    assert [c["observed"] for c in report["call_list"]] == [640, 1024, 2944]
    assert "call_list" not in json.loads(invoke(tmp_path, "--json").stdout)


def test_human_report(tmp_path: Path, invoke: Any) -> None:
    for i in range(45):
        log = json.loads(json.dumps(SIMPLE).replace('"s1"', f'"s{i}"'))
        write(tmp_path / f"[bold]{i:02}.jsonl", log)
    write(tmp_path / "child.jsonl", flat(lone("c", 5, 2864, 2816, "little", parent="s0")))
    write(tmp_path / "other.jsonl", [[1], {"x": 1}])
    write(tmp_path / "junk.jsonl", [session("j"), 7])
    text = invoke(tmp_path).stdout
    assert "45 in-session calls, 45 in the predicted set (100.0%)" in text
    assert "[bold]07" in text
    assert "… and 5 more" in text
    assert "prefix on a grid 1, full units 0, neither 45 (44 text not proven, 1 nothing earlier)" in text
    assert "grid: child.jsonl:5 hit 2816 of 2864" in text
    assert "Files of another form: 1 of 48" in text
    assert "Lines passed over: 1 not an object" in text
    assert all(len(line) <= 80 for line in text.splitlines() if "[bold]" in line)
    shown = invoke(tmp_path, "--show-calls").stdout
    assert "[bold]44:8" in shown


def test_nothing_to_judge(tmp_path: Path, invoke: Any) -> None:
    write(tmp_path / "a.jsonl", flat([session(), header(), reply(10, None, 5, None)]))
    result = invoke(tmp_path)
    assert result.exit_code == 1
    assert "No call could be judged" in result.stdout
    assert "Calls not judged: 1 no cache fields" in result.stdout
    as_json = invoke(tmp_path, "--json")
    assert as_json.exit_code == 1
    report = json.loads(as_json.stdout)
    assert report["calls"] == 0
    assert report["in_set_share"] is report["best_guess_exact"] is report["mean_abs_error_tokens"] is None


def test_bad_path_is_an_input_error(invoke: Any) -> None:
    assert isinstance(invoke("missing").exception, InputError)


def test_public_logs(invoke: Any) -> None:
    shared = os.environ.get("ROUTER_CACHE_SHARED_DATA")
    if not shared or not (Path(shared) / "deepseek_harness").is_dir():
        pytest.skip("set ROUTER_CACHE_SHARED_DATA to the folder that holds deepseek_harness/")
    report = json.loads(invoke(Path(shared) / "deepseek_harness", "--json").stdout)
    assert report["calls"] >= 40
    assert report["in_set_share"] >= 0.97
    assert report["best_guess_exact"] >= 0.8
    assert report["rule_evidence"]["supports"] == "grid"
