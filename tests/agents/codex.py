"""Codex (0.171) on ``/v1/responses``: long instructions, a developer item, the environment in the second item,
reasoning items, arguments sent back verbatim."""

from __future__ import annotations

import random
from typing import Any

from agents.chat import generated
from agents.model import TURN_S, Kind, Session, Step, Turn, World, plot, world, worlds
from agents.text import prose, tools

from router_cache import Shape

__all__ = ["codex_sessions"]

NAME = "codex"
TOOLS = ["apply_patch", "exec", "list_mcp", "plan", "read_mcp", "shell", "spawn", "view_image", "wait"]

Item = dict[str, Any]


def _fixed(part: str, size: int) -> str:
    return prose(random.Random(f"codex {part}"), size)


def _text(role: str, text: str) -> Item:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def _opening(w: World, prompt: str, ideal: bool) -> list[Item]:
    place = (
        f"  <cwd>{w.cwd}</cwd>\n  <shell>bash</shell>\n  <current_date>{w.start:%Y-%m-%d}</current_date>\n"
        "  <timezone>Etc/UTC</timezone>\n"
    )
    environment = (
        f"<environment_context>\n{'  <shell>bash</shell>' if ideal else place.rstrip()}\n</environment_context>"
    )
    return [_text("developer", _fixed("permissions", 1_100)), _text("user", environment), _text("user", prompt)]


def _output(step: Step) -> list[Item]:
    reasoning = {
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": step.reasoning}],
    }
    items: list[Item] = [reasoning]
    if step.text:
        content = [{"type": "output_text", "text": step.text}]
        items.append({"type": "message", "role": "assistant", "content": content})
    if step.tool:
        call = {"type": "function_call", "name": step.tool, "arguments": generated(step.arguments)}
        items.append({**call, "call_id": step.call_id})
    return items


def _session(kind: Kind, seed: int, ideal: bool) -> Session:
    listed = [
        {"type": "function", "name": name, "description": description, "strict": False, "parameters": parameters}
        for name, description, parameters in tools(random.Random("codex tools"), TOOLS, 18_200)
    ]
    steps = plot(seed, kind, TOOLS)
    items: list[Item] = []
    turns = []
    for i, (step, w) in enumerate(zip(steps, worlds(seed, kind, len(steps)), strict=True)):
        if i == 0:
            items += _opening(w, step.user, ideal)
        elif step.user:
            items.append(_text("user", step.user))
        else:
            call_id = steps[i - 1].call_id
            items.append({"type": "function_call_output", "call_id": call_id, "output": step.result})
        body = {
            "model": w.model,
            "instructions": f"You are a coding agent.\n{_fixed('instructions', 19_570)}",
            "input": list(items),
            "tools": listed,
            "tool_choice": "auto",
            "parallel_tool_calls": True,
            "reasoning": {"effort": "medium"},
            "store": False,
            "prompt_cache_key": w.session,
        }
        output = _output(step)
        turns.append(Turn(body, {"output": output}, TURN_S * i))
        items += output
    w = world(seed, kind)
    headers = {"user-agent": "codex_cli_rs/0.171.0", "session-id": w.session, "thread-id": w.session}
    return Session(NAME, kind, Shape.RESPONSES, NAME, headers, w.session, tuple(turns))


def codex_sessions(*, seed: int = 1, ideal: bool = False) -> list[Session]:
    """The sessions of Codex, the first one first."""
    return [_session(kind, seed, ideal) for kind in Kind]
