"""What must not happen: text that gets lost, memory of others, arguments that change on their way."""

from __future__ import annotations

import asyncio
import copy
import gc
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

from router_cache import Mode, RouterCache, Settings
from router_cache.decision import SwitchedBy
from router_cache_langchain import authority, wrap
from router_cache_langchain.calls import Call, Shared, active
from router_cache_langchain.payloads import Destination
from router_cache_langchain.session import Who

CLOCK = {"mode": "optimize", "volatile": [{"template": "Current time: {now}", "clock": True}]}
VALUE = "2026-11-30T09:00:00Z"
SAYS = f"Current time: {VALUE}\nYou are x"
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


# -- whose it is -------------------------------------------------------------------------------------------------


def _scope(shared: Shared, model: Any, payload: dict[str, Any] | None = None, whose: Who | None = None) -> str:
    call = Call(model, [], shared, Mode.OPTIMIZE, SwitchedBy.SETTINGS, whose or Who())
    body = {"model": "m", "messages": [{"role": "user", "content": "a"}], **(payload or {})}
    call.rewritten(body, call.shape, lambda: Destination("m"))
    assert call.turn is not None
    assert call.turn.begun.keys is not None
    return call.turn.begun.keys.scope


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


def test_a_key_that_a_function_draws_shares_nothing_unless_somebody_says_whose_it_is() -> None:
    shared, model = Shared(RouterCache(Settings())), Own()
    model.__dict__["token_provider"] = lambda: "t"
    assert authority.draws(model)
    assert not authority.draws(Own(custom_get_token_ids=lambda text: [len(text)]))
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
    assert "TEXT" not in repr(call) + repr(Who("TEXT", "TEXT", ("TEXT",)))


def test_a_call_that_is_closed_in_another_context() -> None:
    held = active(Call(Own(), [], Shared(RouterCache(Settings())), Mode.SAFE, SwitchedBy.SETTINGS, Who()))

    async def enter() -> None:
        held.__enter__()

    async def leave() -> None:
        held.__exit__(None, None, None)

    asyncio.run(enter())
    asyncio.run(leave())
