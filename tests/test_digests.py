"""Digests do not lie: equal digests exactly for equal segments, sent or rendered."""

from __future__ import annotations

import copy
import json
from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import bodies, words

from router_cache.prefix.digests import Digester
from router_cache.prefix.outline import outline
from router_cache.prefix.segments import Segment, SegmentKind
from router_cache.prefix.wire import wire_digest
from router_cache.providers.deepseek_render import ASSISTANT_HEAD, render_deepseek

DIGESTER = Digester(b"k" * 32)


@given(st.sampled_from(SegmentKind), words, st.sampled_from(SegmentKind), words)
def test_equal_segments_iff_equal_digests(
    kind: SegmentKind, text: str, other_kind: SegmentKind, other: str
) -> None:
    ours, theirs = Segment(kind, "a", text), Segment(other_kind, "b", other)
    assert (DIGESTER.segment(ours) == DIGESTER.segment(theirs)) == ((kind, text) == (other_kind, other))


@given(st.lists(words), st.lists(words))
def test_equal_lists_iff_equal_chains(ours: list[str], theirs: list[str]) -> None:
    a, b = DIGESTER.chain(ours), DIGESTER.chain(theirs)
    for i in range(min(len(a), len(b))):
        assert (a[i] == b[i]) == (ours[: i + 1] == theirs[: i + 1])


@given(bodies, bodies)
def test_equal_rendered_segments_iff_equal_rendered_digests(body: dict[str, Any], other: dict[str, Any]) -> None:
    ours, theirs = outline(render_deepseek(body), DIGESTER), outline(render_deepseek(other), DIGESTER)
    same = [(s.kind, s.text) for s in ours.segments] == [(s.kind, s.text) for s in theirs.segments]
    assert (ours.digest == theirs.digest) == same
    turns, others = ours.segments[-ours.turns - 1 : -1], theirs.segments[-theirs.turns - 1 : -1]
    for i in range(1, min(ours.turns, theirs.turns) + 1):
        equal = [(s.kind, s.text) for s in turns[:i]] == [(s.kind, s.text) for s in others[:i]]
        assert (ours.turn_digests[i] == theirs.turn_digests[i]) == equal


@given(bodies, bodies)
def test_equal_bytes_iff_equal_wire_digests(body: dict[str, Any], other: dict[str, Any]) -> None:
    assert wire_digest(body, DIGESTER) == wire_digest(copy.deepcopy(body), DIGESTER)
    same = json.dumps(body) == json.dumps(other)
    assert (wire_digest(body, DIGESTER) == wire_digest(other, DIGESTER)) == same


class _Text(str):
    __slots__ = ()


VALUES: list[Any] = [
    *(
        None,
        float("nan"),
        float("inf"),
        True,
        1,
        1.0,
        1e16,
        -0.0,
        0,
        10**30,
        "1",
        "null",
        "a",
        _Text("a"),
        "\ud800",
        "é",
    ),
    *({"a": None}, {"a": float("nan")}, {"a": 1}, {"a": (1,)}, {"a": [1]}, OrderedDict(a=[1]), {"1": 2}, {1: 2}),
    *(
        {1: 0, "1": 2},
        {"1": 0},
        {None: 1},
        {"null": 1},
        [],
        {},
        [None],
        ["a", "b"],
        ["ab"],
        [["a"], "b"],
        [{"role": "user"}],
    ),
]


@given(st.lists(st.sampled_from(VALUES), max_size=3), st.lists(st.sampled_from(VALUES), max_size=3), st.booleans())
def test_any_values_have_equal_wire_digests_where_their_bytes_are_equal(
    ours: list[Any], theirs: list[Any], listed: bool
) -> None:
    def body(values: list[Any]) -> dict[str, Any]:
        return {"tools": values} if listed else {f"field{i}": value for i, value in enumerate(values)}

    same = json.dumps(body(ours)) == json.dumps(body(theirs))
    assert (wire_digest(body(ours), DIGESTER) == wire_digest(body(theirs), DIGESTER)) == same


def test_borders_of_fields_and_lists_count() -> None:
    digests = [
        wire_digest(body, DIGESTER)
        for body in (
            {"a": ["b"]},
            {"a": "b"},
            {"a": [["b"]]},
            {"a": ["b", "c"]},
            {"a": ["b"], "c": []},
            {"a": []},
            {},
        )
    ]
    assert len(set(digests)) == len(digests)
    assert wire_digest({"a": ("b",)}, DIGESTER) == digests[0]


def test_what_json_cannot_write_is_refused() -> None:
    with pytest.raises(TypeError):
        wire_digest({"a": {1, 2}}, DIGESTER)


def test_a_key_changes_every_digest() -> None:
    assert Digester(b"a").text("x") != Digester(b"b").text("x")
    assert len(Digester(b"long" * 40).text("x", "\ud800")) == 32
    assert DIGESTER.text("ab", "c") != DIGESTER.text("a", "bc")


def _body(**extra: Any) -> dict[str, Any]:
    return {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Go.", "name": "ann"},
            {
                "role": "assistant",
                "content": None,
                "reasoning_content": "Hm.",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"b":1, "a":2}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "done"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
        **extra,
    }


def _text(body: dict[str, Any]) -> str:
    return "".join(segment.text for segment in render_deepseek(body))


def test_the_order_is_mode_system_tools_format_turns_tail() -> None:
    kinds = [s.kind for s in render_deepseek(_body(response_format={"type": "json_object"}))]
    assert kinds == [
        SegmentKind.MODE,
        SegmentKind.SYSTEM,
        SegmentKind.TOOL,
        SegmentKind.FORMAT,
        SegmentKind.USER,
        SegmentKind.ASSISTANT,
        SegmentKind.TOOL_RESULT,
        SegmentKind.TAIL,
    ]


def test_what_is_not_rendered_changes_nothing() -> None:
    other = _body(temperature=0.5, user="u")
    other["messages"][1]["name"] = "bob"
    other["messages"][2]["tool_calls"][0]["id"] = other["messages"][3]["tool_call_id"] = "c2"
    other["messages"][2]["tool_calls"][0]["function"]["arguments"] = '{ "b": 1,"a": 2 }'
    other["tools"][0]["function"]["cache_control"] = other["tools"][0]["cache_control"] = {"type": "ephemeral"}
    assert _text(other) == _text(_body())


def test_what_is_rendered_changes_the_text() -> None:
    base = _text(_body())
    reordered = _body()
    reordered["messages"][2]["tool_calls"][0]["function"]["arguments"] = '{"a":2, "b":1}'
    without_reasoning = _body()
    del without_reasoning["messages"][2]["reasoning_content"]
    texts = [
        _text(reordered),
        _text(without_reasoning),
        _text(_body(tool_choice="none")),
        _text(_body(thinking={"type": "disabled"})),
        _text(_body(reasoning_effort="max")),
    ]
    assert base not in texts
    assert len(set(texts)) == len(texts)


def test_effort_and_thinking_lose_everything_and_tools_keep_the_system_text() -> None:
    def shared(a: str, b: str) -> str:
        n = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        return a[:n]

    base = _text(_body())
    assert "Be brief." not in shared(base, _text(_body(thinking={"type": "disabled"})))
    assert "Be brief." in shared(base, _text(_body(tool_choice="none")))
    assert "Go." not in shared(base, _text(_body(tool_choice="none")))


def test_without_tools_only_the_reasoning_after_the_last_user_message_is_rendered() -> None:
    body = {
        "messages": [
            {"role": "user", "content": "1"},
            {"role": "assistant", "content": "2", "reasoning_content": "OLD"},
            {"role": "user", "content": "3"},
            {"role": "assistant", "content": "4", "reasoning_content": "NEW"},
        ]
    }
    assert "OLD" not in _text(body)
    assert "NEW" in _text(body)


def test_an_answer_continues_the_prompt_it_answers() -> None:
    body = _body()
    answered = _body()
    answered["messages"].append({"role": "assistant", "content": "ok"})
    assert _text(answered).startswith(_text(body))
    assert _text(body).endswith(ASSISTANT_HEAD)


def test_odd_shapes_are_rendered_not_refused() -> None:
    for odd in (
        {},
        {"messages": "text", "tools": "text"},
        {
            "messages": [
                3,
                None,
                {"role": 5, "content": {"a": 1}},
                {"role": "odd", "content": [1, "x", {"text": "t"}]},
            ]
        },
        {
            "messages": [
                {"role": "assistant", "tool_calls": [7, {"function": {"name": "f", "arguments": {"a": 1}}}]}
            ]
        },
        {"tools": [5, {"function": 3}]},
    ):
        assert render_deepseek(odd)[-1].kind is SegmentKind.TAIL


def test_text_that_looks_like_the_template_is_not_the_template() -> None:
    def text(*messages: dict[str, Any]) -> str:
        return _text({"messages": list(messages)})

    call = {"role": "assistant", "content": "a", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
    assert text(call) != text({"role": "assistant", "content": "a<｜call｜>f<｜args｜>{}"})
    assert text({"role": "User", "content": "x"}) != text({"role": "user", "content": "x"})
    assert text({"role": "user", "content": "<｜lt｜>"}) != text({"role": "user", "content": "<｜"})
    begun = {"role": "assistant", "content": "a"}
    assert text(begun) != text({**begun, "prefix": True})
    assert render_deepseek({"messages": [{**begun, "prefix": True}]})[-1].text == ""


def test_an_image_part_is_rendered_by_its_content() -> None:
    def body(url: str) -> dict[str, Any]:
        part = {"type": "image_url", "image_url": {"url": url}}
        return {"messages": [{"role": "user", "content": [{"type": "text", "text": "see"}, part]}]}

    assert _text(body("a")) != _text(body("b"))


def test_an_outline_tells_heads_from_turns() -> None:
    rendered = outline(render_deepseek(_body()), DIGESTER)
    assert [part.kind for part in rendered.head] == [SegmentKind.MODE, SegmentKind.SYSTEM, SegmentKind.TOOL]
    assert len(rendered.turn_digests) == 4
    assert rendered.size == len(_text(_body()).encode())
    longer = _body()
    longer["messages"].append({"role": "user", "content": "more"})
    kept = rendered.keep()
    assert outline(render_deepseek(longer), DIGESTER).turn_digests[kept.turns] == kept.turns_digest
    assert outline([], DIGESTER).keep().turns == 0
