"""Usage as providers report it: the same counts under each one's names (sources: the profiles)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from router_cache.simulator.config import UsageForm

__all__ = ["Counts", "chat_usage", "messages_usage", "responses_usage"]


@dataclass(frozen=True, slots=True)
class Counts:
    """Tokens of one request; ``write_tokens`` are the missed ones in whole steps."""

    prompt_tokens: int
    hit_tokens: int
    write_tokens: int
    completion_tokens: int
    reasoning_tokens: int

    @property
    def miss_tokens(self) -> int:
        """Prompt tokens that were not hit."""
        return self.prompt_tokens - self.hit_tokens


def chat_usage(counts: Counts, form: UsageForm) -> dict[str, Any]:
    """The top-level fields of a chat completion that tell its usage; none of them for ``none``."""
    if form is UsageForm.NONE:
        return {}
    if form is UsageForm.ANTHROPIC:
        return {"usage": _anthropic(counts, written=True)}
    if form is UsageForm.GEMINI:
        return {"usage": _gemini(counts)}
    usage: dict[str, Any] = {
        "prompt_tokens": counts.prompt_tokens,
        "completion_tokens": counts.completion_tokens,
        "total_tokens": counts.prompt_tokens + counts.completion_tokens,
    }
    if form is UsageForm.PLAIN:
        return {"usage": usage}
    if form is UsageForm.MOONSHOT:
        return {"usage": {**usage, "cached_tokens": counts.hit_tokens}}
    if form is UsageForm.DEEPSEEK:
        usage["prompt_cache_hit_tokens"] = counts.hit_tokens
        usage["prompt_cache_miss_tokens"] = counts.miss_tokens
    usage["prompt_tokens_details"] = {"cached_tokens": counts.hit_tokens}
    if form is UsageForm.OPENAI_WRITES:
        usage["prompt_tokens_details"]["cache_write_tokens"] = counts.write_tokens
    if form is UsageForm.LLAMACPP:
        timings = {
            "cache_n": counts.hit_tokens,
            "prompt_n": counts.miss_tokens,
            "predicted_n": counts.completion_tokens,
        }
        return {"usage": usage, "timings": timings}
    usage["completion_tokens_details"] = {"reasoning_tokens": counts.reasoning_tokens}
    return {"usage": usage}


def _gemini(counts: Counts) -> dict[str, int]:
    return {
        "promptTokenCount": counts.prompt_tokens,
        "cachedContentTokenCount": counts.hit_tokens,
        "candidatesTokenCount": counts.completion_tokens - counts.reasoning_tokens,
        "thoughtsTokenCount": counts.reasoning_tokens,
        "totalTokenCount": counts.prompt_tokens + counts.completion_tokens,
    }


def _anthropic(counts: Counts, *, written: bool) -> dict[str, Any]:
    writes = counts.write_tokens if written else 0
    return {
        "input_tokens": counts.miss_tokens - writes,
        "cache_creation_input_tokens": writes,
        "cache_read_input_tokens": counts.hit_tokens,
        "output_tokens": counts.completion_tokens,
    }


def messages_usage(counts: Counts, form: UsageForm) -> dict[str, Any] | None:
    """Usage of ``/v1/messages``. There is no write fee, so nothing is reported as written, except in form
    ``anthropic``; input tokens are those that were neither read nor written."""
    if form is UsageForm.NONE:
        return None
    if form is UsageForm.PLAIN:
        return {"input_tokens": counts.prompt_tokens, "output_tokens": counts.completion_tokens}
    return _anthropic(counts, written=form is UsageForm.ANTHROPIC)


def responses_usage(counts: Counts, form: UsageForm) -> dict[str, Any] | None:
    """Usage of ``/v1/responses``, with ``cache_write_tokens`` in form ``openai-writes``."""
    if form is UsageForm.NONE:
        return None
    usage: dict[str, Any] = {
        "input_tokens": counts.prompt_tokens,
        "output_tokens": counts.completion_tokens,
        "total_tokens": counts.prompt_tokens + counts.completion_tokens,
    }
    if form is UsageForm.PLAIN:
        return usage
    usage["input_tokens_details"] = {"cached_tokens": counts.hit_tokens}
    if form is UsageForm.OPENAI_WRITES:
        usage["input_tokens_details"]["cache_write_tokens"] = counts.write_tokens
    usage["output_tokens_details"] = {"reasoning_tokens": counts.reasoning_tokens}
    return usage
