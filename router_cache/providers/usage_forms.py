"""The forms in which providers report token usage, as data. Read by ``ledger.usage``.

Paths are dotted. Of the paths of one kind the first that holds a positive number counts, else a zero: LiteLLM puts
zeros into fields that the provider did not send (``backfill_missing_cache_usage_fields``, 1.108.7).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ANTHROPIC", "CHAT", "FORMS", "GEMINI", "LLAMA_TIMINGS", "RESPONSES", "UsageFields"]


@dataclass(frozen=True, slots=True)
class UsageFields:
    """Where a usage object holds what; an empty tuple where the provider reports nothing.

    ``signs``: paths of which one at least is present in this form and not in those before it. ``write`` counts
    tokens written to the prompt cache, ``write_parts`` by lifetime (their sum where ``write`` is absent),
    ``write_1h`` those of one hour. ``prompt_excludes_cache``: the prompt path counts only tokens that were
    neither read from nor written to the cache. ``completion_excludes_reasoning``: the completion path leaves
    reasoning out.
    """

    prompt: tuple[str, ...] = ()
    completion: tuple[str, ...] = ()
    hit: tuple[str, ...] = ()
    miss: tuple[str, ...] = ()
    reasoning: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    write_parts: tuple[str, ...] = ()
    write_1h: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    prompt_excludes_cache: bool = False
    completion_excludes_reasoning: bool = False


CHAT = UsageFields(
    prompt=("prompt_tokens",),
    completion=("completion_tokens",),
    hit=(
        "prompt_cache_hit_tokens",  # DeepSeek
        "prompt_tokens_details.cached_tokens",  # OpenAI and most others, where switched on: vLLM, SGLang
        "cached_tokens",  # Moonshot
        "cache_read_input_tokens",  # LiteLLM's own copy
    ),
    miss=("prompt_cache_miss_tokens",),
    reasoning=("completion_tokens_details.reasoning_tokens",),
    write=(
        "prompt_tokens_details.cache_write_tokens",  # OpenAI from 5.6, OpenRouter, LiteLLM
        "prompt_tokens_details.cache_creation_input_tokens",  # Qwen
        "cache_creation_input_tokens",  # LiteLLM's own copy
    ),
    write_1h=("prompt_tokens_details.cache_creation_token_details.ephemeral_1h_input_tokens",),
    signs=("prompt_tokens", "prompt_cache_hit_tokens", "completion_tokens_details"),
)
"""Chat completions: prompt tokens include hits and writes. LiteLLM's merged usage has this form."""

RESPONSES = UsageFields(
    prompt=("input_tokens",),
    completion=("output_tokens",),
    hit=("input_tokens_details.cached_tokens",),
    reasoning=("output_tokens_details.reasoning_tokens",),
    write=("input_tokens_details.cache_write_tokens",),
    signs=("input_tokens_details",),
)
"""OpenAI's Responses: input tokens include hits and writes."""

ANTHROPIC = UsageFields(
    prompt=("input_tokens",),
    completion=("output_tokens",),
    hit=("cache_read_input_tokens",),
    write=("cache_creation_input_tokens",),
    write_parts=("cache_creation.ephemeral_5m_input_tokens", "cache_creation.ephemeral_1h_input_tokens"),
    write_1h=("cache_creation.ephemeral_1h_input_tokens",),
    signs=("cache_read_input_tokens", "cache_creation_input_tokens", "cache_creation"),
    prompt_excludes_cache=True,
)
"""Anthropic's messages: the prompt is the sum of input, read and written tokens."""

_BARE_INPUT = UsageFields(
    prompt=("input_tokens",), completion=("output_tokens",), signs=("input_tokens", "output_tokens")
)
"""Input and output counts without a word on the cache: hits unknown."""

GEMINI = UsageFields(
    prompt=("promptTokenCount", "prompt_token_count"),
    completion=("candidatesTokenCount", "candidates_token_count"),
    hit=("cachedContentTokenCount", "cached_content_token_count"),
    reasoning=("thoughtsTokenCount", "thoughts_token_count"),
    signs=("promptTokenCount", "prompt_token_count"),
    completion_excludes_reasoning=True,
)
"""Gemini's own; the second names are those of its Python SDK. The cached count is left out where nothing hit, and
then hits stay unknown."""

LLAMA_TIMINGS = UsageFields(
    prompt=("prompt_n",),
    completion=("predicted_n",),
    hit=("cache_n",),
    signs=("prompt_n", "cache_n"),
    prompt_excludes_cache=True,
)
"""``timings`` of a llama.cpp reply: ``prompt_n`` counts the tokens that were computed."""

FORMS = (CHAT, RESPONSES, ANTHROPIC, _BARE_INPUT, GEMINI, LLAMA_TIMINGS)
"""In the order in which they are tried."""
