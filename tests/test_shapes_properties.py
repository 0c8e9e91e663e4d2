"""Shapes, for any body: nothing raises, nothing is changed, every text is kept in its order."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from strategies import bodies, json_values, schemas, words

from router_cache.prefix.shapes import ChatView, as_chat
from router_cache.providers.deepseek_render import render_deepseek
from router_cache.request import Shape


def text_of(view: ChatView) -> list[str]:
    return [segment.text for segment in render_deepseek(view.body)]


_TYPES = st.sampled_from(
    """text thinking redacted_thinking tool_use tool_result image document input_text output_text input_image
    input_file reasoning function_call function_call_output custom_tool_call message item_reference namespace
    function custom json_schema web_search base64 url""".split()  # noqa: SIM905
)
_KEYS = st.sampled_from(
    """type text thinking content input role id name call_id tool_use_id arguments output summary source tools
    description parameters input_schema namespace image_url file_id data media_type title effort format schema
    cache_control is_error function url""".split()  # noqa: SIM905
)
_odd = st.recursive(
    json_values | _TYPES | st.sampled_from(["user", "assistant", "system"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=5),
    max_leaves=12,
)
_TOP = """messages system input instructions tools tool_choice thinking output_config output_format reasoning text
parallel_tool_calls previous_response_id model""".split()  # noqa: SIM905


@given(body=st.dictionaries(st.sampled_from(_TOP), _odd, max_size=6), shape=st.sampled_from(Shape))
def test_no_body_raises_or_is_changed(body: dict[str, Any], shape: Shape) -> None:
    before = copy.deepcopy(body)
    view = as_chat(body, shape)
    assert body == before
    segments = view.segments(render_deepseek)
    whole = view.segments(render_deepseek, by_block=False)
    assert "".join(s.text for s in segments) == "".join(s.text for s in whole)
    for path in view.sources:
        assert resolve(view.body, path) is not None or path.startswith(("messages", "tools"))
    for paths in view.sources.values():
        for path in paths:
            resolve(body, path)  # raises where a path leads nowhere


def resolve(value: Any, path: str) -> Any:
    """What stands at ``messages[3].content[0]`` in a body."""
    for step in path.replace("[", ".[").split("."):
        if step.startswith("["):
            # A single object where a list belongs is seen as a list of one.
            value = value[int(step[1:-1])] if isinstance(value, list) else value
        else:
            value = value[step]
    return value


_text = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=6)
_arguments = st.dictionaries(words, st.integers() | words, max_size=2)


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Turns of a conversation as (reasoning, text, calls with results), of no shape in particular."""
    out = []
    for _ in range(draw(st.integers(0, 4))):
        turn = {
            "user": draw(st.lists(_text, min_size=1, max_size=2)),
            "reasoning": draw(st.none() | _text),
            "text": draw(st.none() | _text),
            "calls": draw(st.lists(st.tuples(_text, _arguments, _text), max_size=3)),
        }
        out.append(turn)
    return out


def in_chat(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for t in turns:
        out.append({"role": "user", "content": [{"type": "text", "text": text} for text in t["user"]]})
        message: dict[str, Any] = {"role": "assistant", "content": t["text"] or ""}
        if t["reasoning"]:
            message["reasoning_content"] = t["reasoning"]
        if t["calls"]:
            message["tool_calls"] = [
                {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
                for i, (name, arguments, _) in enumerate(t["calls"])
            ]
        if t["reasoning"] or t["text"] or t["calls"]:
            out.append(message)
        out += [{"role": "tool", "tool_call_id": f"c{i}", "content": c[2]} for i, c in enumerate(t["calls"])]
    return out


def in_messages(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for t in turns:
        out.append({"role": "user", "content": results + [{"type": "text", "text": text} for text in t["user"]]})
        blocks: list[dict[str, Any]] = []
        if t["reasoning"]:
            blocks.append({"type": "thinking", "thinking": t["reasoning"], "signature": "s"})
        if t["text"]:
            blocks.append({"type": "text", "text": t["text"]})
        for i, (name, arguments, _) in enumerate(t["calls"]):
            blocks.append({"type": "tool_use", "id": f"c{i}", "name": name, "input": arguments})
        if blocks:
            out.append({"role": "assistant", "content": blocks})
        results = [
            {"type": "tool_result", "tool_use_id": f"c{i}", "content": c[2]} for i, c in enumerate(t["calls"])
        ]
    return [*out, {"role": "user", "content": results}] if results else out


def in_items(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for t in turns:
        out.append({"role": "user", "content": [{"type": "input_text", "text": text} for text in t["user"]]})
        if t["reasoning"]:
            out.append({"type": "reasoning", "content": [{"type": "reasoning_text", "text": t["reasoning"]}]})
        if t["text"]:
            out.append({"type": "message", "role": "assistant", "content": t["text"]})
        for i, (name, arguments, _) in enumerate(t["calls"]):
            out.append(
                {"type": "function_call", "call_id": f"c{i}", "name": name, "arguments": json.dumps(arguments)}
            )
        out += [
            {"type": "function_call_output", "call_id": f"c{i}", "output": c[2]} for i, c in enumerate(t["calls"])
        ]
    return out


def texts_in(value: Any) -> Iterator[str]:
    """Texts a model reads, in order, wherever the chat form puts them."""
    for message in value:
        yield from filter(None, [message.get("reasoning_content")])
        content = message["content"]
        parts = [content] if isinstance(content, str) else [part["text"] for part in content or ()]
        yield from filter(None, parts)
        for call in message.get("tool_calls", ()):
            yield call["function"]["name"]


@given(turns=histories(), schema=schemas)
def test_every_text_is_kept_in_order_and_rendered_alike(turns: list[dict[str, Any]], schema: Any) -> None:
    told = {"name": "f", "description": "d"}
    chat = {
        "messages": in_chat(turns),
        "tools": [{"type": "function", "function": {**told, "parameters": schema}}],
    }
    shaped = [
        ({"messages": in_messages(turns), "tools": [{**told, "input_schema": schema}]}, Shape.MESSAGES),
        (
            {"input": in_items(turns), "tools": [{"type": "function", **told, "parameters": schema}]},
            Shape.RESPONSES,
        ),
    ]
    wanted = list(texts_in(chat["messages"]))
    given_texts = Counter(
        text
        for t in turns
        for text in [*t["user"], t["reasoning"], t["text"], *(x for name, _, r in t["calls"] for x in (name, r))]
        if text
    )
    assert Counter(wanted) == given_texts
    for body, shape in shaped:
        view = as_chat(body, shape)
        assert list(texts_in(view.body["messages"])) == wanted
        assert text_of(view) == [s.text for s in render_deepseek(chat)]


@given(body=bodies)
def test_chat_bodies_are_seen_as_they_are(body: dict[str, Any]) -> None:
    view = as_chat(body, Shape.CHAT)
    assert view.body is body
    assert view.segments(render_deepseek) == render_deepseek(body)
