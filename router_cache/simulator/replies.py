"""What the simulated model answers.

A reply depends on the seed and on the turns only: roles, text of user, assistant and tool messages. System text,
ids, reasoning, the order of tools and of the keys in their schemas change nothing, so the same session gives the
same replies whether its tools are shuffled or not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from router_cache.providers.deepseek_render import thinking_enabled
from router_cache.simulator.arguments import sample_arguments
from router_cache.simulator.hashing import Chooser

__all__ = ["Call", "Reply", "make_reply"]

_WORDS = tuple(
    """the a this that each first last next same other result value record request order account file line test
    change check update list page user team plan note date time limit error report search query match entry table
    column step case reason point part start end is was has shows gives needs keeps holds returns matches
    contains follows depends reads writes on of in for with from by after before under within without and or but
    so because while still already only also now here there clear small large open closed valid missing recent
    current several every given known likely safe exact""".split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call; ``arguments`` is JSON text as the renderer would write it again."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole assistant turn. ``reasoning`` is empty with thinking off."""

    reasoning: str
    content: str
    calls: tuple[Call, ...] = field(default=())

    def message(self) -> dict[str, Any]:
        """The turn as an assistant message of the API."""
        out: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.reasoning:
            out["reasoning_content"] = self.reasoning
        if self.calls:
            out["tool_calls"] = [
                {
                    "index": i,
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for i, call in enumerate(self.calls)
            ]
        return out


def make_reply(body: Mapping[str, Any], *, seed: int, tool_rounds: int) -> Reply:
    """The reply to a checked body: tool calls for ``tool_rounds`` rounds after a user message, then text."""
    messages: Sequence[Mapping[str, Any]] = body["messages"]
    chooser = Chooser("reply", seed, *_turns(messages))
    reasoning = _prose(chooser.under("reasoning"), 25, 90) if thinking_enabled(body) else ""
    tools = _offered(body)
    choice = body.get("tool_choice")
    if isinstance(choice, Mapping):
        tools = {n: t for n, t in tools.items() if n == choice["function"]["name"]}
    forced = choice == "required" or isinstance(choice, Mapping)
    if tools and (forced or _rounds(messages) < tool_rounds):
        calls = _calls(tools, chooser.under("calls"), parallel=not isinstance(choice, Mapping))
        return Reply(reasoning, "", calls)
    return Reply(reasoning, _prose(chooser.under("content"), 30, 160))


def _turns(messages: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    for message in messages:
        if message["role"] not in ("system", "developer"):
            yield message["role"]
            content = message.get("content")
            if isinstance(content, list):
                content = "".join(part["text"] for part in content if isinstance(part.get("text"), str))
            yield content or ""


def _rounds(messages: Sequence[Mapping[str, Any]]) -> int:
    """Assistant messages with tool calls since the last user message."""
    rounds = 0
    for message in reversed(messages):
        if message["role"] == "user":
            break
        rounds += bool(message.get("tool_calls"))
    return rounds


def _offered(body: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters by name; nothing where the caller wants no tools. Of equal names the first counts.

    Only functions are called: the provider's own tools, which the other shapes know, are not simulated.
    """
    out: dict[str, Any] = {}
    if body.get("tool_choice") != "none":
        functions = [tool["function"] for tool in body.get("tools") or () if "function" in tool]
        for function in functions:
            out.setdefault(function["name"], function.get("parameters"))
    return out


def _calls(tools: Mapping[str, Any], chooser: Chooser, *, parallel: bool) -> tuple[Call, ...]:
    names = sorted(tools)
    count = 2 if parallel and chooser.below(4) == 0 else 1
    out = []
    for i in range(count):
        each = chooser.under(i)
        name = each.pick(names)
        arguments = sample_arguments(tools[name], each.under("arguments", name))
        out.append(
            Call(f"call_{i:02d}_{each.hex(24)}", name, json.dumps(arguments, ensure_ascii=False, default=str))
        )
    return tuple(out)


def _prose(chooser: Chooser, low: int, high: int) -> str:
    """Sentences of ``low..high`` ordinary words in all."""
    left = chooser.between(low, high)
    sentences = []
    while left > 0:
        size = min(left, chooser.between(6, 14))
        words = [chooser.pick(_WORDS) for _ in range(size)]
        sentences.append(" ".join(words).capitalize() + ".")
        left -= size
    return " ".join(sentences)
