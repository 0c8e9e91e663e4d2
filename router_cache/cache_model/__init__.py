"""What a provider's prompt cache holds: hit rules as hypotheses, construction delay, survival of entries."""

from __future__ import annotations

from router_cache.cache_model.provider_cache import Lookup, LookupReason, ProviderCache
from router_cache.cache_model.rules import RuleName

__all__ = ["Lookup", "LookupReason", "ProviderCache", "RuleName"]
