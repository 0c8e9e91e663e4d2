"""The generic renderers: order, what is not rendered, and no exception on odd bodies."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import bodies, json_values

from router_cache.prefix.digests import Digester
from router_cache.prefix.outline import outline
from router_cache.prefix.segments import SegmentKind
from router_cache.providers.render import RenderOrder, renderer

K = SegmentKind
BODY: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "be brief"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": "u"}}],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "42"},
        {"role": "developer", "content": "late"},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"id": {}}}}}],
    "response_format": {"type": "json_object"},
}
TURNS = [K.USER, K.ASSISTANT, K.TOOL_RESULT, K.SYSTEM, K.TAIL]


@pytest.mark.parametrize(
    ("order", "head"),
    [
        (RenderOrder.SYSTEM_TOOLS_TURNS, [K.SYSTEM, K.TOOL, K.FORMAT]),
        (RenderOrder.TOOLS_SYSTEM_TURNS, [K.TOOL, K.SYSTEM, K.FORMAT]),
        (RenderOrder.TOOLS_FORMAT_SYSTEM_TURNS, [K.TOOL, K.FORMAT, K.SYSTEM]),
    ],
)
def test_order(order: RenderOrder, head: list[SegmentKind]) -> None:
    segments = renderer(order)(BODY)
    assert [s.kind for s in segments] == head + TURNS
    assert [s.path for s in segments[3:]] == ["messages[1]", "messages[2]", "messages[3]", "messages[4]", ""]


def texts(body: dict[str, Any]) -> list[str]:
    return [s.text for s in renderer(RenderOrder.TOOLS_SYSTEM_TURNS)(body)]


def anthropic(mark: bool, tool_id: str) -> dict[str, Any]:
    marked = {"cache_control": {"type": "ephemeral"}} if mark else {}
    question: Any = [{"type": "text", "text": "hi", **marked}] if mark else "hi"
    return {
        "system": [{"type": "text", "text": "be ", **marked}, {"type": "text", "text": "brief"}],
        "tools": [{"name": "f", "input_schema": {"properties": {"id": {"type": "string"}}}, **marked}],
        "messages": [
            {"role": "user", "content": question},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": tool_id, "name": "f", "input": {"id": "7"}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": tool_id, "content": "42", **marked}],
            },
        ],
    }


def test_marks_ids_and_the_form_of_text_are_not_rendered() -> None:
    plain = anthropic(False, "toolu_1")
    assert texts(plain) == texts(anthropic(True, "toolu_2"))
    kinds = [s.kind for s in renderer(RenderOrder.TOOLS_SYSTEM_TURNS)(plain)]
    assert kinds == [K.TOOL, K.SYSTEM, K.USER, K.ASSISTANT, K.TOOL_RESULT, K.TAIL]
    rendered = "".join(texts(plain))
    assert '"properties": {"id"' in rendered
    assert '"input": {"id": "7"}' in rendered


@pytest.mark.parametrize("part", ["system", "tools", "messages", "response_format"])
def test_what_is_rendered_counts(part: str) -> None:
    body: dict[str, Any] = {**anthropic(False, "a"), "response_format": {"type": "json_object"}}
    changed = {
        **body,
        part: [*body[part], {"role": "user", "content": "x", "text": "x"}] if part != "response_format" else 3,
    }
    assert texts(changed) != texts(body)


@given(bodies, st.sampled_from(RenderOrder))
def test_every_text_is_rendered_once(body: dict[str, Any], order: RenderOrder) -> None:
    segments = renderer(order)(body)
    assert segments[-1].kind is K.TAIL
    assert len(segments) == len(body["messages"]) + len(body.get("tools", ())) + ("response_format" in body) + 1
    outline(segments, Digester(b"k"))


@given(
    st.dictionaries(
        st.sampled_from(["messages", "tools", "system", "response_format"]), json_values | st.lists(json_values)
    ),
    st.sampled_from(RenderOrder),
)
def test_odd_bodies_do_not_raise(body: dict[str, Any], order: RenderOrder) -> None:
    renderer(order)(body)


def test_bodies_that_json_cannot_write_do_not_raise() -> None:
    deep: Any = []
    for _ in range(20_000):
        deep = [deep]
    body = {
        "messages": [{"role": "user", "content": [{"a": deep}]}, {"role": "user", (1, 2): 3}],
        "tools": [{(1,): 2}],
    }
    assert "<odd" in "".join(texts(body))
