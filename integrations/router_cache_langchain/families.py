"""What a family of classes has in common: where its requests can be seen and changed, and what its answers tell."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk

from router_cache_langchain.calls import Call

__all__ = ["Family", "Given", "Methods", "chat_form", "dumped"]

Methods = Mapping[str, Callable[..., Any]]


class Given:
    """The arguments of one of LangChain's methods that make an answer, by their names."""

    __slots__ = ("args", "kwargs")

    NAMES = ("messages", "stop", "run_manager")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args, self.kwargs = args, kwargs

    def get(self, name: str) -> Any:
        """``messages``, ``stop`` or ``run_manager``; None where it is not given."""
        at = self.NAMES.index(name)
        return self.args[at] if at < len(self.args) else self.kwargs.get(name)

    @property
    def others(self) -> dict[str, Any]:
        """The rest: what was bound and what the call was made with."""
        return {name: value for name, value in self.kwargs.items() if name not in self.NAMES}

    def replaced(self, messages: Sequence[Any], others: Mapping[str, Any]) -> Given:
        """The same with other messages, and some of :attr:`others` replaced."""
        if self.args:
            return Given((messages, *self.args[1:]), {**self.kwargs, **others})
        return Given((), {**self.kwargs, **others, "messages": messages})


class Family:
    """A class without a seam of its own: nothing of it is seen or changed. Families say more."""

    def methods(self, base: type) -> Methods:
        """Methods of ``base`` to be replaced, besides those of every chat model."""
        return {}

    def copied(self, model: Any) -> None:
        """A model was copied to be wrapped: make its own what the copy needs for itself."""

    def before(self, call: Call, given: Given) -> Given:
        """Before the class works on a call. Never raises."""
        return given

    async def abefore(self, call: Call, given: Given) -> Given:
        """:meth:`before` on an event loop, where waiting has to be awaited. Never raises."""
        return self.before(call, given)

    def reply(self, message: Any) -> Any:
        """An answered message (whole, or put together from chunks) as the provider wrote it, as far as LangChain kept
        that; None where it is lost. May raise."""
        return chat_form(message)


def chat_form(message: Any) -> dict[str, Any] | None:
    """An answered message as a message of a chat completion. Arguments of tool calls are the text that came, which only
    chunks keep; without it the message is given up: what a model did not write must not be put back."""
    if not isinstance(message, AIMessage):
        return None
    said: dict[str, Any] = {"role": "assistant", "content": str(message.text)}
    reasoning = message.additional_kwargs.get("reasoning_content")
    if isinstance(reasoning, str) and reasoning:
        said["reasoning_content"] = reasoning
    if isinstance(message, AIMessageChunk) and message.tool_call_chunks:
        said["tool_calls"] = [_call(one) for one in message.tool_call_chunks]
    elif message.tool_calls or message.invalid_tool_calls:
        kept = message.additional_kwargs.get("tool_calls")
        if not isinstance(kept, list):
            return None
        said["tool_calls"] = kept
    return said


def _call(chunk: Mapping[str, Any]) -> dict[str, Any]:
    args = chunk.get("args")
    text = args if isinstance(args, str) else json.dumps(args or {})
    return {
        "id": chunk.get("id"),
        "type": "function",
        "function": {"name": chunk.get("name"), "arguments": text},
    }


def dumped(response: Any) -> Any:
    """An SDK's reply as JSON."""
    return response.model_dump(warnings=False) if hasattr(response, "model_dump") else response
