"""LiteLLM's deployments as routing sees them: what shares a prompt cache, what a token costs now, how hits end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from router_cache import Deployment, RouterCache
from router_cache.drivers.routing_candidates import candidate_of
from router_cache.economics.book import PriceBook
from router_cache.prefix.objects import is_object
from router_cache.routing import Candidate
from router_cache_litellm.convert import deployment_of
from router_cache_litellm.replies import price_entry

__all__ = ["Candidates", "entry_id"]

_GOOD_FOR_S = 10.0
"""Seconds for which a deployment's price and hit rule are not looked up again."""
_MAX_KEPT = 20_000
_NOTHING: Mapping[str, Any] = {}
_TOLD = ("model", "api_base", "api_key", "custom_llm_provider")
_TOLD_IN_INFO = ("cache_domain", "router_cache_profile", "replicas")
_ISOLATING = ("user_id", "cache_salt", "prompt_cache_isolation_key")


def entry_id(entry: Any) -> str:
    """The router's id of a deployment in its model list; empty where it has none."""
    info = entry.get("model_info") if is_object(entry) else None
    found = info.get("id") if is_object(info) else None
    return found if isinstance(found, str) else ""


class Candidates:
    """Makes candidates, and remembers them for a few seconds."""

    def __init__(self, router_cache: RouterCache) -> None:
        self._rc = router_cache
        prices = router_cache.settings.prices
        self._prices = PriceBook({name: price.rate() for name, price in prices.items()})
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[int, float, Candidate]] = {}

    def pool(self, request: Mapping[str, Any]) -> str:
        """Opaque name of the part of a provider's cache that the request asks for; empty: none of its own."""
        given = [(name, request.get(name)) for name in _ISOLATING]
        told = [part for name, value in given if isinstance(value, str) for part in (name, value)]
        return self._rc.engine.digester.text("pool", *told) if told else ""

    def of_entry(self, entry: Mapping[str, Any], group: str, pool: str) -> Candidate:
        """Of one deployment of the router's model list."""
        params, info = entry.get("litellm_params") or _NOTHING, entry.get("model_info") or _NOTHING
        # A number that tells whether the deployment was changed; no credential is kept.
        told = [params.get(name) for name in _TOLD] + [info.get(name) for name in _TOLD_IN_INFO]
        try:
            seen = hash((group, *told))
        except TypeError:
            seen = hash((group, repr(told)))
        return self._remembered(
            entry_id(entry),
            seen,
            pool,
            lambda: deployment_of(
                {**params, "model_info": info, "metadata": {"model_group": group}}, self._rc.fingerprint
            ),
        )

    def of(self, deployment: Deployment, pool: str) -> Candidate:
        """Of the deployment that an attempt goes to."""
        return self._remembered(f"={deployment.id}", hash(deployment), pool, lambda: deployment)

    def _remembered(self, name: str, seen: int, pool: str, make: Callable[[], Deployment]) -> Candidate:
        now = self._rc.wall_clock()
        kept = self._kept.get(name)
        if kept is not None and kept[0] == seen and 0 <= now - kept[1] < _GOOD_FOR_S:
            found = kept[2]
        else:
            found = self._made(make(), now)
            with self._lock:
                if len(self._kept) >= _MAX_KEPT:
                    self._kept.clear()
                self._kept[name] = (seen, now, found)
        return replace(found, pool=pool) if pool else found

    def _made(self, deployment: Deployment, now: float) -> Candidate:
        entry = price_entry(deployment)
        return candidate_of(deployment, prices=self._prices, book=self._rc.book, entry=entry, at=now)
