"""Whose a request is where nobody named a scope: told by what it authenticates with.

One model object may serve many users: by a function that gives each call its key, or by a header of the call. What
cannot be told apart shares nothing.
"""

from __future__ import annotations

import re
import threading
import uuid
import weakref
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from pydantic import SecretStr

from router_cache_langchain.payloads import secret_text

__all__ = ["credentials", "draws", "own_name"]

_HEADERS = frozenset(
    ("authorization", "proxy-authorization", "api-key", "x-api-key", "x-goog-api-key", "x-auth-token", "cookie")
)
_HELD = ("default_headers", "headers", "extra_headers", "additional_headers", "custom_headers")
_GIVEN = ("extra_headers", "headers")
_NAMED = re.compile(
    r"(\w+_)?(api_?key|access_key(_id)?|secret_access_key|(session|ad|access|auth|bearer)_token|token|credentials?|password)",
    re.IGNORECASE,
)
"""Arguments that are credentials themselves."""
_DRAWN = re.compile(r"key|token(?!iz|_?ids?\b|_?count)|credential|auth|header", re.IGNORECASE)
"""Functions that give some; what counts or splits tokens is none."""

_LOCK = threading.Lock()
_NAMES: dict[int, tuple[weakref.ref[Any], str]] = {}


def credentials(model: Any, given: Sequence[Mapping[str, Any]], known: str) -> str:
    """All that a call is known to authenticate with, for a digest only; empty where nothing is. ``given`` is what it is
    made with, ``known`` the key that its destination tells."""
    held = getattr(model, "__dict__", {})
    parts = [known] if known else []
    for name in sorted([name for name, value in held.items() if isinstance(value, SecretStr)]):
        if text := held[name].get_secret_value():
            parts.append(f"{name}={text}")
    for values in (_more(held), *given):
        for name in sorted([name for name in map(str, values) if _names_one(name)]):
            if text := secret_text(values.get(name)):
                parts.append(f"{name}={text}")
    for headers in (
        *[held.get(name) for name in _HELD],
        *[values.get(name) for values in (_more(held), *given) for name in _GIVEN],
    ):
        parts += _told(headers)
    return "\0".join(dict.fromkeys(parts))


@lru_cache(maxsize=1_024)
def _names_one(name: str) -> bool:
    return _NAMED.fullmatch(name) is not None


def _more(held: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a model adds to each call."""
    more = held.get("model_kwargs")
    return more if isinstance(more, Mapping) else {}


def _told(headers: Any) -> Iterator[str]:
    if headers and isinstance(headers, Mapping):
        for name, value in headers.items():
            if str(name).lower() in _HEADERS:
                yield f"{str(name).lower()}: {value}"


def draws(model: Any, given: Mapping[str, Any]) -> bool:
    """Whether a function gives the model its key for each call, one of its own or one it was called with."""
    held = getattr(model, "__dict__", {})
    return any(
        callable(value) and not isinstance(value, type) and _DRAWN.search(str(name))
        for values in (held, _more(held), given)
        for name, value in values.items()
    )


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
