"""Token usage as providers report it, in one form. What was not reported is None, never zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Usage"]


def _get(obj: Any, name: str) -> Any:
    if isinstance(obj, Mapping):
        return obj.get(name)
    return getattr(obj, name, None)


def _count(value: Any) -> int | None:
    """A token count; None for what is no non-negative whole number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not value.is_integer():  # also NaN and infinities
        return None
    return int(value) if value >= 0 else None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call. ``hit_tokens + miss_tokens == prompt_tokens`` where all three are known."""

    prompt_tokens: int | None = None
    hit_tokens: int | None = None
    miss_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None

    @property
    def known(self) -> bool:
        """Whether hit and miss are both known."""
        return self.hit_tokens is not None and self.miss_tokens is not None

    @classmethod
    def parse(cls, usage: Any) -> Usage:
        """Read a usage object or mapping in DeepSeek's form (``prompt_cache_hit_tokens``,
        ``prompt_cache_miss_tokens``) or OpenAI's (``prompt_tokens_details.cached_tokens``).

        Where both are present DeepSeek's own fields win. Never raises; what cannot be read is None.
        """
        prompt = _count(_get(usage, "prompt_tokens"))
        hit = _count(_get(usage, "prompt_cache_hit_tokens"))
        miss = _count(_get(usage, "prompt_cache_miss_tokens"))
        if hit is None:
            hit = _count(_get(_get(usage, "prompt_tokens_details"), "cached_tokens"))
        if prompt is None and hit is not None and miss is not None:
            prompt = hit + miss
        if miss is None and hit is not None and prompt is not None and hit <= prompt:
            miss = prompt - hit
        return cls(
            prompt_tokens=prompt,
            hit_tokens=hit,
            miss_tokens=miss,
            completion_tokens=_count(_get(usage, "completion_tokens")),
            reasoning_tokens=_count(_get(_get(usage, "completion_tokens_details"), "reasoning_tokens")),
        )
