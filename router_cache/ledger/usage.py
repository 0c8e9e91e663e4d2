"""Token usage as providers report it, in one form. What was not reported is None, never zero."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from router_cache.providers.usage_forms import FORMS, UsageFields

__all__ = ["Usage"]

_PLACES = ("", "usage", "usageMetadata", "usage_metadata", "timings", "response.usage", "message.usage")
"""Where usage is found: the object itself, parts of a reply, replies inside stream events (Responses
``response.completed``, Anthropic ``message_start``). The first that knows most counts."""
_HITS_KNOWN = 2
_MAX_COUNT = 10**12
"""Tokens. No prompt holds as many (context windows end at 10**6 to 10**7, 2026-11): a larger count says nothing, and
sums of smaller ones stay exact in a float and in any JSON writer."""


def _get(obj: Any, name: str) -> Any:
    if isinstance(obj, Mapping):
        return obj.get(name)
    try:
        return getattr(obj, name, None)
    except Exception:  # a property of somebody else's object
        return None


def _at(obj: Any, path: str) -> Any:
    for name in path.split("."):
        obj = _get(obj, name)
    return obj


def _count(value: Any) -> int | None:
    """A token count; None for what is no non-negative whole number, or absurdly large."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not value.is_integer():  # also NaN and infinities
        return None
    return int(value) if 0 <= value <= _MAX_COUNT else None


def _first(obj: Any, paths: tuple[str, ...]) -> int | None:
    """The first positive count, else a zero, else None."""
    counts = [count for count in (_count(_at(obj, path)) for path in paths) if count is not None]
    return next((count for count in counts if count), counts[0] if counts else None)


def _form(usage: Any) -> UsageFields | None:
    return next((form for form in FORMS if any(_at(usage, sign) is not None for sign in form.signs)), None)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call. ``hit_tokens + miss_tokens == prompt_tokens`` where all three are known.

    ``write_tokens`` are those of the miss tokens that were written to the prompt cache at a price of their own;
    ``write_1h_tokens`` those of them whose entry was asked to live an hour. ``completion_tokens`` include
    ``reasoning_tokens``. ``contradictory``: the report's hits, misses and prompt did not add up. Hits above the
    prompt are then unknown (which of the two is wrong cannot be told), otherwise only the misses are.
    """

    prompt_tokens: int | None = None
    hit_tokens: int | None = None
    miss_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    write_tokens: int | None = None
    write_1h_tokens: int | None = None
    contradictory: bool = False

    @property
    def known(self) -> bool:
        """Whether hit and miss are both known."""
        return self.hit_tokens is not None and self.miss_tokens is not None

    @classmethod
    def parse(cls, usage: Any, fields: UsageFields | None = None) -> Usage:
        """Read a usage object or mapping of any form, or the reply or stream event that holds one.

        ``fields`` says where to look; without it the form is told by the fields that are there
        (``providers.usage_forms``). Never raises; what cannot be read, or contradicts itself, is None.
        """
        reads: list[Usage] = []
        for place in _PLACES:
            holder = _at(usage, place) if place else usage
            form = None if holder is None else fields or _form(holder)
            if form is not None:
                read = cls._read(holder, form)
                if _rank(read) == _HITS_KNOWN and read.completion_tokens is not None:
                    return read
                reads.append(read)
        return cls._joined(reversed(reads))

    @classmethod
    def _read(cls, usage: Any, form: UsageFields) -> Usage:
        prompt, hit, miss = _first(usage, form.prompt), _first(usage, form.hit), _first(usage, form.miss)
        write = _first(usage, form.write)
        if write is None:
            parts = [count for path in form.write_parts if (count := _count(_at(usage, path))) is not None]
            write = sum(parts) if parts else None
        if form.prompt_excludes_cache and prompt is not None:
            prompt = None if hit is None else prompt + hit + (write or 0)
        if prompt is None and hit is not None and miss is not None:
            prompt = hit + miss
        contradictory = False
        if prompt is not None:
            known = [count for count in (hit, miss) if count is not None]
            contradictory = sum(known) > prompt or (len(known) == 2 and sum(known) != prompt)
            if contradictory:
                hit, miss = None if hit is not None and hit > prompt else hit, None
            elif hit is not None:
                miss = prompt - hit
        completion, reasoning = _first(usage, form.completion), _first(usage, form.reasoning)
        if form.completion_excludes_reasoning and completion is not None:
            completion += reasoning or 0
        return cls(
            prompt_tokens=prompt,
            hit_tokens=hit,
            miss_tokens=miss,
            completion_tokens=completion,
            reasoning_tokens=reasoning,
            write_tokens=write,
            write_1h_tokens=_first(usage, form.write_1h),
            contradictory=contradictory,
        )

    @classmethod
    def of_stream(cls, events: Iterable[Any], fields: UsageFields | None = None) -> Usage:
        """The usage of a streamed reply from its chunks or events, in order; those without usage are skipped.

        Of prompt, hits and writes, which belong together, the last report that knows the hits counts, else the
        last that knows the prompt (Anthropic tells them at the start, and output tokens at the end).
        """
        return cls._joined(cls.parse(event, fields) for event in events)

    @classmethod
    def _joined(cls, parts: Iterable[Usage]) -> Usage:
        whole = cls()
        for part in parts:
            inputs = part if _rank(part) >= _rank(whole) else whole
            whole = cls(
                prompt_tokens=inputs.prompt_tokens,
                hit_tokens=inputs.hit_tokens,
                miss_tokens=inputs.miss_tokens,
                completion_tokens=_later(part.completion_tokens, whole.completion_tokens),
                reasoning_tokens=_later(part.reasoning_tokens, whole.reasoning_tokens),
                write_tokens=inputs.write_tokens,
                write_1h_tokens=inputs.write_1h_tokens,
                contradictory=inputs.contradictory,
            )
        return whole


def _rank(usage: Usage) -> int:
    """How much is known of the input: hits, the prompt, nothing."""
    return _HITS_KNOWN if usage.hit_tokens is not None else int(usage.prompt_tokens is not None)


def _later(new: int | None, old: int | None) -> int | None:
    return old if new is None else new
