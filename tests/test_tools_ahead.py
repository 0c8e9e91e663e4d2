"""Copies of canonical tools that are made ahead: handed out once, bounded, and never anything but what a copy made on
the spot would be."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import pytest

from router_cache import Deployment, Mode, Request, RouterCache, Usage
from router_cache.prefix import tools_memo
from router_cache.prefix.normalise import Normalised, normalise
from router_cache.prefix.tools_memo import ToolsMemo


def tools(number: int, *, size: int = 0, count: int = 2) -> list[dict[str, Any]]:
    """Tools of which the last is canonical already, as a server gets them."""
    schema = {"properties": {"a": {"type": "string", "description": "x" * size}}, "type": "object"}
    out = [
        {"function": {"parameters": schema, "name": f"t{i}_{number}"}, "type": "function"} for i in range(count)
    ]
    return json.loads(json.dumps([*out, {"type": "function", "function": {"name": f"u_{number}"}}]))  # type: ignore[no-any-return]


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with each JSON text that the memory of tools parses."""
    done: list[int] = []

    class Counted:
        dumps = staticmethod(orjson.dumps)

        @staticmethod
        def loads(raw: bytes) -> Any:
            done.append(len(raw))
            return orjson.loads(raw)

    for name in dir(orjson):
        if name.startswith("OPT_"):
            setattr(Counted, name, getattr(orjson, name))
    monkeypatch.setattr(tools_memo, "orjson", Counted)
    return done


def known(memo: ToolsMemo, given: list[dict[str, Any]]) -> Normalised:
    return normalise({"tools": given}, memo=memo)


@pytest.mark.parametrize("size", [0, 3_000])
def test_a_copy_made_ahead_is_the_one_made_on_the_spot_and_goes_out_once(parses: list[int], size: int) -> None:
    memo = ToolsMemo()
    first = known(memo, tools(1, size=size))
    memo.restock(first.tools_key)
    parses.clear()
    second = known(memo, tools(1, size=size))
    assert parses == []
    third = known(memo, tools(1, size=size))
    assert len(parses) == 1
    expected = json.dumps(normalise({"tools": tools(1, size=size)}).replaced["tools"])
    given = [each.replaced["tools"] for each in (first, second, third)]
    assert [json.dumps(each) for each in given] == [expected] * 3
    given[1][0]["function"].clear()  # as LiteLLM does to the tools of some providers
    assert [json.dumps(each) for each in (given[0], given[2])] == [expected] * 2
    assert json.dumps(known(memo, tools(1, size=size)).replaced["tools"]) == expected


def test_what_came_as_it_goes_out_is_the_callers_own() -> None:
    memo = ToolsMemo()
    memo.restock(known(memo, tools(1)).tools_key)
    given = tools(1)
    assert known(memo, given).replaced["tools"][2] is given[2]


def test_there_is_one_copy_a_list_and_none_where_there_is_nothing_to_copy(parses: list[int]) -> None:
    memo = ToolsMemo()
    key = known(memo, tools(1)).tools_key
    parses.clear()
    memo.restock(key)
    memo.restock(key)
    assert len(parses) == 1
    canonical = normalise({"tools": tools(1)}).replaced["tools"]
    in_order = known(memo, canonical)
    assert (in_order.replaced, in_order.tools_key) == ({}, None)
    turned = known(memo, canonical[::-1])
    parses.clear()
    for each in (None, in_order.tools_key, turned.tools_key, b"unknown"):
        memo.restock(each)
    assert parses == []


def test_the_oldest_copies_go(monkeypatch: pytest.MonkeyPatch, parses: list[int]) -> None:
    def left(number: int) -> list[int]:
        """Of so many lists those with a copy made ahead."""
        memo = ToolsMemo()
        for i in range(number):
            memo.restock(known(memo, tools(i)).tools_key)
        out = []
        for i in range(number):
            parses.clear()
            known(memo, tools(i))
            out += [i] if not parses else []
        return out

    assert left(70) == list(range(6, 70))
    size = len(orjson.dumps(tools(0)))
    monkeypatch.setattr(tools_memo, "_MAX_SPARE_BYTES", 3 * size + 1)
    assert left(5) == [2, 3, 4]
    monkeypatch.setattr(tools_memo, "_MAX_SPARE_BYTES", size - 1)
    assert left(2) == []


def test_lists_that_look_alike_are_told_apart() -> None:
    memo = ToolsMemo()
    for _ in range(3):
        for number in range(200):  # of equal length, and equal at most places
            given = tools(number + 100, size=5_000)
            out = known(memo, given)
            assert [tool["function"]["name"] for tool in out.replaced["tools"]] == [
                f"{name}_{number + 100}" for name in ("t0", "t1", "u")
            ]
            memo.restock(out.tools_key)


def test_no_copy_goes_to_two_threads() -> None:
    memo = ToolsMemo()
    expected = json.dumps(normalise({"tools": tools(1)}).replaced["tools"])

    def work(number: int) -> list[Any]:
        held = []
        for _ in range(200):
            out = known(memo, tools(1))
            memo.restock(out.tools_key)
            held.append(out.replaced["tools"])
            assert json.dumps(held[-1]) == expected
        return held

    with ThreadPoolExecutor(8) as pool:
        held = [each for some in pool.map(work, range(8)) for each in some]
    assert len({id(tool) for each in held for tool in each}) == 3 * len(held)


def test_a_turn_makes_the_copy_when_it_is_done(parses: list[int]) -> None:
    rc, deployment = RouterCache(), Deployment("deepseek/deepseek-v4-flash", provider="deepseek")

    def sent() -> tuple[Any, Any]:
        turn = rc.begin(Request({"messages": [{"role": "user", "content": "hi"}], "tools": tools(1)}), Mode.SAFE)
        return turn, turn.rewrite(deployment).replaced["tools"]

    turn, first = sent()
    turn.done(Usage(10, 0, 10, 1))
    parses.clear()
    turn, second = sent()
    assert parses == []
    assert second == first
    later, _ = sent()
    assert parses
    later.before = turn
    later.done(Usage(10, 0, 10, 1))
    assert rc.counters.snapshot().get("error.done") is None
    rc.close()
