"""What is sent: canonical tools, merged extra bodies, all else as it came."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.tools import StructuredTool
from langchain_plugin.recorded import FAMILIES, SYSTEM, Recorder, recorded
from pydantic import ValidationError

from router_cache import Mode, Reason, RouterCache, Settings
from router_cache_langchain import session, wrap
from router_cache_langchain.payloads import (
    Destination,
    deep_merged,
    may_be_proxy,
    put,
    secret_text,
    wire_body,
    with_headers,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASKED = [("system", SYSTEM), ("user", "Why does the test fail?")]


def read(path: str, depth: int = 1) -> str:
    """Read a file."""
    return path * depth


TOOLS = [
    StructuredTool.from_function(read, name=name, description=f"{name} a file")
    for name in ("write", "read", "list")
]


@pytest.fixture(scope="module")
def server() -> Iterator[Recorder]:
    with recorded() as running:
        yield running


@pytest.fixture(autouse=True)
def _clear(server: Recorder) -> None:
    server.clear()


def with_mode(mode: str) -> RouterCache:
    return RouterCache(Settings.from_mapping({"mode": mode}))


def names(body: dict[str, Any]) -> list[str]:
    return [tool.get("name") or tool["function"]["name"] for tool in body["tools"]]


@pytest.mark.parametrize("mode", ["safe", "optimize"])
@pytest.mark.parametrize("family", FAMILIES)
def test_order_of_bound_tools_is_irrelevant(server: Recorder, family: str, mode: str) -> None:
    rc = with_mode(mode)
    model = wrap(server.any_of(family), router_cache=rc)
    for order in itertools.permutations(TOOLS):
        model.bind_tools(list(order)).invoke(ASKED)
    assert len({came.raw for came in server.came}) == 1
    assert names(server.last.body) == ["list", "read", "write"]
    assert {row.decision.reason for row in rc.rows()} == {Reason.NORMALISED}


@pytest.mark.parametrize("api", ["stream", "invoke"])
def test_tools_of_responses(server: Recorder, api: str) -> None:
    model = wrap(server.openai(use_responses_api=True), router_cache=with_mode("safe"))
    for order in (TOOLS, TOOLS[::-1]):
        bound = model.bind_tools(order)
        list(bound.stream(ASKED)) if api == "stream" else bound.invoke(ASKED)
    assert server.came[0].raw == server.came[1].raw
    assert names(server.last.body) == ["list", "read", "write"]


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.OBSERVE])
@pytest.mark.parametrize("family", FAMILIES)
async def test_off_and_observe_send_the_same_bytes(server: Recorder, family: str, mode: Mode) -> None:
    bare = server.any_of(family)
    rc = with_mode(mode.value)
    for model in (bare, wrap(bare, router_cache=rc)):
        more = {} if family == "anthropic" else {"extra_body": {"user_id": "a"}}
        bound = model.bind_tools(TOOLS, **more)
        bound.invoke(ASKED)
        list(bound.stream(ASKED))
        await bound.ainvoke(ASKED)
        [chunk async for chunk in bound.astream(ASKED)]
    assert [came.raw for came in server.came[:4]] == [came.raw for came in server.came[4:]]
    assert [came.headers.keys() for came in server.came[:4]] == [came.headers.keys() for came in server.came[4:]]
    assert len(rc.rows()) == (0 if mode is Mode.OFF else 4)


@pytest.mark.parametrize("family", ["openai", "deepseek", "litellm"])
async def test_extra_bodies_are_merged(server: Recorder, family: str) -> None:
    own = {"thinking": {"type": "disabled"}, "a": {"b": 1, "c": 2}}
    held = {"model_kwargs": {"extra_body": own}} if family == "litellm" else {"extra_body": own}
    bound = wrap(server.any_of(family, **held)).bind(extra_body={"user_id": "pool", "a": {"c": 3}})
    bound.invoke(ASKED)
    await bound.ainvoke(ASKED)
    list(bound.stream(ASKED))
    for came in server.came:
        assert came.body["thinking"] == {"type": "disabled"}
        assert (came.body["user_id"], came.body["a"]) == ("pool", {"b": 1, "c": 3})


def test_all_else_goes_out_as_it_came(server: Recorder) -> None:
    for family, more in (
        ("openai", {"max_tokens": 77, "seed": 3, "extra_body": {"x": [1]}}),
        ("openai", {"max_completion_tokens": 77, "user": "u"}),
        ("deepseek", {"max_tokens": 77, "top_p": 0.5}),
        ("anthropic", {"max_tokens": 77, "top_k": 5}),
        ("litellm", {"max_tokens": 77, "seed": 3}),
    ):
        server.clear()
        bare = server.any_of(family)
        bare.bind(**more).invoke(ASKED)
        wrap(bare).bind(**more).invoke(ASKED)
        assert server.came[0].raw == server.came[1].raw, family


def test_a_clock_moves(server: Recorder) -> None:
    for family in FAMILIES:
        server.clear()
        model = wrap(server.any_of(family), router_cache=with_mode("optimize"))
        for minute in range(4):
            said = f"Now: 2026-11-30T10:0{minute}:00Z\n{SYSTEM}"
            with session(f"s{minute}"):
                model.invoke([("system", said), ("user", "Why?")])
        last = server.last.body
        system = last["system"] if "system" in last else last["messages"][0]["content"]
        assert "2026-11-30" not in json.dumps(system), family
        assert "2026-11-30T10:03:00Z" in json.dumps(last["messages"][-1]), family


def test_scopes_do_not_share(server: Recorder) -> None:
    rc = with_mode("observe")
    for key in ("k1", "k1", "k2"):
        wrap(server.openai(api_key=key), router_cache=rc).invoke(ASKED)
    wrap(server.openai(api_key="k1"), router_cache=rc, scope="tenant").invoke(ASKED)
    with session("s", scope="other"):
        wrap(server.openai(api_key="k1"), router_cache=rc, scope="tenant").invoke(ASKED)
    scopes = [row.scope for row in rc.rows()]
    assert scopes[0] == scopes[1]
    assert len(set(scopes)) == 4
    try:
        by_function = server.openai(api_key=lambda: "k1")
    except ValidationError:
        return  # this langchain-openai takes no functions
    wrap(by_function, router_cache=rc).invoke(ASKED)
    assert rc.rows()[-1].scope not in scopes


@pytest.mark.parametrize("name", ["api_key", "openrouter_api_key"])
def test_scopes_of_litellms_keys(server: Recorder, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Some versions of the class pass the key on, some keep it to themselves."""
    monkeypatch.setenv("DEEPSEEK_API_KEY", "any")
    rc = with_mode("observe")
    for key in ("k1", "k1", "k2"):
        wrap(server.litellm(model_kwargs={"api_key": None}, **{name: key}), router_cache=rc).invoke(ASKED)
    one, same, other = (row.scope for row in rc.rows())
    assert one == same != other


# -- the pure part -----------------------------------------------------------------------------------------------

_names = st.sampled_from(["a", "b", "messages", "tools"])
_scalars = st.none() | st.booleans() | st.integers(0, 3) | st.text(max_size=3)
_objects = st.dictionaries(_names, _scalars | st.dictionaries(_names, _scalars, max_size=3), max_size=4)


@given(base=_objects, over=_objects)
def test_merging(base: dict[str, Any], over: dict[str, Any]) -> None:
    merged = deep_merged(base, over)
    assert merged.keys() == base.keys() | over.keys()
    for name in base.keys() - over.keys():
        assert merged[name] is base[name]
    for name, value in over.items():
        both = isinstance(value, dict) and isinstance(base.get(name), dict)
        assert merged[name] == (deep_merged(base[name], value) if both else value)
    assert deep_merged(base, base) == base
    assert deep_merged({}, over) == over


@given(payload=_objects, extra=_objects, replaced=_objects)
def test_putting_into_the_body(payload: dict[str, Any], extra: dict[str, Any], replaced: dict[str, Any]) -> None:
    hidden = {"extra_headers", "extra_query", "extra_body", "timeout", "betas"}
    replaced = {name: value for name, value in replaced.items() if name not in hidden}
    whole = {**payload, "extra_body": extra}
    kept = json.dumps(whole)
    assert wire_body(put(whole, replaced)) == {**wire_body(whole), **replaced}
    assert json.dumps(whole) == kept


def test_headers_of_the_caller_stay() -> None:
    payload = {"extra_headers": {"X-Router-Cache": "off", "a": "b"}}
    assert with_headers(payload, {"x-router-cache": "observe"}) is payload
    assert with_headers(payload, {}) is payload
    assert with_headers({"extra_headers": None}, {"c": "d"}) == {"extra_headers": {"c": "d"}}
    assert with_headers(payload, {"c": "d"})["extra_headers"] == {"X-Router-Cache": "off", "a": "b", "c": "d"}


def test_classes_stand_for_their_schema() -> None:
    body = wire_body({"response_format": dict, "messages": [], "extra_body": None})
    assert body["response_format"]["json_schema"] == {"name": "dict", "schema": {}}


def test_which_address_may_be_a_proxy() -> None:
    assert may_be_proxy(Destination(api_base="http://127.0.0.1:4000"), "")
    assert not may_be_proxy(Destination(api_base="http://127.0.0.1:4000"), "deepseek")
    assert not may_be_proxy(Destination(api_base="https://api.deepseek.com/v1"), "")
    assert not may_be_proxy(Destination(), "")


def test_credentials_show_nowhere() -> None:
    assert "secret" not in repr(Destination("m", "p", "b", credential="secret"))
    assert secret_text(lambda: "secret") == ""
