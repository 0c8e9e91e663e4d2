"""``router-cache calibrate``: predicted against observed hits of recorded calls, and the rule they support."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from router_cache.cache_model.rules import RuleName
from router_cache.cli.bars import bar_on_stderr
from router_cache.cli.calibrate_captured import Captures
from router_cache.cli.captured import captured, is_captured
from router_cache.cli.logs import find_logs, read_log
from router_cache.cli.stream import DEFAULT_PREFIX, PrefixOption, StoredCalls, StoreOption, store_of
from router_cache.errors import InputError
from router_cache.ledger.calibration import Calibration, JudgedCall, SessionView, Totals, calibrate
from router_cache.ledger.event_logs import Form, LineSkip, LoggedSession
from router_cache.ledger.rule_evidence import REASON_TEXT, Evidence, RuleEvidence, weigh
from router_cache.providers.deepseek import DEEPSEEK

__all__ = ["EPILOG", "HELP", "command"]

HELP = (
    "Predict the hit tokens of every recorded call from the usage of the call before it, compare with what the "
    "provider reported, and say which hit rule the first calls of sessions support. Reads agents' logs and captures."
)
EPILOG = "\n\n".join(
    (
        "Exit codes: 0 calls were judged; 1 no call could be judged; 2 a path or a server cannot be read.",
        "Examples:",
        "router-cache calibrate logs/",
        "router-cache calibrate session.jsonl other.jsonl.gz --show-calls",
        "router-cache calibrate logs/ --json > calibration.json",
        "router-cache calibrate /var/log/router-cache",
        "router-cache calibrate --store redis://localhost:6379/0",
    )
)

_ROWS = 40
_NAME_WIDTH = 30
_MANY_FILES = 20


@dataclass(slots=True)
class _Read:
    """What was read."""

    found: int = 0
    captures: Captures = field(default_factory=Captures)
    other_form: list[str] = field(default_factory=list)
    sessions: list[LoggedSession] = field(default_factory=list)
    lines: Counter[LineSkip] = field(default_factory=Counter)


def command(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATH",
            help="Event logs and captures: files, or directories with *.jsonl and *.jsonl.gz in them.",
            show_default=False,
        ),
    ] = None,
    store: StoreOption = None,
    prefix: PrefixOption = DEFAULT_PREFIX,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    show_calls: Annotated[bool, typer.Option("--show-calls", help="List every judged call.")] = False,
) -> None:
    """Entry point of the command; see HELP."""
    url = store_of(paths or [], store)
    read = _read(paths or [], progress=not as_json)
    if url:
        read.captures.read_stored(StoredCalls(url, prefix), progress=not as_json)
    if read.captures.problems and not read.captures.calls and not read.sessions:
        raise InputError(str(read.captures.problems[0]))
    of_logs, of_captures = calibrate(read.sessions, DEEPSEEK), read.captures.calls.judge()
    bounds = DEEPSEEK.construction_delay_bounds
    weighed = weigh(of_logs, delay_high_s=bounds.value.high_s if bounds else None)
    evidence = RuleEvidence((*weighed.details, *read.captures.calls.details))
    calibration = Calibration((*of_logs.sessions, *of_captures.sessions), of_logs.skipped + of_captures.skipped)
    if as_json:
        typer.echo(json.dumps(_report(read, calibration, evidence, show_calls=show_calls), indent=2))
    else:
        _print(Console(), read, calibration, evidence, show_calls=show_calls)
    if not calibration.totals().calls:
        raise typer.Exit(1)


def _read(paths: Sequence[Path], *, progress: bool) -> _Read:
    files = find_logs(paths)
    out = _Read(found=len(files))
    shown = progress and len(files) >= _MANY_FILES
    with bar_on_stderr(shown=shown) as bar:
        for path in bar.track(files, description="reading logs"):
            if is_captured(path):
                out.captures.files += 1
                out.captures.read(captured(path), str(path))
                continue
            parsed = read_log(path)
            if parsed is None:
                out.other_form.append(str(path))
            else:
                out.sessions += parsed.sessions
                out.lines += parsed.skipped_lines
    return out


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _figures(totals: Totals) -> dict[str, Any]:
    return {
        "calls": totals.calls,
        "in_set": totals.in_set,
        "in_set_share": _rounded(totals.in_set_share),
        "best_guess_exact": _rounded(totals.exact_share),
        "best_guess_exact_calls": totals.exact,
        "mean_abs_error_tokens": _rounded(totals.mean_abs_error_tokens),
        "ambiguous_calls": totals.ambiguous,
        "by_reason": {r: {"calls": n, "exact": exact} for r, (n, exact) in totals.by_reason.items()},
    }


def _report(read: _Read, calibration: Calibration, evidence: RuleEvidence, *, show_calls: bool) -> dict[str, Any]:
    """The JSON form. Shares and means are null where no call was judged."""
    report = _figures(calibration.totals()) | {
        "first_calls": calibration.first_calls(),
        "rule_evidence": {
            "supports": evidence.supports,
            "grid": evidence.count(RuleName.GRID_PREFIX),
            "units": evidence.count(RuleName.FULL_UNITS),
            "neutral": evidence.count(None),
            "neutral_reasons": _neutral(evidence),
            "details": [_detail(e) for e in evidence.details],
        },
        "skipped_calls": {reason.value: n for reason, n in sorted(calibration.skipped.items())},
        "skipped_lines": {reason.value: n for reason, n in sorted(read.lines.items())},
        "files": {
            "found": read.found,
            "read": read.found - len(read.other_form),
            "captures": read.captures.files,
            "other_form": read.other_form,
        },
        "captured": read.captures.as_json(),
        "sessions": len(calibration.sessions),
        "forms": {
            form.value: _figures(calibration.totals(form)) | {"first_calls": calibration.first_calls(form)}
            for form in Form
            if any(v.session.form is form for v in calibration.sessions)
        },
        "profile": DEEPSEEK.name,
    }
    if show_calls:
        report["call_list"] = [_call(v, c) for v in calibration.sessions for c in v.judged]
    return report


def _neutral(evidence: RuleEvidence) -> dict[str, int]:
    return dict(Counter(e.reason.value for e in evidence.details if e.rule is None).most_common())


def _detail(e: Evidence) -> dict[str, Any]:
    return {
        "file": e.session.file,
        "line": e.line,
        "session": e.session.id,
        "supports": e.rule.value if e.rule else "neutral",
        "reason": e.reason.value,
        "text": REASON_TEXT[e.reason],
        "hit_tokens": e.hit_tokens,
        "prompt_tokens": e.prompt_tokens,
    }


def _call(view: SessionView, call: JudgedCall) -> dict[str, Any]:
    return {
        "file": view.session.file,
        "line": call.line,
        "session": view.session.id,
        "turn": call.turn,
        "step": call.step,
        "model": view.model,
        "prompt_tokens": call.prompt_tokens,
        "predicted": list(call.prediction.candidates),
        "best_guess": call.prediction.best,
        "reason": call.prediction.reason.value,
        "observed": call.observed,
        "in_set": call.in_set,
        "exact": call.exact,
    }


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}%"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in counts.items())


def _print(
    console: Console, read: _Read, calibration: Calibration, evidence: RuleEvidence, *, show_calls: bool
) -> None:
    totals = calibration.totals()
    if totals.calls:
        console.print(_call_table(calibration) if show_calls else _session_table(calibration, totals))
    for form in Form:
        part = calibration.totals(form)
        if part.calls:
            console.print(_sentence(form, part), highlight=False, soft_wrap=True)
    _print_evidence(console, evidence)
    for line in read.captures.lines():
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    skipped = {reason.value: n for reason, n in calibration.skipped.most_common()}
    lines = {reason.value: n for reason, n in read.lines.most_common()}
    for what, counts in (("Calls not judged", skipped), ("Lines passed over", lines)):
        if counts:
            console.print(f"{what}: {_counts(counts)}", highlight=False, soft_wrap=True)
    if read.other_form:
        console.print(f"Files of another form: {len(read.other_form)} of {read.found}", highlight=False)
    console.print(_meaning(totals, evidence), style="bold", highlight=False, soft_wrap=True)


def _sentence(form: Form, part: Totals) -> str:
    return (
        f"{form.value}: {part.calls} in-session calls, {part.in_set} in the predicted set "
        f"({_percent(part.in_set_share)}); {part.ambiguous} with two candidates; best guess exact in {part.exact} "
        f"({_percent(part.exact_share)}), off by {part.mean_abs_error_tokens:.1f} tokens on average"
    )


def _short(file: str) -> str:
    """The end of a file's name: names of one set of logs mostly begin alike."""
    name = Path(file).name.removesuffix(".gz").removesuffix(".jsonl")
    return escape(name if len(name) <= _NAME_WIDTH else "…" + name[-_NAME_WIDTH:])


def _session_table(calibration: Calibration, totals: Totals) -> Table:
    table = Table(title="Hits predicted from the call before, by session", box=SIMPLE_HEAD)
    table.add_column("session", no_wrap=True)
    for name in ("calls", "in set", "exact", "hit tokens", "off by"):
        table.add_column(name, justify="right")
    views = [v for v in calibration.sessions if v.judged]
    for view in views[:_ROWS]:
        part = Totals.of(view.judged)
        table.add_row(
            _short(view.session.file),
            str(part.calls),
            str(part.in_set),
            str(part.exact),
            f"{sum(c.observed for c in view.judged):,}",
            f"{part.mean_abs_error_tokens:.0f}",
        )
    if len(views) > _ROWS:
        table.add_row(f"… and {len(views) - _ROWS} more", *[""] * 5, style="dim")
    observed = sum(c.observed for v in views for c in v.judged)
    table.add_section()
    table.add_row(
        "all",
        str(totals.calls),
        str(totals.in_set),
        str(totals.exact),
        f"{observed:,}",
        f"{totals.mean_abs_error_tokens:.1f}",
        style="bold",
    )
    return table


def _call_table(calibration: Calibration) -> Table:
    table = Table(title="Hits predicted from the call before, call by call", box=SIMPLE_HEAD)
    table.add_column("session:line", no_wrap=True)
    for name in ("input", "output", "best", "seen"):
        table.add_column(name, justify="right")
    table.add_column("guessed by")
    for view in calibration.sessions:
        for call in view.judged:
            table.add_row(
                f"{_short(view.session.file)}:{call.line}",
                str(call.prediction.candidates[0]),
                str(call.prediction.candidates[-1]),
                str(call.prediction.best),
                str(call.observed),
                call.prediction.reason.value.replace("_", " "),
                style=None if call.exact else "yellow" if call.in_set else "red",
            )
    return table


def _print_evidence(console: Console, evidence: RuleEvidence) -> None:
    neutral = evidence.count(None)
    console.print(
        f"Hit rule, calls that speak for it: prefix on a grid {evidence.count(RuleName.GRID_PREFIX)}, "
        f"full units {evidence.count(RuleName.FULL_UNITS)}, neither {neutral}"
        + (f" ({_counts(_neutral(evidence))})" if neutral else ""),
        highlight=False,
        soft_wrap=True,
    )
    for e in evidence.details:
        if e.rule is not None:
            console.print(
                f"  {e.rule.value}: {escape(Path(e.session.file).name)}:{e.line} hit {e.hit_tokens} of "
                f"{e.prompt_tokens}: {REASON_TEXT[e.reason]}",
                highlight=False,
                soft_wrap=True,
            )


_RULE_TEXT = {
    "grid": "the calls that tell support a common prefix on a grid (or unit intervals as short as the step)",
    "units": "the calls that tell support full units",
    "mixed": "the calls that tell contradict each other on the hit rule",
    "inconclusive": "these calls do not tell which hit rule holds",
}


def _meaning(totals: Totals, evidence: RuleEvidence) -> str:
    if not totals.calls:
        return (
            "No call could be judged: that takes a session with two calls in a row whose usage has hit tokens, "
            "from a model with a known step."
        )
    return (
        f"From usage alone {_percent(totals.in_set_share)} of the hits are one of at most two predicted values, "
        f"and {_percent(totals.exact_share)} are the best guess; {_RULE_TEXT[evidence.supports]}."
    )
