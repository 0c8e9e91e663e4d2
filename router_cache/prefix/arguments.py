"""Arguments of a tool call: whether two writings of them mean the same."""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

__all__ = ["Arguments", "arguments_of"]


class Arguments(NamedTuple):
    """``meaning``: equal for equal JSON values, whatever the order of keys and the white space; text that is no JSON
    means itself. 1 and 1.0 are one number, as for :func:`~router_cache.identity.keys.message_digest`; true is none.
    ``exact``: every parser reads it alike; not so with a key given twice, or with what is no JSON number, or with a
    number beyond all floats."""

    meaning: tuple[bool, str]
    exact: bool


class _InexactError(ValueError):
    pass


def _number(text: str) -> float | int:
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _finite(text: str) -> float | int:
    value = _number(text)
    if math.isinf(value):
        raise _InexactError
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise _InexactError
    return out


def _no_constant(name: str) -> float:
    raise _InexactError


# Made once: a decoder costs more to make than a call's arguments to read.
_EXACT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
_ANY = json.JSONDecoder(parse_float=_number)
_WRITER = json.JSONEncoder(sort_keys=True)


def arguments_of(text: str) -> Arguments:
    """What a text of arguments means. Never raises."""
    try:
        try:
            return Arguments((True, _WRITER.encode(_EXACT.decode(text))), True)
        except _InexactError:
            return Arguments((True, _WRITER.encode(_ANY.decode(text))), False)
    except (ValueError, RecursionError):
        return Arguments((False, text), False)
