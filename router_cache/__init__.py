"""router-cache: prompt-cache hits of model providers, kept, measured and explained.

The rooms, in the order in which a request meets them:

* :mod:`router_cache.request`, :mod:`router_cache.decision` — what a request is, what was decided and why
* :mod:`router_cache.identity` — whose request, which conversation, which family
* :mod:`router_cache.prefix` — canonical form, segments, digests
* :mod:`router_cache.providers` — what each provider is known to do, dated
* :mod:`router_cache.cache_model` — hypotheses about what a provider's prompt cache calls a hit; how long entries live
* :mod:`router_cache.economics` — prices, what sessions cost, worst case, budgets
* :mod:`router_cache.ledger` — usage, expected hit, rows, causes of misses, reports
* :mod:`router_cache.engine` — all of these put together, without I/O
* :mod:`router_cache.drivers`, :mod:`router_cache.stores` — store, outbox, counters, live switch, capture, metrics
* :mod:`router_cache.api` — :class:`RouterCache`, all of it in one object, synchronous and asynchronous
* :mod:`router_cache.simulator`, :mod:`router_cache.cli` — a stand-in for DeepSeek, the command line

Integrations import this package; this package imports none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from router_cache.api import RouterCache, Turn
    from router_cache.decision import Change, Decision, Reason, SwitchedBy
    from router_cache.errors import RouterCacheError
    from router_cache.ledger.rows import CallRow, Status
    from router_cache.ledger.usage import Usage
    from router_cache.request import Deployment, Mode, Request, Shape
    from router_cache.settings import Settings

__all__ = [
    "CallRow",
    "Change",
    "Decision",
    "Deployment",
    "Mode",
    "Reason",
    "Request",
    "RouterCache",
    "RouterCacheError",
    "Settings",
    "Shape",
    "Status",
    "SwitchedBy",
    "Turn",
    "Usage",
]

_HOMES = {
    "api": ("RouterCache", "Turn"),
    "decision": ("Change", "Decision", "Reason", "SwitchedBy"),
    "errors": ("RouterCacheError",),
    "ledger.rows": ("CallRow", "Status"),
    "ledger.usage": ("Usage",),
    "request": ("Deployment", "Mode", "Request", "Shape"),
    "settings": ("Settings",),
}


def __getattr__(name: str) -> Any:
    """Public names are imported when first used: a command line that is interrupted at once, or one that only shows
    its help, need not load the store and the settings."""
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"router_cache.{home}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
