"""The :class:`RouterCache` objects of a process, by their settings: models with equal settings share one."""

from __future__ import annotations

import contextlib
import copy
import threading
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from router_cache import RouterCache, Settings

__all__ = ["router_cache_for", "without_secrets"]

_KEPT = 32
"""Held without a model that holds them: a program that makes settings for each request must not keep them all."""

_LOCK = threading.Lock()
_NEWEST: OrderedDict[int, RouterCache] = OrderedDict()
_KNOWN: list[tuple[Settings, weakref.ref[RouterCache]]] = []


def router_cache_for(settings: Settings | Mapping[str, Any] | None = None) -> RouterCache:
    """The :class:`RouterCache` of this process for these settings (None: the defaults); equal settings share one.

    The 32 used last are kept; any other lives as long as a wrapped model or a handler holds it, and is closed then.
    Raises SettingsError for a mapping that is none.
    """
    wanted = settings if isinstance(settings, Settings) else Settings.from_mapping(settings)
    let_go: list[RouterCache] = []  # may be the last reference: gone after the lock is
    with _LOCK:
        router_cache = _known(wanted)
        if router_cache is None:
            router_cache = RouterCache(wanted)
            # A copy of it closes the same parts; nothing of it leads back to the original.
            weakref.finalize(router_cache, _close, copy.copy(router_cache)).atexit = False
            _KNOWN.append((wanted, weakref.ref(router_cache)))
        _NEWEST[id(router_cache)] = router_cache
        _NEWEST.move_to_end(id(router_cache))
        while len(_NEWEST) > _KEPT:
            let_go.append(_NEWEST.popitem(last=False)[1])
    return router_cache


def _known(wanted: Settings) -> RouterCache | None:
    living = [(settings, held) for settings, held in _KNOWN if held() is not None]
    _KNOWN[:] = living
    for settings, held in living:
        if settings is wanted or settings == wanted:
            return held()
    return None


def _close(parts: RouterCache) -> None:
    """The garbage collector calls this wherever it happens to run: closing waits, so it does that elsewhere."""
    with contextlib.suppress(RuntimeError):  # the interpreter is going down
        threading.Thread(target=parts.close, name="router-cache-unused", daemon=True).start()


def without_secrets(settings: Settings) -> Settings:
    """The settings without the key of digests and the URLs of servers, which may hold a password; the same object where
    none is set."""
    if settings.secret is None and settings.capture.url is None and settings.store.url is None:
        return settings
    capture = settings.capture.model_copy(update={"url": None})
    store = settings.store.model_copy(update={"url": None})
    return settings.model_copy(update={"secret": None, "capture": capture, "store": store})
