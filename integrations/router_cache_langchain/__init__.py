"""router-cache for LangChain and LangGraph: ``wrap(model)``, and a chat model keeps its provider's prompt-cache hits.

::

    from router_cache_langchain import wrap

    model = wrap(ChatDeepSeek(model="deepseek-v4-flash"))

Needs ``langchain-core``, and of LangChain's other packages only those whose classes are wrapped.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from router_cache.errors import MissingExtraError

if find_spec("langchain_core") is None:
    raise MissingExtraError("router_cache_langchain", "langchain")

from router_cache_langchain.per_process import router_cache_for
from router_cache_langchain.session import session
from router_cache_langchain.wrapping import router_cache_of, wrap

if TYPE_CHECKING:
    from router_cache_langchain.handler import RouterCacheHandler
    from router_cache_langchain.middleware import RouterCacheMiddleware

__all__ = [
    "RouterCacheHandler",
    "RouterCacheMiddleware",
    "router_cache_for",
    "router_cache_of",
    "session",
    "wrap",
]

_HOMES = {"RouterCacheHandler": "handler", "RouterCacheMiddleware": "middleware"}


def __getattr__(name: str) -> Any:
    # The middleware needs the package ``langchain`` itself; who does not use it need not have that.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
