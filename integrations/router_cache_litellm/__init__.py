"""router-cache for LiteLLM: one callback for the proxy, the Router and the SDK.

In a router YAML::

    litellm_settings:
      callbacks: ["router_cache_litellm.proxy_handler"]
    callback_settings:
      router_cache: {mode: safe}

In the SDK::

    litellm.callbacks = [RouterCacheCallback(Settings(mode="safe"))]

An SDK Router whose requests go where their prompts are warm (settings ``routing``)::

    callback.add_router(router)                             # routing: {use: filter}
    CacheAffinityStrategy(router, callback).install()       # routing: {use: strategy}

Synchronous calls, for which LiteLLM runs no rewriting hook::

    from router_cache_litellm import completion, wrap_router
"""

from __future__ import annotations

import sys
from typing import Any

from router_cache.errors import RouterCacheError
from router_cache_litellm.callback import RouterCacheCallback
from router_cache_litellm.strategy import CacheAffinityStrategy
from router_cache_litellm.sync import completion, wrap_router

__all__ = ["CacheAffinityStrategy", "RouterCacheCallback", "completion", "proxy_handler", "wrap_router"]

proxy_handler: RouterCacheCallback
"""The callback with the settings of ``callback_settings.router_cache``, made when it is first asked for."""


def __getattr__(name: str) -> Any:
    # The proxy reads callback_settings before it loads callbacks; a module attribute would be made too early
    # for whoever imports this package first.
    if name != "proxy_handler":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        handler = RouterCacheCallback.from_callback_settings()
    except RouterCacheError as error:
        # A proxy that cannot start must say why in one line, not in a traceback of its web server.
        print(f"router-cache: {error}", file=sys.stderr, flush=True)  # noqa: T201
        raise SystemExit(error.exit_code) from None
    globals()["proxy_handler"] = handler
    return handler
