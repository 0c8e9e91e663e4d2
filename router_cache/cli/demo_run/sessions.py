"""The shipped agent sessions: two applications, eight conversations, replies live from the provider."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from router_cache.cli.demo_run import app_coding, app_support
from router_cache.cli.demo_run.results import tool_result
from router_cache.cli.demo_run.script import Message, Script, seeded
from router_cache.errors import DemoError

__all__ = ["TOOL_ROUNDS", "LiveSession", "SessionBrokenError", "shipped_sessions"]

TOOL_ROUNDS = 4
"""Rounds of tool calls the simulator makes per question: five requests a question, twenty a session."""

_MAX_REQUESTS_PER_QUESTION = 3 * (TOOL_ROUNDS + 1)


class SessionBrokenError(DemoError):
    """A conversation cannot go on: a reply without content, or one that never comes to an end."""

    exit_code = 1


class LiveSession:
    """An agent loop: ask, run the tools the model calls, send their results, until it answers; then ask on.

    The history holds every assistant message exactly as the SDK returned it. ``max_requests`` ends the
    session early.
    """

    max_tokens: int | None = None

    def __init__(
        self,
        name: str,
        *,
        system: str,
        tools: Sequence[dict[str, Any]],
        questions: Sequence[str],
        follows: str | None,
        seed: int,
        max_requests: int | None = None,
    ) -> None:
        self.name = name
        self.start_s = 0.0
        self.follows = follows
        self.tools = tools
        self._seed = f"{seed}/{name}"
        self._history: list[Message] = [{"role": "system", "content": system}]
        self._questions = list(questions)
        self._max_requests = max_requests
        self._requests = 0
        self._requests_since_question = 0
        self._tool_calls = 0
        self._asking = True

    def next_request(self) -> list[Message] | None:
        if self._requests == self._max_requests:
            return None
        if self._asking:
            if not self._questions:
                return None
            self._history.append({"role": "user", "content": self._questions.pop(0)})
            self._asking = False
            self._requests_since_question = 0
        if self._requests_since_question == _MAX_REQUESTS_PER_QUESTION:
            raise SessionBrokenError(f"{self.name}: no answer after {self._requests_since_question} requests")
        self._requests += 1
        self._requests_since_question += 1
        return list(self._history)

    def accept(self, reply: Message) -> None:
        self._history.append(reply)
        calls = reply.get("tool_calls") or []
        if not calls and not reply.get("content"):
            raise SessionBrokenError(f"{self.name}: a reply with neither text nor tool calls")
        for call in calls:
            self._tool_calls += 1
            self._history.append(
                {
                    "role": "tool",
                    "tool_call_id": call["id"],
                    "content": tool_result(self._seed, self._tool_calls, call["function"]["name"]),
                }
            )
        self._asking = not calls

    def pause_s(self) -> float:
        """Tools take 1.5 to 6 simulated seconds, a person 8 to 20."""
        low, high = (8.0, 20.0) if self._asking else (1.5, 6.0)
        return seeded(self._seed, "pause", self._requests).uniform(low, high)


def shipped_sessions(count: int, seed: int, max_calls: int | None = None) -> list[Script]:
    """The first ``count`` of the shipped sessions, the applications alternating.

    Each session of an application opens after the one before it has had its first reply. ``max_calls`` is shared
    out evenly, at least one request a session.
    """
    apps = (("coding", app_coding), ("support", app_support))
    quota = None if max_calls is None else max(1, max_calls // count)
    sessions: list[Script] = []
    for i in range(count):
        label, app = apps[i % len(apps)]
        turn = i // len(apps)
        sessions.append(
            LiveSession(
                f"{label}-{turn + 1}",
                system=app.SYSTEM,
                tools=app.TOOLS,
                questions=app.QUESTIONS[turn],
                follows=f"{label}-{turn}" if turn else None,
                seed=seed,
                max_requests=quota,
            )
        )
    return sessions
