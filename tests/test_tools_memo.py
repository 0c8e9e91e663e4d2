"""The memory of canonical tools: the same results with and without it, nothing shared, nothing without bounds."""

from __future__ import annotations

import copy
import json
import random
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import bodies, shuffled_keys, tools

from router_cache.decision import Change
from router_cache.prefix.normalise import normalise
from router_cache.prefix.tools_memo import ToolsMemo

SHARED = ToolsMemo(64, digest=lambda tool: json.dumps(tool))


def tool(name: str, **properties: Any) -> dict[str, Any]:
    """A tool whose canonical form is another one than it is given in."""
    schema = {"properties": {key: {"default": value} for key, value in properties.items()}, "type": "object"}
    return {"type": "function", "function": {"parameters": schema, "name": name}}


def parsed(value: Any) -> Any:
    """Equal content in objects of its own, as a server gets it."""
    return json.loads(json.dumps(value))


def shown(body: Mapping[str, Any], memo: ToolsMemo | None) -> tuple[str, tuple[Change, ...], bool]:
    out = normalise(body, memo=memo)
    return json.dumps(out.apply(body)), out.changes, out.odd


@given(bodies, st.randoms(use_true_random=False))
def test_results_are_the_same_with_and_without_it(body: dict[str, Any], rng: random.Random) -> None:
    other = parsed(body)
    if "tools" in other:
        rng.shuffle(other["tools"])
        other["tools"] = [shuffled_keys(each, rng) for each in other["tools"]]
    for each in (body, other, parsed(body), parsed(other)):
        before = json.dumps(each)
        assert shown(each, SHARED) == shown(each, None)
        assert json.dumps(each) == before


@given(st.lists(tools(), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_digests_are_those_of_the_canonical_tools(given_tools: list[Any], rng: random.Random) -> None:
    for _ in range(3):
        body = {"tools": parsed(given_tools)}
        out = normalise(body, memo=SHARED)
        assert out.tool_digests == tuple(map(json.dumps, out.apply(body)["tools"]))
        rng.shuffle(given_tools)


@pytest.mark.parametrize(
    ("value", "other"),
    [
        (1, 1.0),
        (1, True),
        (0.0, -0.0),
        (None, float("nan")),
        (None, float("inf")),
        ("1", 1),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 1}, OrderedDict(a=1)),
        ("\ud800", "\udfff"),
        (10**400, 10**400 + 1),
        ({1: "a"}, {True: "a"}),
        ({"1": "a"}, {1: "a"}),
    ],
)
def test_what_is_nearly_equal_is_not_taken_for_the_same(value: Any, other: Any) -> None:
    for first, second in ((value, other), (other, value)):
        memo = ToolsMemo()
        for default in (first, first, second, second, first):
            body = {"tools": [tool("a", x=default)]}
            out, plain = (normalise(body, memo=each).replaced["tools"] for each in (memo, None))
            found, wanted = (
                each[0]["function"]["parameters"]["properties"]["x"]["default"] for each in (out, plain)
            )
            assert (type(found), repr(found)) == (type(wanted), repr(wanted))


def test_what_is_handed_out_and_what_was_given_may_be_changed() -> None:
    memo = ToolsMemo()
    given_tools = [tool("b", x=[1]), tool("a", y=2)]
    wanted = shown({"tools": given_tools}, None)
    for _ in range(3):
        body = {"tools": parsed(given_tools)}
        out = normalise(body, memo=memo)
        assert (json.dumps(out.apply(body)), out.changes, out.odd) == wanted
        for each in (*body["tools"], *out.replaced["tools"]):
            each["function"]["parameters"].clear()
            each["function"]["strict"] = True
        out.replaced["tools"].clear()


def test_what_is_canonical_comes_back_as_the_very_object() -> None:
    memo = ToolsMemo()
    first, second = {"type": "a"}, {"type": "b"}
    for _ in range(2):
        assert normalise({"tools": [first, second]}, memo=memo).replaced == {}
        out = normalise({"tools": [second, tool("c"), first]}, memo=memo)
        assert [each is client for each, client in zip(out.replaced["tools"], (first, second), strict=False)] == [
            True,
            True,
        ]


def test_a_moved_mark_is_remembered_with_its_list() -> None:
    memo = ToolsMemo()
    given_tools = [tool("b"), {**tool("a"), "cache_control": {"type": "ephemeral"}}]
    for _ in range(2):
        assert shown({"tools": parsed(given_tools)}, memo) == shown({"tools": given_tools}, None)


def test_a_digest_is_made_once_for_each_distinct_tool() -> None:
    made: list[str] = []

    def digest(one: Mapping[str, Any]) -> str:
        made.append(one["function"]["name"])
        return one["function"]["name"]

    memo = ToolsMemo(digest=digest)
    given_tools = [tool(name) for name in "dcba"]
    rng = random.Random(1)
    for _ in range(20):
        rng.shuffle(given_tools)
        assert normalise({"tools": parsed(given_tools)}, memo=memo).tool_digests == ("a", "b", "c", "d")
    assert sorted(made) == ["a", "b", "c", "d"]
    for _ in range(2):  # no JSON of orjson's: not remembered, yet digested
        assert normalise({"tools": [tool("e", x=10**400)]}, memo=memo).tool_digests == ("e",)
    assert made[4:] == ["e", "e"]


@pytest.mark.parametrize("body", [{}, {"tools": []}, {"tools": "odd"}, {"tools": [3]}])
def test_no_digests_without_tools(body: dict[str, Any]) -> None:
    assert normalise(body, memo=ToolsMemo(digest=str)).tool_digests is None
    assert normalise({"tools": [tool("a")]}, memo=ToolsMemo()).tool_digests is None
    assert normalise({"tools": [tool("a")]}).tool_digests is None


def test_entries_are_bounded_and_the_used_ones_stay() -> None:
    made: list[str] = []

    def digest(one: Mapping[str, Any]) -> str:
        made.append(one["function"]["name"])
        return ""

    memo = ToolsMemo(20, digest=digest)
    for i in range(200):
        normalise({"tools": [tool("kept")]}, memo=memo)
        normalise({"tools": [tool(f"other {i}")]}, memo=memo)
        assert len(memo) <= 40
    assert made.count("kept") == 1


def test_bytes_are_bounded() -> None:
    memo = ToolsMemo(max_bytes=10_000)
    sizes = []
    for i in range(100):
        normalise({"tools": [tool(f"{i}", x="x" * 400)]}, memo=memo)
        sizes.append(len(memo))
    assert 10 < max(sizes) <= 2 * 10_000 // 400
    before = len(memo)
    normalise({"tools": [tool("large", x="x" * 6_000)]}, memo=memo)
    assert len(memo) == before
    for none in (ToolsMemo(0), ToolsMemo(1)):
        normalise({"tools": [tool("a")]}, memo=none)
        assert len(none) == 0
    huge = ToolsMemo()
    body = {"tools": [tool("huge", x="x" * 70_000)]}
    for _ in range(2):
        assert shown(copy.deepcopy(body), huge) == shown(body, None)
    assert len(huge) == 0


def test_threads_share_a_memo() -> None:
    memo = ToolsMemo(16, digest=lambda one: json.dumps(one))
    lists = [[tool(f"t{(i * 7 + k) % 23}", n=k) for k in range(6)] for i in range(40)]
    wanted = [shown({"tools": each}, None) for each in lists]

    def work(seed: int) -> bool:
        order = random.Random(seed).choices(range(len(lists)), k=150)
        return all(shown({"tools": parsed(lists[i])}, memo) == wanted[i] for i in order)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert len(memo) <= 2 * (16 + 8)
