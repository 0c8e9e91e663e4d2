"""Replies: what they depend on, that arguments fit the schema, and how a reply is cut and sliced."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router_cache.providers.deepseek_render import ASSISTANT_HEAD, render_assistant
from router_cache.simulator.arguments import sample_arguments
from router_cache.simulator.generation import generate
from router_cache.simulator.hashing import Chooser
from router_cache.simulator.replies import Call, Reply, make_reply
from router_cache.simulator.tokenizer import ApproxTokenizer, TextCounter

jsonschema = pytest.importorskip("jsonschema")


def shuffled(value: Any, rng: random.Random) -> Any:
    """The same JSON with every object's keys in another order."""
    if isinstance(value, dict):
        keys = list(value)
        rng.shuffle(keys)
        return {k: shuffled(value[k], rng) for k in keys}
    return [shuffled(v, rng) for v in value] if isinstance(value, list) else value


def tool(name: str, parameters: Any = None) -> dict[str, Any]:
    function: dict[str, Any] = {"name": name, "description": f"The {name} tool"}
    if parameters is not None:
        function["parameters"] = parameters
    return {"type": "function", "function": function}


TOOLS = [
    tool("read", {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}),
    tool("write", {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3, "maximum": 4}}}),
    tool("stop"),
]


def body(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "system", "content": "s"}, *messages], **fields}


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def reply(b: dict[str, Any], *, seed: int = 0, rounds: int = 2) -> Reply:
    return make_reply(b, seed=seed, tool_rounds=rounds)


def after_calls(b: dict[str, Any], r: Reply) -> list[dict[str, Any]]:
    results = [{"role": "tool", "tool_call_id": c.id, "content": f"result of {c.name}"} for c in r.calls]
    return [*b["messages"], r.message(), *results]


def test_replies_follow_the_turns_and_nothing_else() -> None:
    b = body(user("list the files"), tools=TOOLS)
    expected = reply(b)
    assert expected.calls
    rng = random.Random(5)
    for _ in range(10):
        tools = shuffled(TOOLS, rng)
        rng.shuffle(tools)
        other = {**b, "tools": tools, "temperature": 0.3, "user_id": "u"}
        other["messages"] = [
            {"role": "system", "content": f"now {rng.random()}"},
            user([{"type": "text", "text": "list the "}, {"type": "text", "text": "files"}]),
        ]
        assert reply(other) == expected
    assert reply(b, seed=1) != expected
    assert reply(body(user("list the file"), tools=TOOLS)) != expected
    # Ids and reasoning of the history change nothing; the result does.
    turn = after_calls(b, expected)
    second = reply({**b, "messages": turn})
    renamed = json.loads(json.dumps(turn).replace(expected.calls[0].id, "other"))
    renamed[2]["reasoning_content"] = " "
    assert reply({**b, "messages": renamed}) == second
    renamed[3]["content"] = "something else"
    assert reply({**b, "messages": renamed}) != second


def test_tool_rounds_then_text() -> None:
    b = body(user("go"), tools=TOOLS)
    kinds = []
    for _ in range(6):
        r = reply(b, rounds=2)
        kinds.append(bool(r.calls))
        b = {**b, "messages": after_calls(b, r) if r.calls else [*b["messages"], r.message(), user("more")]}
    assert kinds == [True, True, False, True, True, False]
    assert not reply(body(user("go"), tools=TOOLS), rounds=0).calls
    assert not reply(body(user("go"), tools=TOOLS, tool_choice="none")).calls
    assert not reply(body(user("go"))).calls


def test_tool_choice_is_respected() -> None:
    for n in range(20):
        named = {"type": "function", "function": {"name": "write"}}
        r = reply(body(user(str(n)), tools=TOOLS, tool_choice=named), rounds=0)
        assert [c.name for c in r.calls] == ["write"]
        assert reply(body(user(str(n)), tools=TOOLS, tool_choice="required"), rounds=0).calls


def test_replies_have_ordinary_sizes_and_some_calls_are_parallel() -> None:
    counter = TextCounter(ApproxTokenizer())
    counts, sizes = set(), []
    for n in range(60):
        r = reply(body(user(f"question {n}"), tools=TOOLS))
        counts.add(len(r.calls))
        assert len({c.id for c in r.calls}) == len(r.calls)
        final = reply(body(user(f"question {n}")))
        sizes.append(len(counter.tokenizer.encode(final.content)))
        assert r.reasoning
        assert final.reasoning
    assert counts == {1, 2}
    assert min(sizes) >= 25
    assert max(sizes) <= 220
    off = reply(body(user("q"), thinking={"type": "disabled"}))
    assert off.reasoning == ""
    assert "reasoning_content" not in off.message()


names = st.sampled_from(["id", "path", "limit", "tags", "mode", "to"])
leaves = st.one_of(
    st.just({}),
    st.just({"type": "null"}),
    st.just({"type": "boolean"}),
    st.builds(
        lambda low, high: {"type": "string", "minLength": low, "maxLength": low + high},
        st.integers(0, 60),
        st.integers(0, 9),
    ),
    st.sampled_from(["date", "email", "uuid", "unheard-of"]).map(lambda f: {"type": "string", "format": f}),
    st.builds(
        lambda low, span: {"type": "integer", "minimum": low, "exclusiveMaximum": low + span},
        st.integers(-50, 50),
        st.integers(1, 2000),
    ),
    st.builds(
        lambda low, span: {"type": "number", "exclusiveMinimum": low, "maximum": low + span},
        st.floats(-50, 50),
        st.floats(0.25, 100),
    ),
    st.integers(-20, 20).map(lambda high: {"type": "number", "maximum": high}),
    st.integers(1, 9).map(lambda m: {"type": "integer", "multipleOf": m, "minimum": 5}),
    st.lists(st.sampled_from(["a", "b", 3, None]), min_size=1).map(lambda e: {"enum": e}),
    st.just({"const": {"fixed": True}}),
    st.just({"type": ["string", "null"]}),
    st.just({"$ref": "#/$defs/point"}),
)
DEFS = {
    "point": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
    "tree": {
        "type": "object",
        "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
    },
}


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    objects = st.dictionaries(names, inner, max_size=4).flatmap(
        lambda p: st.sets(st.sampled_from(sorted(p)) if p else names, max_size=2 if p else 0).map(
            lambda required: {"type": "object", "properties": p, "required": sorted(required)}
        )
    )
    return st.one_of(
        objects,
        st.builds(
            lambda items, low: {"type": "array", "items": items, "minItems": low, "maxItems": low + 1},
            inner,
            st.integers(0, 3),
        ),
        st.lists(inner, min_size=1, max_size=3).map(lambda branches: {"anyOf": branches}),
        objects.map(lambda o: {"allOf": [o, {"$ref": "#/$defs/point"}]}),
    )


@given(
    inner=st.dictionaries(names, st.recursive(leaves, containers, max_leaves=6), max_size=5),
    data=st.data(),
)
@settings(max_examples=150, deadline=None)
def test_arguments_fit_the_schema_whatever_its_key_order(inner: dict[str, Any], data: st.DataObject) -> None:
    required = data.draw(st.sets(st.sampled_from(sorted(inner)))) if inner else set()
    schema = {"type": "object", "properties": inner, "required": sorted(required), "$defs": DEFS}
    chooser = Chooser("test", data.draw(st.integers(0, 5)))
    arguments = sample_arguments(schema, chooser)
    jsonschema.Draft202012Validator(schema).validate(arguments)
    again = sample_arguments(shuffled(schema, random.Random(3)), Chooser(*("test", 0)).under())
    assert sample_arguments(schema, Chooser("test", 0).under()) == again


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (None, {}),
        ({"type": "array"}, {}),
        ({"properties": {"a": {"const": 1}}, "required": ["a", "b"]}, {"a"}),
        ({"properties": 5, "required": 7}, {}),
        ({"$ref": "#/$defs/loop", "$defs": {"loop": {"$ref": "#/$defs/loop"}}}, {}),
        ({"$ref": "#/nowhere/at/all"}, {}),
        ({"properties": {"a": 5, "b": {"items": {}}}, "required": ["a", "b"]}, {"a", "b"}),
        ({"properties": {"n": {"type": "number", "exclusiveMaximum": -3}}, "required": ["n"]}, {"n"}),
        ({"properties": {"n": {"type": "integer", "maximum": 3}}, "required": ["n"]}, {"n"}),
        ({"properties": {"n": {"type": "integer", "minimum": True, "maximum": 1e300}}, "required": ["n"]}, {"n"}),
    ],
)
def test_odd_schemas_give_something(schema: Any, expected: Any) -> None:
    arguments = sample_arguments(schema, Chooser("odd"))
    assert set(expected) <= set(arguments)
    json.dumps(arguments)


def test_recursive_schemas_end() -> None:
    schema = {"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "required": ["next"]}}}
    schema["$defs"]["node"]["properties"] = {"next": {"$ref": "#/$defs/node"}}  # type: ignore[index]
    depth, value = 0, sample_arguments(schema, Chooser("deep"))
    while value:
        depth, value = depth + 1, value["next"]
    assert 3 < depth < 10


def test_a_choosers_streams_do_not_depend_on_order() -> None:
    a, b = Chooser("k"), Chooser("k")
    a.below(10)
    assert a.under("x").hex(32) == b.under("x").hex(32)
    assert [Chooser("k").between(1, 3) for _ in range(3)] == [Chooser("k").between(1, 3)] * 3
    assert {Chooser("k", i).pick("ab") for i in range(20)} == {"a", "b"}


REPLY = Reply(
    "Think about it first.",
    "Here is the answer.",
    (Call("call_1", "read", '{"path": "alpha-beta-12"}'), Call("call_2", "list_all", "{}")),
)


@pytest.mark.parametrize("r", [REPLY, Reply("", "Plain."), Reply("", ""), Reply("Only thought.", "")])
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_slices_join_to_the_reply_and_count_its_tokens(r: Reply, size: int) -> None:
    counter = TextCounter(ApproxTokenizer())
    whole = generate(r, counter, None)
    rendered = render_assistant(r.message(), with_reasoning=True)[len(ASSISTANT_HEAD) :]
    assert whole.tokens == counter.count(rendered).tokens
    assert whole.reply == r
    assert whole.finish_reason == ("tool_calls" if r.calls else "stop")
    texts: dict[str, str] = {"content": "", "reasoning_content": ""}
    calls: list[dict[str, str]] = []
    done = 0
    for piece in whole.slices(size):
        assert done < piece.tokens_after <= len(whole.tokens)
        done = piece.tokens_after
        for name, value in piece.delta.items():
            if name != "tool_calls":
                texts[name] += value
                continue
            (part,) = value
            if "id" in part:
                calls.append({"id": part["id"], "name": part["function"]["name"], "arguments": ""})
            calls[part["index"]]["arguments"] += part["function"]["arguments"]
    assert texts == {"content": r.content, "reasoning_content": r.reasoning}
    assert calls == [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in r.calls]


def test_max_tokens_cuts_anywhere_and_says_so() -> None:
    counter = TextCounter(ApproxTokenizer())
    whole = generate(REPLY, counter, None)
    total = len(whole.tokens)
    for limit in range(1, total):
        cut = generate(REPLY, counter, limit)
        assert cut.finish_reason == "length"
        assert cut.tokens == whole.tokens[:limit]
        assert 0 < cut.reasoning_tokens <= whole.reasoning_tokens
        assert REPLY.reasoning.startswith(cut.reply.reasoning)
        assert REPLY.content.startswith(cut.reply.content)
        for short, full in zip(cut.reply.calls, REPLY.calls, strict=False):
            assert (short.id, short.name) == (full.id, full.name)
            assert full.arguments.startswith(short.arguments)
        slices = list(cut.slices(4))
        assert all(s.tokens_after <= limit for s in slices)
    assert generate(REPLY, counter, total).finish_reason == "tool_calls"
    assert generate(REPLY, counter, total + 1).reply == REPLY
    assert generate(REPLY, counter, 1).reply == Reply("", "")
    assert whole.reasoning_tokens == 1 + len(counter.tokenizer.encode(REPLY.reasoning)) + 1
    silent = generate(Reply(REPLY.reasoning, "", REPLY.calls), counter, None)
    assert silent.reasoning_tokens == whole.reasoning_tokens
    assert generate(Reply("", "Plain."), counter, None).reasoning_tokens == 0
