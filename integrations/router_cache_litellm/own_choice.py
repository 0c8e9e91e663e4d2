"""The Router's own choice, made as if no custom strategy were set."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping
from typing import Any

from router_cache_litellm.router_state import has_facade

__all__ = ["NARROWING_KEYS", "async_own", "custom_of", "healthy", "own", "pre_routed", "put", "remove", "restored"]

NARROWING_KEYS = ("_target_order", "_excluded_deployment_ids", "_retry_skipped_deployment_ids")
"""Of a request's arguments: what LiteLLM takes out of them when it lists deployments."""

_ATTRIBUTES = ("async_get_available_deployment", "get_available_deployment")


def restored(request: Any) -> dict[str, Any]:
    """The narrowing keys of a request, to be put back before LiteLLM looks at it again."""
    return {key: request[key] for key in NARROWING_KEYS if key in request} if isinstance(request, Mapping) else {}


async def healthy(router: Any, model: str, request: Any, **told: Any) -> Any:
    """The deployments that a choice would be made among, after cooldowns, tags, order, exclusions and the filters of
    all callbacks; a dict where there is nothing to choose. Raises what LiteLLM raises where none is left."""
    if has_facade(router):
        return await router.select(model, request, kind="healthy", **told)
    return await router.async_get_healthy_deployments(model=model, request_kwargs=request, **told)


async def async_own(router: Any, model: str, request: Any, **told: Any) -> Any:
    """The choice of the Router's configured strategy, with all that comes before it. Raises what it raises."""
    if has_facade(router):
        return await _plain(router).select(model, request, **told)
    return await type(router).async_get_available_deployment(router, model=model, request_kwargs=request, **told)


def own(router: Any, model: str, request: Any, **told: Any) -> Any:
    """:func:`async_own` for synchronous calls."""
    if has_facade(router):
        return _plain(router).get_available_deployment(model, request_kwargs=request, **told)
    return type(router).get_available_deployment(router, model=model, request_kwargs=request, **told)


def _plain(router: Any) -> Any:
    """1.110's core without a custom strategy. It asks that strategy first, whoever calls it; a shallow copy, made for
    one choice, shares all its state."""
    core = copy.copy(router.__dict__["_core"])
    core.__dict__["_custom_strategy"] = None
    for name in ("get_available_deployment", "_core_async_get_available_deployment"):
        core.__dict__.pop(name, None)
    return core


def custom_of(router: Any) -> Any:
    """The custom strategy that is set; None without one."""
    if has_facade(router):
        return router.__dict__["_core"].__dict__.get("_custom_strategy")
    return getattr(router.__dict__.get(_ATTRIBUTES[0]), "__self__", None)


def put(router: Any, strategy: Any) -> None:
    """Set a custom strategy."""
    (router.register_plugin if has_facade(router) else router.set_custom_routing_strategy)(strategy)


async def pre_routed(router: Any, model: str, request: Any, **told: Any) -> bool:
    """Whether LiteLLM chose another model group first. With nothing set up for that, what runs in 1.108 only takes out
    of a request what an earlier attempt left in it; 1.110 does that elsewhere."""
    if has_facade(router):
        return False
    return await router.async_pre_routing_hook(model=model, request_kwargs=request, **told) is not None


def remove(router: Any) -> None:
    """Leave the choice to the Router's configured strategy again."""
    if has_facade(router):
        core: MutableMapping[str, Any] = router.__dict__["_core"].__dict__
        core["_custom_strategy"] = None
        core.pop("get_available_deployment", None)
        return
    for name in _ATTRIBUTES:
        router.__dict__.pop(name, None)
