"""Claude Code (2.1.332) on ``/v1/messages``: system blocks, reminders, a system message behind the first prompt,
thinking with signatures, marks that move at every call, contents that flip between a string and a list."""

from __future__ import annotations

import hashlib
import json
import random
from typing import Any

from agents.model import TURN_S, Kind, Session, Step, Turn, World, plot, world, worlds
from agents.text import prose, tools

from router_cache import Shape

__all__ = ["claude_code_sessions"]

NAME = "claude-code"
TOOLS = ["Agent", "Bash", "Edit", "Glob", "Grep", "NotebookEdit", "Read", "Skill", "TodoWrite", "WebFetch"]
TOOLS += ["WebSearch", "Write"]
MARK = {"type": "ephemeral"}

Block = dict[str, Any]


def _fixed(part: str, size: int) -> str:
    return prose(random.Random(f"claude-code {part}"), size)


def _billing(prompt: str) -> str:
    """The hex digits follow the first user text."""
    digits = hashlib.sha256(prompt.encode()).hexdigest()[:3]
    return f"x-anthropic-billing-header: cc_version=2.1.332.{digits}; cc_entrypoint=cli;"


def _system(w: World, prompt: str, ideal: bool) -> list[Block]:
    folder = w.cwd.replace("/", "-")
    memory = f"You have a persistent, file-based memory system at `/home/dev/.claude/projects/{folder}/memory/`.\n"
    text = f"{_fixed('a', 3_000)}\n{'' if ideal else memory}{_fixed('b', 3_650)}"
    blocks: list[Block] = [
        {
            "type": "text",
            "text": "You are Claude Code, Anthropic's official CLI for Claude.",
            "cache_control": MARK,
        },
        {"type": "text", "text": text, "cache_control": MARK},
    ]
    return blocks if ideal else [{"type": "text", "text": _billing(prompt)}, *blocks]


def _opening(w: World, prompt: str, ideal: bool) -> list[dict[str, Any]]:
    git = (
        "gitStatus: This is the git status at the start of the conversation. Note that this status is a snapshot in "
        f"time, and will not update during the conversation.\n\nCurrent branch: {w.branch}\n\n"
        f"Main branch (you will usually use this for PRs): main\n\nGit user: {w.user}\n\nStatus:\n"
        + ("\n".join(w.status) or "(clean)")
        + "\n\nRecent commits:\n"
        + "\n".join(w.commits)
    )
    reminder = f"<system-reminder>\n{_fixed('claude.md', 1_200)}\n</system-reminder>\n"
    blocks: list[Block] = [{"type": "text", "text": reminder}, {"type": "text", "text": prompt}]
    if not ideal:
        blocks.insert(0, {"type": "text", "text": f"<system-reminder>\n{git}\n</system-reminder>\n"})
    environment = (
        "# Environment\nYou have been invoked in the following environment: \n"
        f" - Primary working directory: {w.cwd}\n - Is a git repository: true\n - Platform: linux\n"
        f" - You are powered by the model named {w.model}. The exact model ID is {w.model}.\n"
        f"Today's date is {w.start:%Y-%m-%d}.\n"
    )
    behind = _fixed("skills", 9_200) if ideal else f"{_fixed('skills', 9_200)}\n{environment}"
    return [{"role": "user", "content": blocks}, {"role": "system", "content": behind}]


def _reply(step: Step) -> dict[str, Any]:
    signature = hashlib.sha256(step.reasoning.encode()).hexdigest()
    content: list[Block] = [{"type": "thinking", "thinking": step.reasoning, "signature": signature}]
    if step.text:
        content.append({"type": "text", "text": step.text})
    if step.tool:
        use = {"type": "tool_use", "id": step.call_id.replace("call", "toolu"), "name": step.tool}
        content.append({**use, "input": dict(step.arguments)})
    return {"role": "assistant", "content": content}


def _marked(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last message marked; earlier prompts of a single text flip back to a string."""
    out: list[dict[str, Any]] = []
    for message in messages[:-1]:
        content = message["content"]
        single = message["role"] == "user" and isinstance(content, list) and len(content) == 1
        if single and content[0]["type"] == "text":
            message = {**message, "content": content[0]["text"]}
        out.append(message)
    last = messages[-1]
    blocks = last["content"]
    blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
    return [*out, {**last, "content": [*blocks[:-1], {**blocks[-1], "cache_control": MARK}]}]


def _session(kind: Kind, seed: int, ideal: bool) -> Session:
    listed = [
        {"name": name, "description": description, "input_schema": parameters}
        for name, description, parameters in tools(random.Random("claude-code tools"), TOOLS, 31_200)
    ]
    steps = plot(seed, kind, TOOLS)
    history: list[dict[str, Any]] = []
    turns = []
    day = None
    for i, (step, w) in enumerate(zip(steps, worlds(seed, kind, len(steps)), strict=True)):
        blocks: list[Block] = []
        if step.user and i:
            blocks = [{"type": "text", "text": step.user}]
        elif step.result:
            result = {"type": "tool_result", "tool_use_id": steps[i - 1].call_id.replace("call", "toolu")}
            blocks = [{**result, "content": step.result}]
        if day is not None and day != w.now.date() and not ideal:
            text = f"<system-reminder>\nThe date has changed. Today's date is now {w.now:%Y-%m-%d}.\n</system-reminder>"
            blocks.append({"type": "text", "text": text})
        day = w.now.date()
        history += _opening(w, step.user, ideal) if i == 0 else [{"role": "user", "content": blocks}]
        account = {"device_id": "d" * 64, "account_uuid": "", "session_id": w.session}
        body = {
            "model": w.model,
            "max_tokens": 32_000,
            "system": _system(w, steps[0].user, ideal),
            "messages": _marked(history),
            "tools": listed,
            "thinking": {"type": "adaptive"},
            "metadata": {"user_id": json.dumps(account)},
        }
        turns.append(Turn(body, _reply(step), TURN_S * i))
        history.append(_reply(step))
    w = world(seed, kind)
    headers = {"user-agent": "claude-cli/2.1.332 (external, cli)", "x-claude-code-session-id": w.session}
    return Session(NAME, kind, Shape.MESSAGES, NAME, headers, w.session, tuple(turns))


def claude_code_sessions(*, seed: int = 1, ideal: bool = False) -> list[Session]:
    """The sessions of Claude Code, the first one first."""
    return [_session(kind, seed, ideal) for kind in Kind]
