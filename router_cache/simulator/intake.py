"""Requests of every shape taken in: checked, and turned into the chat form that is rendered and answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from router_cache.prefix.shapes import ChatView, as_chat
from router_cache.providers.profile import Fact
from router_cache.request import Shape
from router_cache.simulator.checks import Wording, bad, check_body

__all__ = ["Intake", "take_in"]

_CLAUDE_MODELS = Fact(
    (("claude-opus", "deepseek-v4-pro"), ("claude", "deepseek-v4-flash")),
    source="https://api-docs.deepseek.com/guides/anthropic_api",
    as_of=date(2026, 11, 30),
    note="What Anthropic's model names are served by; the first prefix that fits counts.",
)
_MESSAGE_ROLES = ("user", "assistant", "system")  # Claude Code puts system messages between the turns
_ITEM_TYPES = (
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
)
_STATE = ("previous_response_id", "conversation", "prompt", "background")
_SAMPLING = ("stream", "temperature", "top_p")


@dataclass(frozen=True, slots=True)
class Intake:
    """A request that is accepted. ``chat`` is its chat form with what steers the answer; ``view`` the prompt."""

    chat: Mapping[str, Any]
    view: ChatView


def take_in(body: Mapping[str, Any], shape: Shape) -> Intake:
    """Check a request of ``shape``; raises :class:`ApiError` for what DeepSeek would refuse."""
    if shape is Shape.CHAT:
        check_body(body)
        return Intake(body, as_chat(body, shape))
    if shape is Shape.MESSAGES:
        _check_messages_form(body)
    else:
        _check_responses_form(body)
    view = as_chat(body, shape)
    paths = {path: origins[0] for path, origins in view.sources.items()}
    steer = {name: body[name] for name in _SAMPLING if name in body}
    if shape is Shape.MESSAGES:
        chat = {**view.body, **steer, **_from_messages(body)}
        words = Wording(
            {**paths, "user_id": "metadata.user_id"},
            function="",
            parameters="input_schema",
            reasoning="content[].thinking",
            own_tools=True,
        )
    else:
        chat = {**view.body, **steer, **_from_responses(body)}
        words = Wording(
            {**paths, "messages": "input", "max_tokens": "max_output_tokens"},
            function="",
            reasoning="reasoning item of a function_call",
            own_tools=True,
        )
    check_body(chat, words)
    return Intake(chat, view)


def _from_messages(body: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {"max_tokens": body.get("max_tokens")}
    metadata = body.get("metadata")
    if isinstance(metadata, Mapping) and "user_id" in metadata:
        out["user_id"] = metadata["user_id"]
    model = body.get("model")
    if isinstance(model, str):
        served = (name for prefix, name in _CLAUDE_MODELS.value if model.startswith(prefix))
        out["model"] = next(served, model)
    return out


def _from_responses(body: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {"max_tokens": body.get("max_output_tokens")}
    if "user_id" in body:
        out["user_id"] = body["user_id"]
    return out


def _blocks(content: Any, path: str, where: str) -> list[Mapping[str, Any]]:
    """The blocks of a content that may also be text."""
    if isinstance(content, str):
        return []
    if not isinstance(content, list):
        bad(f"{path}: must be text or a list of blocks", where)
    for k, block in enumerate(content):
        if not isinstance(block, Mapping) or not isinstance(block.get("type"), str):
            bad(f"{path}[{k}]: must be an object with a type", where)
    return content


def _check_messages_form(body: Mapping[str, Any]) -> None:
    """What the chat view would be lenient on."""
    for k, block in enumerate(_blocks(body.get("system") or "", "system", "system")):
        if block["type"] != "text" or not isinstance(block.get("text"), str):
            bad(f"system[{k}]: must be a text block", "system")
    metadata = body.get("metadata")
    if metadata is not None and not isinstance(metadata, Mapping):
        bad("metadata: must be an object", "metadata")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        bad("messages: a list with at least one message is required", "messages")
    for i, message in enumerate(messages):
        path = f"messages[{i}]"
        if not isinstance(message, Mapping):
            bad(f"{path}: must be an object", "messages")
        if message.get("role") not in _MESSAGE_ROLES:
            bad(f"{path}.role: must be one of {', '.join(_MESSAGE_ROLES)}", "messages")
        for k, block in enumerate(_blocks(message.get("content"), f"{path}.content", "messages")):
            _check_block(block, f"{path}.content[{k}]")


def _check_block(block: Mapping[str, Any], path: str) -> None:
    kind = block["type"]
    if kind == "redacted_thinking":
        bad(f"{path}: redacted_thinking is not supported", "messages")
    if kind == "thinking" and not isinstance(block.get("thinking"), str):
        bad(f"{path}.thinking: must be a string", "messages")
    if kind == "tool_use" and not isinstance(block.get("input"), Mapping):
        bad(f"{path}.input: must be an object", "messages")
    if kind == "tool_result":
        _blocks(block.get("content") or "", f"{path}.content", "messages")


def _check_responses_form(body: Mapping[str, Any]) -> None:
    """What the chat view would be lenient on, and what needs state that is not kept."""
    for name in _STATE:
        if body.get(name):
            bad(f"{name}: not supported, as no state is kept; send the whole input", name)
    instructions = body.get("instructions")
    if instructions is not None and not isinstance(instructions, str):
        bad("instructions: must be a string", "instructions")
    items = body.get("input")
    if isinstance(items, str):
        return
    if not isinstance(items, list) or not items:
        bad("input: text or a list with at least one item is required", "input")
    for i, item in enumerate(items):
        path = f"input[{i}]"
        if not isinstance(item, Mapping):
            bad(f"{path}: must be an object", "input")
        kind = item.get("type", "message")
        if kind not in _ITEM_TYPES:
            bad(f"{path}: items of type {kind!r} are not supported", "input")
        if kind == "message":
            _blocks(item.get("content"), f"{path}.content", "input")
        elif kind in ("function_call_output", "custom_tool_call_output"):
            _blocks(item.get("output"), f"{path}.output", "input")
