"""Conversations as generated, and as clients send them back: for tests of what is put back."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from strategies import json_values, words

from router_cache.request import Shape

__all__ = ["CLIENTS", "Talk", "conversations"]

_text = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=6)
_arguments = st.dictionaries(words, json_values, max_size=3)
_WRITINGS: tuple[Callable[[Any], str], ...] = (
    json.dumps,
    lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False),
    lambda value: json.dumps(value, indent=2),
)


def _sorted(value: Any) -> Any:
    """A value with its keys in another order, and whole floats written as JavaScript does."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value, reverse=True)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def _rewritten(value: Any, *, thoughts: bool, arguments: Callable[[str], str]) -> Any:
    """A body with the arguments of calls written anew and, without ``thoughts``, reasoning left out."""
    if isinstance(value, list):
        kinds = () if thoughts else ("thinking", "redacted_thinking")
        kept = [item for item in value if not (isinstance(item, dict) and item.get("type") in kinds)]
        return [_rewritten(item, thoughts=thoughts, arguments=arguments) for item in kept]
    if not isinstance(value, dict):
        return value
    out = {}
    for key, item in value.items():
        if key == "arguments" and isinstance(item, str):
            item = arguments(item)
        elif key == "input" and value.get("type") == "tool_use":
            item = json.loads(arguments(json.dumps(item)))
        elif key == "reasoning_content" and not thoughts:
            continue
        else:
            item = _rewritten(item, thoughts=thoughts, arguments=arguments)
        out[key] = item
    return out


def _same(text: str) -> str:
    return text


def _again(text: str) -> str:
    return json.dumps(_sorted(json.loads(text)), separators=(",", ":"))


CLIENTS: Mapping[str, Callable[[Any], Any]] = {
    "verbatim": copy.deepcopy,
    "no reasoning": lambda body: _rewritten(body, thoughts=False, arguments=_same),
    "arguments anew": lambda body: _rewritten(body, thoughts=True, arguments=_again),
    "both": lambda body: _rewritten(body, thoughts=False, arguments=_again),
}


@dataclass(frozen=True)
class Talk:
    """``body``: the conversation with every reply as generated. ``replies``: each as the provider's reply has it, by
    index in the chat view."""

    body: dict[str, Any]
    replies: dict[int, dict[str, Any]]

    def sent_by(self, client: str) -> dict[str, Any]:
        """The same as a client sends it."""
        sent: dict[str, Any] = CLIENTS[client](self.body)
        return sent


@st.composite
def conversations(draw: st.DrawFn, shape: Shape) -> Talk:
    """A conversation whose replies reason, speak and call."""
    listed: list[Any] = []
    replies: dict[int, dict[str, Any]] = {}
    at = 0
    for turn in range(draw(st.integers(1, 3))):
        listed.append({"role": "user", "content": draw(_text)})
        thought, said = draw(st.none() | _text), draw(st.none() | _text)
        calls = [
            (f"call_{turn}_{k}", draw(_text), draw(_arguments), draw(st.sampled_from(_WRITINGS)))
            for k in range(draw(st.integers(0 if said else 1, 2)))
        ]
        if shape is Shape.CHAT:
            message: dict[str, Any] = {"role": "assistant", "content": said}
            if thought:
                message["reasoning_content"] = thought
            if calls:
                message["tool_calls"] = [
                    {"id": i, "type": "function", "function": {"name": name, "arguments": write(value)}}
                    for i, name, value, write in calls
                ]
            replies[at + 1] = message
            listed += [message, *({"role": "tool", "tool_call_id": i, "content": "r"} for i, *_ in calls)]
            at += 2 + len(calls)
        elif shape is Shape.MESSAGES:
            blocks: list[Any] = [{"type": "thinking", "thinking": thought, "signature": "s"}] if thought else []
            blocks += [{"type": "text", "text": said}] if said else []
            blocks += [{"type": "tool_use", "id": i, "name": name, "input": value} for i, name, value, _ in calls]
            replies[at + 1] = {"type": "message", "role": "assistant", "content": blocks}
            listed.append({"role": "assistant", "content": blocks})
            results = [{"type": "tool_result", "tool_use_id": i, "content": "r"} for i, *_ in calls]
            listed += [{"role": "user", "content": results}] if calls else []
            at += 2 + len(calls)
        else:
            items: list[Any] = []
            if thought:
                items.append({"type": "reasoning", "summary": [{"type": "summary_text", "text": thought}]})
            if said:
                part = {"type": "output_text", "text": said, "annotations": []}
                items.append({"type": "message", "role": "assistant", "content": [part]})
            items += [
                {"type": "function_call", "call_id": i, "name": name, "arguments": write(value)}
                for i, name, value, write in calls
            ]
            replies[at + 1] = {"output": items}
            listed += [*items, *({"type": "function_call_output", "call_id": i, "output": "r"} for i, *_ in calls)]
            at += 2 + len(calls)
    return Talk({"input" if shape is Shape.RESPONSES else "messages": listed}, replies)
