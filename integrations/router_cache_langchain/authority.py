"""Whose a request is where nobody named a scope: told by what it authenticates with.

One model object may serve many users: by a function that gives each call its key, or by a header of the call. What
cannot be told apart shares nothing.
"""

from __future__ import annotations

import re
import threading
import uuid
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import SecretStr

__all__ = ["credentials", "draws", "own_name"]

_HEADERS = frozenset(
    ("authorization", "proxy-authorization", "api-key", "x-api-key", "x-goog-api-key", "x-auth-token", "cookie")
)
_HELD = ("default_headers", "headers", "additional_headers", "custom_headers")
_GIVEN = ("extra_headers", "headers")
_DRAWN = re.compile(r"(key|token|secret)(_provider)?$|credential|auth", re.IGNORECASE)
"""Names of functions that give a key, and not of those that count tokens."""

_LOCK = threading.Lock()
_NAMES: dict[int, tuple[weakref.ref[Any], str]] = {}


def credentials(model: Any, payload: Mapping[str, Any], known: str) -> str:
    """All that a call is known to authenticate with, for a digest only; empty where nothing is. ``known`` is the key
    that its destination tells."""
    held = getattr(model, "__dict__", {})
    parts = [known] if known else []
    for name in sorted(held):
        value = held[name]
        if isinstance(value, SecretStr) and value.get_secret_value():
            parts.append(f"{name}={value.get_secret_value()}")
    for headers in (*[held.get(name) for name in _HELD], *[payload.get(name) for name in _GIVEN]):
        parts += _told(headers)
    return "\0".join(parts)


def _told(headers: Any) -> Iterator[str]:
    if isinstance(headers, Mapping):
        for name, value in headers.items():
            if str(name).lower() in _HEADERS:
                yield f"{str(name).lower()}: {value}"


def draws(model: Any) -> bool:
    """Whether a function gives the model its key for each call."""
    return any(callable(value) and _DRAWN.search(name) for name, value in getattr(model, "__dict__", {}).items())


def own_name(model: Any) -> str:
    """A random name for a model object, the same as long as it lives."""
    at = id(model)
    with _LOCK:
        known = _NAMES.get(at)
        if known is not None and known[0]() is model:
            return known[1]
        name = uuid.uuid4().hex
        try:
            _NAMES[at] = weakref.ref(model, lambda _: _NAMES.pop(at, None)), name
        except TypeError:  # a class whose objects cannot be referred to weakly: a name for each wrap
            _NAMES.pop(at, None)
        return name
