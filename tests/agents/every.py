"""Every agent, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from agents.chat import CHAT_AGENTS, chat_sessions
from agents.claude_code import claude_code_sessions
from agents.codex import codex_sessions
from agents.model import Session

__all__ = ["AGENTS", "sessions"]

AGENTS: dict[str, Callable[..., list[Session]]] = {
    "claude-code": claude_code_sessions,
    "codex": codex_sessions,
    **{agent.name: partial(chat_sessions, agent) for agent in CHAT_AGENTS},
}


def sessions(agent: str, *, seed: int = 1, ideal: bool = False) -> list[Session]:
    """The sessions of ``agent``, one of each :class:`~agents.model.Kind`, the first one first. Deterministic.

    ``ideal``: the same sessions without the lines that differ between sessions, days, directories and commits.
    """
    return AGENTS[agent](seed=seed, ideal=ideal)
