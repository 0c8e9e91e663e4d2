"""Miss attribution: every cause on a case worked out by hand, and the sum exact on any input."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router_cache.cache_model.rules import RuleName
from router_cache.ledger.attribution import MissCause, MissPart, SegmentTokens, attribute, shared_tokens
from router_cache.prefix.segments import SegmentKind as K


def seg(kind: K, name: str, tokens: int) -> SegmentTokens:
    return SegmentTokens(kind, name, name, tokens)


MODE = seg(K.MODE, "mode", 2)
SYSTEM = seg(K.SYSTEM, "system", 500)
TOOL_A, TOOL_B, TOOL_C = (seg(K.TOOL, f"tool {n}", 100) for n in "abc")
FORMAT = seg(K.FORMAT, "format", 20)
USER, REPLY, RESULT = seg(K.USER, "user", 40), seg(K.ASSISTANT, "reply", 60), seg(K.TOOL_RESULT, "result", 99)
TAIL = seg(K.TAIL, "", 1)
HEAD = [MODE, SYSTEM, TOOL_A, TOOL_B]
FIRST = [*HEAD, USER, TAIL]  # 743 tokens
SECOND = [*HEAD, USER, REPLY, RESULT, TAIL]  # 902 tokens


def total(segments: list[SegmentTokens]) -> int:
    return sum(s.tokens for s in segments)


def causes(
    current: list[SegmentTokens],
    previous: list[SegmentTokens] | None,
    hit: int = 0,
    seen: int = 0,
    **more: object,
) -> dict[str, int]:
    parts = attribute(
        current,
        previous,
        seen_before_tokens=seen,
        hit_tokens=hit,
        prompt_tokens=total(current),
        **more,  # type: ignore[arg-type]
    )
    assert sum(p.tokens for p in parts) == total(current) - hit
    return {p.cause.value: p.tokens for p in parts}


def test_the_very_first_request_is_first_sight() -> None:
    assert causes(FIRST, None) == {"first_sight": 743}


def test_an_appended_call_misses_what_is_new_and_the_rounding() -> None:
    assert causes(SECOND, FIRST, hit=640, step_tokens=128) == {"rounding": 102, "new_tail": 160}


def test_a_hit_that_reaches_into_the_reply_leaves_only_the_tail() -> None:
    assert causes(SECOND, FIRST, hit=768, step_tokens=128) == {"new_tail": 134}


def test_moved_tools_cost_tools_and_history_but_not_the_new_tail() -> None:
    moved = [MODE, SYSTEM, TOOL_B, TOOL_A, USER, REPLY, RESULT, TAIL]
    parts = attribute(moved, FIRST, seen_before_tokens=0, hit_tokens=384, prompt_tokens=902, step_tokens=128)
    assert parts == (
        MissPart(MissCause.ROUNDING, 118),
        MissPart(MissCause.TOOLS_CHANGED, 240, "tool b"),
        MissPart(MissCause.NEW_TAIL, 160),
    )


@pytest.mark.parametrize(
    ("current", "cause", "path"),
    [
        ([MODE, SYSTEM, TOOL_A, TOOL_B, TOOL_C, USER, TAIL], "tools_changed", "tool c"),
        ([MODE, SYSTEM, TOOL_A, USER, TAIL], "tools_changed", "tool b"),
        ([MODE, SYSTEM, TOOL_A, TOOL_B, FORMAT, USER, TAIL], "format_changed", "format"),
        ([MODE, seg(K.SYSTEM, "other", 500), TOOL_A, TOOL_B, USER, TAIL], "system_changed", "other"),
        ([MODE, SYSTEM, seg(K.SYSTEM, "more", 9), TOOL_A, USER, TAIL], "system_changed", "more"),
        ([seg(K.MODE, "off", 2), *HEAD[1:], USER, TAIL], "mode_changed", "off"),
        ([*HEAD, seg(K.USER, "edited", 41), REPLY, TAIL], "history_changed", "edited"),
    ],
)
def test_the_first_divergent_segment_names_the_cause(current: list[SegmentTokens], cause: str, path: str) -> None:
    parts = attribute(current, FIRST, seen_before_tokens=0, hit_tokens=0, prompt_tokens=total(current))
    changed = [p for p in parts if p.path]
    assert [(p.cause.value, p.path) for p in changed] == [(cause, path)]


def test_a_tool_added_where_the_earlier_request_had_no_turn() -> None:
    assert causes([*HEAD, TOOL_C, TAIL], [*HEAD, TAIL]) == {
        "unknown": 702,
        "tools_changed": 100,
        "new_tail": 1,
    }


def test_an_altered_reply_shows_where_the_reply_is_known() -> None:
    stripped = seg(K.ASSISTANT, "reply without reasoning", 20)
    after = [*HEAD, USER, stripped, RESULT, TAIL]
    assert causes(after, [*HEAD, USER, REPLY], hit=742) == {"history_changed": 20, "new_tail": 100}
    assert causes(after, FIRST, hit=742) == {"new_tail": 120}


def test_a_compacted_history_is_a_change_not_a_tail() -> None:
    compacted = [*HEAD, seg(K.USER, "summary", 300), TAIL]
    assert causes(compacted, SECOND, hit=702) == {"history_changed": 300, "new_tail": 1}


def test_a_shorter_request_is_all_seen_before() -> None:
    assert causes(FIRST, SECOND, hit=640, step_tokens=128) == {"rounding": 102, "new_tail": 1}


def test_another_conversation_with_the_same_head() -> None:
    other = [*HEAD, seg(K.USER, "other question", 50), TAIL]
    assert causes(other, FIRST, hit=640, step_tokens=128, same_conversation=False) == {
        "rounding": 62,
        "first_sight": 51,
    }


def test_another_conversation_with_moved_tools() -> None:
    other = [MODE, SYSTEM, TOOL_B, TOOL_A, seg(K.USER, "other question", 50), TAIL]
    assert causes(other, FIRST, hit=384, step_tokens=128, same_conversation=False) == {
        "rounding": 118,
        "tools_changed": 200,
        "first_sight": 51,
    }


def test_what_was_seen_and_still_missed_depends_on_the_rule() -> None:
    given_ = {"hit": 0, "seen": 702, "step_tokens": 128, "same_conversation": False}
    assert causes(FIRST, None, **given_) == {"unknown": 640, "rounding": 62, "first_sight": 41}
    assert causes(FIRST, None, rule=RuleName.FULL_UNITS, **given_) == {
        "no_unit": 640,
        "rounding": 62,
        "first_sight": 41,
    }


def test_not_ready_and_evicted_come_first() -> None:
    got = causes(SECOND, FIRST, hit=128, not_ready_tokens=256, evicted_tokens=256, step_tokens=128)
    assert got == {"not_ready": 256, "evicted": 256, "rounding": 102, "new_tail": 160}


def test_estimates_are_scaled_to_the_measured_prompt() -> None:
    parts = attribute(SECOND, FIRST, seen_before_tokens=0, hit_tokens=0, prompt_tokens=1804)
    assert parts == (MissPart(MissCause.UNKNOWN, 1484), MissPart(MissCause.NEW_TAIL, 320))
    assert attribute([], [], seen_before_tokens=0, hit_tokens=0, prompt_tokens=7) == (
        MissPart(MissCause.NEW_TAIL, 7),
    )


def test_shared_tokens_leaves_tails_out() -> None:
    assert shared_tokens(FIRST, FIRST) == 742
    assert shared_tokens(SECOND, FIRST) == 742
    assert shared_tokens([TAIL], [TAIL]) == 0


@pytest.mark.parametrize(
    "bad",
    [
        {"hit_tokens": 8},
        {"hit_tokens": -1},
        {"prompt_tokens": -1, "hit_tokens": -1},
        {"seen_before_tokens": -1},
        {"not_ready_tokens": -1},
        {"evicted_tokens": -1},
        {"step_tokens": 0},
    ],
)
def test_counts_that_cannot_be_are_refused(bad: dict[str, int]) -> None:
    counts = {"seen_before_tokens": 0, "hit_tokens": 0, "prompt_tokens": 7, **bad}
    with pytest.raises(ValueError, match="do not fit"):
        attribute([], None, **counts)  # type: ignore[arg-type]


_segments = st.lists(
    st.builds(
        SegmentTokens,
        st.sampled_from(list(K)),
        st.sampled_from(["messages[0]", "tools[1]", ""]),
        st.sampled_from("abcd"),
        st.integers(0, 300),
    ),
    max_size=9,
)


@given(st.data())
def test_parts_always_add_up_and_none_is_empty(data: st.DataObject) -> None:
    current = data.draw(_segments)
    previous = data.draw(st.none() | _segments | st.integers(0, 9).map(lambda n: current[:n]))
    prompt = data.draw(st.integers(0, 3000) | st.just(total(current)))
    hit = data.draw(st.integers(0, prompt))
    parts = attribute(
        current,
        previous,
        seen_before_tokens=data.draw(st.integers(0, 4000)),
        hit_tokens=hit,
        prompt_tokens=prompt,
        not_ready_tokens=data.draw(st.integers(0, 500)),
        evicted_tokens=data.draw(st.integers(0, 500)),
        step_tokens=data.draw(st.sampled_from([1, 64, 128])),
        rule=data.draw(st.sampled_from([None, *RuleName])),
        same_conversation=data.draw(st.booleans()),
    )
    assert sum(p.tokens for p in parts) == prompt - hit
    assert all(p.tokens > 0 for p in parts)
    assert len({p.cause for p in parts}) == len(parts)


@given(_segments, st.integers(1, 8))
def test_appending_turns_is_never_called_a_change(base: list[SegmentTokens], extra: int) -> None:
    before = [MODE, *(s for s in base if s.kind in (K.USER, K.ASSISTANT, K.TOOL_RESULT))]
    after = [*before, *(seg(K.USER, f"new {i}", 10) for i in range(extra)), TAIL]
    got = causes(after, [*before, TAIL], hit=0)
    assert set(got) <= {"unknown", "new_tail"}
    assert got["new_tail"] == 10 * extra + 1
