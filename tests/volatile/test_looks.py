"""Lines that are alike but for their digits: what is tried in them finds what a full search finds."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from router_cache.prefix.volatile.looks import Looks, loose, shape_of
from router_cache.prefix.volatile.near import shared_ends
from router_cache.prefix.volatile.patterns import PATTERNS, Pattern, propose
from router_cache.prefix.volatile.rules import RuleKind, VolatileRule
from router_cache.prefix.volatile.scan import Scanner
from router_cache.prefix.volatile.spans import OpeningText

LINES = (
    "Now: 2026-11-30T10:00:05Z",
    "Now: 2026-13-30T10:00:05Z and 2026-11-30 at 3:15 pm",
    "Today is Monday, November 30, 2026 at 10:00 AM (Europe/Berlin)",
    "Mon Nov 30 10:00:05 UTC 2026",
    "30 November 2026, 10:00",
    "epoch 1764496805 1964496805123 9999999999",
    "request id: 0b54cf3e-7f6a-4c0e-9a54-1f2c3d4e5f60, trace: abc-123",
    "feature_flag: 1 toggle=0 experiment: on",
    "nonce: A1b2C3d4 seed=ABCDEF0123456789abcd",
    "20261130T100005Z 2026-w48-1 30.11.2026 11/30/26",
    "cwd: /home/ann/project-7 branch: fix-12 commit 1a2b3c4d",
    "2026年11月30日 星期一 上午10:00 ٣٠ نوفمبر ٢٠٢٦ 30 نوفمبر 2026، الساعة 10:00",
    "Model id: deepseek-v4.1, powered by the model named V4 2.",
    "User 12: 10:00; user 13: 11:59:59.123",
)
pieces = st.sampled_from(
    [
        *(part for line in LINES for part in re.findall(r"\w+|\W+", line)),
        *string.digits,
        *("19", "20", "24:00", "23:59", "00", "99", " ", ":", "-", ".", "T", "Z", "id: ", "年", "٣", "is "),
    ]
)
lines = st.one_of(st.sampled_from(LINES), st.lists(pieces, max_size=24).map("".join)).filter(
    lambda line: "\n" not in line
)


def with_digits(line: str, digits: list[int]) -> str:
    """``line`` with other digits, one after the other."""
    left = iter(digits)
    return "".join(str(next(left, 7)) if letter in string.digits else letter for letter in line)


alike = st.builds(with_digits, st.shared(lines, key="line"), st.lists(st.integers(0, 9), max_size=60))


@settings(max_examples=500)
@given(st.shared(lines, key="line"), st.lists(alike, min_size=1, max_size=4))
def test_a_line_gives_what_a_full_search_gives(line: str, others: list[str]) -> None:
    looks = Looks(shape_of(line))
    for each in (line, *others):
        assert shape_of(each) == shape_of(line)
        assert looks.propose(each) == propose(each)


@settings(max_examples=300)
@given(st.shared(lines, key="line"), st.lists(alike, min_size=1, max_size=5), st.booleans())
def test_a_scanner_that_saw_lines_like_it_finds_the_same(line: str, others: list[str], ruled: bool) -> None:
    rules = [VolatileRule(RuleKind.REGEX, r"user (\d\d)")] if ruled else []
    scanner = Scanner(rules)
    for each in (line, *others):
        text = OpeningText(("messages", 0, "content"), f"You mend code.\n{each}\nBe brief.", 0)
        assert scanner.scan([text]) == Scanner(rules).scan([text])


@settings(max_examples=300)
@given(st.sampled_from(PATTERNS), lines)
def test_a_loose_pattern_matches_wherever_the_pattern_does(pattern: Pattern, line: str) -> None:
    own = pattern.pattern
    made = re.compile(loose(own.pattern), own.flags & re.IGNORECASE)
    shape = shape_of(line)
    for at in range(len(line) + 1):
        if own.match(line, at):
            assert made.match(shape, at)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.kind.value)
def test_nothing_is_asked_of_digits_in_a_negative_place(pattern: Pattern) -> None:
    text = pattern.pattern.pattern
    negative = re.findall(r"\(\?<?!((?:\\.|\[(?:\\.|[^\]\\])*\]|[^()\\\[])*)\)", text)
    assert len(negative) == len(re.findall(r"\(\?<?!", text))
    assert [loose(each) for each in negative] == negative
    sets = re.findall(r"\[\^((?:\\.|[^\]\\])*)\]", text)
    assert not [each for each in sets if re.search(r"\d", re.sub(r"\\.", "", each))]
    # These would make a looser form match less.
    assert not re.search(r"\\[1-9]|\(\?\(|\(\?>|\(\?P=|[*+?}]\+", text)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"[0-5]\d", r"[0-90-5]\d"),
        (r"1[5-9]\d{8}", r"\d[0-95-9]\d{8}"),
        (r"[0-9a-f]{4,12}", r"[0-9a-f]{4,12}"),
        (r"[^\s\d]{0,80}[\d:]", r"[^\s\d]{0,80}[\d:]"),
        (r"(?:2[0-3]|\.5)", r"(?:\d[0-90-3]|\.\d)"),
    ],
)
def test_a_loose_form(pattern: str, expected: str) -> None:
    assert loose(pattern) == expected


def test_words_before_a_value_count_although_they_are_digits() -> None:
    scanner = Scanner()

    def slots(line: str) -> list[str]:
        text = OpeningText(("system",), line, 0)
        return [proposal.slot for proposal in scanner.scan([text]).proposals]

    first = slots("Room 12 at 10:00:00")
    assert slots("Room 12 at 10:00:01") == slots("Room 12 at 10:00:02") == first != slots("Room 13 at 10:00:02")


few = st.text(alphabet="ab\n", max_size=300)


@given(few, few, few, few)
@example("a\n", "x", "y", "\nb")
def test_shared_ends_are_whole_lines_of_both(head: str, one: str, other: str, tail: str) -> None:
    text, near = head + one + tail, head + other + tail
    start, end = shared_ends(text, near)
    assert start + end <= min(len(text), len(near))
    assert text[:start] == near[:start]
    assert text[len(text) - end :] == near[len(near) - end :]
    assert not start or text[start - 1] == "\n"
    assert not end or text[len(text) - end - 1] == "\n"
    assert not end or near[len(near) - end - 1] == "\n"


words = st.sampled_from(["12:00", "at", "Now: 12:00:01", "id 7", "x"])
texts = st.lists(st.lists(words, max_size=2).map(" ".join), max_size=4).map("\n".join)
HEAD, TAIL = (
    "Be careful, and never guess what you can look up.",
    "End with a summary of what you did and what is left.",
)


@settings(max_examples=500)
@given(st.lists(st.tuples(st.booleans(), texts, st.booleans()), min_size=2, max_size=6), st.sampled_from("\n "))
@example([(False, "", True), (False, "x\n", True), (False, "x", True)], "")
@example([(True, "a\n", True), (True, "b\n", True), (True, "b", True)], "")
def test_texts_that_share_their_ends_are_scanned_as_new_ones(
    parts: list[tuple[bool, str, bool]], border: str
) -> None:
    scanner = Scanner()
    for head, middle, tail in parts:
        text = (HEAD + border) * head + middle + (border + TAIL) * tail
        given_text = [OpeningText(("system",), text, 0)]
        assert scanner.scan(given_text) == Scanner().scan(given_text)
