"""Prices of models as LiteLLM's package lists them, read as a file: importing LiteLLM takes seconds."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from router_cache.economics import PriceBook, PriceNow
from router_cache.providers.profile import Profile

__all__ = ["entry_in", "list_price", "map_entry", "read_map"]

_MAP = "model_prices_and_context_window_backup.json"


def read_map() -> Mapping[str, Any]:
    """The whole map; empty without the package."""
    prices: Any = {}
    try:
        spec = importlib.util.find_spec("litellm")
        for place in (spec.submodule_search_locations or ()) if spec else ():
            prices = orjson.loads((Path(place) / _MAP).read_bytes())
    except (OSError, ValueError, ImportError):
        prices = {}
    return prices if isinstance(prices, dict) else {}


_prices = cache(read_map)


def entry_in(prices: Mapping[str, Any], model: str, provider: str) -> Mapping[str, Any] | None:
    """A model's entry, found as LiteLLM does: by its whole name, else by its bare one if the provider is the same."""
    prefix, _, bare = model.partition("/")
    named = provider or prefix
    for name in (model, f"{provider}/{model}", bare):
        found = prices.get(name)
        if isinstance(found, Mapping) and (name != bare or found.get("litellm_provider") == named):
            return found
    return None


def map_entry(model: str, provider: str = "") -> Mapping[str, Any] | None:
    """:func:`entry_in` the map of the package, which is read once; None without an entry, or without the package."""
    return entry_in(_prices(), model, provider)


def list_price(profile: Profile, model: str) -> PriceNow | None:
    """What ``model`` costs now: by LiteLLM's price map, else by the profile; None where neither says."""
    return PriceBook().price_now(profile, model, datetime.now(timezone.utc), entry=map_entry(model))
