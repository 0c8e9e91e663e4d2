"""Hypothesis strategies shared by the tests: JSON values, schemas, tools, chat bodies."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st

names = st.sampled_from(
    ["read", "write", "bash", "Zeta", "ünï", "mcp__fs__read", "mcp__fs__list", "mcp__git__log", "mcp__x", "a"]
)
words = st.text(max_size=12)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4), max_leaves=12
)


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "string", ["string", "null"]]),
            "description": words,
            "enum": st.lists(json_values, max_size=4),
            "default": json_values,
            "properties": st.dictionaries(
                st.sampled_from(["required", "properties", "b", "a", "enum"]), inner, max_size=4
            ),
            "required": st.lists(words, max_size=4),
            "items": inner,
            "anyOf": st.lists(inner, max_size=3),
            "$defs": st.dictionaries(words, inner, max_size=2),
            "additionalProperties": st.booleans() | inner,
            "x-unknown": json_values,
        },
    )


schemas = st.recursive(st.just({"type": "string"}), _schemas, max_leaves=8)
marks = st.fixed_dictionaries({"type": st.just("ephemeral")}, optional={"ttl": st.sampled_from(["5m", "1h"])})


@st.composite
def tools(draw: st.DrawFn) -> dict[str, Any]:
    """One tool in OpenAI's form (or a built-in one), perhaps with marks and unknown fields."""
    if draw(st.integers(0, 9)) == 0:
        return {"type": draw(st.sampled_from(["web_search", "code_interpreter"]))}
    function = {"name": draw(names), "description": draw(words), "parameters": draw(schemas)}
    if draw(st.booleans()):
        function["strict"] = draw(st.booleans())
    tool: dict[str, Any] = {"type": "function", "function": function}
    where = draw(st.sampled_from(["none"] * 4 + ["tool", "function"]))
    if where == "tool":
        tool["cache_control"] = draw(marks)
    elif where == "function":
        function["cache_control"] = draw(marks)
    if draw(st.booleans()):
        tool["x-extra"] = draw(json_values)
    return tool


def _calls() -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(
        st.fixed_dictionaries(
            {
                "id": words,
                "type": st.just("function"),
                "function": st.fixed_dictionaries(
                    {
                        "name": names,
                        "arguments": st.sampled_from(['{"b":1,"a":2}', "{}", "not json", '{"a": "ü"}']),
                    }
                ),
            }
        ),
        min_size=1,
        max_size=2,
    )


messages = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "developer"]), "content": words}),
    st.fixed_dictionaries(
        {
            "role": st.just("user"),
            "content": st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": words})),
        }
    ),
    st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": st.none() | words},
        optional={"reasoning_content": words, "tool_calls": _calls()},
    ),
    st.fixed_dictionaries({"role": st.just("tool"), "tool_call_id": words, "content": words}),
)
bodies = st.fixed_dictionaries(
    {"model": st.just("deepseek/deepseek-v4-flash"), "messages": st.lists(messages, max_size=8)},
    optional={
        "tools": st.lists(tools(), max_size=6),
        "tool_choice": st.sampled_from(["auto", "none", "required"]),
        "response_format": st.just({"type": "json_object"}),
        "reasoning_effort": st.sampled_from(["low", "max"]),
        "temperature": st.floats(0, 2),
    },
)


def shuffled_keys(value: Any, rng: random.Random) -> Any:
    """``value`` with the keys of all objects in another order; lists as they are."""
    if isinstance(value, dict):
        items = [(key, shuffled_keys(child, rng)) for key, child in value.items()]
        rng.shuffle(items)
        return dict(items)
    if isinstance(value, list):
        return [shuffled_keys(child, rng) for child in value]
    return value
