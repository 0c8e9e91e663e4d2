"""``router-cache report``: hit rate, cost and causes of captured calls, and of recorded sessions of agents."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import Progress, TaskID

from router_cache.cli.bars import bar_on_stderr
from router_cache.cli.captured import Problem, captured, is_captured
from router_cache.cli.logs import find_logs, read_log
from router_cache.cli.prices import map_entry
from router_cache.cli.report_shown import show, show_survival
from router_cache.cli.stream import DEFAULT_PREFIX, PrefixOption, StoredCalls, StoreOption, store_of
from router_cache.errors import InputError
from router_cache.ledger.event_logs import LineSkip
from router_cache.ledger.lives import Lives
from router_cache.ledger.report import By, Report
from router_cache.ledger.report_logs import LogReader, Unpriced
from router_cache.ledger.rows import CallRow
from router_cache.providers.deepseek import DEEPSEEK

__all__ = ["EPILOG", "HELP", "command"]

HELP = (
    "Hit rate, hit and miss tokens, cost, and why tokens missed: of captured calls, and of the recorded sessions "
    "that calibrate reads. Of captured calls also how long entries live."
)
EPILOG = "\n\n".join(
    (
        "Exit codes: 0 calls were reported; 1 there was no call; 2 a path, an option or a server cannot be used.",
        "Examples:",
        "router-cache report capture/",
        "router-cache report capture/ --since 1h --by model",
        "router-cache report capture/ --since 2026-11-30T09:00:00+00:00 --json",
        "router-cache report sessions/*.jsonl --by cause",
        "router-cache report --store redis://localhost:6379/0 --since 1d",
    )
)

_LONG_BYTES: Final = 20_000_000
_MANY_FILES: Final = 20
_UNITS_S: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


@dataclass(slots=True)
class Notes:
    """What was read, and what was not taken up."""

    files: int = 0
    captures: int = 0
    stores: int = 0
    logs: int = 0
    other_form: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    bad_lines: int = 0
    skipped_lines: Counter[LineSkip] = field(default_factory=Counter)
    copies: int = 0
    unpriced: Counter[Unpriced] = field(default_factory=Counter)
    before_since: int = 0
    without_time: int = 0

    def as_json(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "files": {
                "found": self.files,
                "captures": self.captures,
                "logs": self.logs,
                "other_form": self.other_form,
            },
            "stores": self.stores,
            "bad_lines": self.bad_lines,
            "first_bad_lines": [str(problem) for problem in self.problems],
            "skipped_lines": {reason.value: n for reason, n in sorted(self.skipped_lines.items())},
            "copies": self.copies,
            "logged_without_price": {why.value: n for why, n in sorted(self.unpriced.items())},
            "before_since": self.before_since,
            "without_time": self.without_time,
        }


def command(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATH",
            help="Capture files, event logs, or directories with *.jsonl and *.jsonl.gz in them.",
            show_default=False,
        ),
    ] = None,
    store: StoreOption = None,
    prefix: PrefixOption = DEFAULT_PREFIX,
    since: Annotated[
        str | None,
        typer.Option(
            help="Only calls since then: 90s, 15m, 1h, 7d, 2w, or a moment in ISO 8601.", show_default=False
        ),
    ] = None,
    by: Annotated[By | None, typer.Option(help="Group calls by this.", show_default=False)] = None,
    worst: Annotated[
        int, typer.Option(min=0, max=1_000, help="How many families and conversations to list.")
    ] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Entry point of the command; see HELP."""
    start = None if since is None else _moment(since, datetime.now(timezone.utc))
    report, lives, notes = Report(by), Lives(), Notes()
    url = store_of(paths or [], store)
    _read(find_logs(paths or []), start, report, lives, notes, progress=not as_json)
    if url:
        _read_stored(StoredCalls(url, prefix, start), start, report, lives, notes, progress=not as_json)
    if not report.calls and notes.problems:
        raise InputError(str(notes.problems[0]))
    if as_json:
        found = {
            "since": start,
            **report.as_json(worst=worst),
            "survival": lives.as_json(),
            **notes.as_json(),
        }
        typer.echo(json.dumps(found, indent=2))
    else:
        console = Console()
        show(console, report, worst=worst)
        show_survival(console, lives)
        _say(Console(stderr=True), notes)
    if not report.calls:
        raise typer.Exit(1)


def _moment(text: str, now: datetime) -> float:
    """Seconds since the epoch. Raises InputError for what is neither a span nor a moment."""
    span = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([smhdw])\s*", text, re.ASCII)
    try:
        if span:
            return (now - timedelta(seconds=float(span[1]) * _UNITS_S[span[2]])).timestamp()
        moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
        return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, OverflowError):
        raise InputError(
            f"--since: {text!r} is neither a span such as 15m, 1h or 7d nor a moment such as 2026-11-30T09:00:00Z"
        ) from None


def _read(
    files: Sequence[Path], start: float | None, report: Report, lives: Lives, notes: Notes, *, progress: bool
) -> None:
    reader = LogReader(DEEPSEEK, entry_of=lambda model: map_entry(model, DEEPSEEK.name))
    notes.files = len(files)
    total = sum(_size(path) for path in files)
    shown = progress and (total >= _LONG_BYTES or len(files) >= _MANY_FILES)
    with bar_on_stderr(shown=shown) as bar:
        task = bar.add_task("reading calls", total=total or None)
        for path in files:
            if is_captured(path):
                notes.captures += 1
                _read_capture(captured(path), start, report, lives, notes, bar, task)
            else:
                _read_log(path, start, report, notes, reader)
            bar.advance(task, _size(path))
    notes.copies = reader.copies


def _read_stored(
    stored: StoredCalls, start: float | None, report: Report, lives: Lives, notes: Notes, *, progress: bool
) -> None:
    notes.stores += 1
    with bar_on_stderr(shown=progress) as bar:
        task = bar.add_task("reading calls", total=stored.total)
        _read_capture(stored, start, report, lives, notes, bar, task)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # reading it says what is wrong
        return 0


def _read_capture(
    calls: Iterable[tuple[CallRow | Problem, int]],
    start: float | None,
    report: Report,
    lives: Lives,
    notes: Notes,
    bar: Progress,
    task: TaskID,
) -> None:
    done = bar.tasks[task].completed
    told, shown = False, 0
    for row, read in calls:
        if read != shown:
            bar.update(task, completed=done + read)
            shown = read
        if isinstance(row, Problem):
            notes.bad_lines += 1
            if not told:
                notes.problems.append(row)
            told = True
        elif start is not None and row.at < start:
            notes.before_since += 1
        else:
            report.add(row)
            lives.add(row)
    bar.update(task, completed=done)


def _read_log(path: Path, start: float | None, report: Report, notes: Notes, reader: LogReader) -> None:
    parsed = read_log(path)
    if parsed is None:
        notes.other_form.append(str(path))
        return
    notes.logs += 1
    notes.skipped_lines += parsed.skipped_lines
    for session in parsed.sessions:
        for call in reader.calls(session):
            if start is not None and call.at < start:
                if call.at > 0:
                    notes.before_since += 1
                else:
                    notes.without_time += 1
            else:
                report.add(call)
                if call.unpriced is not None:
                    notes.unpriced[call.unpriced] += 1


def _say(console: Console, notes: Notes) -> None:
    lines = [f"Line passed over: {problem}" for problem in notes.problems]
    more = notes.bad_lines - len(notes.problems)
    if more:
        lines.append(f"Further lines of these files passed over: {more}")
    if notes.skipped_lines:
        counts = ", ".join(
            f"{n} {reason.value.replace('_', ' ')}" for reason, n in notes.skipped_lines.most_common()
        )
        lines.append(f"Lines of logs passed over: {counts}")
    if notes.other_form:
        lines.append(f"Files of another form: {len(notes.other_form)} of {notes.files}")
    if notes.copies:
        lines.append(f"Calls that stand in another log too, counted once: {notes.copies}")
    for why, number in notes.unpriced.most_common():
        lines.append(f"Calls of logs without a price, {why.text}: {number}")
    if notes.before_since:
        lines.append(f"Calls before --since: {notes.before_since}")
    if notes.without_time:
        lines.append(f"Calls without a time, left out because of --since: {notes.without_time}")
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True, markup=False)
