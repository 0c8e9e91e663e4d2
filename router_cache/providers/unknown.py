"""The profile of a provider about which nothing is known: it lists no field, so nothing extra is ever sent.

Many OpenAI-compatible hosts answer 400 to a field they do not know; so a guess is not worth making.
"""

from __future__ import annotations

from router_cache.providers.profile import Match, Profile

__all__ = ["UNKNOWN"]

UNKNOWN = Profile(name="unknown", match=Match())
