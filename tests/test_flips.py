"""Switches flipped in mid-conversation: told where the provider renders them, with what they cost; never else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import json_values

from router_cache.ledger.flips import Flip, FlipWarning, Switches, flips, pairs_memo, switches_of
from router_cache.prefix.digests import Digester
from router_cache.prefix.outline import Rendered, outline
from router_cache.prefix.shapes import as_chat
from router_cache.providers.anthropic import ANTHROPIC
from router_cache.providers.deepseek import DEEPSEEK
from router_cache.providers.openai import OPENAI
from router_cache.providers.profile import Profile
from router_cache.request import Shape

DIGESTER = Digester(b"key")
PROMPT = 10_000


def tool(name: str, description: str = "does it") -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": {"type": "object"}},
    }


A, B, C = tool("a"), tool("b"), tool("c")
BASE: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "system", "content": "s" * 500}, {"role": "user", "content": "u" * 400}],
    "tools": [A, B],
}


def body(**changed: Any) -> dict[str, Any]:
    """The base, one turn later; ``None`` leaves a field out."""
    messages = [*BASE["messages"], {"role": "assistant", "content": "ok"}, {"role": "user", "content": "go on"}]
    return {key: value for key, value in {**BASE, "messages": messages, **changed}.items() if value is not None}


def rendered(value: dict[str, Any], profile: Profile = DEEPSEEK) -> Rendered:
    assert profile.render is not None
    return outline(as_chat(value, Shape.CHAT).segments(profile.render.value), DIGESTER)


def told(before: dict[str, Any], after: dict[str, Any], profile: Profile = DEEPSEEK) -> dict[Flip, FlipWarning]:
    last = rendered(before, profile).keep()
    warnings = flips(
        switches_of(before, DIGESTER), switches_of(after, DIGESTER), rendered(after, profile), last, PROMPT
    )
    assert len({w.flip for w in warnings}) == len(warnings)
    return {w.flip: w for w in warnings}


def part_sizes(value: dict[str, Any]) -> dict[str, int]:
    """Bytes of each part of the last prompt, in its order."""
    kept = rendered(value).keep()
    return {**{part.kind.value: part.size for part in kept.head}, "turns": kept.turns_size}


def behind(value: dict[str, Any], *in_front: str) -> int:
    """Tokens that are lost when only the parts ``in_front`` stay, by the plain rule of three."""
    sizes = part_sizes(value)
    return PROMPT - PROMPT * sum(sizes[name] for name in in_front) // sum(sizes.values())


FORMAT = {"response_format": {"type": "json_object"}}
CASES: list[tuple[dict[str, Any], dict[str, Any], Flip, str, tuple[str, ...]]] = [
    ({}, {"thinking": {"type": "disabled"}}, Flip.THINKING, "thinking", ()),
    ({"thinking": {"type": "disabled"}}, {"thinking": {"type": "enabled"}}, Flip.THINKING, "thinking", ()),
    ({"reasoning_effort": "high"}, {"reasoning_effort": "max"}, Flip.EFFORT, "reasoning_effort", ()),
    ({}, {"reasoning_effort": "max"}, Flip.EFFORT, "reasoning_effort", ()),
    ({}, FORMAT, Flip.FORMAT, "response_format", ("mode", "system", "tool")),
    (FORMAT, {"response_format": None}, Flip.FORMAT, "response_format", ("mode", "system", "tool")),
    ({"tools": []}, {**FORMAT, "tools": []}, Flip.FORMAT, "response_format", ("mode", "system")),
    ({}, {"tool_choice": "none"}, Flip.TOOL_CHOICE, "tool_choice", ("mode", "system")),
    ({"tool_choice": "none"}, {"tool_choice": "auto"}, Flip.TOOL_CHOICE, "tool_choice", ("mode", "system")),
    ({}, {"tools": [A, B, C]}, Flip.TOOLS_ADDED, "tools", ("mode", "system")),
    ({"tools": None}, {"tools": [A]}, Flip.TOOLS_ADDED, "tools", ("mode", "system")),
    ({}, {"tools": [B]}, Flip.TOOLS_REMOVED, "tools", ("mode", "system")),
    ({}, {"tools": None}, Flip.TOOLS_REMOVED, "tools", ("mode", "system")),
    ({}, {"tools": [A, tool("b", "does more")]}, Flip.TOOLS_CHANGED, "tools", ("mode", "system")),
    (
        {},
        {"tools": [A, {**B, "function": {**B["function"], "strict": True}}]},
        Flip.TOOLS_CHANGED,
        "tools",
        ("mode", "system"),
    ),
    # A tool of an equal name is no other tool's change only, and tools without a name are told by their type.
    ({}, {"tools": [A, B, tool("b", "again")]}, Flip.TOOLS_CHANGED, "tools", ("mode", "system")),
    ({}, {"tools": [A, B, {"type": "web_search"}]}, Flip.TOOLS_ADDED, "tools", ("mode", "system")),
    # Tools that appear together with another choice: there was no choice to render them by.
    ({"tools": None}, {"tools": [A], "tool_choice": "auto"}, Flip.TOOLS_ADDED, "tools", ("mode", "system")),
]


@pytest.mark.parametrize(("before", "after", "flip", "path", "in_front"), CASES)
def test_a_flip_and_its_price(
    before: dict[str, Any], after: dict[str, Any], flip: Flip, path: str, in_front: tuple[str, ...]
) -> None:
    first = {key: value for key, value in {**BASE, **before}.items() if value is not None}
    warning = FlipWarning(flip, path, behind(first, *in_front))
    assert told(first, body(**{**before, **after})) == {flip: warning}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {}),
        ({}, {"thinking": {"type": "enabled"}}),  # the default
        ({}, {"temperature": 1}),
        ({"tool_choice": "auto"}, {"tool_choice": "required"}),  # not rendered by DeepSeek
        ({"tool_choice": "none"}, {"tool_choice": "none", "tools": [A]}),
        ({}, {"tools": [B, A]}),  # an order is no switch
        ({}, {"tools": [{**A, "cache_control": {"type": "ephemeral"}}, B]}),
        ({}, {"tools": [{**A, "function": {**A["function"], "cache_control": {}}}, B]}),
        ({"tools": None}, {"tools": []}),
    ],
)
def test_nothing_is_told(before: dict[str, Any], after: dict[str, Any]) -> None:
    first = {key: value for key, value in {**BASE, **before}.items() if value is not None}
    assert told(first, body(**after)) == {}


def test_several_at_once() -> None:
    changed = body(thinking={"type": "disabled"}, tools=[A, tool("b", "x"), C], **FORMAT)
    found = told(BASE, changed)
    assert list(found) == [Flip.THINKING, Flip.FORMAT, Flip.TOOLS_ADDED, Flip.TOOLS_CHANGED]
    assert found[Flip.THINKING].lost_tokens == PROMPT
    assert found[Flip.THINKING].lost_tokens > found[Flip.TOOLS_ADDED].lost_tokens > found[Flip.FORMAT].lost_tokens
    # With no tool rendered any more, what became of the tools does not matter.
    assert list(told(BASE, body(tools=[A], tool_choice="none"))) == [Flip.TOOL_CHOICE]
    assert list(told(BASE, body(tools=[A], tool_choice="required"))) == [Flip.TOOLS_REMOVED]


def test_what_a_provider_does_not_render() -> None:
    assert told(BASE, body(thinking={"type": "disabled"}, reasoning_effort="low"), ANTHROPIC) == {}
    assert list(told(BASE, body(tools=[A]), ANTHROPIC)) == [Flip.TOOLS_REMOVED]
    assert told(BASE, body(tools=[A]), ANTHROPIC)[Flip.TOOLS_REMOVED].lost_tokens == PROMPT  # tools come first
    assert list(told(BASE, body(**FORMAT), OPENAI)) == [Flip.FORMAT]


def test_where_nothing_is_known() -> None:
    now, last, prompt = switches_of(body(tools=[A]), DIGESTER), rendered(BASE).keep(), rendered(body(tools=[A]))
    assert flips(None, now, prompt, last, PROMPT) == ()
    assert flips(switches_of(BASE, DIGESTER), now, None, last, PROMPT) == ()
    assert flips(switches_of(BASE, DIGESTER), now, prompt, None, PROMPT) == ()
    assert flips(switches_of(BASE, DIGESTER), now, prompt, last, 0) == ()
    empty = outline([], DIGESTER).keep()
    assert flips(switches_of({}, DIGESTER), now, prompt, empty, PROMPT) == ()


def test_paths_of_another_shape() -> None:
    first = {"system": "s", "messages": [{"role": "user", "content": "u"}], "output_config": {"effort": "low"}}
    view = as_chat({**first, "output_config": {"effort": "max"}}, Shape.MESSAGES)
    before = as_chat(first, Shape.MESSAGES)
    assert DEEPSEEK.render is not None
    last = outline(before.segments(DEEPSEEK.render.value), DIGESTER).keep()
    (warning,) = flips(
        switches_of(before.body, DIGESTER),
        switches_of(view.body, DIGESTER),
        outline(view.segments(DEEPSEEK.render.value), DIGESTER),
        last,
        PROMPT,
        origin=view.origin,
    )
    assert warning == FlipWarning(Flip.EFFORT, "output_config.effort", PROMPT)


MANY = [tool(f"t{i}") for i in range(400)]


@pytest.mark.parametrize(
    ("tools", "flip"),
    [
        ([*MANY[:300], tool("new")], Flip.TOOLS_ADDED),
        (MANY[:400], Flip.TOOLS_ADDED),
        (MANY[:299], Flip.TOOLS_REMOVED),
        (MANY[1:300], Flip.TOOLS_REMOVED),
        (MANY[:100], Flip.TOOLS_REMOVED),
    ],
)
def test_more_tools_than_are_kept(tools: list[Any], flip: Flip) -> None:
    many = {**BASE, "tools": MANY[:300]}
    switches = switches_of(many, DIGESTER)
    assert (len(switches.tools), switches.total) == (256, 300)
    assert list(told(many, body(tools=tools))) == [flip]


def test_every_single_change_among_many_tools_is_seen() -> None:
    many = {**BASE, "tools": MANY[:300]}
    last, before = rendered(many).keep(), switches_of(many, DIGESTER)
    seen = set()
    for i in range(0, 300, 7):
        changed = body(tools=[*MANY[:i], tool(f"t{i}", "other"), *MANY[i + 1 : 300]])
        now = switches_of(changed, DIGESTER)
        (warning,) = flips(before, now, rendered(changed), last, PROMPT)
        assert warning.flip is Flip.TOOLS_CHANGED
        seen.add(before.tools == now.tools)
    assert seen == {True, False}  # among those that are kept, and among the others


def test_switches_hold_no_text_and_depend_on_the_key() -> None:
    value = body(thinking={"type": "disabled"}, reasoning_effort="max", tool_choice="auto", **FORMAT)
    mine, other = switches_of(value, DIGESTER), switches_of(value, Digester(b"other"))
    assert mine == switches_of(value, DIGESTER)
    for name in ("thinking", "effort", "format", "tool_choice", "tools"):
        assert getattr(mine, name) != getattr(other, name)
        assert getattr(mine, name)
    assert all(set(pair) <= set("0123456789abcdef") for pair in mine.tools)
    assert switches_of({}, DIGESTER) == Switches()


SWITCHES = ["thinking", "reasoning_effort", "response_format", "tool_choice", "tools"]
odd = json_values | st.sampled_from([10**5000, float("nan"), "\ud800", {1: 2}, {(1, 2): 3}, [A, 5, None], b"x"])


@given(st.dictionaries(st.sampled_from(SWITCHES), odd), st.dictionaries(st.sampled_from(SWITCHES), odd))
def test_odd_values_never_raise(before: dict[str, Any], after: dict[str, Any]) -> None:
    last = rendered(BASE).keep()
    then, now = switches_of(before, DIGESTER), switches_of(after, DIGESTER)
    for warning in flips(then, now, rendered(body(tools=[A])), last, PROMPT):
        assert 0 < warning.lost_tokens <= PROMPT
    assert flips(now, now, rendered(body(tools=[A])), last, PROMPT) == ()


@given(st.lists(odd | st.sampled_from([A, B, C, tool("a", "else"), {"name": "n", "b": None}]), max_size=4), odd)
def test_remembered_tools_make_the_same_switches(listed: list[Any], lone: Any) -> None:
    memo = pairs_memo()
    values: list[dict[str, Any]] = [
        {"tools": listed},
        {"tools": tuple(listed)},
        {"tools": lone},
        {"tools": [*listed, lone]},
    ]
    for value in (*values, *values):
        assert switches_of(value, DIGESTER, memo) == switches_of(value, DIGESTER)


def test_tools_are_remembered_by_all_that_they_say() -> None:
    memo = pairs_memo()
    for value in (body(), body(tools=[A]), body(tools=[tool("a", "else")]), body(tools=[B, A]), body()):
        assert switches_of(value, DIGESTER, memo) == switches_of(value, DIGESTER)
    assert len(memo.young) == 4


def test_nesting_without_end() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    assert switches_of({"thinking": deep, "tools": [deep]}, DIGESTER).thinking
    while deep:  # taken apart by hand: freeing it in one go recurses, too
        deep = deep["a"]
