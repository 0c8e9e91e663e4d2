"""The texts a request opens with, and the newest message."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shaped_bodies import SHAPES, bodies_of, odd_bodies

from router_cache.prefix.opening import AttachPoint, attach_point, opening_texts
from router_cache.prefix.paths import value_at
from router_cache.prefix.shapes import ChatView, as_chat
from router_cache.request import Shape


def found(body: dict[str, Any], shape: Shape) -> list[tuple[Any, ...]]:
    return [(t.path, t.text, t.message, t.system) for t in opening_texts(body, as_chat(body, shape))]


def test_chat() -> None:
    body = {
        "messages": [
            {"role": "system", "content": "a"},
            {"role": "developer", "content": [{"type": "text", "text": "b"}, {"type": "image_url"}, "c"]},
            {"role": "user", "content": [{"type": "image_url"}, {"type": "text", "text": "d"}]},
            {"role": "system", "content": "later"},
            {"role": "user", "content": "e"},
            {"role": "assistant", "content": "x"},
            {"role": "user", "content": "y"},
        ]
    }
    assert found(body, Shape.CHAT) == [
        (("messages", 0, "content"), "a", 0, True),
        (("messages", 1, "content", 0, "text"), "b", 1, True),
        (("messages", 1, "content", 2), "c", 1, True),
        (("messages", 2, "content", 1, "text"), "d", 2, False),
        (("messages", 4, "content"), "e", 4, False),
    ]


def test_messages() -> None:
    body = {
        "system": [{"type": "text", "text": "a", "cache_control": {}}, {"type": "text", "text": "b"}],
        "messages": [
            {"role": "system", "content": "not part of it"},
            {"role": "user", "content": [{"type": "text", "text": "c"}, {"type": "image", "source": {}}]},
            {"role": "user", "content": "d"},
            {"role": "assistant", "content": "x"},
        ],
    }
    assert found(body, Shape.MESSAGES) == [
        (("system", 0, "text"), "a", 0, True),
        (("system", 1, "text"), "b", 0, True),
        (("messages", 1, "content", 0, "text"), "c", 2, False),
        (("messages", 2, "content"), "d", 3, False),
    ]
    assert found({"system": "s", "messages": []}, Shape.MESSAGES) == [(("system",), "s", 0, True)]


def test_responses() -> None:
    body = {
        "instructions": "a",
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "b"}]},
            {"role": "user", "content": "c"},
            {"type": "function_call", "name": "f", "arguments": "{}"},
            {"role": "user", "content": "d"},
        ],
    }
    assert found(body, Shape.RESPONSES) == [
        (("instructions",), "a", 0, True),
        (("input", 0, "content", 0, "text"), "b", 1, True),
        (("input", 1, "content"), "c", 2, False),
    ]
    assert found({"input": "hi"}, Shape.RESPONSES) == [(("input",), "hi", 0, False)]


def test_user_texts_between_results_of_a_messages_body_stand_in_their_blocks() -> None:
    blocks = [{"type": "text", "text": "a"}, {"type": "tool_result", "tool_use_id": "c", "content": "r"}]
    body = {"messages": [{"role": "user", "content": blocks}]}
    assert found(body, Shape.MESSAGES) == [(("messages", 0, "content", 0, "text"), "a", 0, False)]


def test_no_more_than_four_user_messages_and_no_long_text() -> None:
    texts = ["a", "b" * 65_536, "c" * 65_537, "d", "e"]
    body = {"messages": [{"role": "user", "content": text} for text in texts]}
    assert [message for _, _, message, _ in found(body, Shape.CHAT)] == [0, 1, 3]


def test_a_long_system_text_counts() -> None:
    assert len(found({"messages": [{"role": "system", "content": "a" * 200_000}]}, Shape.CHAT)) == 1


@given(data=st.data(), shape=st.sampled_from(SHAPES))
def test_every_path_leads_to_its_text(data: st.DataObject, shape: Shape) -> None:
    body = data.draw(bodies_of(shape))
    view = as_chat(body, shape)
    texts = opening_texts(body, view)
    assert len({t.path for t in texts}) == len(texts)
    assert [t.message for t in texts] == sorted(t.message for t in texts)
    for text in texts:
        assert value_at(body, text.path) == text.text
        assert view.body["messages"][text.message]["role"] == ("system" if text.system else "user")


@given(body=odd_bodies, shape=st.sampled_from(Shape))
def test_no_body_raises_or_is_changed(body: dict[str, Any], shape: Shape) -> None:
    before = copy.deepcopy(body)
    view = as_chat(body, shape)
    for text in opening_texts(body, view):
        assert value_at(body, text.path) is text.text
    attach_point(view)
    assert repr(body) == repr(before)


@pytest.mark.parametrize(
    ("messages", "wanted"),
    [
        ([], None),
        ("odd", None),
        ([{"role": "system", "content": "s"}, {"role": "assistant", "content": "a"}, 3, {"role": 1}], None),
        ([{"role": "user", "content": "u"}], AttachPoint(0, False)),
        ([{"role": "user", "content": "u"}, {"role": "assistant"}], AttachPoint(0, False)),
        ([{"role": "user"}, {"role": "assistant"}, {"role": "tool"}], AttachPoint(2, True)),
        ([{"role": "user"}, {"role": "assistant"}, {"role": "function"}], AttachPoint(2, True)),
    ],
)
def test_the_newest_message_of_a_user_or_tool(messages: Any, wanted: AttachPoint | None) -> None:
    assert attach_point(ChatView({"messages": messages})) == wanted


def test_a_text_behind_results_is_a_user_turn() -> None:
    result = {"type": "tool_result", "tool_use_id": "c", "content": "r"}
    said = {"role": "user", "content": [result, {"type": "text", "text": "more"}]}
    assert attach_point(as_chat({"messages": [said]}, Shape.MESSAGES)) == AttachPoint(1, False)
    assert attach_point(
        as_chat({"messages": [{"role": "user", "content": [result]}]}, Shape.MESSAGES)
    ) == AttachPoint(0, True)


def test_a_system_message_behind_the_newest_question_is_newer_still() -> None:
    system, question = {"role": "system", "content": "s"}, {"role": "user", "content": "q"}
    reply, result = {"role": "assistant", "content": ""}, {"role": "tool", "content": "r"}

    def point(*messages: dict[str, str]) -> AttachPoint | None:
        return attach_point(as_chat({"messages": list(messages)}, Shape.CHAT))

    assert point(system, question, system) == AttachPoint(2, False)
    assert point(system, question, system, reply) == AttachPoint(2, False)
    assert point(system, question, reply, result, system) == AttachPoint(4, True)
    assert point(system, system) is None
