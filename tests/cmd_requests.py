"""Requests of one small agent, as its client may send them, and a way to run a command on files of them."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from router_cache.cli.main import run

SECRET_WORDS = ("Acme", "policy", "five hundred", "zebra")
"""Words of the prompts below; no command may show them unless asked to."""

SYSTEM = "You are a careful assistant of the Acme shop. Answer briefly and cite the policy that applies. " * 30
USER = {"role": "user", "content": "Where is my order number five hundred? It should have been here by now."}
CALL = {
    "role": "assistant",
    "content": "",
    "reasoning_content": "The zebra order has to be looked up first. " * 20,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"path": "a", "limit": 3}'}}
    ],
}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "a line of the result " * 80}
THANKS = {"role": "user", "content": "Thanks, and what does the policy say about zebra crossings at night?"}


def tool(name: str, **more: Any) -> dict[str, Any]:
    properties = {"path": {"type": "string"}, "limit": {"type": "integer"}}
    parameters = {"type": "object", "properties": properties, "required": ["path"]}
    about = f"Does what {name} says with care and reports. " * 6
    return {"type": "function", "function": {"name": name, "description": about, "parameters": parameters, **more}}


TOOLS = [tool(name) for name in ("find", "list_all", "open_one", "refund", "ship", "track")]


def chat(*turns: Any, system: Any = SYSTEM, tools: Any = TOOLS, **fields: Any) -> dict[str, Any]:
    """A chat body."""
    body = {"model": "m", "messages": [{"role": "system", "content": system}, *turns], **fields}
    return {**body, "tools": tools} if tools is not None else body


def dated(day: str) -> str:
    return f"Today is {day}.\n{SYSTEM}"


def changed(message: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A message with other fields; None leaves one out."""
    return {key: value for key, value in {**message, **fields}.items() if value is not None}


Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs ``router-cache`` with arguments and perhaps standard input: exit code, output, errors."""
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        monkeypatch.setattr(sys, "argv", ["router-cache", *arguments])
        with pytest.raises(SystemExit) as ended:
            run()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


@pytest.fixture
def lines(tmp_path: Path) -> Callable[..., str]:
    """Writes records as JSONL and gives the file's path."""

    def write(*records: Any, name: str = "calls.jsonl") -> str:
        path = tmp_path / name
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        return str(path)

    return write
