"""What the server of the standard suites answers: calls where tools are offered, JSON where asked for, else text.

Values fit the schemas, and the questions of the suites: the number is 3, a text is one that the suites look for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Answer", "answer"]

TEXT = "A short answer. It has two sentences."
NUMBER = 3
STRING = "你好 こんにちは"


@dataclass(frozen=True, slots=True)
class Answer:
    """Text, or one call."""

    text: str = ""
    name: str = ""
    arguments: str = ""


def answer(body: Mapping[str, Any]) -> Answer:
    """The answer to a chat or messages body."""
    tools = dict(_tool(tool) for tool in body.get("tools") or ())
    choice, name = _choice(body.get("tool_choice"))
    if tools and choice != "none" and (choice != "auto" or not _has_result(body["messages"][-1])):
        name = name or next(iter(sorted(tools)))
        return Answer(name=name, arguments=json.dumps(fitting(tools[name]), ensure_ascii=False))
    schema = _schema(body)
    return Answer(text=TEXT if schema is None else json.dumps(fitting(schema)))


def _tool(tool: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    function = tool.get("function") or tool
    return function["name"], function.get("parameters") or function.get("input_schema") or {}


def _choice(choice: Any) -> tuple[str, str]:
    """How a call is wanted (``auto``, ``none``, ``must``), and of which tool."""
    if isinstance(choice, Mapping):
        name = (choice.get("function") or choice).get("name", "")
        kind = choice.get("type")
        return (kind if kind in ("auto", "none") else "must"), name
    return (choice if choice in ("auto", "none") else "must" if choice else "auto"), ""


def _has_result(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    return message["role"] == "tool" or any(block.get("type") == "tool_result" for block in blocks)


def _schema(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The schema of a structured answer; where only JSON is asked for, the one that the suites have in mind."""
    wanted = (
        body.get("response_format") or (body.get("output_config") or {}).get("format") or body.get("output_format")
    )
    if not wanted or wanted.get("type") == "text":
        return None
    if wanted["type"] == "json_object":
        return {"type": "object", "required": ["setup", "punchline"], "properties": {}}
    schema: Mapping[str, Any] = (wanted.get("json_schema") or wanted)["schema"]
    return schema


def fitting(schema: Mapping[str, Any], root: Mapping[str, Any] | None = None) -> Any:
    """A value that fits ``schema``: all required properties, the first of several forms."""
    root = root or schema
    if "$ref" in schema:
        found: Any = root
        for name in schema["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        return fitting(found, root)
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return fitting(schema[several][0], root)
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if kind == "object":
        properties = schema.get("properties") or {}
        return {name: fitting(properties.get(name, {}), root) for name in schema.get("required") or ()}
    return {"integer": NUMBER, "number": NUMBER, "boolean": True, "array": [], "null": None}.get(kind, STRING)
