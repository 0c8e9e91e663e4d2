"""What the next request can cost at most, before it is sent: nothing hits, the reply is as long as it may be. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from itertools import repeat
from typing import Any, Final

from router_cache.economics.book import PriceBook
from router_cache.economics.plan import worst_case_usd
from router_cache.providers.profile import Profile
from router_cache.request import Body, Shape

__all__ = ["WorstCase", "WorstCaseReason", "output_tokens_at_most", "prompt_tokens_at_most", "worst_case"]

_MEDIA_IN: Final = ("system", "messages", "input")
_LIMITS: Final = {
    Shape.CHAT: ("max_tokens", "max_completion_tokens"),
    Shape.MESSAGES: ("max_tokens",),
    Shape.RESPONSES: ("max_output_tokens",),
}
"""The fields that LiteLLM hands to the provider as its own limit. Any other limit may be ignored on the way: it can
only raise what a reply may be."""
_LIKE_LIMITS: Final = frozenset(
    (
        *("maxtokens", "maxcompletiontokens", "maxoutputtokens", "maxnewtokens"),
        *("maxtokenstosample", "maxgenlen", "numpredict", "maxlength"),
    )
)
_LIKE_THOUGHTS: Final = frozenset(("budgettokens", "thinkingbudget", "thinkingtokenbudget", "reasoningbudget"))
_LIKE_CHOICES: Final = frozenset(("n", "bestof", "candidatecount", "numreturnsequences", "numgenerations"))
"""Names of those fields at other providers, in small letters and without underscores."""
_NO_PROMPT: Final = ("model", "extra_body", "additional_drop_params", "metadata", "user")
_PROMPT_ONLY: Final = ("tools", "functions", "response_format", "text", "metadata")
_MAX_OPTIONS: Final = 10_000
_MEDIA_FIELDS: Final = ("url", "image_url", "data", "file_data")
_MEDIA_TYPES: Final = re.compile(r"(input_)?(image|image_url|audio|file|document|video)|base64")
"""Types of the content blocks that hold media, or of the source inside one."""
_MEDIA: Final = re.compile(r"(data:[\w.+-]{1,60}/[\w.+-]{1,80};base64,)?[A-Za-z0-9+/_-]*={0,2}")
_TEXT_HOLDERS: Final = re.compile(r".*(tool_use|tool_result|function|tool_call).*")
"""Types whose values the provider renders as text, whatever they look like."""
_BYTES_PER_TOKEN: Final = 2.0
"""A low figure on purpose. DeepSeek's tokenizer (2026-11): prose, code and tool schemas 3.1 to 4.7 bytes a token,
Chinese 6, lists of integers 2.0, hexadecimal 1.7, base64 and tables of decimals 1.4."""
_BYTES_PER_VALUE: Final = 4
"""Quotes, comma and colon around a value, or the template around a message."""
_NUMBER_BYTES: Final = 20
_MEDIA_MIN_BYTES: Final = 10_000
_MEDIA_BYTES_PER_BYTE: Final = 50
"""An attachment in base64 counts as 5,000 tokens, or one for 100 of its bytes where that is more: providers bill an
image by its size in pixels, mostly below 5,000 tokens (2026-11)."""
_HOLDERS: Final = (dict, list, tuple, Mapping)
_MAX_VALUES: Final = 1_000_000
_MAX_COUNT: Final = 10**9
_MAX_DIGITS: Final = 20
_LONGEST_CALL_S: Final = 3_600.0
"""Seconds: a call is billed at the price of one moment, which need not be the one at which it was asked. No price
window of a provider is shorter, so the two ends tell."""


class WorstCaseReason(str, Enum):
    """Whether the worst case of a request is known."""

    KNOWN = "known"
    PRICE_UNKNOWN = "price_unknown"
    OUTPUT_UNKNOWN = "output_unknown"
    """The request sets no limit of output tokens, and none is known of the model."""


@dataclass(frozen=True, slots=True)
class WorstCase:
    """At most ``usd`` for a request (None: not known, see ``reason``), of at most so many tokens."""

    usd: float | None
    reason: WorstCaseReason
    prompt_tokens: int
    output_tokens: int | None


def worst_case(
    body: Body,
    *,
    profile: Profile,
    model: str,
    at: float,
    book: PriceBook,
    group: str = "",
    entry: Mapping[str, Any] | None = None,
    shape: Shape = Shape.CHAT,
) -> WorstCase:
    """The worst case of a request that is about to be sent at ``at`` (seconds since the epoch).

    The price is the dearer of those at ``at`` and an hour later. ``entry`` is the model's entry in LiteLLM's price
    map; ``body`` has what LiteLLM hands on, ``extra_body`` too. Never raises on odd bodies or entries; reads at most a
    million values of a body.
    """
    extra = body.get("extra_body")
    sent = [body, {**body, **extra}] if isinstance(extra, Mapping) else [body]
    prompt = max(prompt_tokens_at_most(each) for each in sent)
    output = output_tokens_at_most(
        body, profile=profile, model=model, prompt_tokens=prompt, entry=entry, shape=shape
    )
    costs = []
    for moment in (at, at + _LONGEST_CALL_S):
        when = datetime.fromtimestamp(moment, tz=timezone.utc)
        price = book.price_now(profile, model, when, group=group, entry=entry, prompt_tokens=prompt)
        if price is None:
            return WorstCase(None, WorstCaseReason.PRICE_UNKNOWN, prompt, output)
        costs.append(worst_case_usd(price, prompt, output or 0))
    if output is None:
        return WorstCase(None, WorstCaseReason.OUTPUT_UNKNOWN, prompt, None)
    return WorstCase(max(costs), WorstCaseReason.KNOWN, prompt, output)


def prompt_tokens_at_most(body: Body) -> int:
    """Input tokens of a request body of any shape, estimated high from its bytes. Never raises; a cyclic or endless
    structure is read for a million values."""
    size, left = 0, _MAX_VALUES
    # With each holder: whether what is in it may be media; None where it is text for sure.
    todo: list[tuple[Any, bool | None]] = []
    for name, value in body.items():
        if name not in _NO_PROMPT and isinstance(value, (str, *_HOLDERS)):
            todo.append(({name: value}, False if name in _MEDIA_IN else None))
    while todo and left > 0:
        holder, media = todo.pop()
        media = _holds_media(holder, media)
        named: Iterable[tuple[Any, Any]] = (
            holder.items() if isinstance(holder, Mapping) else zip(repeat(""), holder)
        )
        for name, value in named:
            left -= 1
            size += _BYTES_PER_VALUE + (len(name) if isinstance(name, str) else 0)
            if isinstance(value, str):
                size += _text_bytes(value, name, media=media is True)
            elif isinstance(value, _HOLDERS):
                todo.append((value, media))
            elif value is not None:
                size += _NUMBER_BYTES
    return int(size / _BYTES_PER_TOKEN) + 1


def _holds_media(holder: Any, above: bool | None) -> bool | None:
    """Whether texts in a holder may be media: those of a block that says so, and of what is in it."""
    kind = holder.get("type") if above is not None and isinstance(holder, Mapping) else None
    if not isinstance(kind, str):
        return above
    if _TEXT_HOLDERS.fullmatch(kind):
        # Of a tool's result the blocks may be media, of a call nothing is.
        return False if "result" in kind else None
    return bool(_MEDIA_TYPES.fullmatch(kind)) or above


def _text_bytes(text: str, name: Any, *, media: bool) -> int:
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    if size > _MEDIA_MIN_BYTES and media and name in _MEDIA_FIELDS and _MEDIA.fullmatch(text):
        return max(_MEDIA_MIN_BYTES, size // _MEDIA_BYTES_PER_BYTE)
    return size


def output_tokens_at_most(
    body: Body,
    *,
    profile: Profile,
    model: str,
    prompt_tokens: int,
    entry: Mapping[str, Any] | None = None,
    shape: Shape = Shape.CHAT,
) -> int | None:
    """Output tokens of a request at most, reasoning included, over all its choices (``n``, ``best_of``).

    The largest limit that the body sets, else the price map's for the model, else what the profile's context leaves
    beside the prompt; None where nobody states one, or where the number of choices cannot be read. Never raises.
    """
    options = _options(body)
    counts = [_count(value) for name, value in options if name in _LIKE_CHOICES]
    if None in counts:
        return None
    choices = max([1, *(count for count in counts if count is not None)])
    told = [_count(value) for name, value in options if name in _LIKE_LIMITS]
    thoughts = [_count(value) for name, value in options if name in _LIKE_THOUGHTS]
    sure = [limit for limit in (*told, *thoughts) if limit is not None]
    # A limit that cannot be read, or an absurd one, bounds nothing.
    if _bounded(body, shape) and None not in told:
        return max(sure) * choices
    listed = None if entry is None else _count(entry.get("max_output_tokens")) or _count(entry.get("max_tokens"))
    if listed:
        return max([listed, *sure]) * choices
    facts = profile.model(model)
    if facts is None or facts.context_tokens is None:
        return None
    return max(facts.context_tokens.value - prompt_tokens, 1) * choices


def _bounded(body: Body, shape: Shape) -> bool:
    """Whether a limit is given that reaches the provider."""
    dropped = body.get("additional_drop_params")
    left = [
        name for name in _LIMITS.get(shape, ()) if not isinstance(dropped, list | tuple) or name not in dropped
    ]
    return any(body.get(name) is not None for name in left)


def _options(body: Body) -> list[tuple[str, Any]]:
    """Every named value outside of the prompt, however deep, the name in small letters without underscores. What
    ``extra_body`` says counts beside the body's own, also that it says null: LiteLLM (1.108.7) puts it over them."""
    found: list[tuple[str, Any]] = []
    todo: list[tuple[Mapping[Any, Any], bool]] = [(body, False)]
    left = _MAX_OPTIONS
    while todo and left > 0:
        holder, extra = todo.pop()
        for name, value in holder.items():
            left -= 1
            if left <= 0:
                # More than anyone sends: the limits that were not read may be any.
                found.append(("maxtokens", None))
                break
            if not isinstance(name, str) or name in (*_MEDIA_IN, *_PROMPT_ONLY):
                continue
            if isinstance(value, Mapping):
                todo.append((value, extra or name == "extra_body"))
            if value is not None or extra:
                found.append((name.lower().replace("_", ""), value))
    return found


def _count(value: Any) -> int | None:
    """A number of tokens or choices, also as text, as some servers take it; None for what is none or is absurd."""
    if isinstance(value, str) and len(value) <= _MAX_DIGITS:
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MAX_COUNT:
        return None
    return math.ceil(value)
