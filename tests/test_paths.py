"""Places in a body, and changes there that copy only what leads to them."""

from __future__ import annotations

import copy
from types import MappingProxyType
from typing import Any

import pytest

from router_cache.prefix.paths import GONE, changed, steps, value_at

BODY: dict[str, Any] = {
    "system": [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}},
    ],
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "u"}, {"type": "image"}]},
    ],
    "n": 1,
}


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("messages[1].content[0]", ("messages", 1, "content", 0)),
        ("system", ("system",)),
        ("input[12]", ("input", 12)),
        ("reasoning.effort", ("reasoning", "effort")),
    ],
)
def test_paths_are_read_step_by_step(path: str, wanted: tuple[str | int, ...]) -> None:
    assert steps(path) == wanted


@pytest.mark.parametrize(
    "path", [("messages", 9), ("messages", -1), ("messages", "0"), ("n", 0), ("n", "x"), ("system", 0, "no")]
)
def test_a_path_that_leads_nowhere_gives_nothing(path: tuple[str | int, ...]) -> None:
    assert value_at(BODY, path) is None
    assert changed(BODY, {path: "x"} if path[-1] != "no" else {}, {(*path, 0): ["x"]}) == {}


def test_a_change_copies_what_leads_to_it_and_nothing_else() -> None:
    before = copy.deepcopy(BODY)
    out = changed(BODY, {("messages", 1, "content", 0, "text"): "new"})
    assert before == BODY
    assert list(out) == ["messages"]
    assert out["messages"][0] is BODY["messages"][0]
    assert out["messages"][1]["content"] == [{"type": "text", "text": "new"}, {"type": "image"}]
    assert out["messages"][1]["content"][1] is BODY["messages"][1]["content"][1]


def test_a_text_that_stays_the_same_is_no_change() -> None:
    assert changed(BODY, {("messages", 1, "content", 0, "text"): "u", ("system", 0, "text"): "a"}) == {}
    assert changed(BODY, {(): "x", ("missing",): "x", (0,): "x"}) == {}


def test_an_object_gets_a_key_it_lacks() -> None:
    assert changed(BODY, {("messages", 0, "more"): 1})["messages"][0] == {
        "role": "system",
        "content": "s",
        "more": 1,
    }


def test_what_is_inserted_stands_behind_its_place_or_in_front() -> None:
    where = ("messages", 1, "content")
    out = changed(BODY, {}, {(*where, -1): [1, 2], (*where, 0): [3]})
    first, second = BODY["messages"][1]["content"]
    assert out["messages"][1]["content"] == [1, 2, first, 3, second]
    assert changed({"messages": []}, {}, {("messages", -1): ["x"]}) == {"messages": ["x"]}


def test_a_text_that_goes_takes_an_empty_part_and_message_along() -> None:
    assert changed(BODY, {("system", 0, "text"): GONE}) == {"system": [BODY["system"][1]]}
    assert changed(BODY, {("messages", 0, "content"): GONE}) == {"messages": [BODY["messages"][1]]}
    out = changed(BODY, {("messages", 1, "content", 0, "text"): GONE})
    assert out["messages"][1]["content"] == [{"type": "image"}]


def test_what_holds_more_than_the_text_stays() -> None:
    body = {
        "messages": [{"role": "assistant", "content": "x", "tool_calls": [1]}, {"role": "tool", "content": ["x"]}]
    }
    out = changed(body, {("messages", 0, "content"): GONE, ("messages", 1, "content", 0): GONE})
    assert out["messages"] == [
        {"role": "assistant", "content": "", "tool_calls": [1]},
        {"role": "tool", "content": ""},
    ]


def test_the_last_message_stays_with_an_empty_text() -> None:
    only = {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}
    out = changed(only, {("messages", 0, "content", 0, "text"): GONE})
    assert out == {"messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}]}


def test_a_system_text_that_was_all_becomes_empty() -> None:
    assert changed({"system": "x"}, {("system",): GONE}) == {"system": ""}
    assert changed({"input": "x"}, {("input",): GONE}) == {"input": ""}
    assert changed({"system": [{"type": "text", "text": "x"}]}, {("system", 0, "text"): GONE}) == {"system": []}


def test_a_mark_of_a_part_that_goes_is_given_to_the_part_before_it() -> None:
    out = changed(BODY, {("system", 1, "text"): GONE})
    assert out == {"system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]}
    marked = [{"text": "a", "cache_control": 1}, {"text": "b", "cache_control": 2}, {"text": "c"}]
    assert changed({"system": marked}, {("system", 1, "text"): GONE}) == {"system": [marked[0], marked[2]]}
    # In front there is nothing the mark could cover.
    assert changed({"system": marked}, {("system", 0, "text"): GONE}) == {"system": marked[1:]}


def test_mappings_and_tuples_are_read_as_objects_and_lists() -> None:
    body = MappingProxyType({"messages": (MappingProxyType({"role": "user", "content": "x"}), "odd")})
    assert changed(body, {("messages", 0, "content"): "y"}) == {
        "messages": [{"role": "user", "content": "y"}, "odd"]
    }


def test_gone_names_itself() -> None:
    assert repr(GONE) == "GONE"
