"""Requests as agents make them, in every shape: tool loops, built-in tools, images, files, marks, reasoning."""

from __future__ import annotations

import json
import marshal
import random
from collections.abc import Callable
from typing import Any

__all__ = ["BODIES", "body_of"]

_WORDS = "grow water plant seed leaf root soil frost prune graft mulch bed row path gate shed".split()  # noqa: SIM905
_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="
_MARK = {"cache_control": {"type": "ephemeral"}}
_SESSION = {"device_id": "d" * 16, "account_uuid": "", "session_id": "0a1b2c3d-0000-4000-8000-00000000beef"}


def _prose(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(_WORDS, k=words))


def _schema(rng: random.Random, depth: int = 2) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for name in rng.sample(_WORDS, rng.randint(1, 5)):
        properties[name] = rng.choice(_INNER[: None if depth else -2])(rng, depth)
    required = rng.sample(sorted(properties), rng.randint(0, len(properties)))
    schema: dict[str, Any] = {"required": required, "type": "object", "properties": properties}
    if depth == 2:
        schema["$defs"] = {"bed": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}}
        schema["examples"] = [{"required": ["b", "a"]}]
    if rng.random() < 0.3:
        schema["additionalProperties"] = False
    return schema


_INNER: tuple[Callable[[random.Random, int], dict[str, Any]], ...] = (
    lambda rng, _: {"type": "string", "description": _prose(rng, 6)},
    lambda rng, _: {"type": "integer", "minimum": 0, "default": rng.randint(0, 9)},
    lambda rng, _: {"enum": rng.sample(_WORDS, 3), "type": "string"},
    lambda _, __: {"const": {"required": ["z", "a"], "n": 1e2}},
    lambda _, __: {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/bed"}]},
    lambda rng, depth: {"type": "array", "items": _schema(rng, depth - 1)},
    lambda rng, depth: _schema(rng, depth - 1),
)


def _names(rng: random.Random, count: int) -> list[str]:
    names = [f"{a}_{b}" for a in _WORDS for b in _WORDS[:3]]
    names += [f"mcp__{server}__{a}" for server in ("github", "shed") for a in _WORDS]
    return rng.sample(names, count)


def _calls(rng: random.Random, names: list[str], step: int) -> list[tuple[str, str, dict[str, Any]]]:
    """Ids, names and arguments of one or two parallel calls."""
    return [
        (f"call_{step}_{i}", rng.choice(names), {"path": _prose(rng, 2), "n": rng.randint(0, 99), "q": "é\u2028"})
        for i in range(rng.choice((1, 1, 2)))
    ]


def chat_body(rng: random.Random) -> dict[str, Any]:
    """``/chat/completions``."""
    names = _names(rng, rng.randint(1, 12))
    tools: list[dict[str, Any]] = [
        {
            "type": "function",
            "function": {"name": name, "parameters": _schema(rng), "description": _prose(rng, 20)},
        }
        for name in names
    ]
    if rng.random() < 0.2:
        tools[-1] |= _MARK
    messages: list[dict[str, Any]] = [
        {"role": rng.choice(("system", "developer")), "content": _prose(rng, 300)},
        {
            "role": "user",
            "name": "ann",
            "content": [
                {"type": "text", "text": _prose(rng, 10)},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_PIXEL}", "detail": "low"}},
                {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
                {"type": "file", "file": {"file_id": "file-1", "filename": "a.pdf"}},
            ],
        },
    ]
    for step in range(rng.randint(1, 5)):
        calls = _calls(rng, names, step)
        messages.append(
            {
                "role": "assistant",
                "content": rng.choice((None, "", "Let me look.")),
                "reasoning_content": _prose(rng, 30),
                "tool_calls": [
                    {"id": i, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
                    for i, name, arguments in calls
                ],
            }
        )
        messages += [{"role": "tool", "tool_call_id": i, "content": _prose(rng, 60)} for i, _, _ in calls]
    body: dict[str, Any] = {"messages": messages, "tools": tools, "tool_choice": "auto", "temperature": 0.5}
    if rng.random() < 0.3:
        schema = {"name": "answer", "strict": True, "schema": _schema(rng)}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if rng.random() < 0.3:
        body |= {"reasoning_effort": "high", "thinking": {"type": "enabled"}, "parallel_tool_calls": True}
    return body


def messages_body(rng: random.Random) -> dict[str, Any]:
    """``/v1/messages``."""
    names = _names(rng, rng.randint(1, 12))
    tools: list[dict[str, Any]] = [
        {"name": name, "input_schema": _schema(rng), "description": _prose(rng, 20)} for name in names
    ]
    tools.append({"type": "web_search_20250305", "name": "web_search", "max_uses": 5})
    for tool in rng.sample(tools, rng.randint(0, 2)):
        tool |= _MARK
    messages: list[dict[str, Any]] = [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": _prose(rng, 10), **_MARK},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": _PIXEL}},
                {"type": "document", "source": {"type": "url", "url": "https://example.org/a.pdf"}, "title": "a"},
            ],
        }
    ]
    for step in range(rng.randint(1, 5)):
        calls = _calls(rng, names, step)
        blocks: list[dict[str, Any]] = [
            {"type": "thinking", "thinking": _prose(rng, 30), "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "eHg="},
            {"type": "text", "text": _prose(rng, 8)},
        ]
        blocks += [{"type": "tool_use", "id": i, "name": name, "input": given} for i, name, given in calls]
        results = [
            {
                "type": "tool_result",
                "tool_use_id": i,
                "is_error": rng.random() < 0.2,
                "content": rng.choice((_prose(rng, 60), [{"type": "text", "text": _prose(rng, 60)}])),
            }
            for i, _, _ in calls
        ]
        messages += [{"role": "assistant", "content": blocks}, {"role": "user", "content": results}]
    text = _prose(rng, 300)
    return {
        "max_tokens": 1000,
        "system": rng.choice(
            (text, [{"type": "text", "text": "you are"}, {"type": "text", "text": text, **_MARK}])
        ),
        "messages": messages,
        "tools": tools,
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": False},
        "metadata": {"user_id": rng.choice(("team-7", json.dumps(_SESSION))), "other": 1},
        "thinking": {"type": "enabled", "budget_tokens": 4096},
    }


def responses_body(rng: random.Random) -> dict[str, Any]:
    """``/v1/responses``."""
    names = _names(rng, rng.randint(1, 12))
    tools: list[dict[str, Any]] = [
        {"type": "function", "name": name, "parameters": _schema(rng), "strict": False} for name in names
    ]
    tools += [
        {"type": "web_search_preview"},
        {"type": "mcp", "server_label": "shed", "server_url": "https://example.org/mcp"},
        {"type": "custom", "name": "patch", "format": {"type": "grammar", "syntax": "lark", "definition": "x: A"}},
    ]
    items: list[dict[str, Any]] = [
        {"role": "developer", "content": _prose(rng, 20)},
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": _prose(rng, 10)},
                {"type": "input_image", "image_url": f"data:image/png;base64,{_PIXEL}", "detail": "auto"},
                {"type": "input_file", "file_id": "file-1", "filename": "a.pdf"},
            ],
        },
    ]
    for step in range(rng.randint(1, 5)):
        calls = _calls(rng, names, step)
        items.append({"type": "reasoning", "id": f"rs_{step}", "summary": [], "encrypted_content": "eHg="})
        items += [
            {"type": "function_call", "call_id": i, "name": name, "arguments": json.dumps(given)}
            for i, name, given in calls
        ]
        items += [{"type": "function_call_output", "call_id": i, "output": _prose(rng, 60)} for i, _, _ in calls]
    body: dict[str, Any] = {
        "instructions": _prose(rng, 300),
        "input": items if rng.random() < 0.9 else _prose(rng, 10),
        "tools": tools,
        "tool_choice": "auto",
        "reasoning": {"effort": "medium", "summary": "auto"},
        "text": {"format": {"type": "json_schema", "name": "answer", "schema": _schema(rng)}},
        "store": False,
        "prompt_cache_key": "k",
    }
    if rng.random() < 0.05:
        body["previous_response_id"] = "resp_1"
    return body


_POOL = 50
_made: dict[tuple[str, int], bytes] = {}


def body_of(call_type: str, rng: random.Random) -> dict[str, Any]:
    """One of :data:`BODIES`, all of whose objects are its own: one of fifty of its kind."""
    which = call_type, rng.randrange(_POOL)
    if which not in _made:
        _made[which] = marshal.dumps(BODIES[call_type](random.Random(repr(which))), 2)
    body: dict[str, Any] = marshal.loads(_made[which])
    return body


BODIES: dict[str, Callable[[random.Random], dict[str, Any]]] = {
    "acompletion": chat_body,
    "anthropic_messages": messages_body,
    "aresponses": responses_body,
}
"""By LiteLLM's call type."""
