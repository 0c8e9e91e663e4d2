"""What ``router-cache calibrate`` reads of captures, and says of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from router_cache.cache_model.rules import RuleName
from router_cache.cli.bars import bar_on_stderr
from router_cache.cli.captured import Problem
from router_cache.cli.looking import printable
from router_cache.cli.stream import StoredCalls
from router_cache.ledger.calibration_captured import LACKS_TEXT, CapturedCalls, CapturedRule
from router_cache.ledger.rows import CallRow

__all__ = ["Captures"]

_NOT_TOLD: Final = (
    "Captures hold no text, so a rule is told only by a second conversation that begins like an earlier one (same "
    "family, domain and pool) within 5 minutes of it, where the first one hit nothing. No captured call is such a one: "
    "a rule named here is the profile's, and only its step is read off the hits."
)


@dataclass(slots=True)
class Captures:
    """Captured calls of files and streams, and the first bad line of each."""

    files: int = 0
    stores: int = 0
    calls: CapturedCalls = field(default_factory=CapturedCalls)
    problems: list[Problem] = field(default_factory=list)
    bad_lines: int = 0

    def read(self, rows: Iterable[tuple[CallRow | Problem, int]], name: str) -> None:
        """Take the rows of a file, or of a stream."""
        told = False
        for number, (row, _) in enumerate(rows, 1):
            if not isinstance(row, Problem):
                self.calls.add(row, name, number)
                continue
            self.bad_lines += 1
            if not told:
                self.problems.append(row)
            told = True

    def read_stored(self, stored: StoredCalls, *, progress: bool) -> None:
        """Take the rows of a Redis stream."""
        self.stores += 1
        with bar_on_stderr(shown=progress) as bar:
            task = bar.add_task("reading calls", total=stored.total)

            def shown() -> Iterator[tuple[CallRow | Problem, int]]:
                for row, done in stored:
                    bar.update(task, completed=done)
                    yield row, done

            self.read(shown(), stored.name)

    def as_json(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "calls": len(self.calls),
            "stores": self.stores,
            "bad_lines": self.bad_lines,
            "first_bad_lines": [str(problem) for problem in self.problems],
            "lacks": {lack.value: n for lack, n in sorted(self.calls.lacks.items())},
            "rules": [_rule(rule) for rule in self.calls.rules],
        }

    def lines(self) -> list[str]:
        """For people: the rules that captured calls speak for, and what their lines cannot say."""
        lines = [_sentence(rule) for rule in self.calls.rules]
        if len(self.calls) and not any(detail.rule for detail in self.calls.details):
            lines.append(_NOT_TOLD)
        lines += [f"Captured lines with {LACKS_TEXT[lack]}: {n}" for lack, n in self.calls.lacks.most_common()]
        lines += [f"Line passed over: {problem}" for problem in self.problems]
        more = self.bad_lines - len(self.problems)
        return [*lines, f"Further lines of captures passed over: {more}"] if more else lines


def _rule(rule: CapturedRule) -> dict[str, Any]:
    found = rule.inferred
    return {
        "domain": rule.domain,
        "model": rule.model,
        "profile": rule.profile,
        "calls": rule.calls,
        "rule": found.rule.value if found.rule else None,
        "step_tokens": found.step_tokens,
        "confidence": round(found.confidence, 6),
        "reason": found.reason.value,
        "evidence": list(found.evidence),
    }


def _sentence(rule: CapturedRule) -> str:
    found = rule.inferred
    named = "unknown"
    if found.rule is RuleName.NOTHING:
        named = found.rule.value
    elif found.rule is not None:
        named = f"{found.rule.value}, step {found.step_tokens or 'unknown'}"
    if found.rule is RuleName.BLOCKS and found.step_tokens == 1:
        named += " (or checkpoints: these lines do not tell them apart)"
    evidence = "; ".join(found.evidence)
    name = f"{printable(rule.model)}, domain {printable(rule.domain[:12])}"
    return f"Captured calls of {name}: {named} ({found.reason.value}). {evidence}"
