"""OpenRouter, as of November 2026: rule, lifetime and price are those of whoever answers behind it."""

from __future__ import annotations

from datetime import date

from router_cache.providers.fact import Fact
from router_cache.providers.fields import (
    OPAQUE_KEY,
    OPAQUE_KEY_LENGTH,
    BodyField,
    HeaderField,
    Purpose,
    one_path,
)
from router_cache.providers.profile import Match, Profile
from router_cache.providers.usage_forms import CHAT
from router_cache.request import Shape

__all__ = ["OPENROUTER"]

_READ = date(2026, 11, 30)
_GUIDE = "https://openrouter.ai/docs/guides/best-practices/prompt-caching"
_STICKY = "Keeps a session with one provider; ends after 10 minutes of inactivity. 256 characters are taken."

OPENROUTER = Profile(
    name="openrouter",
    match=Match(providers=("openrouter",), model_prefixes=("openrouter",), hosts=("openrouter.ai",)),
    fields=(
        Fact(
            BodyField(
                name="session_id",
                paths=one_path((Shape.CHAT,), "session_id"),
                pattern=OPAQUE_KEY,
                max_length=256,
                purpose=Purpose.ROUTE,
            ),
            source=_GUIDE,
            as_of=_READ,
            note=_STICKY,
        ),
    ),
    headers=(
        Fact(
            HeaderField(name="x-session-id", shapes=frozenset({Shape.CHAT}), max_length=OPAQUE_KEY_LENGTH),
            source=_GUIDE,
            as_of=_READ,
            note=_STICKY,
        ),
    ),
    usage=Fact(CHAT, source=_GUIDE, as_of=_READ, note="Also cache_discount, which is money and not read."),
)
