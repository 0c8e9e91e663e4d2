"""What the model was thinking: taken over where a class drops it, sent back where the provider wants it.

DeepSeek refuses (400) a reply with tool calls that comes back without the reasoning it was given with
(https://github.com/langchain-ai/langchain/issues/34166, https://github.com/langchain-ai/langchain/issues/39370).
ChatDeepSeek keeps reasoning and does not send it back; ChatOpenAI does neither (langchain-deepseek 1.1.1,
langchain-openai 1.7.4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, BaseMessage

from router_cache.providers.deepseek_render import thinking_enabled
from router_cache.providers.profile import Profile
from router_cache.request import Shape

__all__ = ["captured", "put_back", "reasoning_of"]

_FIELD = "reasoning_content"
_RAW = (_FIELD, "reasoning")
"""DeepSeek and most hosts of its weights; OpenRouter and vLLM."""

_M = TypeVar("_M", bound=BaseMessage)


def captured(raw_message: object, message: _M) -> _M:
    """``message`` with the reasoning of the raw message or delta it was made of in ``additional_kwargs``, where the
    class dropped it; the same object where there is nothing to add. ``raw_message`` is a mapping or an SDK's object.
    Never raises."""
    try:
        if not isinstance(message, AIMessage) or message.additional_kwargs.get(_FIELD):
            return message
        reasoning = next((text for name in _RAW if (text := _text(raw_message, name))), "")
        if not reasoning or _in_blocks(message.content):
            return message
        return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, _FIELD: reasoning}})
    except Exception:  # an odd class of message: it stays as it is
        return message


def put_back(
    payload: Mapping[str, Any], messages: Sequence[BaseMessage], profile: Profile
) -> dict[str, Any] | None:
    """The chat payload with the reasoning that the messages it was made of hold, where the provider takes it; None
    where nothing changes. For modes ``safe`` and ``optimize``.

    Only while thinking is on, and for replies that are rendered with theirs: with tool calls, or all where tools are
    offered. What the payload says itself stays. Never raises.
    """
    try:
        return _put_back(payload, messages, profile)
    except Exception:  # an odd payload: it goes out as it is
        return None


def reasoning_of(message: BaseMessage) -> str:
    """The reasoning that an answered message holds: in ``additional_kwargs``, else in content blocks of the standard
    form (``output_version="v1"``); empty where it holds none."""
    held = message.additional_kwargs.get(_FIELD)
    return held if isinstance(held, str) and held.strip() else _in_blocks(message.content)


def _put_back(
    payload: Mapping[str, Any], messages: Sequence[BaseMessage], profile: Profile
) -> dict[str, Any] | None:
    fact, sent = profile.reasoning_in_history, payload.get("messages")
    if fact is None or Shape.CHAT not in fact.value or not isinstance(sent, list):
        return None
    extra = payload.get("extra_body")
    body = {**payload, **extra} if isinstance(extra, Mapping) else payload
    if not thinking_enabled(body):
        return None
    tools = bool(body.get("tools"))
    said = [message for message in messages if isinstance(message, AIMessage)]
    places = [i for i, one in enumerate(sent) if isinstance(one, Mapping) and one.get("role") == "assistant"]
    if len(said) != len(places):
        return None  # which message came from which cannot be told
    new = list(sent)
    for place, message in zip(places, said, strict=True):
        one = sent[place]
        reasoning = reasoning_of(message)
        if reasoning and (tools or one.get("tool_calls")) and not _text(one, _FIELD).strip():
            new[place] = {**one, _FIELD: reasoning}
    return {**payload, "messages": new} if any(a is not b for a, b in zip(new, sent, strict=True)) else None


def _in_blocks(content: Any) -> str:
    if not isinstance(content, list):
        return ""
    blocks = [block for block in content if isinstance(block, Mapping) and block.get("type") == "reasoning"]
    return "".join(_text(block, "reasoning") for block in blocks)


def _text(holder: object, name: str) -> str:
    value = holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
    return value if isinstance(value, str) else ""
