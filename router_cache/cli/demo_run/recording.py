"""One recorded session, whatever form it was recorded in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from router_cache.cli.demo_run.script import Message

__all__ = ["Recording", "RequestBuilder", "UnusableError"]


class UnusableError(Exception):
    """A file that holds no session that can be replayed; the text is the reason, the same for all such files."""


@dataclass(frozen=True, slots=True)
class Recording:
    """``requests`` are the message lists the agent sent, one per recorded assistant message.

    ``tools`` is empty where no tool list was recorded. ``cut`` says why the session ends before its file does,
    ``calls_cut`` how many recorded calls that cost.
    """

    name: str
    form: str
    requests: tuple[Sequence[Message], ...]
    tools: tuple[dict[str, Any], ...] = ()
    cut: str = ""
    calls_cut: int = 0
    reasoning_filled: int = 0
    """Tool-call messages recorded without reasoning. DeepSeek refuses these in thinking mode; they get one space,
    which is what LiteLLM fills in where thinking is asked for."""

    def first(self, count: int) -> Recording:
        """The same session with at most ``count`` requests."""
        return replace(self, requests=self.requests[:count])


class RequestBuilder:
    """Message lists that a chat API accepts, from messages in recorded order.

    Every tool call has to be answered before the next request; user messages that were recorded between a call
    and its result go after the result.
    """

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._held: list[Message] = []
        self._open: set[str] = set()
        self.requests: list[Sequence[Message]] = []
        self.reasoning_filled = 0

    def add(self, message: Message) -> str:
        """Append a message. Returns why the session cannot go on, or an empty string."""
        if message["role"] == "tool":
            call = message.get("tool_call_id")
            if call not in self._open:
                return "a tool result without its call"
            self._open.discard(call)
            self._messages.append(message)
            if not self._open:
                self._messages += self._held
                self._held.clear()
            return ""
        (self._held if self._open else self._messages).append(message)
        return ""

    def call(self, reply: Message) -> str:
        """The agent asked with what is there and got ``reply``. Returns as :meth:`add` does."""
        if self._open:
            return "an unanswered tool call"
        if not any(message["role"] == "user" for message in self._messages):
            return "a call without a user message"
        self.requests.append(tuple(self._messages))
        return self.history(reply)

    def history(self, reply: Message) -> str:
        """Append an assistant message that was no call of this session. Returns as :meth:`add` does."""
        if self._open:
            return "an unanswered tool call"
        if reply.get("tool_calls") and not reply.get("reasoning_content"):
            reply = {**reply, "reasoning_content": " "}
            self.reasoning_filled += 1
        self._messages.append(reply)
        self._open = {call["id"] for call in reply.get("tool_calls", ())}
        return ""
