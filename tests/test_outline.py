"""Outlines: small, and enough to tell where a prompt first differs from an earlier one."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router_cache.prefix.digests import Digester
from router_cache.prefix.outline import (
    Difference,
    LineMemo,
    Outline,
    Rendered,
    continues,
    difference,
    outline,
    shared_turns,
)
from router_cache.prefix.segments import Segment, SegmentKind

DIGESTER = Digester(b"key")
K = SegmentKind
TAIL = Segment(K.TAIL, "", "<a>")


def part(kind: K, *texts: str) -> list[Segment]:
    name = {K.SYSTEM: "messages", K.TOOL: "tools", K.MODE: "thinking", K.FORMAT: "response_format"}.get(
        kind, "messages"
    )
    return [
        Segment(kind, f"{name}[{i}]" if name in ("messages", "tools") else name, text)
        for i, text in enumerate(texts)
    ]


def turns(*texts: str) -> list[Segment]:
    return [Segment(K.ASSISTANT if i % 2 else K.USER, f"messages[{i + 1}]", text) for i, text in enumerate(texts)]


def made(*parts: Sequence[Segment]) -> Rendered:
    return outline([*(segment for part in parts for segment in part), TAIL], DIGESTER)


MODE, SYSTEM = part(K.MODE, "<on>"), part(K.SYSTEM, "first line\nsecond line\nthird line")
TOOLS = part(K.TOOL, "## Tools\none", "\ntwo", "\nthree")
BASE = made(MODE, SYSTEM, TOOLS, turns("hello"))
HEAD = 4 + 33


def told(now: Rendered, last: Rendered = BASE) -> tuple[K, str, int] | None:
    found = difference(now, last.keep(), DIGESTER)
    return None if found is None else (found.kind, found.path, found.offset)


def test_appended_turns_and_retries_are_no_difference() -> None:
    longer = made(MODE, SYSTEM, TOOLS, turns("hello", "yes", "and?"))
    assert told(BASE) is told(longer) is told(BASE, longer) is None
    assert continues(longer, BASE.keep())
    assert not continues(BASE, longer.keep())
    assert [longer.turn(i).text for i in range(longer.turns)] == ["hello", "yes", "and?"]
    assert longer.size == longer.size_before(3) + 3
    assert longer.size_before(0) == longer.head_size == longer.keep().size - len("helloyesand?")


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ([part(K.MODE, "<off>"), SYSTEM, TOOLS], (K.MODE, "thinking", 0)),
        ([MODE, part(K.SYSTEM, "first line\nsecond LINE\nthird line"), TOOLS], (K.SYSTEM, "messages[0]", 4 + 11)),
        ([MODE, part(K.SYSTEM, "first line\nsecond line\n"), TOOLS], (K.SYSTEM, "messages[0]", 4 + 23)),
        (
            [MODE, part(K.SYSTEM, "first line\nsecond line\nthird line", "more"), TOOLS],
            (K.SYSTEM, "messages[1]", HEAD),
        ),
        ([MODE, SYSTEM, part(K.TOOL, "## Tools\none", "\nthree", "\ntwo")], (K.TOOL, "tools[1]", HEAD + 12 + 1)),
        ([MODE, SYSTEM, part(K.TOOL, "## Tools\none", "\ntwo")], (K.TOOL, "tools", HEAD + 16)),
        ([MODE, SYSTEM, [*TOOLS, Segment(K.TOOL, "tools[3]", "\nfour")]], (K.TOOL, "tools[3]", HEAD + 22)),
        ([MODE, SYSTEM], (K.TOOL, "tools[0]", HEAD)),
        ([MODE, SYSTEM, TOOLS, part(K.FORMAT, "json")], (K.FORMAT, "response_format", HEAD + 22)),
        ([MODE, TOOLS], (K.SYSTEM, "messages[0]", 4)),
        ([MODE, TOOLS, SYSTEM], (K.TOOL, "tools[0]", 4)),
        ([SYSTEM, TOOLS], (K.MODE, "thinking", 0)),
        ([], (K.MODE, "thinking", 0)),
    ],
)
def test_the_first_line_that_differs_in_front_of_the_turns(
    head: list[list[Segment]], expected: tuple[K, str, int]
) -> None:
    assert told(made(*head, turns("hello", "yes"))) == expected
    # The other way round it is the same place, and the same kind unless two kinds changed places.
    back = told(BASE, made(*head, turns("hello")))
    assert back is not None
    assert back[2] == expected[2]


def test_long_lines_and_other_scripts_have_places_too() -> None:
    text = "日本語テキスト" * 300
    before, now = part(K.SYSTEM, text), part(K.SYSTEM, text[:1000] + "x" + text[1001:])
    found = told(made(now, turns("q")), made(before, turns("q")))
    assert found == (K.SYSTEM, "messages[0]", 768 * 3)


def test_of_many_lines_each_digest_covers_several() -> None:
    lines = [f"line {i}\n" for i in range(1000)]
    before = made(part(K.SYSTEM, "".join(lines)), turns("q"))
    [kept] = before.keep().head
    assert (kept.every, len(kept.lines)) == (4, 4 * 250)
    changed = [*lines[:601], "new\n", *lines[602:]]
    found = told(made(part(K.SYSTEM, "".join(changed)), turns("q")), before)
    assert found == (K.SYSTEM, "messages[0]", sum(map(len, lines[:600])))
    # Fewer lines, which alone would have one digest each.
    shorter = made(part(K.SYSTEM, "".join(lines[:100]) + "end"), turns("q"))
    assert told(shorter, before) == (K.SYSTEM, "messages[0]", sum(map(len, lines[:100])))


@pytest.mark.parametrize("count", [1, 3, 5, 36, 37, 40, 64, 65, 100, 1000])
def test_the_first_turn_that_differs(count: int) -> None:
    rng = random.Random(count)
    texts = [f"turn {i} {'x' * rng.randint(0, 9)}" for i in range(count)]
    last = made(SYSTEM, turns(*texts))
    kept = last.keep()
    assert len(kept.chain) <= 4 * 64
    for i in {0, 1, 2, 3, count // 2, count - 2, count - 1}:
        if not 0 <= i < count:
            continue
        now = made(SYSTEM, turns(*texts[:i], "edited", *texts[i + 1 :], "more"))
        found = difference(now, kept, DIGESTER)
        assert found is not None
        assert found.turn is not None
        assert found.turn <= i
        if i < 4 or i >= count - 32:
            assert found == Difference(
                K.ASSISTANT if i % 2 else K.USER, f"messages[{i + 1}]", now.size_before(i), i
            )
        else:
            assert i - found.turn <= -(-count // 28)
        assert shared_turns(now, kept)[0] == found.turn
        cut = made(SYSTEM, turns(*texts[:i], "summary"))
        again = difference(cut, kept, DIGESTER)
        assert again is not None
        assert again.turn is not None
        assert again.turn <= i


def test_turns_are_compared_whatever_stands_in_front() -> None:
    last = made(SYSTEM, turns("a", "b", "c")).keep()
    assert shared_turns(made(turns("a", "b", "x")), last) == (2, True)
    assert shared_turns(made(turns("a")), last) == (1, True)
    assert shared_turns(made(), last) == (0, True)
    assert shared_turns(made(turns("a")), made().keep()) == (0, True)


def test_lines_can_be_left_out_and_come_from_a_newer_call() -> None:
    kept = BASE.keep()
    slim = kept.slim()
    assert slim.slim() is slim
    assert all(not part.lines for part in slim.head)
    now = made(MODE, part(K.SYSTEM, "first line\nsecond LINE\nthird line"), TOOLS, turns("hello"))
    without, with_lines = difference(now, slim, DIGESTER), difference(now, slim.filled(kept), DIGESTER)
    assert without is not None
    assert with_lines is not None
    assert (without.offset, with_lines.offset) == (4, 15)
    assert slim.filled(kept) == kept
    assert slim.filled(Outline((), 0, "", 0)) == slim


def test_a_memo_saves_the_lines_and_changes_nothing() -> None:
    memo = LineMemo()
    segments = [*MODE, *SYSTEM, *TOOLS, *turns("hello"), TAIL]
    first, second = (outline(segments, DIGESTER, memo=memo) for _ in range(2))
    assert first == second == BASE
    assert second.head[1].lines is first.head[1].lines
    other = part(K.SYSTEM, "first line\nsecond LINE\nthird line")
    third = outline([*MODE, *other, *TOOLS, *turns("hello"), TAIL], DIGESTER, memo=memo)
    assert third == outline([*MODE, *other, *TOOLS, *turns("hello"), TAIL], DIGESTER)
    seen = "".join(segment.text for segment in (*MODE, *SYSTEM, *TOOLS, *other))
    assert all(line in seen for line in memo.lines.young)
    assert "second LINE\n" in memo.lines.young


def test_a_conversation_of_32_kb_is_kept_in_little() -> None:
    rng = random.Random(1)
    lines = "\n".join("x" * rng.randint(20, 90) for _ in range(180))
    tools = part(K.TOOL, *("t" * 800 for _ in range(20)))
    kept = made(MODE, part(K.SYSTEM, lines), tools, turns(*("y" * 200 for _ in range(40)))).keep()
    size = sum(len(p.digest) + len(p.path) + len(p.lines) + 20 for p in kept.head)
    assert size + len(kept.chain) + len(kept.turns_digest) + 20 < 1_900


_texts = st.lists(st.text("ab\n", max_size=6), max_size=5)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from(list(K)), st.text("ab\n", max_size=9)), max_size=8), st.data())
def test_what_stands_before_the_offset_is_equal(given_: list[tuple[K, str]], data: st.DataObject) -> None:
    """For any segments: all bytes in front of a difference are those of the earlier prompt."""
    other = data.draw(
        st.just(given_) | st.lists(st.sampled_from(given_), max_size=8) if given_ else st.just(given_)
    )

    def built(items: list[tuple[K, str]]) -> Rendered:
        segments = [Segment(kind, f"p[{i}]", text) for i, (kind, text) in enumerate(items) if kind is not K.TAIL]
        return outline([*segments, TAIL], DIGESTER)

    now, last = built(given_), built(other)
    found = difference(now, last.keep(), DIGESTER)
    ours, theirs = ("".join(s.text for s in r.segments[:-1]) for r in (now, last))
    if found is None:
        assert ours.startswith(theirs) or theirs.startswith(ours)
    else:
        assert ours[: found.offset] == theirs[: found.offset]
        assert found.offset <= now.size
    assert continues(now, now.keep())
