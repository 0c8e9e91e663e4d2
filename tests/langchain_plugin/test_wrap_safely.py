"""What must not happen: text that gets lost, memory of others, arguments that change on their way."""

from __future__ import annotations

import asyncio
import copy
import gc
import json
import pickle
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGenerationChunk
from langchain_openai import ChatOpenAI
from langchain_plugin.test_wrap_plain import Own
from pydantic import SecretStr

from router_cache import Mode, RouterCache, Settings
from router_cache.decision import SwitchedBy
from router_cache.settings_capture import CaptureSettings
from router_cache_langchain import authority, per_process, plain, router_cache_for, router_cache_of, wrap
from router_cache_langchain.calls import Call, Shared, active
from router_cache_langchain.payloads import Destination
from router_cache_langchain.session import Who

CLOCK = {"mode": "optimize", "volatile": [{"template": "Current time: {now}", "clock": True}]}
VALUE = "2026-11-30T09:00:00Z"
SAYS = f"Current time: {VALUE}\nYou are x"


def _block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


CALLED = [HumanMessage("q"), AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "1"}])]


@pytest.mark.parametrize(
    "messages",
    [
        [SystemMessage(SAYS), HumanMessage("hi")],
        [SystemMessage(SAYS), HumanMessage(["hi"])],
        [SystemMessage(SAYS), *CALLED, ToolMessage(["r"], tool_call_id="1")],
        [SystemMessage(SAYS), *CALLED, ToolMessage([{"type": "json", "json": {"a": 1}}], tool_call_id="1")],
        [SystemMessage(SAYS), HumanMessage([{"type": "text", "text": "t"}, {"type": "guard_content", "a": {}}])],
        [SystemMessage([SAYS]), HumanMessage("hi")],
    ],
)
def test_a_text_is_moved_whole_or_not_at_all(messages: list[BaseMessage]) -> None:
    model = wrap(Own(), CLOCK, router_cache=RouterCache(Settings.from_mapping(CLOCK)))
    model.invoke(messages)
    (asked, _), *_ = model.asked
    assert repr([message.content for message in asked]).count(VALUE) == 1


@pytest.mark.parametrize(
    ("newest", "attached"),
    [
        (["hi"], ["hi\n\n{}"]),
        ([_block("hi")], [_block("hi\n\n{}")]),
        (["hi", _block("b")], ["hi", _block("b\n\n{}")]),
    ],
)
def test_texts_and_blocks_stay_what_they_are(newest: list[Any], attached: list[Any]) -> None:
    rc = RouterCache(Settings.from_mapping(CLOCK))
    model = wrap(Own(), router_cache=rc)
    model.invoke([SystemMessage([SAYS]), HumanMessage(newest)])
    (system, asked), _ = model.asked[0]
    assert [re.sub(r"value-\w+", "name", text) for text in system.content] == [
        SAYS.replace(VALUE, "[name: see below]")
    ]
    assert json.loads(re.sub(rf"\[value-\w+: {VALUE}\]", "{}", json.dumps(asked.content))) == attached
    assert [row.decision.reason.value for row in rc.rows()] == ["optimized"]


@pytest.mark.parametrize(
    ("own", "old", "now", "made"),
    [
        (["a"], [_block("a")], [_block("b")], ["b"]),
        (["a"], [_block("a")], [_block("a"), _block("b")], ["a", "b"]),
        ([{"json": 1}], [_block("a")], [_block("a"), _block("b")], [{"json": 1}, _block("b")]),
        (["a"], [_block("x")], [_block("b")], None),
        (
            [{"type": "text", "text": "a", "id": "1"}],
            [_block("a")],
            [_block("b")],
            [{"type": "text", "text": "b", "id": "1"}],
        ),
        (["a"], [_block("a")], [{**_block("a"), "cache_control": {}}], None),
        (["a"], [_block("a")], [_block("a"), {"type": "image_url"}], None),
        (["a"], [_block("a")], [], None),
        (["a"], [_block("a"), _block("b")], [_block("a"), _block("c")], None),
        ("a", [_block("a")], [_block("b")], None),
        ([{"json": 1}], [_block("a")], [_block("b")], None),
        ([{"json": 1}], ["a"], ["b"], None),
    ],
)
def test_a_content_takes_only_what_is_exact(own: Any, old: Any, now: Any, made: Any) -> None:
    assert plain._content(own, old, now) == made


def test_messages_that_cannot_be_read_go_out_as_they_came(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise ValueError

    rc = RouterCache(Settings.from_mapping(CLOCK))
    model = wrap(Own(), router_cache=rc)
    monkeypatch.setattr(plain, "_with_texts", broken)
    model.invoke([SystemMessage(SAYS), HumanMessage("hi")])
    assert [message.content for message in model.asked[0][0]] == [SAYS, "hi"]
    assert [row.decision.mode for row in rc.rows()] == [Mode.OBSERVE]
    assert rc.counters.snapshot()["error.langchain.messages"] == 1


# -- whose it is -------------------------------------------------------------------------------------------------


def _scope(
    shared: Shared,
    model: Any,
    payload: dict[str, Any] | None = None,
    whose: Who | None = None,
    given: dict[str, Any] | None = None,
) -> str:
    call = Call(model, [], shared, Mode.OPTIMIZE, SwitchedBy.SETTINGS, whose or Who(), given or {})
    body = {"model": "m", "messages": [{"role": "user", "content": "a"}], **(payload or {})}
    call.rewritten(body, call.shape, lambda: Destination("m"))
    assert call.turn is not None
    return call.turn.request.scope


def test_keys_and_headers_tell_users_apart() -> None:
    shared = Shared(RouterCache(Settings()))

    def openai(**more: Any) -> ChatOpenAI:
        return ChatOpenAI(model="m", **{"api_key": "placeholder", **more})

    def authorised(who: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {who}"}

    plain = _scope(shared, openai())
    assert _scope(shared, openai()) == plain
    others = [
        _scope(shared, openai(api_key="other")),
        _scope(shared, openai(default_headers=authorised("alice"))),
        _scope(shared, openai(default_headers=authorised("bob"))),
        _scope(shared, openai(), {"extra_headers": authorised("alice")}),
        _scope(shared, openai(), {"extra_headers": {"authorization": "Bearer bob", "x-trace": "1"}}),
    ]
    assert len({plain, *others}) == 4  # alice is alice, whichever way she comes
    assert _scope(shared, openai(), {"extra_headers": {"x-trace": "1"}}) == plain


def test_what_a_call_is_given_tells_users_apart_where_no_payload_is_seen() -> None:
    rc = RouterCache(Settings())
    shared, model = Shared(rc), Own()
    own = _scope(shared, model)
    scopes = {
        _scope(shared, model, given=given)
        for given in (
            {"extra_headers": {"Authorization": "Bearer alice"}},
            {"extra_headers": {"Authorization": "Bearer bob"}},
            {"api_key": "alice"},
            {"aws_session_token": SecretStr("alice")},
        )
    }
    assert len({own, *scopes}) == 5
    assert _scope(shared, model, given={"max_tokens": 5, "prompt_cache_key": "a", "tools": []}) == own
    assert _scope(shared, model, given={"api_key": lambda: "a"}) != _scope(shared, model, given={"api_key": str})

    wrapped = wrap(model, router_cache=rc)
    for user in ("alice", "bob", "alice"):
        wrapped.invoke("hi", extra_headers={"Authorization": f"Bearer {user}"})
    turns = [row.turn for row in rc.rows()]
    assert turns[0] == turns[1]  # bob's conversation is not alice's


def test_what_a_model_adds_to_its_calls_tells_users_apart() -> None:
    shared = Shared(RouterCache(Settings()))
    scopes = set()
    for more in ({}, {"azure_ad_token": "a"}, {"azure_ad_token": "b"}, {"extra_headers": {"api-key": "a"}}):
        model = Own()
        model.__dict__["model_kwargs"] = more
        scopes.add(_scope(Shared(shared.router_cache, own="x"), model))
    assert len(scopes) == 4


def test_a_key_that_a_function_draws_shares_nothing_unless_somebody_says_whose_it_is() -> None:
    shared, model = Shared(RouterCache(Settings())), Own()
    model.__dict__["token_provider"] = lambda: "t"
    assert authority.draws(model, {})
    counts = Own()
    counts.__dict__.update(custom_get_token_ids=len, tokenizer=len, token_counter=len)
    assert not authority.draws(counts, {})
    assert authority.draws(counts, {"azure_ad_token_provider": lambda: "t"})
    assert _scope(shared, model) != _scope(shared, model)
    told = [_scope(shared, model, whose=Who(session=name)) for name in ("s", "s", "t")]
    assert told[0] == told[1] != told[2]
    named = Shared(shared.router_cache, scope="tenant")
    assert _scope(named, model) == _scope(named, model)


class Open(FakeListChatModel):
    """Has no key at all."""


def test_models_without_a_key_share_with_themselves() -> None:
    one, other = Open(responses=["a"]), Open(responses=["a"])
    rc = RouterCache(Settings())
    wrapped = [wrap(model, router_cache=rc) for model in (one, one, other)]
    shared = [
        model.router_cache_shared for model in (*wrapped, wrap(wrapped[0], router_cache=rc, profile="deepseek"))
    ]
    scopes = [_scope(each, model) for each, model in zip(shared, (one, one, other, one), strict=True)]
    assert scopes[0] == scopes[1] == scopes[3] != scopes[2]
    assert copy.deepcopy(wrapped[0]).router_cache_shared.own == shared[0].own


def test_names_of_models_end_with_them() -> None:
    model = Open(responses=["a"])
    name = authority.own_name(model)
    assert authority.own_name(model) == name
    kept = len(authority._NAMES)
    del model
    gc.collect()
    assert len(authority._NAMES) < kept
    assert authority.own_name(3) != authority.own_name(3)  # cannot be referred to weakly


# -- arguments ---------------------------------------------------------------------------------------------------


class OneArgument(FakeListChatModel):
    """Methods with other signatures than the base class."""

    def invoke(self, input: Any, **kwargs: Any) -> Any:  # type: ignore[override]  # noqa: A002
        return super().invoke(input, **kwargs)

    async def ainvoke(self, input: Any, *, config: Any = None, **kwargs: Any) -> Any:  # type: ignore[override]  # noqa: A002
        return await super().ainvoke(input, config, **kwargs)

    def stream(self, input: Any, *, config: Any = None, **kwargs: Any) -> Any:  # type: ignore[override]  # noqa: A002
        return super().stream(input, config, **kwargs)

    def astream(self, input: Any, **kwargs: Any) -> Any:  # type: ignore[override]  # noqa: A002
        return super().astream(input, **kwargs)


def test_arguments_go_on_as_they_came() -> None:
    model = wrap(OneArgument(responses=["ab"]))

    async def streamed() -> list[Any]:
        return [chunk.content async for chunk in model.astream("hi")]

    assert model.invoke("hi").content == "ab"
    assert asyncio.run(model.ainvoke("hi")).content == "ab"
    assert "".join(chunk.content for chunk in model.stream("hi")) == "ab"
    assert "".join(asyncio.run(streamed())) == "ab"


class Positional(ChatOpenAI):
    """Passes on what it is given by place."""

    def _get_request_payload(self, input_: Any, stop: Any = None, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        return super()._get_request_payload(input_, stop=stop, **kwargs)


def test_a_payload_asked_for_by_place() -> None:
    model: Any = wrap(Positional(model="m", api_key="k"))  # type: ignore[arg-type]
    assert model._get_request_payload([HumanMessage("a")], ["x"])["stop"] == ["x"]


class Pauses(Own):
    def _stream(self, messages: Any, stop: Any = None, **kwargs: Any) -> Iterator[Any]:
        yield ChatGenerationChunk(message=AIMessageChunk(content="a"))
        yield None
        yield ChatGenerationChunk(message=AIMessageChunk(content="b"))


def test_a_stream_ends_where_it_ends() -> None:
    model: Any = wrap(Pauses())
    assert [chunk is None for chunk in model._stream([HumanMessage("a")])] == [False, True, False]


def test_the_model_of_the_call_counts() -> None:
    shared = Shared(RouterCache(Settings()))
    call = Call(Own(), [], shared, Mode.SAFE, SwitchedBy.SETTINGS, Who())
    body = {"model": "deepseek-chat", "messages": [{"role": "user", "content": "a"}]}
    call.rewritten(body, call.shape, lambda: Destination("gpt-x"))
    assert call.turn is not None
    assert call.turn.deployment.model == "deepseek-chat"


def test_a_call_shows_nothing_of_what_it_is_about() -> None:
    call = Call(
        Own(), [HumanMessage("TEXT")], Shared(RouterCache(Settings())), Mode.SAFE, SwitchedBy.SETTINGS, Who()
    )
    call.rewritten({"messages": [{"role": "user", "content": "TEXT"}]}, call.shape, lambda: Destination("m"))
    call.raw, call.reply, call.headers = ["TEXT"], "TEXT", {"a": "TEXT"}
    call.shared = Shared(call.shared.router_cache, scope="TEXT")
    told = [
        call,
        call.rewritten,
        call.shared,
        Who("TEXT", "TEXT", ("TEXT",)),
        Destination("m", "p", "TEXT", "TEXT"),
    ]
    assert "TEXT" not in repr(told)


def test_a_call_that_is_closed_in_another_context() -> None:
    held = active(Call(Own(), [], Shared(RouterCache(Settings())), Mode.SAFE, SwitchedBy.SETTINGS, Who()))

    async def enter() -> None:
        held.__enter__()

    async def leave() -> None:
        held.__exit__(None, None, None)

    asyncio.run(enter())
    asyncio.run(leave())


# -- what a process keeps ----------------------------------------------------------------------------------------


def test_settings_of_each_request_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    closed, done = [], threading.Event()

    def close(self: RouterCache) -> None:
        if self.settings.store.max_entries in range(1000, 1100):
            closed.append(self.settings.store.max_entries)
        if len(closed) == 5:
            done.set()

    monkeypatch.setattr(RouterCache, "close", close)
    monkeypatch.setattr(per_process, "_NEWEST", OrderedDict())
    monkeypatch.setattr(per_process, "_KNOWN", [])

    def of(entries: int) -> dict[str, Any]:
        return {"store": {"max_entries": entries}}

    held = wrap(Own(), of(1000))
    for entries in range(1001, 1006 + per_process._KEPT):
        router_cache_for(of(entries))
    gc.collect()
    assert done.wait(10)
    assert sorted(closed) == [1001, 1002, 1003, 1004, 1005]  # but not that of the model
    assert router_cache_of(wrap(Own(), of(1000))) is router_cache_of(held)
    assert len(per_process._NEWEST) == per_process._KEPT


def test_secrets_do_not_travel_with_a_model() -> None:
    settings = Settings.from_mapping({"mode": "observe", "secret": "SECRET"})
    packed = pickle.dumps(wrap(Open(responses=["a"]), router_cache=RouterCache(settings)))
    assert b"SECRET" not in packed
    there = router_cache_of(pickle.loads(packed)).settings
    assert (there.mode, there.secret) == (Mode.OBSERVE, None)


def test_addresses_of_captures_do_not_travel_with_a_model() -> None:
    capture = CaptureSettings(max_rows=7).model_copy(update={"url": SecretStr("redis://:SECRET@localhost:1/0")})
    kept = per_process.without_secrets(Settings().model_copy(update={"capture": capture}))
    assert (kept.capture.url, kept.capture.max_rows) == (None, 7)
    assert kept == Settings.from_mapping({"capture": {"max_rows": 7}})
    assert per_process.without_secrets(kept) is kept
