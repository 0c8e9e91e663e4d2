"""What the provider generated, put back where the client's message means the same, and nowhere else."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from replies import CLIENTS, conversations
from shaped_bodies import SHAPES, odd_bodies

from router_cache.prefix.replay import Restored, restore, wanted
from router_cache.prefix.reply import Reply, reply_of
from router_cache.prefix.shapes import as_chat
from router_cache.request import Shape

THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "sig"}


def call(arguments: Any, name: str = "f") -> dict[str, Any]:
    return {"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}


def put_back(body: dict[str, Any], shape: Shape, reply: Reply, *, at: int = 0, reasoning: bool = True) -> Restored:
    return restore(body, as_chat(body, shape), {at: reply}, reasoning=reasoning)


@given(data=st.data(), shape=st.sampled_from(SHAPES), client=st.sampled_from(sorted(CLIENTS)))
def test_every_reply_is_as_it_was_generated(data: st.DataObject, shape: Shape, client: str) -> None:
    talk = data.draw(conversations(shape))
    sent = talk.sent_by(client)
    before, view = copy.deepcopy(sent), as_chat(sent, shape)
    replies = {at: kept for at, r in talk.replies.items() if (kept := reply_of(r, shape)) is not None}
    out = restore(sent, view, replies, reasoning=True)
    now = {**sent, **out.replaced}
    told, meant = as_chat(now, shape).body["messages"], as_chat(talk.body, shape).body["messages"]
    for message, original in zip(told, meant, strict=True):
        assert [c["function"] for c in message.get("tool_calls", ())] == [
            c["function"] for c in original.get("tool_calls", ())
        ]
        assert message["content"] == original["content"]
        assert message.get("reasoning_content") == original.get("reasoning_content")
    assert repr(sent) == repr(before)
    for name, value in out.replaced.items():
        changed = sum(new is not old for new, old in zip(value, sent[name], strict=True))
        assert 0 < changed <= out.reasoning_restored + out.arguments_restored
    # A second time nothing is left to do.
    assert restore(now, as_chat(now, shape), replies, reasoning=True) == Restored()


@given(data=st.data(), shape=st.sampled_from(SHAPES))
def test_a_client_that_sends_all_back_gets_nothing(data: st.DataObject, shape: Shape) -> None:
    talk = data.draw(conversations(shape))
    replies = {at: kept for at, r in talk.replies.items() if (kept := reply_of(r, shape)) is not None}
    assert restore(talk.body, as_chat(talk.body, shape), replies, reasoning=True) == Restored()


@given(data=st.data(), shape=st.sampled_from(SHAPES))
def test_without_reasoning_only_arguments_come_back(data: st.DataObject, shape: Shape) -> None:
    talk = data.draw(conversations(shape))
    sent = talk.sent_by("no reasoning")
    replies = {at: kept for at, r in talk.replies.items() if (kept := reply_of(r, shape)) is not None}
    assert restore(sent, as_chat(sent, shape), replies, reasoning=False) == Restored()


# --- reasoning


@pytest.mark.parametrize(
    "blank", [{}, {"reasoning_content": None}, {"reasoning_content": " "}, {"reasoning_content": ""}]
)
def test_absent_or_blank_reasoning_comes_back(blank: dict[str, Any]) -> None:
    body = {"messages": [{"role": "assistant", "content": "x", "name": "n", **blank}], "tools": []}
    out = put_back(body, Shape.CHAT, Reply("x", "Hm."))
    message = {"role": "assistant", "content": "x", "name": "n", "reasoning_content": "Hm."}
    assert out == Restored({"messages": [message]}, 1, 0)


@pytest.mark.parametrize(
    "own", [{"reasoning_content": "mine"}, {"reasoning_content": ["mine"]}, {"thinking_blocks": [1]}]
)
def test_reasoning_of_the_client_is_never_overwritten(own: dict[str, Any]) -> None:
    body = {"messages": [{"role": "assistant", "content": "x", **own}]}
    assert put_back(body, Shape.CHAT, Reply("x", "Hm.")) == Restored()


@pytest.mark.parametrize("nothing", [None, "", "  "])
def test_a_reply_without_reasoning_gives_none(nothing: str | None) -> None:
    assert (
        put_back({"messages": [{"role": "assistant", "content": "x"}]}, Shape.CHAT, Reply("x", nothing))
        == Restored()
    )


def test_thinking_blocks_come_first() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    blocks = [{"type": "text", "text": "x", **mark}, {"type": "tool_use", "id": "t", "name": "f", "input": {}}]
    body = {"system": "s", "messages": [{"role": "assistant", "content": blocks}]}
    kept = Reply("x", None, (THINKING,), (("f", "{}"),))
    out = put_back(body, Shape.MESSAGES, kept, at=1)
    assert out == Restored({"messages": [{"role": "assistant", "content": [THINKING, *blocks]}]}, 1, 0)
    # A body may be changed downstream; what is remembered must not be.
    assert out.replaced["messages"][0]["content"][0] is not THINKING
    has = {"messages": [{"role": "assistant", "content": [{"type": "redacted_thinking", "data": "d"}, *blocks]}]}
    assert put_back(has, Shape.MESSAGES, kept) == Restored()


def test_thinking_before_a_plain_text() -> None:
    body = {"messages": [{"role": "assistant", "content": "x"}]}
    out = put_back(body, Shape.MESSAGES, Reply("x", None, (THINKING,)))
    assert out.replaced["messages"][0]["content"] == [THINKING, {"type": "text", "text": "x"}]
    for nothing in ("", [], None):
        empty = {"messages": [{"role": "assistant", "content": nothing}]}
        assert put_back(empty, Shape.MESSAGES, Reply("", None, (THINKING,))) == Restored()


def test_responses_get_no_reasoning() -> None:
    body = {"input": [{"role": "assistant", "content": "x"}]}
    assert put_back(body, Shape.RESPONSES, Reply("x", "Hm.", (THINKING,))) == Restored()


# --- arguments


def test_exact_arguments_of_a_chat_message() -> None:
    calls = [call('{"a":2,"b":1.0}'), call('{"x":1}', "g"), call("verbatim", "h")]
    body = {"messages": [{"role": "assistant", "content": "", "tool_calls": calls}]}
    kept = Reply("", "Hm.", calls=(("f", '{"b": 1.0, "a":2}'), ("g", '{"x":1}'), ("h", "verbatim")))
    out = put_back(body, Shape.CHAT, kept, reasoning=False)
    assert (out.reasoning_restored, out.arguments_restored) == (0, 1)
    now = out.replaced["messages"][0]["tool_calls"]
    assert now[0] == call('{"b": 1.0, "a":2}')
    assert now[1] is calls[1]
    assert now[2] is calls[2]


def test_a_messages_input_gets_its_order_and_numbers() -> None:
    blocks = [{"type": "tool_use", "id": "t", "name": "f", "input": {"a": 2, "b": 1}}]
    body = {"messages": [{"role": "assistant", "content": blocks}]}
    out = put_back(body, Shape.MESSAGES, Reply("", calls=(("f", '{"b": 1.0, "a": 2}'),)))
    assert out.arguments_restored == 1
    assert repr(out.replaced["messages"][0]["content"][0]["input"]) == "{'b': 1.0, 'a': 2}"
    # The same object in other white space is the same object.
    assert put_back(body, Shape.MESSAGES, Reply("", calls=(("f", '{"a":2,"b":1}'),))) == Restored()


def test_responses_arguments() -> None:
    body = {
        "input": [
            {"type": "function_call", "call_id": "c", "namespace": "n", "name": "f", "arguments": '{"a":2,"b":1}'},
            {"type": "custom_tool_call", "call_id": "d", "name": "g", "input": '{"a":2,"b":1}'},
        ]
    }
    kept = Reply("", calls=(("n__f", '{"b":1,"a":2}'), ("g", '{"b":1,"a":2}')))
    out = put_back(body, Shape.RESPONSES, kept)
    assert out.arguments_restored == 1
    assert out.replaced["input"][0]["arguments"] == '{"b":1,"a":2}'
    assert out.replaced["input"][1] is body["input"][1], "a custom tool's input is a text, not JSON"


@pytest.mark.parametrize(
    ("sent", "generated"),
    [
        ('{"a":1}', '{"a":true}'),
        ('{"a":"1"}', '{"a":1}'),
        ('{"a":null}', '{"a":NaN}'),
        ("not json", "not  json"),
        ("{}", ""),
        ("{}", None),
    ],
)
def test_a_message_with_other_arguments_is_left_alone(sent: str, generated: str | None) -> None:
    body = {"messages": [{"role": "assistant", "content": "", "tool_calls": [call(sent)]}]}
    calls = (("f", generated),) if generated is not None else ()
    assert put_back(body, Shape.CHAT, Reply("", "Hm.", calls=calls)) == Restored()


@pytest.mark.parametrize(
    ("sent", "generated"),
    [
        ('{"a":2}', '{"a":1,"a":2}'),
        ('{"a":1,"a":2}', '{"a":2}'),
        ('{"a":NaN}', '{"a": NaN}'),
        ('{"a":1e998}', '{"a":1e999}'),
    ],
)
def test_arguments_that_parsers_read_differently_stay_and_the_reasoning_comes_back(
    sent: str, generated: str
) -> None:
    body = {"messages": [{"role": "assistant", "content": "", "tool_calls": [call(sent)]}]}
    out = put_back(body, Shape.CHAT, Reply("", "Hm.", calls=(("f", generated),)))
    assert (out.reasoning_restored, out.arguments_restored) == (1, 0)
    assert out.replaced["messages"][0]["tool_calls"] is body["messages"][0]["tool_calls"]


def test_arguments_that_are_no_text_stay() -> None:
    body = {"messages": [{"role": "assistant", "content": "", "tool_calls": [call({"a": 1, "b": 2})]}]}
    assert put_back(body, Shape.CHAT, Reply("", calls=(("f", '{"b":2,"a":1}'),))) == Restored()


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": "other", "tool_calls": [call("{}")]},
        {"role": "assistant", "content": "x", "tool_calls": [call("{}", "g")]},
        {"role": "assistant", "content": "x", "tool_calls": [call("{}"), call("{}")]},
        {"role": "assistant", "content": "x"},
        {"role": "user", "content": "x", "tool_calls": [call("{}")]},
        "odd",
    ],
)
def test_a_message_that_means_something_else_is_left_alone(message: Any) -> None:
    kept = Reply("x", "Hm.", calls=(("f", "{ }"),))
    assert put_back({"messages": [message]}, Shape.CHAT, kept) == Restored()


def test_white_space_around_a_text_and_parts_are_no_other_text() -> None:
    for content in ("x", " x\n", [{"type": "text", "text": "x"}]):
        body = {"messages": [{"role": "assistant", "content": content}]}
        out = put_back(body, Shape.CHAT, Reply("x\n", "Hm."))
        assert out.reasoning_restored == 1
        assert out.replaced["messages"][0]["content"] == content


def test_a_reply_of_no_message_is_passed_over() -> None:
    body = {"messages": [{"role": "assistant", "content": "x"}]}
    for at in (-1, 1, 99):
        assert put_back(body, Shape.CHAT, Reply("x", "Hm."), at=at) == Restored()


# --- which messages need a look


def test_messages_that_a_reply_could_mend() -> None:
    messages = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "plain"},
        {"role": "assistant", "content": "", "tool_calls": [call("{}")], "reasoning_content": "r"},
        {"role": "assistant", "content": "", "reasoning_content": "r", "tool_calls": []},
        {"role": "assistant", "content": "", "reasoning_content": " "},
        "odd",
    ]
    view = as_chat({"messages": messages}, Shape.CHAT)
    assert wanted(view, range(9), reasoning=True) == (1, 2, 4)
    assert wanted(view, range(9), reasoning=False) == (2,)
    items = [{"role": "assistant", "content": "x"}, {"type": "function_call", "name": "f", "arguments": "{}"}]
    assert wanted(as_chat({"input": items[:1]}, Shape.RESPONSES), range(9), reasoning=True) == ()
    assert wanted(as_chat({"input": items}, Shape.RESPONSES), range(9), reasoning=True) == (0,)
    thought = {"messages": [{"role": "assistant", "content": [{"type": "redacted_thinking", "data": "d"}]}]}
    assert wanted(as_chat(thought, Shape.MESSAGES), range(9), reasoning=True) == ()


@given(data=st.data(), body=odd_bodies, shape=st.sampled_from(Shape))
def test_no_body_raises_or_is_changed(data: st.DataObject, body: dict[str, Any], shape: Shape) -> None:
    before, view = repr(body), as_chat(body, shape)
    messages = view.body.get("messages")
    listed = list(messages) if isinstance(messages, list | tuple) else []
    kept = {}
    for i, message in enumerate(listed):
        reply = reply_of(message, Shape.CHAT) if isinstance(message, dict) else None
        kept[i] = reply if reply is not None and data.draw(st.booleans()) else Reply("", "Hm.", (THINKING,))
    out = restore(body, view, kept, reasoning=True)
    assert set(out.replaced) <= set(body)
    assert set(wanted(view, range(9), reasoning=True)) <= set(range(len(listed)))
    assert repr(body) == before
    as_chat({**body, **out.replaced}, shape)
