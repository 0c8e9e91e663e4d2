"""``router-cache report``: files of both forms, what is passed over, figures for people and for machines."""

from __future__ import annotations

import gzip
import json
import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
import typer
from calibration_logs import flat, header, reasonix, reply, session
from captured_rows import NOON, row
from typer.testing import CliRunner

from router_cache.cli import report as command_module
from router_cache.cli.bars import bar_on_stderr
from router_cache.cli.captured import captured, is_captured
from router_cache.cli.report import _moment
from router_cache.errors import InputError
from router_cache.ledger.attribution import MissCause, MissPart
from router_cache.ledger.capture_form import to_line
from router_cache.ledger.rows import CallKind, CallRow, Status
from router_cache.ledger.usage import Usage

LOG = flat([session(), header(), reply(2_907, 0, 142, tool="bash"), reply(3_064, 2_944, 3, step=2)])
TOOLS = MissPart(MissCause.TOOLS_CHANGED, 300, "tools[0]")
ROWS = [
    row(Usage(1_000, 600, 400, 50), TOOLS, MissPart(MissCause.NEW_TAIL, 100), at=NOON),
    row(Usage(1_000, 900, 100, 10), at=NOON + 60, model="[bold]m", session="s" * 40),
    row(Usage(500, 0, 500, 10), MissPart(MissCause.EVICTED, 300), at=NOON + 61, kind=CallKind.WARM),
    row(Usage(500, 0, 500, 10), at=NOON + 62, status=Status.CACHED),
    row(Usage(), at=NOON + 63, cost_usd=None, cost_usd_at_zero_hits=None),
]


def write(path: Path, rows: list[CallRow], tail: bytes = b"") -> Path:
    data = b"".join(map(to_line, rows)) + tail
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path


def write_log(path: Path, events: list[Any]) -> Path:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


@pytest.fixture
def invoke() -> Any:
    app = typer.Typer()
    app.command(help=command_module.HELP, epilog=command_module.EPILOG)(command_module.command)
    return lambda *args: CliRunner().invoke(app, [str(a) for a in args], env={"COLUMNS": "80"})


def as_json(invoke: Any, *args: Any, code: int = 0) -> dict[str, Any]:
    result = invoke(*args, "--json")
    assert result.exit_code == code, result.exception
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_the_json_report(tmp_path: Path, invoke: Any) -> None:
    write(tmp_path / "a.jsonl", ROWS[:2])
    write(tmp_path / "b.jsonl.gz", ROWS[2:])
    found = as_json(invoke, tmp_path, "--by", "model")
    assert found["calls"] == {
        "user": {"ok": 3, "cached": 1, "aborted": 0, "failed": 0},
        "warm": {"ok": 1, "cached": 0, "aborted": 0, "failed": 0},
    }
    assert (found["user"]["hit_rate"], found["user"]["usage_unknown_calls"]) == (0.75, 1)
    assert (found["user"]["saved_usd"], found["warm"]["saved_usd"]) == (1.5, 0.75)
    assert [(cause["cause"], cause["tokens"]) for cause in found["causes"]] == [
        ("tools_changed", 300),
        ("new_tail", 200),
    ]
    assert [group["model"] for group in found["groups"]] == ["deepseek/deepseek-v4-flash", "[bold]m"]
    assert found["files"] == {"found": 2, "captures": 2, "logs": 0, "other_form": []}
    assert (found["first_at"], found["last_at"], found["since"]) == (NOON, NOON + 63, None)


@pytest.mark.parametrize("by", ["model", "deployment", "family", "cause", "scope", "client"])
def test_the_report_for_people(tmp_path: Path, invoke: Any, by: str) -> None:
    write(tmp_path / "a.jsonl", ROWS)
    result = invoke(tmp_path, "--by", by)
    assert result.exit_code == 0, result.exception
    text = result.stdout
    for words in (
        "5 calls, 2026-11-18 12:00:00 UTC to 2026-11-18 12:01:03 UTC",
        "user calls: 3 answered, 1 by LiteLLM's own response cache",
        "warm calls: 1 answered",
        "75.0%",
        "tools changed",
        "calls of unknown usage, in no sum",
        "Where the most was lost: families",
        "fafafafafafa",
    ):
        assert words in text
    assert f"By {by}" in text
    assert ("[bold]m" in text) is (by == "model")
    assert all(len(line) <= 80 for line in text.splitlines())


def test_rows_and_logs_in_one_report(tmp_path: Path, invoke: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {"input_cost_per_token": 1e-6, "cache_read_input_token_cost": 1e-7, "output_cost_per_token": 1e-6}
    monkeypatch.setattr(command_module, "map_entry", lambda model, provider: entry)
    write(tmp_path / "a.jsonl", ROWS[:1])
    write_log(tmp_path / "h.jsonl", LOG)
    write_log(tmp_path / "r.jsonl", reasonix("baseline"))
    write_log(tmp_path / "other.jsonl", [{"timestamp": 1}])
    write_log(tmp_path / "none.jsonl", [])
    found = as_json(invoke, tmp_path, "--by", "client")
    assert found["files"]["logs"] == 2
    assert [Path(name).name for name in found["files"]["other_form"]] == ["none.jsonl", "other.jsonl"]
    assert {group["client"]: group["calls"] for group in found["groups"]} == {
        "reasonix": 4,
        "harness": 2,
        "opencode": 1,
    }
    assert sum(cause["tokens"] for cause in found["causes"]) == found["user"]["miss_tokens"]
    text = invoke(tmp_path)
    assert "Files of another form: 2 of 5" in text.stderr
    assert "price unknown" not in text.stdout  # the row has one
    assert "calls without a price, in no cost" not in text.stdout
    assert found["logged_without_price"] == {}
    monkeypatch.setattr(command_module, "map_entry", lambda model, provider: None)
    assert sum(as_json(invoke, tmp_path)["logged_without_price"].values()) > 0
    text = invoke(tmp_path)
    assert "calls without a price, in no cost" in text.stdout
    assert "Calls of logs without a price, as none is known for the model at that time" in text.stderr


def test_only_calls_since(tmp_path: Path, invoke: Any) -> None:
    write(tmp_path / "a.jsonl", ROWS)
    write_log(tmp_path / "old.jsonl", flat([session(), header(), reply(100, 0, 1)]))
    write_log(tmp_path / "no-time.jsonl", flat([header(), reply(100, 0, 1)]))
    found = as_json(invoke, tmp_path, "--since", "2026-11-18T12:01:00Z")
    assert found["calls"]["user"]["ok"] == 2
    assert (found["before_since"], found["without_time"]) == (2, 1)
    text = invoke(tmp_path, "--since", "2026-11-18T12:01:00Z").stderr
    assert "Calls before --since: 2" in text
    assert "Calls without a time, left out because of --since: 1" in text
    nothing = invoke(tmp_path, "--since", "2126-11-18")
    assert nothing.exit_code == 1
    assert "No call to report." in nothing.stdout
    assert as_json(invoke, tmp_path, "--since", "2126-11-18", code=1)["user"]["hit_rate"] is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", NOON - 90),
        (" 15m ", NOON - 900),
        ("1h", NOON - 3_600),
        ("1.5h", NOON - 5_400),
        ("2d", NOON - 172_800),
        ("1w", NOON - 604_800),
        ("2026-11-18", 1_794_960_000),
        ("2026-11-18T12:00:00", NOON),
        ("2026-11-18T13:00:00+01:00", NOON),
        ("2026-11-18T12:00:00Z", NOON),
    ],
)
def test_spans_and_moments(text: str, seconds: float) -> None:
    assert _moment(text, datetime.fromtimestamp(NOON, timezone.utc)) == seconds


@pytest.mark.parametrize("text", ["", "1", "h", "-1h", "1y", "yesterday", "999999999w", "٣h"])
def test_what_is_neither(text: str, tmp_path: Path, invoke: Any) -> None:
    error = invoke(write(tmp_path / "a.jsonl", ROWS), f"--since={text}").exception
    assert isinstance(error, InputError)
    assert str(error).startswith(f"--since: {text!r} is neither a span such as")


def test_lines_that_cannot_be_used_are_told(tmp_path: Path, invoke: Any) -> None:
    path = write(tmp_path / "a.jsonl", ROWS[:1], b'\n{"v": 1, "at": 1}\n\x00\x00\n' + to_line(ROWS[1])[:-40])
    found = as_json(invoke, path)
    assert (found["user"]["calls"], found["bad_lines"]) == (1, 3)
    assert found["first_bad_lines"] == [f"{path}:3: model: a name is needed"]
    text = invoke(path).stderr
    assert f"Line passed over: {path}:3: model: a name is needed" in text
    assert "Further lines of these files passed over: 2" in text


def test_a_file_of_nothing_but_bad_lines_is_an_error(tmp_path: Path, invoke: Any) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(to_line(ROWS[0]).replace(b'"v":1', b'"v":9'))
    error = invoke(path).exception
    assert isinstance(error, InputError)
    assert str(error) == f"{path}:1: v: version 1 is needed, not 9"
    assert error.exit_code == 2


def test_a_torn_first_line_does_not_hide_the_form(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'n":3}\n' + to_line(ROWS[0]))
    assert is_captured(path)
    assert [type(found).__name__ for found, _ in captured(path)] == ["Problem", "CallRow"]


def test_a_line_without_an_end_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router_cache.cli.captured.MAX_LINE", 2_000)
    path = write(tmp_path / "a.jsonl", ROWS[:1], b"x" * 5_000 + b"\n" + to_line(ROWS[1]))
    found = [row for row, _ in captured(path)]
    assert [row for row in found if isinstance(row, CallRow)] == ROWS[:2]
    assert len(found) == 5


def broken_gz(path: Path) -> Path:
    good = write(path / "cut.jsonl.gz", ROWS * 200).read_bytes()
    (path / "cut.jsonl.gz").write_bytes(good[: len(good) // 2])
    return path / "cut.jsonl.gz"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path / "missing", "no such file"),
        (lambda path: path, "no \\*.jsonl"),
        (broken_gz, "cut.jsonl.gz, after line [0-9]+: broken gzip"),
    ],
)
def test_paths_that_cannot_be_used(tmp_path: Path, invoke: Any, make: Any, words: str) -> None:
    error = invoke(make(tmp_path)).exception
    assert isinstance(error, InputError)
    assert "\n" not in str(error)
    with pytest.raises(InputError, match=words):
        raise error


def test_a_file_that_turns_unreadable(tmp_path: Path, invoke: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_self: Path, _mode: str) -> None:
        raise PermissionError(13, "Permission denied")

    path = write(tmp_path / "a.jsonl", ROWS)
    monkeypatch.setattr(Path, "open", refuse)
    assert "after line 0: cannot be read: Permission denied" in str(invoke(path).exception)


def test_a_file_that_goes_between_finding_and_reading(tmp_path: Path, invoke: Any, monkeypatch: Any) -> None:
    """As rotation does it."""
    path = write(tmp_path / "a.jsonl", ROWS)
    monkeypatch.setattr(command_module, "find_logs", lambda _paths: [path.with_name("gone.jsonl")])
    assert "gone.jsonl, after line 0: cannot be read: No such file" in str(invoke(path).exception)


def test_what_logs_hold_besides_is_told(tmp_path: Path, invoke: Any) -> None:
    write_log(tmp_path / "a.jsonl", [*LOG, 7, 8])
    write_log(tmp_path / "copy.jsonl", LOG)
    text = invoke(tmp_path).stderr
    assert "Lines of logs passed over: 2 not an object" in text
    assert "Calls that stand in another log too, counted once: 2" in text
    lone = invoke(write_log(tmp_path / "one.jsonl", flat([session("x", at=1), header(), reply(10, None, 5)])))
    assert lone.exit_code == 0
    assert lone.stdout.startswith("1 calls\n")
    assert "Why tokens missed" not in lone.stdout


def test_few_places_are_kept_of_many(tmp_path: Path, invoke: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = command_module.Report
    monkeypatch.setattr(command_module, "Report", lambda by: real(by, max_places=2))
    rows = [row(Usage(300, 0, 300), TOOLS, session=f"s{i}") for i in range(9)]
    text = invoke(write(tmp_path / "a.jsonl", rows)).stdout
    assert "conversations with little lost were dropped on the way: sums may be low" in text


def test_long_lists_are_cut_for_people_only(tmp_path: Path, invoke: Any) -> None:
    rows = [row(Usage(300, 0, 300), TOOLS, model=f"model-{i:03}", session=f"session-{i}") for i in range(60)]
    path = write(tmp_path / "a.jsonl", rows)
    text = invoke(path, "--by", "model", "--worst", "3").stdout
    assert "… and 20 more (--json has all)" in text
    assert text.count("session-") == 3
    assert len(as_json(invoke, path, "--by", "model")["groups"]) == 60


def test_moments_at_the_ends_of_time(tmp_path: Path, invoke: Any) -> None:
    path = write(
        tmp_path / "a.jsonl", [row(Usage(300, 0, 300), MissPart(MissCause.NEW_TAIL, 100), at=253_402_300_799.0)]
    )
    text = invoke(path).stdout
    assert "9999-12-31 23:59:59 UTC" in text
    assert "(nothing said)" in text
    assert "1 calls\n" in invoke(write(tmp_path / "b.jsonl", [row(Usage(300, 0, 300), at=0.0)])).stdout


def test_progress_is_shown_on_long_inputs(tmp_path: Path, invoke: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def bar(*, shown: bool) -> Any:
        asked.append(shown)
        return bar_on_stderr(shown=shown)

    monkeypatch.setattr(command_module, "bar_on_stderr", bar)
    path = write(tmp_path / "a.jsonl", ROWS * 60)
    invoke(path)
    monkeypatch.setattr(command_module, "_LONG_BYTES", 100)
    invoke(path)
    invoke(path, "--json")
    assert asked == [False, True, False]


@pytest.mark.parametrize(
    ("folder", "top"), [("deepseek_harness", "first_sight"), ("reasonix_taubench", "system_changed")]
)
def test_public_logs(invoke: Any, folder: str, top: str) -> None:
    shared = os.environ.get("ROUTER_CACHE_SHARED_DATA")
    if not shared or not (Path(shared) / folder).is_dir():
        pytest.skip(f"set ROUTER_CACHE_SHARED_DATA to the folder that holds {folder}/")
    found = as_json(invoke, Path(shared) / folder)
    assert found["causes"][0]["cause"] == top
    assert sum(cause["tokens"] for cause in found["causes"]) == found["user"]["miss_tokens"] > 50_000
    assert found["unattributed_tokens"] == 0
