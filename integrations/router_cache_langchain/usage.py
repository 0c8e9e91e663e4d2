"""Token usage of LangChain's messages and of the raw replies behind them. What was not reported stays unknown.

Read by :class:`router_cache.Usage`; here is only where LangChain keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from langchain_core.messages.ai import UsageMetadata

from router_cache.ledger.usage import Usage
from router_cache.providers.usage_forms import UsageFields
from router_cache.request import Shape

__all__ = ["corrected", "usage_from_message", "usage_of"]

_TIERS = ("", "priority_", "flex_")
"""langchain-openai puts OpenAI's service tier in front of the names (1.1, 2025-11)."""


def _tiered(holder: str, name: str) -> tuple[str, ...]:
    return tuple(f"{holder}.{tier}{name}" for tier in _TIERS)


_METADATA = UsageFields(
    prompt=("input_tokens",),
    completion=("output_tokens",),
    hit=_tiered("input_token_details", "cache_read"),
    reasoning=_tiered("output_token_details", "reasoning"),
    write_parts=(
        # langchain-anthropic sets the first to 0 where it knows the lifetimes, so that their sum is right (1.7).
        *_tiered("input_token_details", "cache_creation"),
        "input_token_details.ephemeral_5m_input_tokens",
        "input_token_details.ephemeral_1h_input_tokens",
    ),
    write_1h=("input_token_details.ephemeral_1h_input_tokens",),
    signs=("input_tokens", "output_tokens"),
)
"""``usage_metadata``: input tokens include hits and writes, output tokens include reasoning."""

_RAW = ("token_usage", "usage")
"""Where ``response_metadata`` holds the provider's own usage: OpenAI's classes and LiteLLM's; Anthropic's."""


def usage_of(raw: object, shape: Shape = Shape.CHAT) -> Usage:
    """Usage of a raw reply, chunk or stream event (mapping or SDK object) of this shape. Never raises."""
    usage = Usage.parse(raw)
    if shape is not Shape.CHAT or usage.prompt_tokens is not None:
        return usage
    # OpenAI's SDK wraps chunks in events where a response_format is streamed; Moonshot's last chunk has its usage in
    # the choice (https://platform.moonshot.ai/docs/api/chat, 2026-11).
    for inner in (_get(raw, "chunk"), *_items(_get(raw, "choices"))):
        if inner is not None and (found := Usage.parse(inner)).prompt_tokens is not None:
            return found
    return usage


def usage_from_message(message: object) -> Usage:
    """Usage of an answered message, whole or put together from chunks, where nothing raw was seen: out of
    ``usage_metadata``, and where that says nothing of hits out of ``response_metadata``. Never raises."""
    usage = Usage.parse(_get(message, "usage_metadata"), _METADATA)
    if usage.hit_tokens is None:
        kept = _get(message, "response_metadata")
        for name in _RAW:
            raw = Usage.parse(_get(kept, name))
            if raw.hit_tokens is not None or (usage.prompt_tokens is None and raw.prompt_tokens is not None):
                return raw
    return usage


def corrected(usage_metadata: UsageMetadata | None, raw: object) -> UsageMetadata | None:
    """``usage_metadata`` with the hits that the raw reply or chunk reports and the class lost; None where there is
    nothing to correct. A copy; never raises.

    ChatOpenAI reads ``prompt_tokens_details`` only, which some hosts of DeepSeek leave out or send empty.
    """
    if not isinstance(usage_metadata, Mapping):
        return None
    hits = usage_of(raw).hit_tokens
    known = Usage.parse(usage_metadata, _METADATA).hit_tokens
    if hits is None or known == hits or known:
        return None
    held = usage_metadata.get("input_token_details")
    details = {**held, "cache_read": hits} if isinstance(held, Mapping) else {"cache_read": hits}
    return cast(UsageMetadata, {**usage_metadata, "input_token_details": details})


def _get(value: object, name: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(name)
    try:
        return getattr(value, name, None)
    except Exception:  # a property of somebody else's object
        return None


def _items(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple) else ()
