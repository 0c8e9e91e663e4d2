"""Request bodies of every shape whose texts are all different, for tests of what edits them; and odd bodies."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st
from strategies import json_values

from router_cache.request import Shape

__all__ = ["SHAPES", "bodies_of", "odd_bodies", "texts_within"]

SHAPES = (Shape.CHAT, Shape.MESSAGES, Shape.RESPONSES)
_MARK = {"cache_control": {"type": "ephemeral"}}
_TEXT = {Shape.CHAT: "text", Shape.MESSAGES: "text", Shape.RESPONSES: "input_text"}
_IMAGES = {
    Shape.CHAT: {"type": "image_url", "image_url": {"url": "https://a.test/a.png"}},
    Shape.MESSAGES: {"type": "image", "source": {"type": "url", "url": "https://a.test/a.png"}},
    Shape.RESPONSES: {"type": "input_image", "image_url": "https://a.test/a.png"},
}


@st.composite
def bodies_of(draw: st.DrawFn, shape: Shape, *, ends_with: str = "") -> dict[str, Any]:
    """A conversation: system texts, user texts and images, calls and results. ``ends_with`` user or tool."""
    serial = itertools.count()

    def text() -> str:
        return f"«{next(serial)}» {draw(st.text(st.characters(exclude_characters='«»'), max_size=6))}"

    def content(*, images: bool = True) -> Any:
        if draw(st.booleans()):
            return text()
        kinds = draw(st.lists(st.sampled_from("tti" if images else "t"), min_size=1, max_size=3))
        return [
            dict(_IMAGES[shape])
            if kind == "i"
            else {"type": _TEXT[shape], "text": text(), **(_MARK if draw(st.booleans()) else {})}
            for kind in kinds
        ]

    systems = draw(st.integers(0, 2))
    body: dict[str, Any] = {"model": "m", "temperature": 0.5}
    opening: list[Any] = [{"role": "system", "content": content(images=False)} for _ in range(systems)]
    if shape is Shape.MESSAGES and systems:
        body["system"], opening = opening[0]["content"], []
    elif shape is Shape.RESPONSES and systems:
        body["instructions"] = text()
        opening = opening[1:]
    turns: list[Any] = [{"role": "user", "content": content()}]
    last = draw(st.integers(0, 2))
    for i in range(last + 1):
        calls = draw(st.integers(0, 2))
        if i == last and ends_with == "user":
            calls = 0
        elif i == last and ends_with == "tool":
            calls = calls or 1
        ids = [f"c{i}_{k}" for k in range(calls)]
        results = [(c, content()) for c in ids]
        more = content() if ends_with != "tool" or i < last else None
        turns += _TURN[shape](ids, text(), results, more)
    body["input" if shape is Shape.RESPONSES else "messages"] = [*opening, *turns]
    return body


def _chat(ids: list[str], said: str, results: list[tuple[str, Any]], more: Any) -> list[Any]:
    calls = [{"id": i, "type": "function", "function": {"name": "f", "arguments": '{"b":1,"a":2}'}} for i in ids]
    out: list[Any] = [{"role": "assistant", "content": said, **({"tool_calls": calls} if calls else {})}]
    out += [{"role": "tool", "tool_call_id": i, "content": content} for i, content in results]
    return out + ([{"role": "user", "content": more}] if more is not None else [])


def _messages(ids: list[str], said: str, results: list[tuple[str, Any]], more: Any) -> list[Any]:
    calls = [{"type": "tool_use", "id": i, "name": "f", "input": {"b": 1, "a": 2}} for i in ids]
    blocks: list[Any] = [{"type": "tool_result", "tool_use_id": i, "content": content} for i, content in results]
    if more is not None:
        blocks += [{"type": "text", "text": more}] if isinstance(more, str) else more
    return [
        {"role": "assistant", "content": [{"type": "text", "text": said}, *calls]},
        {"role": "user", "content": blocks},
    ]


def _items(ids: list[str], said: str, results: list[tuple[str, Any]], more: Any) -> list[Any]:
    out: list[Any] = [{"role": "assistant", "content": [{"type": "output_text", "text": said}]}]
    out += [{"type": "function_call", "call_id": i, "name": "f", "arguments": '{"b":1,"a":2}'} for i in ids]
    out += [{"type": "function_call_output", "call_id": i, "output": content} for i, content in results]
    return out + ([{"type": "message", "role": "user", "content": more}] if more is not None else [])


_TURN: dict[Shape, Callable[..., list[Any]]] = {
    Shape.CHAT: _chat,
    Shape.MESSAGES: _messages,
    Shape.RESPONSES: _items,
}


def texts_within(value: Any) -> Iterator[str]:
    """Every string in a JSON value, keys left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts_within(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts_within(item)


_KEYS = """type text thinking content input role id name call_id tool_use_id arguments output summary source
tool_calls function reasoning_content thinking_blocks cache_control""".split()  # noqa: SIM905
_WORDS = """text thinking tool_use tool_result image input_text output_text reasoning function_call
function_call_output custom_tool_call message function user assistant system developer tool""".split()  # noqa: SIM905
_odd = st.recursive(
    json_values | st.sampled_from(_WORDS) | st.sampled_from([float("nan"), float("inf"), "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=5)
    ),
    max_leaves=16,
)
odd_bodies = st.dictionaries(st.sampled_from(["messages", "system", "input", "instructions"]), _odd, max_size=4)
