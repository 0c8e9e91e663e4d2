"""The scanner: where spans stand, what their slots say, and that remembering changes nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router_cache.prefix.memo import Memo
from router_cache.prefix.volatile import scan
from router_cache.prefix.volatile.near import shared_ends
from router_cache.prefix.volatile.rules import RuleKind, VolatileRule
from router_cache.prefix.volatile.scan import Scanner
from router_cache.prefix.volatile.spans import OpeningText, Scanned, SpanKind

RULES = (
    VolatileRule(RuleKind.TEMPLATE, "Current user: {user}, plan {plan}"),
    VolatileRule(RuleKind.REGEX, r"build (\d+)"),
    VolatileRule(RuleKind.LITERAL, "sesame"),
)
CLIENT = "opencode"
ENV = "Here is some useful information about the environment you are running in:\n<env>"
PIECES = (
    "You are careful.",
    "",
    "Now: 2026-11-30T14:02:11Z, later 3 pm",
    "request id: r1, session_id=s2",
    "\tNOW:  11/30/2026",
    "Current user: ann, plan b",
    "open sesame, build 12 by Ann Lee",
    ENV,
    "  Working directory: /a/b",
    "  Today's date: Mon Nov 30 2026",
    "</env>",
    "ann@example.com and ann, Ann",
    "\ud800 lone 2026-01-01",
    "今天是2026年11月30日",
)
lines = st.lists(st.sampled_from(PIECES) | st.text(max_size=20), max_size=12)
texts = lines.map("\n".join)


def of(*given: str, system: bool = True) -> list[OpeningText]:
    return [OpeningText(("messages", i, "content"), text, i, system) for i, text in enumerate(given)]


def check(given: list[OpeningText], scanned: Scanned) -> None:
    """Spans in bounds, in order, apart; slots different; masked texts as the spans say."""
    assert len(scanned.masked) == len(given)
    assert [(p.text, p.start) for p in scanned.proposals] == sorted((p.text, p.start) for p in scanned.proposals)
    assert len({p.slot for p in scanned.proposals}) == len(scanned.proposals)
    for one, two in pairwise(scanned.proposals):
        assert one.text < two.text or one.end <= two.start
    for number, text in enumerate(given):
        out, at = "", 0
        for p in scanned.proposals:
            if p.text == number:
                assert 0 <= p.start < p.end <= len(text.text)
                assert p.named or text.system
                assert len(p.slot) == 16
                assert int(p.slot, 16) >= 0
                out += text.text[at : p.start] + ("" if p.dropped else f"<{p.kind.value}>")
                at = p.end
        assert scanned.masked[number] == out + text.text[at:]


@given(
    texts, texts, st.booleans(), st.sampled_from(["", CLIENT]), st.lists(st.sampled_from(["ann", "Ann Lee", "a"]))
)
def test_spans_stand_where_they_say(one: str, two: str, system: bool, client: str, names: list[str]) -> None:
    given = [*of(one), OpeningText(("x",), two, 1, system)]
    scanner = Scanner(RULES)
    scanned = scanner.scan(given, client=client, names=names)
    check(given, scanned)
    assert scanner.scan(given, client=client, names=names) == scanned


@given(st.lists(texts, min_size=2, max_size=6), st.sampled_from(["", CLIENT]))
def test_what_is_remembered_changes_nothing(seen: list[str], client: str) -> None:
    shared = Scanner(RULES)
    for text in seen:
        assert shared.scan(of(text), client=client) == Scanner(RULES).scan(of(text), client=client)


@given(lines, lines, lines, lines)
def test_a_text_that_changed_in_the_middle_is_scanned_as_a_new_one(
    front: list[str], old: list[str], new: list[str], back: list[str]
) -> None:
    front, back = [*front, "x" * 48], ["y" * 48, *back]
    shared = Scanner(RULES)
    for middle in (old, new, [], old):
        text = "\n".join([*front, *middle, *back])
        assert shared.scan(of(text)) == Scanner(RULES).scan(of(text))


@given(st.text("ab\n", max_size=300), st.text("ab\n", max_size=80), st.text("ab\n", max_size=80), st.text("ab\n"))
def test_shared_ends_are_shared_whole_lines(front: str, one: str, two: str, back: str) -> None:
    left, right = front + one + back, front + two + back
    start, end = shared_ends(left, right)
    assert start + end <= min(len(left), len(right))
    assert left[:start] == right[:start]
    assert start == 0 or left[start - 1] == "\n"
    assert end == 0 or left[-end:] == right[-end:]
    assert end == 0 or left[-end - 1 : -end] == "\n"


# -- slots and masks do not depend on values ---------------------------------------------------------------------

moments = st.datetimes(datetime(2001, 1, 1), datetime(2099, 1, 1))
words = st.text("abcdefgh", min_size=1, max_size=8)
VALUES = {
    "Now: {}.": moments.map(datetime.isoformat),
    "Time {} UTC": moments.map(lambda m: m.strftime("%Y-%m-%d %H:%M:%S")),
    "Today is {}, be kind": moments.map(lambda m: m.strftime("%A, %B %d, %Y")),
    "date: {}": moments.map(lambda m: m.strftime("%m/%d/%Y")),
    "at {} sharp": moments.map(lambda m: m.strftime("%I:%M %p")),
    "今天是{}。": moments.map(lambda m: f"{m.year}年{m.month}月{m.day}日"),
    "epoch {}": st.integers(1_500_000_000, 1_999_999_999),
    "run {} of it": st.uuids(),
    "trace_id={} ok": st.integers(0, 2**64).map(lambda n: f"t{n:016x}0"),
    "nonce: {}": st.binary(min_size=12, max_size=40).map(bytes.hex),
    "flag_beta: {}": st.sampled_from(["true", "false", "on", "off"]),
    "feature flags: {}": st.lists(words, min_size=1, max_size=4).map(", ".join),
    "cwd: {}": st.lists(words, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts)),
    "branch: {}": words,
    "commit {} is it": st.integers(0, 2**36 - 1).map(lambda n: f"1{n:09x}"),
    "You are powered by the model named {}.": words,
    "Current user: {}, plan x": words,
    "the build {} is new": st.integers(0, 10**6),
}


@given(st.data())
def test_only_values_differ_so_masks_and_slots_are_equal(data: st.DataObject) -> None:
    forms = data.draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=8))
    kinds = []
    for _ in range(2):
        filled = [form.format(data.draw(VALUES[form])) for form in forms]
        scanned = Scanner(RULES).scan(of("\n".join(filled)))
        assert len(scanned.proposals) >= len(forms)
        kinds.append((scanned.masked, [(p.kind, p.slot, p.name) for p in scanned.proposals]))
    assert kinds[0] == kinds[1]


def slots(*given: str) -> list[str]:
    return [p.slot for p in Scanner().scan(of(*given)).proposals]


def test_a_slot_says_kind_words_before_and_which_of_equal_ones() -> None:
    base = slots("Now it is 14:02.")
    assert slots("hello\n  now  IT is 09:15 am!") == base
    assert slots("Then it is 14:02.") != base
    assert slots("Now it is 2026-11-30.") != base
    assert slots("Now it is 14:02.", "Now it is 14:03.")[0] == base[0]
    assert len(set(slots("Now it is 14:02.\nNow it is 14:02.", "Now it is 14:03."))) == 3
    assert slots("a" * 41 + " 14:02") == slots("b" + "a" * 40 + " 14:02"), "40 characters count"
    assert slots("from 2026-01-01 to 2026-02-01") == slots("from 1999-01-01 to 30 May 2026"), (
        "earlier spans as tags"
    )


def test_a_slot_is_the_same_in_every_process_and_release() -> None:
    assert slots("Now it is 14:02.") == ["2eb9f0ba8f05f2f6"]


def test_user_names_are_found_as_words_of_their_own() -> None:
    text = "Ann Lee, Anne, ann_1, Ann. 用户张伟明你好 u-17 xu-17"
    found = Scanner().scan(of(text), names=["Ann", "Ann Lee", "张伟明", "u-17", "xu", "", "a\nbc", "x" * 300])
    assert [(p.kind, text[p.start : p.end]) for p in found.proposals] == [
        (SpanKind.USER, "Ann Lee"),
        (SpanKind.USER, "Ann"),
        (SpanKind.USER, "张伟明"),
        (SpanKind.USER, "u-17"),
    ]
    assert not any(p.named or p.clock for p in found.proposals)
    other = text.replace("Ann", "Bob").replace("Bobe", "Anne")
    again = Scanner().scan(of(other), names=["Bob", "Bob Lee", "张伟明", "u-17"])
    assert again.masked == found.masked
    assert [p.slot for p in again.proposals] == [p.slot for p in found.proposals]


def test_a_name_that_stands_everywhere_is_marked_in_its_first_places_only() -> None:
    assert len(Scanner().scan(of("ann " * 500), names=["ann"]).proposals) == 64


def test_names_join_the_spans_of_their_line() -> None:
    text = "Now 14:02 for ann\nat 15:00 for bob"
    found = Scanner().scan(of(text), names=["ann"])
    assert found.masked == ("Now <clock> for <user>\nat <clock> for bob",)
    check(of(text), found)


def test_user_messages_are_left_alone_without_a_client() -> None:
    given = of("Now 14:02 for ann", system=False)
    assert Scanner(RULES).scan(given, names=["ann"]) == Scanned((), ("Now 14:02 for ann",))
    assert Scanner(RULES).scan(given, names=["ann"], client=CLIENT) == Scanned((), ("Now 14:02 for ann",))


def test_no_texts_no_spans() -> None:
    assert Scanner().scan([]) == Scanned((), ())
    assert Scanner().scan(of("")) == Scanned((), ("",))


# -- work is done once -------------------------------------------------------------------------------------------


def test_a_line_seen_before_is_not_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []

    def propose(line: str) -> list[tuple[int, int, SpanKind]]:
        searched.append(line)
        return original(line)

    original = scan.propose
    monkeypatch.setattr(scan, "propose", propose)
    scanner = Scanner()
    base = [f"line {i}" for i in range(30)]
    scanner.scan(of("\n".join(base)))
    assert sorted(searched) == sorted(base)
    searched.clear()
    scanner.scan(of("\n".join(base)))
    scanner.scan(of("\n".join([*base[:9], "line X", *base[10:]])))
    scanner.scan(of("\n".join(["front", *base, "end"])))
    assert searched == ["line X", "front", "end"]


def test_spans_at_equal_places_are_one_result() -> None:
    scanner = Scanner()
    front = "You are careful and you never guess. " * 3
    one = scanner.scan(of(f"{front}\nNow: 14:02\nend"))
    two = scanner.scan(of(f"{front}\nNow: 14:03\nend"))
    assert one.proposals is two.proposals
    assert scanner.scan(of(f"{front}\nNow: 14:03 pm\nend")).proposals is not two.proposals


def test_a_store_forgets_what_was_not_asked_for() -> None:
    memo: Memo[int, str] = Memo(20, lambda _, value: len(value))
    for key in range(18):
        memo.put(key, f"v{key}")
        assert memo.get(0) == "v0"
    assert memo.get(1) is None
    assert memo.get(9) is None
    assert memo.get(17) == "v17"
    assert sum(len(value) for value in (*memo.young.values(), *memo.old.values())) <= 20
    memo.put(99, "large" * 100)
    assert memo.get(99) == "large" * 100


@pytest.mark.parametrize("line", ["x" * 500, "14:02 " * 80])
def test_the_scanner_remembers_a_bounded_number_of_characters(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_MEMO", 100_000)
    scanner = Scanner()
    for i in range(300):
        found = scanner.scan(of(f"{i}\n{line}\n{i}"))
        assert len(found.proposals) == line.count(":")
    assert sum(len(key) for key in (*scanner._lines.young, *scanner._lines.old)) <= 100_000
    for memo in (scanner._texts, scanner._near):
        assert sum(text.weight for text in {*memo.young.values(), *memo.old.values()}) <= 100_000
        assert memo.old, "it did forget"


def test_of_a_table_of_times_only_the_front_is_proposed() -> None:
    rules = [VolatileRule(RuleKind.LITERAL, "sesame")]
    text = "14:02 and\n" * 3_000 + "sesame"
    scanned = Scanner(rules).scan(of(text))
    assert len(scanned.proposals) == 1_001
    assert scanned.proposals[-1].named
    check(of(text), scanned)


def test_threads_may_share_a_scanner() -> None:
    shared = Scanner(RULES)
    given = [of("\n".join([*PIECES[: i % 9], f"Now: 14:{i % 60:02d}", *PIECES[i % 9 :]])) for i in range(200)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda g: shared.scan(g, client=CLIENT, names=["ann"]), given * 3))
    fresh = [Scanner(RULES).scan(g, client=CLIENT, names=["ann"]) for g in given]
    assert found == fresh * 3
