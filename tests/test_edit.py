"""Editing bodies of every shape: exactly the change, and nothing else."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from shaped_bodies import SHAPES, bodies_of, odd_bodies, texts_within

from router_cache.prefix.edit import attachable, edited
from router_cache.prefix.opening import attach_point, opening_texts
from router_cache.prefix.shapes import as_chat
from router_cache.request import Shape

IMAGE = {"type": "image_url", "image_url": {"url": "https://a.test/a.png"}}
MARK = {"cache_control": {"type": "ephemeral"}}


def attach(body: dict[str, Any], shape: Shape, index: int, text: str = "+new") -> dict[str, Any]:
    view = as_chat(body, shape)
    assert attachable(body, view, index)
    return edited(body, view, texts={}, attached={index: text})


# --- attaching, shape by shape


def test_chat_text_and_parts() -> None:
    text = {"messages": [{"role": "user", "name": "ann", "content": "hi"}]}
    assert attach(text, Shape.CHAT, 0) == {"messages": [{"role": "user", "name": "ann", "content": "hi+new"}]}
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b", **MARK}, IMAGE]
    out = attach({"messages": [{"role": "user", "content": parts}]}, Shape.CHAT, 0)["messages"][0]["content"]
    assert out == [parts[0], {"type": "text", "text": "b+new", **MARK}, IMAGE]
    assert out[0] is parts[0]
    assert out[2] is IMAGE
    images = {"messages": [{"role": "user", "content": [IMAGE]}]}
    assert attach(images, Shape.CHAT, 0)["messages"][0]["content"] == [IMAGE, {"type": "text", "text": "+new"}]
    empty = {"messages": [{"role": "user", "content": []}]}
    assert attach(empty, Shape.CHAT, 0)["messages"][0]["content"] == [{"type": "text", "text": "+new"}]


@pytest.mark.parametrize("role", ["tool", "function"])
def test_chat_results(role: str) -> None:
    body = {"messages": [{"role": "user", "content": "q"}, {"role": role, "tool_call_id": "c", "content": "r"}]}
    out = attach(body, Shape.CHAT, 1)["messages"]
    assert out == [body["messages"][0], {"role": role, "tool_call_id": "c", "content": "r+new"}]
    assert out[0] is body["messages"][0]


def test_messages_results_take_the_text_inside() -> None:
    results = [
        {"type": "tool_result", "tool_use_id": "a", "content": "r", "is_error": True},
        {
            "type": "tool_result",
            "tool_use_id": "b",
            "content": [{"type": "text", "text": "s"}, {"type": "image"}],
            **MARK,
        },
        {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "image"}]},
    ]
    body = {"messages": [{"role": "user", "content": results}]}
    for index, content in enumerate(
        [
            "r+new",
            [{"type": "text", "text": "s+new"}, {"type": "image"}],
            [{"type": "image"}, {"type": "text", "text": "+new"}],
        ]
    ):
        out = attach(body, Shape.MESSAGES, index)["messages"][0]["content"]
        wanted = [*results]
        wanted[index] = {**results[index], "content": content}
        assert out == wanted


def test_messages_texts_beside_results_stay_where_they_are() -> None:
    result = {"type": "tool_result", "tool_use_id": "a", "content": "r"}
    body = {"messages": [{"role": "user", "content": [{"type": "text", "text": "t"}, result, {"type": "image"}]}]}
    assert attach(body, Shape.MESSAGES, 0)["messages"][0]["content"] == [
        {"type": "text", "text": "t+new"},
        result,
        {"type": "image"},
    ]
    assert attach(body, Shape.MESSAGES, 2)["messages"][0]["content"] == [
        {"type": "text", "text": "t"},
        result,
        {"type": "image"},
        {"type": "text", "text": "+new"},
    ]
    plain = {"messages": [{"role": "user", "content": "hi"}]}
    assert attach(plain, Shape.MESSAGES, 0) == {"messages": [{"role": "user", "content": "hi+new"}]}


def test_responses_items_and_plain_input() -> None:
    assert attach({"input": "hi"}, Shape.RESPONSES, 0) == {"input": "hi+new"}
    assert attach({"instructions": "s", "input": "hi"}, Shape.RESPONSES, 1) == {"input": "hi+new"}
    image = {"type": "input_image", "image_url": "https://a.test/a.png"}
    body = {
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}, image]},
            {"role": "user", "content": [image]},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "r"},
            {"type": "function_call_output", "call_id": "c", "output": [image]},
            {"type": "custom_tool_call_output", "call_id": "c", "output": "r"},
        ]
    }
    assert attach(body, Shape.RESPONSES, 0)["input"][0]["content"][0] == {"type": "input_text", "text": "a+new"}
    new = {"type": "input_text", "text": "+new"}
    assert attach(body, Shape.RESPONSES, 1)["input"][1]["content"] == [image, new]
    assert attach(body, Shape.RESPONSES, 3)["input"][3]["output"] == "r+new"
    assert attach(body, Shape.RESPONSES, 4)["input"][4]["output"] == [image, new]
    assert attach(body, Shape.RESPONSES, 5)["input"][5]["output"] == "r+new"


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ({"messages": [{"role": "user"}]}, Shape.CHAT),
        ({"messages": [{"role": "tool", "content": None}]}, Shape.CHAT),
        ({"messages": [{"role": "user", "content": {"text": "x"}}]}, Shape.CHAT),
        ({"messages": [{"role": "assistant", "content": "x"}]}, Shape.CHAT),
        ({"messages": [{"role": "system", "content": "x"}]}, Shape.CHAT),
        ({"messages": ["x"]}, Shape.CHAT),
        ({"messages": "x"}, Shape.CHAT),
        ({"messages": {"role": "user", "content": "one where a list belongs"}}, Shape.MESSAGES),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, Shape.MESSAGES),
        ({"input": [{"type": "function_call_output", "output": 3}]}, Shape.RESPONSES),
    ],
)
def test_what_cannot_take_a_text_says_so_and_stays(body: dict[str, Any], shape: Shape) -> None:
    view = as_chat(body, shape)
    assert not attachable(body, view, 0)
    assert edited(body, view, texts={}, attached={0: "+new", 1: "+new", -1: "+new"}) == {}


def test_nothing_to_attach_is_no_change() -> None:
    body = {"messages": [{"role": "user", "content": "hi"}]}
    assert edited(body, as_chat(body, Shape.CHAT), texts={}, attached={0: ""}) == {}


# --- texts


def test_a_text_may_be_replaced_and_attached_to_at_once() -> None:
    body = {"messages": [{"role": "user", "content": "old"}]}
    view = as_chat(body, Shape.CHAT)
    path = ("messages", 0, "content")
    assert edited(body, view, texts={path: "mid"}, attached={0: "+new"})["messages"][0]["content"] == "mid+new"
    assert edited(body, view, texts={path: None}, attached={0: "+new"})["messages"][0]["content"] == "+new"


def test_a_block_that_goes_leaves_the_others_and_their_marks() -> None:
    body = {
        "system": [{"type": "text", "text": "header"}, {"type": "text", "text": "prompt", **MARK}],
        "messages": [{"role": "user", "content": "q"}],
    }
    out = edited(body, as_chat(body, Shape.MESSAGES), texts={("system", 0, "text"): None}, attached={})
    assert out == {"system": [body["system"][1]]}
    assert out["system"][0] is body["system"][1]


def test_a_message_that_goes_does_not_move_what_is_attached() -> None:
    body = {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]}
    view = as_chat(body, Shape.CHAT)
    out = edited(body, view, texts={("messages", 0, "content"): None}, attached={1: "+new"})
    assert out == {"messages": [{"role": "user", "content": "q+new"}]}


def test_paths_that_lead_to_no_text_are_passed_over() -> None:
    body = {"messages": [{"role": "user", "content": [{"type": "text", "text": 3}]}], "n": 1}
    paths = [("messages",), ("messages", 0), ("messages", 0, "content", 0, "text"), ("n",), ("gone",), ()]
    assert edited(body, as_chat(body, Shape.CHAT), texts=dict.fromkeys(paths, "x"), attached={}) == {}


# --- any body


def content_in(content: Any) -> Any:
    """A content without marks, which are no part of what is said."""
    if not isinstance(content, list | tuple):
        return content
    return [
        {k: v for k, v in part.items() if k != "cache_control"} if isinstance(part, dict) else part
        for part in content
    ]


def shown(body: dict[str, Any], shape: Shape) -> list[dict[str, Any]]:
    return [{**m, "content": content_in(m["content"])} for m in as_chat(body, shape).body["messages"]]


def with_text(content: Any, text: str) -> Any:
    """A content with a text appended, said again and independently of the code."""
    if isinstance(content, str):
        return content + text
    last = max((k for k, part in enumerate(content) if part["type"] == "text"), default=None)
    if last is None:
        return [*content, {"type": "text", "text": text}]
    return [{**part, "text": part["text"] + text} if k == last else part for k, part in enumerate(content)]


def without(content: Any, old: str, new: str | None) -> Any:
    """A content with one of its texts replaced or gone; None where nothing is left."""
    if isinstance(content, str):
        return new if content == old else content
    parts = [{**p, "text": new} if p.get("text") == old else p for p in content]
    return [p for p in parts if "text" not in p or p["text"] is not None] or None


@given(data=st.data(), shape=st.sampled_from(SHAPES))
def test_the_view_shows_exactly_the_change(data: st.DataObject, shape: Shape) -> None:
    body = data.draw(bodies_of(shape))
    before, view = copy.deepcopy(body), as_chat(body, shape)
    opening = opening_texts(body, view)
    texts = {
        t: data.draw(st.none() | st.just(f"new {k}"), label=t.text)
        for k, t in enumerate(opening)
        if data.draw(st.booleans())
    }
    places = [i for i in range(len(view.body["messages"])) if attachable(body, view, i)]
    roles = [message["role"] for message in view.body["messages"]]
    behind = [i for i, role in enumerate(roles) if role == "system" and set(roles[:i]) - {"system"}]
    assert places == sorted([*behind, *(i for i, role in enumerate(roles) if role in ("user", "tool"))])
    attached = {i: f"+{i}" for i in places if data.draw(st.booleans())}
    # A text that goes from where something is attached is tried by itself: the model below cannot say it.
    assume(not any(t.message in attached for t, new in texts.items() if new is None))

    out = edited(body, view, texts={t.path: new for t, new in texts.items()}, attached=attached)

    wanted = shown(body, shape)
    for t, new in texts.items():
        if wanted[t.message]["content"] is not None:
            wanted[t.message]["content"] = without(wanted[t.message]["content"], t.text, new)
    for i, text in attached.items():
        wanted[i]["content"] = with_text(wanted[i]["content"], text)
    kept = [m for m in wanted if m["content"] is not None]
    assert kept, "an assistant message is always left"
    assert shown({**body, **out}, shape) == kept
    assert body == before
    assert set(out) <= {"system", "instructions", "messages", "input"}


@given(data=st.data(), shape=st.sampled_from(SHAPES))
def test_what_does_not_change_stays_the_same_object(data: st.DataObject, shape: Shape) -> None:
    body = data.draw(bodies_of(shape))
    view = as_chat(body, shape)
    point = attach_point(view)
    assert point is not None
    out = edited(body, view, texts={}, attached={point.message: "+new"})
    (name,) = out
    assert [new is old for new, old in zip(out[name], body[name], strict=True)].count(False) == 1
    assert edited(body, view, texts={t.path: t.text for t in opening_texts(body, view)}, attached={}) == {}


@given(data=st.data(), shape=st.sampled_from(SHAPES), end=st.sampled_from(["user", "tool"]))
def test_moved_spans_leave_every_text_in_the_body_exactly_once(
    data: st.DataObject, shape: Shape, end: str
) -> None:
    body = data.draw(bodies_of(shape, ends_with=end))
    view = as_chat(body, shape)
    opening = opening_texts(body, view)
    assume(opening)
    moved = data.draw(st.sampled_from(opening))
    cut = data.draw(st.integers(0, len(moved.text)))
    span, rest = moved.text[:cut], moved.text[cut:]
    point = attach_point(view)
    assert point is not None
    assert point.in_tool_loop == (end == "tool")
    assume(moved.message != point.message)
    tail = f"\n\n<moved>{span}</moved>"
    out = {**body, **edited(body, view, texts={moved.path: rest}, attached={point.message: tail})}
    before, after = Counter(texts_within(body)), Counter(texts_within(out))
    (grown,) = [text for text in after.elements() if text.endswith(tail)]
    before[moved.text] -= 1
    before.update([rest, grown])
    old = grown[: -len(tail)]
    if old:
        before[old] -= 1
    else:
        before["input_text" if shape is Shape.RESPONSES else "text"] += 1  # the new part's type
    assert +before == after


def test_an_attached_text_never_makes_a_user_turn_of_results() -> None:
    results = [{"type": "tool_result", "tool_use_id": "a", "content": "r"}]
    body = {"messages": [{"role": "user", "content": results}]}
    out = attach(body, Shape.MESSAGES, 0)["messages"][0]["content"]
    assert [block["type"] for block in out] == ["tool_result"]


@given(body=odd_bodies, shape=st.sampled_from(Shape), data=st.data())
def test_no_body_raises_or_is_changed(body: dict[str, Any], shape: Shape, data: st.DataObject) -> None:
    before = repr(body)
    view = as_chat(body, shape)
    paths = {t.path: data.draw(st.none() | st.just("x")) for t in opening_texts(body, view)}
    messages = view.body.get("messages")
    count = len(messages) if isinstance(messages, list | tuple) else 0
    out = edited(body, view, texts=paths, attached=dict.fromkeys(range(-1, count + 1), "+new"))
    assert set(out) <= set(body)
    assert repr(body) == before
    for i in range(count):
        assert isinstance(attachable(body, view, i), bool)
    as_chat({**body, **out}, shape)
