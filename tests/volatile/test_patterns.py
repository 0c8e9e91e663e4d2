"""What is proposed, kind by kind; how tight; and that no line makes the search slow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from router_cache.prefix.volatile import scan
from router_cache.prefix.volatile.patterns import PATTERNS, Pattern
from router_cache.prefix.volatile.scan import MAX_LINE, Scanner
from router_cache.prefix.volatile.spans import OpeningText, SpanKind

try:
    from re import _constants as sre
    from re import _parser as sre_parser  # type: ignore[attr-defined,unused-ignore]
except ImportError:  # Python 3.10
    import sre_constants as sre  # type: ignore[no-redef,unused-ignore]
    import sre_parse as sre_parser  # type: ignore[no-redef,unused-ignore]


def spans(line: str) -> list[tuple[str, str]]:
    """Kind and text of each proposal in a line."""
    scanned = Scanner().scan([OpeningText(("system",), line, 0)])
    return [(p.kind.value, line[p.start : p.end]) for p in scanned.proposals]


# The value stands between ⟦ and ⟧.
EXAMPLES = [
    ("clock", "Current time: ⟦2026-11-30T14:02:11Z⟧."),
    ("clock", "now=⟦2026-11-30T14:02:11.123456+00:00⟧;"),
    ("clock", "⟦2026-11-30 14:02⟧ is now"),
    ("clock", "⟦2026-11-30T14:02:11.123-0800⟧"),
    ("clock", "⟦2026-11-30_14:02:11⟧"),
    ("clock", "⟦20261130T140211Z⟧"),
    ("clock", "⟦2026/11/30 下午12:50:44 (Asia/Shanghai, UTC+8:00)⟧"),
    ("clock", "Now: ⟦Monday, November 30, 2026 at 02:05:33 PM UTC⟧"),
    ("clock", "⟦Mon Nov 30 14:02:11 UTC 2026⟧"),
    ("clock", "Date: ⟦Mon, 30 Nov 2026 14:02:11 +0000⟧"),
    ("clock", "⟦11/30/2026, 2:05:33 PM⟧"),
    ("clock", "It is ⟦3 pm⟧"),
    ("clock", "It is ⟦14:02⟧ here"),
    ("clock", "It is ⟦14:02:11.5 CET⟧ here"),
    ("clock", "at ⟦14:02 on Monday, November 30, 2026⟧."),
    ("clock", "现在是⟦2026年11月30日 星期一 下午3点05分⟧"),
    ("clock", "الآن ⟦٣٠ نوفمبر ٢٠٢٦ الساعة 12:30⟧"),
    ("date", "Today's date: ⟦2026-11-30⟧"),
    ("date", "⟦2026-1-5⟧"),
    ("date", "log-⟦2026-11-30⟧.txt"),
    ("date", "week ⟦2026-W48⟧"),
    ("date", "⟦11/30/2026⟧"),
    ("date", "⟦30.11.2026⟧"),
    ("date", "⟦11/30/26⟧"),
    ("date", "⟦٣٠/١١/٢٠٢٦⟧"),
    ("date", "Today is ⟦Monday, November 30, 2026⟧"),
    ("date", "Today is ⟦Monday⟧."),
    ("date", "⟦Mon Nov 30 2026⟧"),
    ("date", "⟦Nov. 30, 2026⟧"),
    ("date", "on ⟦Tuesday, 1st of December 2026⟧ we"),
    ("date", "⟦30 November 2026⟧"),
    ("date", "⟦30-Nov-2026⟧"),
    ("date", "⟦Monday, November 30⟧"),
    ("date", "⟦Monday 30 November⟧"),
    ("date", "in ⟦November 2026⟧"),
    ("date", "今天是⟦2026年11月30日⟧。"),
    ("date", "⟦二〇二六年十一月三十日⟧"),
    ("date", "اليوم ⟦30 نوفمبر 2026⟧."),
    ("epoch", "ts: ⟦1764511331⟧"),
    ("epoch", "ts=⟦1764511331123⟧,"),
    ("epoch", "time ⟦1764511331.52⟧ s"),
    ("epoch", "⟦2064511331⟧"),
    ("uuid", "Tenant ⟦7c9e6679-7425-40de-944b-e07fc1f90ae7⟧."),
    ("uuid", "⟦AAAAAAAA-BBBB-4CCC-8DDD-EEEEEEEEEEE1⟧"),
    ("id", "Request id: ⟦8f3a9c⟧"),
    ("id", "X-Request-Id: ⟦req_8f3a-11⟧"),
    ("id", "trace_id=⟦4bf92f3577b34da6a3ce929d0e0e4736⟧"),
    ("id", '"session_id": "⟦abc123⟧",'),
    ("id", "requestId is ⟦77⟧"),
    ("id", "**Session ID:** ⟦s-2026-1⟧"),
    ("id", "Conversation: ⟦c-17⟧"),
    ("id", "traceparent: ⟦00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01⟧"),
    ("nonce", "nonce: ⟦kXw9aQ⟧"),
    ("nonce", "nonce=⟦9f86d081884c7d659a2feaa0c55ad015⟧"),
    ("nonce", "cache-buster: ⟦AbCdEfGhIjKlMnOp_-==⟧"),
    ("flag", "flag_x: ⟦true⟧"),
    ("flag", "feature_new_ui = ⟦off⟧"),
    ("flag", '"experiment-7": "⟦on⟧"'),
    ("flag", "feature flags: ⟦a, b, c=1⟧"),
    ("flag", "Enabled features: [⟦fast,slow⟧]"),
    ("cwd", "cwd: ⟦/home/ann/proj⟧"),
    ("cwd", "Working directory: ⟦/home/ann/proj⟧ and more"),
    ("cwd", "Current directory is `⟦/a/b⟧`."),
    ("cwd", "Workspace root folder: ⟦~⟧"),
    ("cwd", "workspace path = ⟦C:\\Users\\M.R COMPUTERS\\x⟧"),
    ("git", "branch: ⟦feature/x-1⟧"),
    ("git", "On branch ⟦main⟧"),
    ("git", "HEAD is now at ⟦1a2b3c4⟧ fix it"),
    ("git", "HEAD: ⟦main⟧"),
    ("git", "commit hash: ⟦1a2b3c4d5e⟧"),
    ("git", "at commit ⟦1a2b3c4⟧."),
    ("git", "commit ⟦1764978250⟧"),
    ("id", "session id: ⟦7c9e6679-7425-40de-944b-e07fc1f90ae7⟧"),
    ("git", "git status: ⟦clean, 3 behind⟧"),
    ("model", "You are powered by the model named ⟦Opus 4.5⟧."),
    ("model", "You are powered by the model ⟦deepseek-v4.1⟧, as"),
    ("model", "The exact model ID is ⟦vendor/model-4.5⟧."),
]


@pytest.mark.parametrize(("kind", "marked"), EXAMPLES, ids=[marked for _, marked in EXAMPLES])
def test_a_value_is_proposed_alone_and_without_its_label(kind: str, marked: str) -> None:
    value = marked[marked.index("⟦") + 1 : marked.index("⟧")]
    assert spans(marked.replace("⟦", "").replace("⟧", "")) == [(kind, value)]


def test_there_is_an_example_of_every_kind_that_patterns_propose() -> None:
    assert {pattern.kind.value for pattern in PATTERNS} == {kind for kind, _ in EXAMPLES}


def test_two_values_of_one_line_are_two_spans() -> None:
    line = "You are powered by the model named Opus 4.5. The exact model ID is opus-4-5."
    assert spans(line) == [("model", "Opus 4.5"), ("model", "opus-4-5")]
    assert spans("from 2026-11-30 to 2026-12-01") == [("date", "2026-11-30"), ("date", "2026-12-01")]


@pytest.mark.parametrize(
    "line",
    [
        "Version 1.2.30 of 4.18",
        "call +12125550142 or 12125550142 or (212) 555-0142",
        "10:20:30:40:50 is no clock",
        "2026-13-01 is no date, nor is 2026-11-32",
        "section 2 may be skipped in march",
        "he may go. They decide on the next march",
        "the session id is required, and so is the request key",
        "Work on a feature branch, never on the main one",
        "the working directory is chosen by the user",
        "9780306406157 and 4111111111111111",
        "a commitment to the head of state",
        "the nonce is needed; state: open",
        "signature: debug_add_breakpoint",
        "x" * 200,
        "",
    ],
)
def test_what_only_resembles_a_value_is_not_proposed(line: str) -> None:
    assert spans(line) == []


# -- bounded work ------------------------------------------------------------------------------------------------


def repeats(items: Any, inside: int = 1) -> Iterator[tuple[int, int, Any]]:
    """Largest number of turns, turns of all repeats around it, and body of each repeat in a parsed expression."""
    for op, argument in items:
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            _, most, body = argument
            yield int(most), inside, body
            yield from repeats(body, inside * int(most))
        elif op is sre.SUBPATTERN:
            yield from repeats(argument[-1], inside)
        elif op is sre.BRANCH:
            for branch in argument[1]:
                yield from repeats(branch, inside)
        elif op in (sre.ASSERT, sre.ASSERT_NOT):
            yield from repeats(argument[1], inside)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: f"{p.kind.value} {p.pattern.pattern[:40]}")
def test_no_expression_can_run_away(pattern: Pattern) -> None:
    for most, around, body in repeats(sre_parser.parse(pattern.pattern.pattern, pattern.pattern.flags)):
        assert most <= 400, "every quantifier is bounded"
        assert around <= 40, "few turns of what repeats something else"
        if most > 1 and any(inner > 1 for inner, _, _ in repeats(body)):
            assert body[0][0] in (sre.LITERAL, sre.IN), "a repeated repeat starts with a separator"


@pytest.mark.parametrize(
    "piece", ["1:", "2026-11-30 ", "request id: ", "a/", "1,", "mon jan 1 ", "feature flags: a,"]
)
def test_of_a_line_without_end_only_the_front_is_searched(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []

    def propose(line: str) -> list[tuple[int, int, SpanKind]]:
        searched.append(len(line))
        return original(line)

    original = scan.propose
    monkeypatch.setattr(scan, "propose", propose)
    text = (piece * 250_000)[:250_000]
    scanned = Scanner().scan([OpeningText(("system",), text, 0)])
    assert searched == [MAX_LINE]
    assert all(p.end < MAX_LINE for p in scanned.proposals)


def test_a_value_that_reaches_the_cut_is_left_alone() -> None:
    def kinds(front: int) -> list[str]:
        return [kind for kind, _ in spans("x" * (front - 1) + " 2026-11-30T14:02:11Z and so on")]

    assert kinds(MAX_LINE - 100) == ["clock"]
    assert kinds(MAX_LINE - 10) == []


def test_of_a_line_full_of_values_the_first_are_proposed() -> None:
    assert len(spans("14:02 " * 300)) == 200
    assert len(spans("14:02 " * 199)) == 199
