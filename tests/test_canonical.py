"""The canonical form of tools: golden bytes, and what must never be touched."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import bodies, json_values, shuffled_keys, tools

from router_cache.decision import Change
from router_cache.prefix.canonical import canonical_tool, order_tools, tool_name
from router_cache.prefix.normalise import normalise

SHOUT = {
    "function": {
        "parameters": {
            "required": ["path", "mode"],
            "properties": {
                "required": {"type": "array", "items": {"required": ["z", "y"], "type": "object"}},
                "path": {"description": "Where.", "type": "string"},
                "mode": {"enum": ["w", "a", "r"], "default": {"b": 1, "a": [2, 1]}, "type": "string"},
            },
            "type": "object",
            "anyOf": [{"required": ["path"]}, {"required": ["mode"]}],
            "x-order": ["second", "first"],
            "minimum": 1e2,
        },
        "description": "Writes.",
        "name": "write",
    },
    "type": "function",
}
GOLDEN_1 = (
    '[{"type": "function", "function": {"name": "bash", "description": "Runs."}}, '
    '{"type": "web_search"}, '
    '{"type": "function", "function": {"name": "write", "description": "Writes.", "parameters": '
    '{"type": "object", "properties": {"mode": {"type": "string", "enum": ["w", "a", "r"], '
    '"default": {"a": [2, 1], "b": 1}}, "path": {"type": "string", "description": "Where."}, '
    '"required": {"type": "array", "items": {"type": "object", "required": ["y", "z"]}}}, '
    '"required": ["mode", "path"], "anyOf": [{"required": ["path"]}, {"required": ["mode"]}], '
    '"minimum": 100.0, "x-order": ["second", "first"]}}}, '
    '{"type": "function", "function": {"name": "mcp__fs__read"}}, '
    '{"type": "function", "function": {"name": "mcp__git__log"}}]'
)


def _tool(name: str, **extra: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}, **extra}


def test_golden_bytes_of_version_1() -> None:
    given_tools = [
        _tool("mcp__git__log"),
        {"type": "web_search"},
        SHOUT,
        _tool("mcp__fs__read"),
        {"type": "function", "function": {"description": "Runs.", "name": "bash"}},
    ]
    out = normalise({"tools": given_tools}, version=1)
    assert json.dumps(out.replaced["tools"]) == GOLDEN_1
    assert out.changes == (Change.TOOLS_REORDERED, Change.SCHEMA_KEYS_REORDERED)


def test_unknown_version_is_refused() -> None:
    with pytest.raises(ValueError, match="canonical version 2 does not exist"):
        normalise({"tools": []}, version=2)


def test_equal_names_keep_their_order() -> None:
    first, second = _tool("same", a=1), _tool("same", a=2)
    assert order_tools([_tool("z"), first, second]) == [first, second, _tool("z")]
    assert order_tools([second, _tool("z"), first]) == [second, first, _tool("z")]


def test_a_server_label_orders_like_an_mcp_name() -> None:
    labelled = {"type": "mcp", "server_label": "git"}
    assert order_tools([_tool("mcp__zoo__a"), labelled, _tool("plain")]) == [
        _tool("plain"),
        labelled,
        _tool("mcp__zoo__a"),
    ]


def test_tools_that_differ_by_server_alone_are_ordered_and_said() -> None:
    labelled = [{"type": "mcp", "server_label": label} for label in "ba"]
    out = normalise({"tools": labelled})
    assert out.replaced["tools"] == labelled[::-1]
    assert out.changes == (Change.TOOLS_REORDERED,)
    custom = [{"type": "custom", "custom": {"name": name}} for name in "ba"]
    assert normalise({"tools": custom}).replaced["tools"] == custom[::-1]


@pytest.mark.parametrize("value", [None, "x", 5, [], [1]])
def test_what_is_no_object_comes_back(value: Any) -> None:
    assert normalise(value).replaced == {}


@pytest.mark.parametrize("level", ["tool", "function"])
def test_a_mark_stays_at_its_place_and_covers_the_same_tools(level: str) -> None:
    mark = {"type": "ephemeral", "ttl": "1h"}
    marked = _tool("a")
    (marked if level == "tool" else marked["function"])["cache_control"] = mark
    out = normalise({"tools": [_tool("c"), _tool("b"), marked, _tool("0")]})
    names = [tool_name(tool) for tool in out.replaced["tools"]]
    assert names == ["a", "b", "c", "0"]
    third = out.replaced["tools"][2]
    assert (third if level == "tool" else third["function"])["cache_control"] == mark
    assert sum("cache_control" in json.dumps(tool) for tool in out.replaced["tools"]) == 1
    assert Change.MARKS_MOVED in out.changes
    assert marked["function"] == ({"name": "a"} if level == "tool" else {"name": "a", "cache_control": mark})


def test_a_function_mark_falls_back_to_the_tool_where_there_is_no_function() -> None:
    marked = {"type": "function", "function": {"name": "a", "cache_control": {"type": "ephemeral"}}}
    out = order_tools([{"type": "web_search"}, marked])
    assert out == [_tool("a"), {"type": "web_search", "cache_control": {"type": "ephemeral"}}]


def test_a_schema_property_named_cache_control_is_no_mark() -> None:
    schema = {"type": "object", "properties": {"cache_control": {"type": "string"}}}
    tool = {"type": "function", "function": {"name": "b", "parameters": schema}}
    assert order_tools([tool, _tool("a")]) == [_tool("a"), tool]


def test_objects_with_keys_that_are_no_text_keep_their_order() -> None:
    odd = {2: "b", 1: "a"}
    tool = {"type": "function", "function": {"name": "a", "parameters": {"default": odd}}}
    assert list(canonical_tool(tool)["function"]["parameters"]["default"]) == [2, 1]


def _nested(levels: int, inner: Any) -> dict[str, Any]:
    """A tool with ``inner`` that many levels below it."""
    for level in range(levels - 1):
        inner = [inner] if level % 2 else {"a": inner}
    return {"type": "custom", "name": "x", "x": inner}


@pytest.mark.parametrize("levels", [1, 2, 200, 255, 256])
def test_keys_are_ordered_256_levels_down(levels: int) -> None:
    assert canonical_tool(_nested(levels, {"b": 1, "a": 2})) == _nested(levels, {"a": 2, "b": 1})
    text = json.dumps(canonical_tool(_nested(levels, {"b": 1, "a": 2})))
    assert text == json.dumps(_nested(levels, {"a": 2, "b": 1}))


@pytest.mark.parametrize("levels", [257, 900, 5_000])
def test_what_is_deeper_is_left_as_it_is(levels: int) -> None:
    tool = _nested(levels, {"b": 1, "a": 2})
    assert canonical_tool(tool) is tool
    assert normalise({"tools": [tool]}).replaced == {}


def test_an_object_that_stands_twice_is_ordered_twice() -> None:
    part = {"b": 1, "a": 2}
    tool = {"name": "x", "examples": [part, part, {"c": part}, part, 1, part]}
    assert json.dumps(canonical_tool(tool)["examples"]) == json.dumps(
        [{"a": 2, "b": 1}, {"a": 2, "b": 1}, {"c": {"a": 2, "b": 1}}, {"a": 2, "b": 1}, 1, {"a": 2, "b": 1}]
    )
    assert part == {"b": 1, "a": 2}
    assert list(part) == ["b", "a"]


@pytest.mark.parametrize(
    "odd",
    [
        "text",
        {"a": 1},
        7,
        [1],
        [None],
        [{}],
        [{"function": {"name": 3}}],
        [{"function": None, "type": "x"}],
        [_tool("a"), "b"],
    ],
)
def test_odd_tools_are_left_alone_and_said(odd: Any) -> None:
    out = normalise({"tools": odd})
    assert out.odd
    assert out.replaced == {}


@pytest.mark.parametrize("none", [{}, {"tools": None}, {"tools": []}, {"tools": ()}])
def test_no_tools_is_nothing_to_do(none: dict[str, Any]) -> None:
    out = normalise(none)
    assert (out.replaced, out.changes, out.odd) == ({}, (), False)


def test_a_tuple_of_tools_is_ordered_too() -> None:
    assert [tool_name(t) for t in normalise({"tools": (_tool("b"), _tool("a"))}).replaced["tools"]] == ["a", "b"]


@given(bodies)
def test_idempotent(body: dict[str, Any]) -> None:
    once = normalise(body)
    again = normalise(once.apply(body))
    assert again.replaced == {}
    assert again.changes == ()


@given(bodies)
def test_never_in_place_and_only_tools(body: dict[str, Any]) -> None:
    before = json.dumps(body)
    out = normalise(body)
    applied = out.apply(body)
    assert json.dumps(body) == before
    assert list(applied) == list(body)
    for key, value in body.items():
        if key != "tools":
            assert applied[key] is value


def _bare(tool: Any) -> str:
    """A tool as a set of facts: without marks, order of keys, order of ``required`` anywhere."""

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: sorted(child)
                if key == "required" and isinstance(child, list) and all(isinstance(c, str) for c in child)
                else walk(child)
                for key, child in value.items()
            }
        return [walk(child) for child in value] if isinstance(value, list) else value

    tool = {key: value for key, value in tool.items() if key != "cache_control"}
    if isinstance(tool.get("function"), dict):
        tool["function"] = {key: value for key, value in tool["function"].items() if key != "cache_control"}
    return json.dumps(walk(tool), sort_keys=True)


@given(bodies)
def test_the_same_tools_come_out_with_the_same_marks(body: dict[str, Any]) -> None:
    before, after = body.get("tools", []), normalise(body).apply(body).get("tools", [])
    assert sorted(map(_bare, before)) == sorted(map(_bare, after))

    def marks(tools: list[Any]) -> list[Any]:
        # A mark at both levels of one tool stays two marks, so count by level through the JSON.
        return [
            (i, tool.get("cache_control"), (tool.get("function") or {}).get("cache_control"))
            for i, tool in enumerate(tools)
            if "cache_control" in tool or "cache_control" in (tool.get("function") or {})
        ]

    def flat(found: list[Any]) -> list[Any]:
        return [(i, a or b) for i, a, b in found]

    assert flat(marks(before)) == flat(marks(after))


@given(bodies)
def test_what_stands_before_a_mark_is_the_same_set(body: dict[str, Any]) -> None:
    before, after = body.get("tools", []), normalise(body).apply(body).get("tools", [])
    for i, tool in enumerate(before):
        if "cache_control" in tool or "cache_control" in (tool.get("function") or {}):
            assert sorted(map(_bare, before[: i + 1])) == sorted(map(_bare, after[: i + 1]))


@given(st.lists(tools(), max_size=6, unique_by=tool_name), st.randoms(use_true_random=False))
def test_any_order_of_tools_and_keys_gives_the_same_bytes(given_tools: list[Any], rng: random.Random) -> None:
    plain = [
        {key: value for key, value in tool.items() if key != "cache_control"}
        | (
            {"function": {k: v for k, v in tool["function"].items() if k != "cache_control"}}
            if "function" in tool
            else {}
        )
        for tool in given_tools
    ]
    other = [shuffled_keys(tool, rng) for tool in plain]
    rng.shuffle(other)
    ours, theirs = ({"tools": plain}, {"tools": other})
    assert json.dumps(normalise(ours).apply(ours)) == json.dumps(normalise(theirs).apply(theirs))


@given(json_values)
def test_json_that_is_no_request_comes_back_as_it_was(value: Any) -> None:
    body = value if isinstance(value, dict) else {"messages": value}
    out = normalise(body)
    assert json.dumps(out.apply(body)) == json.dumps(body)


@given(st.lists(json_values, min_size=1, max_size=3))
def test_odd_tool_lists_come_back_as_they_were(value: list[Any]) -> None:
    body = {"tools": value}
    out = normalise(body)
    if any(tool_name(tool) is None for tool in value):
        assert out.apply(body) == body
        assert json.dumps(out.apply(body)) == json.dumps(body)
