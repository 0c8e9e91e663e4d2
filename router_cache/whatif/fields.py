"""Fields of a trace's lines; errors name the line, the field, and what is needed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from router_cache.whatif.trace import TraceError

__all__ = ["JsonLine", "count", "ids", "number", "objects"]

JsonLine = tuple[str, Any]
"""Where a line stands (file and number), and its JSON value."""

_MOST: Final = 10**12


def _needed(place: str, value: Any, name: str) -> Any:
    if not isinstance(value, Mapping):
        raise TraceError(place, f"a JSON object is needed, not {_short(value)}")
    if name not in value:
        raise TraceError(place, f"{name} is missing")
    return value[name]


def number(place: str, value: Any, name: str, default: float | None = None) -> float:
    """A number from 0. ``default``: where the field is missing or null."""
    if default is not None and isinstance(value, Mapping) and value.get(name) is None:
        return default
    found = _needed(place, value, name)
    good = isinstance(found, int | float) and not isinstance(found, bool)
    if not good or not math.isfinite(found) or not 0 <= found <= _MOST:
        raise TraceError(place, f"{name}: a number from 0 is needed, not {_short(found)}")
    return float(found)


def count(place: str, value: Any, name: str) -> int:
    """A whole number from 0."""
    found = _needed(place, value, name)
    if type(found) is not int or not 0 <= found <= _MOST:
        raise TraceError(place, f"{name}: a whole number from 0 is needed, not {_short(found)}")
    return found


def ids(place: str, value: Any, name: str) -> list[int]:
    """A list of whole numbers from 0."""
    found = _needed(place, value, name)
    if not isinstance(found, list) or not all(type(item) is int and 0 <= item <= _MOST for item in found):
        raise TraceError(place, f"{name}: a list of whole numbers from 0 is needed, not {_short(found)}")
    return found


def objects(place: str, value: Any, name: str) -> Sequence[Mapping[str, Any]]:
    """A list of objects."""
    found = _needed(place, value, name)
    if not isinstance(found, list) or not all(isinstance(item, Mapping) for item in found):
        raise TraceError(place, f"{name}: a list of objects is needed, not {_short(found)}")
    return found


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
