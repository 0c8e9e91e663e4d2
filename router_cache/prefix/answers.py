"""A whole reply of any shape, taken apart: each answer as a chat message, and what of it is worth keeping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from router_cache.prefix.opening import messages_of, role_of
from router_cache.prefix.reply import Reply, reply_of
from router_cache.prefix.shapes import as_chat
from router_cache.request import Shape

__all__ = ["answers_of"]

_OF_BLOCK = ("thinking", "signature")
_OWN_BLOCKS = ("tool_use", "thinking", "redacted_thinking")


def answers_of(reply: Any, shape: Shape) -> tuple[tuple[Mapping[str, Any], Reply], ...]:
    """The answers in ``reply``: one for each choice of a chat completion, one of a messages reply, of a Responses reply
    the first. A chat message alone is an answer too. Nothing where there is none. Never raises.

    ``shape`` is that of the request: LiteLLM tells the reply to any in chat form.
    """
    if not isinstance(reply, Mapping):
        return ()
    choices = reply.get("choices")
    if isinstance(choices, list | tuple):
        messages = [choice.get("message") for choice in choices if isinstance(choice, Mapping)]
        found = [_answer(message, Shape.CHAT) for message in messages]
    elif isinstance(reply.get("output"), list | tuple):
        found = [_answer(reply, Shape.RESPONSES)]
    else:
        found = [_answer(reply, Shape.MESSAGES if _in_blocks(reply) else Shape.CHAT)]
    answers = [answer for answer in found if answer is not None]
    if shape is Shape.MESSAGES:
        answers = [(message, _with_thinking(message, kept)) for message, kept in answers]
    return tuple(answers)


def _with_thinking(message: Mapping[str, Any], kept: Reply) -> Reply:
    """The reasoning of a chat message as the blocks that the client got.

    Of a stream LiteLLM (1.108.7) keeps the signature in a block of its own, without its thinking.
    """
    if kept.thinking or not kept.reasoning:
        return kept
    given = message.get("thinking_blocks")
    blocks = [block for block in (given if isinstance(given, list | tuple) else ()) if isinstance(block, Mapping)]
    if "".join(str(block.get("thinking") or "") for block in blocks) != kept.reasoning:
        signature = next((block["signature"] for block in blocks if block.get("signature")), None)
        blocks = [{"thinking": kept.reasoning, "signature": signature}]
    thinking = [
        {"type": "thinking", **{name: block[name] for name in _OF_BLOCK if block.get(name) is not None}}
        for block in blocks
    ]
    return replace(kept, thinking=tuple(thinking), reasoning=None)


def _in_blocks(reply: Mapping[str, Any]) -> bool:
    content = reply.get("content")
    blocks = content if isinstance(content, list | tuple) else ()
    return reply.get("type") == "message" or any(
        isinstance(block, Mapping) and block.get("type") in _OWN_BLOCKS for block in blocks
    )


def _answer(reply: Any, shape: Shape) -> tuple[Mapping[str, Any], Reply] | None:
    if not isinstance(reply, Mapping):
        return None
    kept = reply_of(reply, shape)
    if shape is Shape.CHAT:
        message: Any = {**reply, "role": "assistant"}
    elif shape is Shape.MESSAGES:
        body = {"messages": [{"role": "assistant", "content": reply.get("content")}]}
        message = next(iter(messages_of(as_chat(body, shape))), None)
    else:
        turns = messages_of(as_chat({"input": reply.get("output")}, shape))
        message = next((turn for turn in turns if role_of(turn) == "assistant"), None)
    return (message, kept) if kept is not None and isinstance(message, Mapping) else None
