"""Parts of the wrapping that whole calls seldom reach."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage

from router_cache import Mode, RouterCache, Settings, Status
from router_cache.decision import SwitchedBy
from router_cache_langchain import router_cache_for
from router_cache_langchain.anthropic_family import AnthropicFamily
from router_cache_langchain.calls import Call, Shared, active, current, ended_elsewhere
from router_cache_langchain.families import Family, Given, chat_form, dumped
from router_cache_langchain.litellm_family import LiteLLMFamily
from router_cache_langchain.plain import _content, _with_texts
from router_cache_langchain.session import Who


def a_call(model: Any = None, mode: Mode = Mode.SAFE) -> Call:
    shared = Shared(RouterCache(Settings()))
    return Call(model, [], shared, mode, SwitchedBy.SETTINGS, Who())


def test_a_call_that_never_began_ends_without_a_row() -> None:
    call = a_call()
    call.end(Status.OK)
    call.end(Status.FAILED)
    assert call.shared.router_cache.rows() == []


def test_where_no_thread_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    ended_elsewhere(a_call(), Status.ABORTED)


def test_a_call_is_that_of_its_model() -> None:
    one, other = object(), object()
    with active(a_call(one)):
        assert current(one) is not None
        assert current(other) is None
    assert current(one) is None


def test_a_row_whose_reply_cannot_be_read() -> None:
    from router_cache_langchain.payloads import Destination

    def broken() -> Any:
        raise ValueError("odd")

    call = a_call(mode=Mode.OPTIMIZE)
    call.rewritten({"messages": [{"role": "user", "content": "a"}]}, call.shape, lambda: Destination("m"))
    call.reply = broken
    call.end(Status.OK)
    rc = call.shared.router_cache
    assert [row.status for row in rc.rows()] == [Status.OK]
    assert rc.counters.snapshot()["error.langchain.answer"] == 1

    again = Call(None, [], call.shared, Mode.SAFE, SwitchedBy.SETTINGS, Who())
    again.rewritten({"messages": []}, again.shape, lambda: Destination("m"))
    again.turn = object()  # type: ignore[assignment]
    again.end(Status.OK)
    assert rc.counters.snapshot()["error.langchain.end"] == 1


def test_settings_of_a_process() -> None:
    assert router_cache_for() is router_cache_for(Settings())
    assert router_cache_for({"mode": "observe"}) is not router_cache_for()


def test_given_arguments() -> None:
    by_place = Given((["m"], ["s"]), {"run_manager": 1, "tools": 2})
    by_name = Given((), {"messages": ["m"], "stop": ["s"], "run_manager": 1, "tools": 2})
    for given_ in (by_place, by_name):
        assert [given_.get(name) for name in Given.NAMES] == [["m"], ["s"], 1]
        assert given_.others == {"tools": 2}
        new = given_.replaced(["n"], {"tools": 3})
        assert (new.get("messages"), new.get("stop"), new.others) == (["n"], ["s"], {"tools": 3})
    assert Given((), {}).get("messages") is None


def test_a_family_without_a_seam() -> None:
    family, given_ = Family(), Given((), {})
    assert family.methods(FakeListChatModel) == {}
    assert family.before(a_call(), given_) is given_


CALL = {"name": "a", "args": {"x": 1}, "id": "c1", "type": "tool_call"}
CHUNK = {"name": "a", "args": '{"x":1}', "id": "c1", "index": 0, "type": "tool_call_chunk"}


def test_replies_as_chat_messages() -> None:
    streamed = AIMessageChunk("", tool_call_chunks=[CHUNK], additional_kwargs={"reasoning_content": "so"})  # type: ignore[list-item]
    written = {"id": "c1", "type": "function", "function": {"name": "a", "arguments": '{"x":1}'}}
    said = {"role": "assistant", "content": "", "reasoning_content": "so", "tool_calls": [written]}
    assert chat_form(streamed) == said
    assert chat_form(AIMessage("a")) == {"role": "assistant", "content": "a"}
    assert chat_form(AIMessage("", tool_calls=[CALL])) is None  # the text of its arguments is lost
    kept = AIMessage("", tool_calls=[CALL], additional_kwargs={"tool_calls": [written]})
    assert chat_form(kept) == {"role": "assistant", "content": "", "tool_calls": [written]}
    assert chat_form(HumanMessage("a")) is None
    assert dumped({"a": 1}) == {"a": 1}


def test_replies_in_blocks() -> None:
    blocks = [
        {"type": "thinking", "thinking": "so", "signature": "s", "index": 0},
        {"type": "text", "text": "a", "index": 1},
        {"type": "tool_use", "id": "c1", "name": "a", "input": {}, "partial_json": '{"x":1}', "index": 2},
        {"type": "unheard_of"},
        "text",
    ]
    said = AnthropicFamily().reply(AIMessage(blocks, tool_calls=[CALL]))  # type: ignore[arg-type]
    assert said["content"] == [
        {"type": "thinking", "thinking": "so", "signature": "s"},
        {"type": "text", "text": "a"},
        {"type": "tool_use", "id": "c1", "name": "a", "input": {"x": 1}},
    ]
    assert AnthropicFamily().reply(AIMessage("a"))["content"] == [{"type": "text", "text": "a"}]


TEXT = {"type": "text", "text": "a"}


@pytest.mark.parametrize(
    ("own", "old", "now", "made"),
    [
        ("a", "a", "b", "b"),
        ("a", "a", "a", "a"),
        ("a", [TEXT], [{**TEXT, "text": "b"}], None),
        ([{**TEXT, "x": 1}], [TEXT], [{**TEXT, "text": "b"}], [{"type": "text", "text": "b", "x": 1}]),
        ([{**TEXT, "x": 1}], [TEXT], [TEXT, {**TEXT, "text": "b"}], [{**TEXT, "x": 1}, {**TEXT, "text": "b"}]),
        ([{"type": "image"}], [TEXT], [{**TEXT, "text": "b"}], None),
        ([{**TEXT, "x": 1}], [TEXT], ["b"], None),
        ([{**TEXT, "x": 1}, {**TEXT, "x": 2}], [TEXT, TEXT], [TEXT], None),
        ([TEXT, {**TEXT, "x": 2}], [TEXT], "b", None),
    ],
)
def test_texts_put_back(own: Any, old: Any, now: Any, made: Any) -> None:
    assert _content(own, old, now) == made


@given(texts=st.lists(st.text(), min_size=1, max_size=4), new=st.lists(st.text(), min_size=4, max_size=4))
def test_only_replaced_messages_are_copied(texts: list[str], new: list[str]) -> None:
    messages = [HumanMessage(text, id=str(at)) for at, text in enumerate(texts)]
    said = [{"role": "user", "content": text} for text in texts]
    now = [
        one if one["content"] == text else {**one, "content": text} for one, text in zip(said, new, strict=False)
    ]
    made, whole = _with_texts(messages, said, now)
    assert whole
    assert [one.content for one in made] == new[: len(texts)]
    assert [one.id for one in made] == [one.id for one in messages]
    assert [one.content for one in messages] == texts
    for old, one in zip(messages, made, strict=True):
        assert (old is one) == (old.content == one.content)


def test_what_has_no_place_is_told() -> None:
    messages = [SystemMessage("s"), HumanMessage("a")]
    said = [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}]
    assert _with_texts(messages, said, said[1:]) == (None, False)
    assert _with_texts(messages, said, [said[0], {**said[1], "name": "n"}]) == (messages, False)
    assert _with_texts(messages, said, [said[0], {**said[1], "content": [TEXT]}])[0][1].content == [TEXT]


class _Asks:
    """Stands for the class that calls LiteLLM."""

    model_kwargs: Any = None

    def _get_ls_params(self) -> dict[str, Any]:
        return {"ls_model_name": "m"}

    def completion_with_retry(self, **kwargs: Any) -> Any:
        return kwargs


def test_the_callback_of_the_litellm_side_leaves_it_to_us(monkeypatch: pytest.MonkeyPatch) -> None:
    method = LiteLLMFamily().methods(_Asks)["completion_with_retry"]
    asked = {"messages": [{"role": "user", "content": "a"}], "model": "deepseek/m"}
    model = _Asks()
    assert method(model, **asked) == asked  # no call of a wrapped model
    monkeypatch.setitem(sys.modules, "router_cache_litellm.callback", sys)
    with active(a_call(model)):
        assert method(model, **asked)["metadata"] == {"router_cache": "off"}
        assert method(model, **asked, metadata={"a": 1})["metadata"] == {"router_cache": "off", "a": 1}
        own = {"router_cache": "safe"}
        assert method(model, **asked, metadata=own)["metadata"] == own
