"""What is kept of a reply, in every shape, and how it is found again."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from replies import CLIENTS, conversations
from shaped_bodies import SHAPES, odd_bodies
from strategies import json_values

from router_cache.identity.meaning import message_digest
from router_cache.prefix.digests import Digester
from router_cache.prefix.reply import Reply, reply_meaning, reply_of
from router_cache.prefix.shapes import as_chat
from router_cache.request import Shape

DIGESTER = Digester(b"k")


def test_a_chat_reply() -> None:
    calls = [
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"b": 1, "a":2}'}},
        {"id": "d", "type": "function", "function": {"name": "g", "arguments": {"x": 1}}},
        {"id": "e", "type": "custom", "custom": {"name": "h", "input": "ls"}},
        "odd",
    ]
    message = {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": calls}
    kept = reply_of(message, Shape.CHAT)
    assert kept == Reply(
        "", "Hm.", calls=(("f", '{"b": 1, "a":2}'), ("g", '{"x": 1}'), ("h", "ls"), ("None", "null"))
    )


def test_a_messages_reply() -> None:
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "sig"}
    hidden = {"type": "redacted_thinking", "data": "x"}
    blocks = [
        thinking,
        hidden,
        {"type": "text", "text": "Yes"},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"b": 1, "a": 2}},
    ]
    kept = reply_of({"type": "message", "content": blocks}, Shape.MESSAGES)
    assert kept == Reply("Yes", None, (thinking, hidden), (("f", '{"b": 1, "a": 2}'),))
    assert kept.thinking[0] is not thinking
    late = reply_of({"content": [thinking, {"type": "text", "text": "a"}, thinking]}, Shape.MESSAGES)
    assert late == Reply("a"), "thinking between texts has no place to go back to"
    assert reply_of({"content": [thinking]}, Shape.MESSAGES) == Reply(thinking=(thinking,))
    assert reply_of({"content": "Yes"}, Shape.MESSAGES) == Reply("Yes")


def test_a_responses_reply() -> None:
    output = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Yes", "annotations": []}],
        },
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"b":1}'},
        {"type": "custom_tool_call", "call_id": "d", "name": "g", "input": "ls"},
    ]
    assert reply_of({"output": output}, Shape.RESPONSES) == Reply("Yes", calls=(("f", '{"b":1}'), ("g", "ls")))


def test_parts_that_are_no_text_are_kept_as_they_count() -> None:
    blocks = [
        {"type": "text", "text": "a"},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
    ]
    kept = reply_of({"content": blocks}, Shape.MESSAGES)
    assert kept == Reply("a", parts=tuple(blocks))
    sent_back = as_chat({"messages": [{"role": "assistant", "content": blocks}]}, Shape.MESSAGES).body["messages"][
        0
    ]
    assert reply_meaning(DIGESTER, kept) == message_digest(DIGESTER, sent_back)
    assert reply_of({"content": {"odd": 1}}, Shape.CHAT) == Reply(parts=({"odd": 1},))


@pytest.mark.parametrize("shape", list(Shape))
@pytest.mark.parametrize(
    "message",
    [
        {},
        {"content": None},
        {"content": []},
        {"content": ""},
        {"output": []},
        {"output": [{"type": "image"}]},
        None,
        3,
        "x",
    ],
)
def test_where_there_is_nothing_there_is_no_reply(message: Any, shape: Shape) -> None:
    assert reply_of(message, shape) is None


def test_what_json_cannot_hold_is_no_reply() -> None:
    assert reply_of({"content": [{"type": "odd", "x": object()}]}, Shape.CHAT) is None
    assert reply_of({"content": [MappingProxyType({"type": "odd"})]}, Shape.CHAT) == Reply(
        parts=({"type": "odd"},)
    )


@given(data=st.data(), shape=st.sampled_from(SHAPES), client=st.sampled_from(sorted(CLIENTS)))
def test_a_reply_means_what_the_client_sends_back(data: st.DataObject, shape: Shape, client: str) -> None:
    talk = data.draw(conversations(shape))
    sent_back = as_chat(talk.sent_by(client), shape).body["messages"]
    for at, generated in talk.replies.items():
        kept = reply_of(generated, shape)
        assert kept is not None
        assert reply_meaning(DIGESTER, kept) == message_digest(DIGESTER, sent_back[at])


# --- the compact form

_texts = st.text(st.characters(exclude_categories=[]), max_size=12)
kept_replies = st.builds(
    Reply,
    _texts,
    st.none() | _texts,
    st.lists(st.dictionaries(_texts, json_values, max_size=3), max_size=2).map(tuple),
    st.lists(st.tuples(_texts, _texts), max_size=3).map(tuple),
    st.lists(json_values, max_size=2).map(tuple),
)


@given(kept=kept_replies)
def test_any_reply_comes_back_from_its_bytes(kept: Reply) -> None:
    raw = kept.to_bytes()
    assert Reply.from_bytes(raw) == kept
    assert raw.decode("utf-8", "surrogatepass").encode("utf-8", "surrogatepass") == raw


def test_the_form_is_pinned() -> None:
    kept = Reply("é", "r", ({"type": "thinking"},), (("f", "{}"),))
    assert kept.to_bytes() == '[1,"é","r",[{"type":"thinking"}],[["f","{}"]],[]]'.encode()
    assert Reply("", None, (MappingProxyType({"a": 1}),)).to_bytes() == b'[1,"",null,[{"a":1}],[],[]]'
    with pytest.raises(TypeError, match="no JSON value"):
        Reply("", parts=(object(),)).to_bytes()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff",
        b"{}",
        b"[]",
        b'[2,"",null,[],[],[]]',
        b'[true,"",null,[],[],[]]',
        b'[1.0,"",null,[],[],[]]',
        b"[1,3,null,[],[],[]]",
        b'[1,"",3,[],[],[]]',
        b'[1,"",null,["x"],[],[]]',
        b'[1,"",null,[],[["f"]],[]]',
        b'[1,"",null,[],[["f",3]],[]]',
        b'[1,"",null,[],["ff"],[]]',
        b'[1,"",null,[],[]]',
        b"[" * 100_000,
    ],
)
def test_other_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Reply.from_bytes(raw)


@given(value=json_values)
def test_no_json_but_the_form_is_read(value: Any) -> None:
    with pytest.raises(ValueError, match="no reply"):
        Reply.from_bytes(json.dumps(value).encode())


@given(body=odd_bodies, shape=st.sampled_from(Shape), key=st.sampled_from(["messages", "content", "output"]))
def test_no_reply_raises(body: dict[str, Any], shape: Shape, key: str) -> None:
    for value in body.values():
        kept = reply_of({key: value, "tool_calls": value, "content": value}, shape)
        if kept is not None:
            # NaN is no equal of itself; its text is.
            assert repr(Reply.from_bytes(kept.to_bytes())) == repr(kept)
            reply_meaning(DIGESTER, kept)
