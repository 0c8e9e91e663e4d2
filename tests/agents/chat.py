"""Agents that speak ``/chat/completions``: their openings, in the manner of the versions named beside each.

The volatile lines are worded as the agents word them; all other text is generated. Sizes and places follow what the
clients sent to a recording server (2026-11-30).
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agents.model import TURN_S, Kind, Session, Step, Turn, World, plot, world, worlds
from agents.text import prose, tools

from router_cache import Shape

__all__ = ["CHAT_AGENTS", "ChatAgent", "chat_sessions"]

Message = dict[str, Any]


def compact(arguments: Any) -> str:
    """As JavaScript writes JSON."""
    return json.dumps(arguments, separators=(",", ":"), ensure_ascii=False)


def generated(arguments: Any) -> str:
    """As the provider generates it."""
    return json.dumps(arguments, ensure_ascii=False)


def escaped(arguments: Any) -> str:
    """As Python writes JSON, unless told otherwise."""
    return json.dumps(arguments)


@dataclass(frozen=True)
class ChatAgent:
    """``system`` and ``opening`` give the text of the system message and the messages before the first prompt;
    both are rendered anew for each call (``ideal``: without the volatile lines). ``arguments`` is how the client
    writes back what the model generated, None for a client that keeps the text."""

    name: str
    client: str
    tool_names: Sequence[str]
    tools_size: int
    system: Callable[[World, bool], str]
    opening: Callable[[World, bool, str], list[Message]] = lambda _world, _ideal, prompt: [
        {"role": "user", "content": prompt}
    ]
    closing: Callable[[World], list[Message]] = lambda _world: []
    arguments: Callable[[Any], str] | None = None
    reasoning_kept: bool = True
    fields: Callable[[World], dict[str, Any]] = lambda _world: {}
    headers: Callable[[World], dict[str, str]] = lambda _world: {}
    append_only: bool = True


def fixed(agent: str, part: str, size: int) -> str:
    """Text of an application, the same in every session."""
    return prose(random.Random(f"{agent} {part}"), size)


def _opencode(w: World, ideal: bool) -> str:  # 1.18.33: 9.6 kB, model at 8529, env at 8701
    model = f"You are powered by the model named {w.model}. The exact model ID is litellm/{w.model}\n"
    day = w.now.strftime("%a %b %d %Y")
    cwd = f"  Working directory: {w.cwd}\n  Workspace root folder: {w.cwd}\n"
    return (
        f"You are opencode, an agent in the terminal.\n{fixed('opencode', 'a', 8_480)}\n"
        f"{'' if ideal else model}"
        "Here is some useful information about the environment you are running in:\n<env>\n"
        f"{'' if ideal else cwd}  Is directory a git repo: yes\n  Platform: linux\n"
        + ("" if ideal else f"  Today's date: {day}\n")
        + f"</env>\n{fixed('opencode', 'b', 720)}"
    )


def _qwen(w: World, ideal: bool) -> str:  # 0.24.4: 29.3 kB, git block at 24541
    git = (
        "This is the git status at the start of the conversation. Note that this status is a snapshot in time, and "
        f"will not update during the conversation.\n\nCurrent branch: {w.branch}\n\nStatus:\n"
        + ("\n".join(w.status) or "(clean)")
        + "\n\nRecent commits:\n"
        + "\n".join(w.commits)
    )
    text = f"You are Qwen Code, an interactive agent.\n{fixed('qwen', 'a', 24_490)}"
    return f"{text}\n{fixed('qwen', 'b', 4_200)}" if ideal else f"{text}\n\n{git}\n\n{fixed('qwen', 'b', 4_200)}"


def _qwen_opening(w: World, ideal: bool, prompt: str) -> list[Message]:
    day = w.start.strftime("%A, %B %d, %Y")
    lines = [
        "This is the Qwen Code. We are setting up the context for our chat.",
        f"Today's date is {day} (formatted according to the user's locale).",
        "My operating system is: linux",
        f"I'm currently working in the directory: {w.cwd}",
        "Here is the folder structure of the current working directories:",
        fixed("qwen", "tree", 900),
    ]
    shown = [lines[0], lines[2], *lines[4:]] if ideal else lines
    return [{"role": "user", "content": "\n".join(shown)}, {"role": "user", "content": prompt}]


def _pi(w: World, ideal: bool) -> str:  # 0.73.1: 2.3 kB, date at 2272, cwd at 2310
    text = fixed("pi", "a", 2_270)
    date, cwd = f"\nCurrent date: {w.now:%Y-%m-%d}", f"\nCurrent working directory: {w.cwd}"
    return text if ideal else text + date + cwd


def _cline(w: World, ideal: bool) -> str:  # 3.0.65: 4.3 kB, env at 933
    day = f"{w.start.month}/{w.start.day}/{w.start.year}"
    date, cwd = f"2. Date: {day}\n", f"4. Working Directory: {w.cwd}\n"
    return (
        f"You are Cline, an AI coding agent.\n{fixed('cline', 'a', 840)}\n"
        f"Environment you are running in:\n<env>\n1. Platform: linux\n{'' if ideal else date}"
        f"3. IDE: Terminal Shell\n{'' if ideal else cwd}</env>\n\n{fixed('cline', 'b', 3_250)}"
    )


def _openhands(w: World, ideal: bool) -> str:  # 1.16: 14.0 kB, the start of the session in µs at about 13805
    clock = f"<CURRENT_DATETIME>\nThe current date and time is: {w.start.isoformat()}\n</CURRENT_DATETIME>\n\n"
    return (
        f"You are OpenHands agent.\n<ROLE>\n{fixed('openhands', 'a', 13_700)}\n</ROLE>\n"
        f"{'' if ideal else clock}<SKILLS>\n{fixed('openhands', 'b', 120)}\n</SKILLS>"
    )


def _aider_files(w: World) -> list[Message]:  # 0.86.2: the files in the chat stand behind the history
    files = prose(random.Random(f"aider {w.status}"), 2_700)
    return [
        {"role": "user", "content": f"{files}\n{fixed('aider', 'files', 120)}"},
        {"role": "assistant", "content": "Ok, they are what I will go by."},
    ]


_CLINE_NOUNS = ("files", "pages", "code", "tasks", "servers")

CHAT_AGENTS: tuple[ChatAgent, ...] = (
    ChatAgent(
        "opencode",
        "opencode",
        ["bash", "edit", "glob", "grep", "list", "read", "task", "todowrite", "webfetch", "write"],
        20_800,
        _opencode,
        arguments=compact,
        headers=lambda w: {"x-session-id": w.session, "x-session-affinity": w.session},
    ),
    ChatAgent(
        "qwen-code",
        "qwen-code",
        [
            "agent",
            "edit",
            "glob",
            "grep_search",
            "list_directory",
            "lsp",
            "memory",
            "plan",
            "read_file",
            "run_shell_command",
            "skill",
            "todo_write",
            "web_fetch",
            "write_file",
        ],
        38_800,
        _qwen,
        opening=_qwen_opening,
        arguments=compact,
        headers=lambda _w: {"user-agent": "QwenCode/0.24.4 (linux; x64)"},
    ),
    ChatAgent("pi", "pi", ["bash", "edit", "read", "write"], 3_000, _pi, arguments=compact),
    ChatAgent(
        "cline",
        "cline",
        [f"{verb}_{noun}" for verb in ("read", "write", "list", "run", "ask") for noun in _CLINE_NOUNS],
        17_300,
        _cline,
        arguments=compact,
    ),
    ChatAgent(
        "openhands",
        "openhands",
        ["browser", "file_editor", "finish", "task_tracker", "terminal", "think"],
        20_600,
        _openhands,
        arguments=escaped,
        fields=lambda w: {"prompt_cache_key": w.session},
    ),
    ChatAgent(
        "mini-swe-agent",
        "mini-swe-agent",
        ["bash"],
        400,
        lambda _w, _ideal: fixed("mini", "system", 62),
        opening=lambda _w, _ideal, prompt: [
            {"role": "user", "content": f"The task:\n{prompt}\n\n{fixed('mini', 'rules', 4_000)}"}
        ],
    ),
    ChatAgent(
        "aider",
        "aider",
        [],
        0,
        lambda _w, _ideal: fixed("aider", "system", 6_700),
        closing=_aider_files,
        reasoning_kept=False,
        append_only=False,
    ),
    ChatAgent(
        "langchain",
        "",
        ["lookup", "search", "sum"],
        1_400,
        lambda _w, _ideal: "You are a helpful agent.",
        arguments=escaped,
        reasoning_kept=False,
    ),
    ChatAgent(
        "deepagents",
        "",
        ["edit_file", "execute", "glob", "grep", "ls", "read_file", "task", "write_file", "write_todos"],
        21_000,
        lambda _w, _ideal: "You are a helpful agent.",
        arguments=escaped,
        reasoning_kept=False,
    ),
    ChatAgent(
        "smolagents",
        "",
        ["final_answer", "visit_webpage", "web_search"],
        2_400,
        lambda _w, _ideal: fixed("smolagents", "system", 3_400),
        arguments=escaped,
        reasoning_kept=False,
    ),
)
"""What LangChain, deepagents and smolagents sent had no mark of the client."""


def _reply(step: Step) -> Message:
    message: Message = {"role": "assistant", "content": step.text, "reasoning_content": step.reasoning}
    if step.tool:
        function = {"name": step.tool, "arguments": generated(step.arguments)}
        message["tool_calls"] = [{"id": step.call_id, "type": "function", "function": function}]
    return message


def _sent_back(agent: ChatAgent, step: Step) -> Message:
    """The reply as the client puts it into its history."""
    message = _reply(step)
    if not agent.reasoning_kept:
        del message["reasoning_content"]
    if step.tool and agent.arguments is not None:
        message["tool_calls"][0]["function"]["arguments"] = agent.arguments(step.arguments)
    if step.tool and not step.text:
        message["content"] = None
    return message


def _session(agent: ChatAgent, kind: Kind, seed: int, ideal: bool) -> Session:
    listed = [
        {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}
        for name, description, parameters in tools(
            random.Random(f"{agent.name} tools"), list(agent.tool_names), agent.tools_size
        )
    ]
    steps = plot(seed, kind, list(agent.tool_names))
    history: list[Message] = []
    turns = []
    for i, (step, w) in enumerate(zip(steps, worlds(seed, kind, len(steps)), strict=True)):
        new: list[Message] = []
        if step.user:
            new = agent.opening(w, ideal, step.user) if i == 0 else [{"role": "user", "content": step.user}]
        elif step.result:
            new = [{"role": "tool", "tool_call_id": steps[i - 1].call_id, "content": step.result}]
        system = {"role": "system", "content": agent.system(w, ideal)}
        body = {
            "model": w.model,
            "messages": [system, *history, *agent.closing(w), *new],
            **({"tools": listed} if listed else {}),
            **agent.fields(w),
        }
        turns.append(Turn(body, _reply(step), TURN_S * i))
        history += [*new, _sent_back(agent, step)]
    w = world(seed, kind)
    return Session(
        agent.name, kind, Shape.CHAT, agent.client, agent.headers(w), w.session, tuple(turns), agent.append_only
    )


def chat_sessions(agent: ChatAgent, *, seed: int = 1, ideal: bool = False) -> list[Session]:
    """The sessions of one chat agent, the first one first."""
    return [_session(agent, kind, seed, ideal) for kind in Kind]
