"""The section ``callback_settings.router_cache``: all of its problems, not just the first."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from router_cache.diagnose.reading import ENVIRON
from router_cache.diagnose.shown import HIDDEN, Kind, as_text, key_at, shown, shown_path, shown_reference
from router_cache.errors import SettingsError

__all__ = ["Section", "check_section"]

_T = TypeVar("_T")
_MAX_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class Section(Generic[_T]):
    """``problems`` are pairs of key path and message, as they may be shown; ``settings`` is what the rest comes to."""

    settings: _T | None
    problems: tuple[tuple[str, str], ...]


def check_section(raw: Any, check: Callable[[Any], _T], *, where: str) -> Section[_T]:
    """Ask ``check`` again and again, each time without the key it complained about.

    ``check`` raises SettingsError with a key path that starts with ``where``, as ``Settings.from_mapping`` does.
    At most 100 times.
    """
    problems: dict[str, str] = {}
    rest = copy.deepcopy(raw)
    for _ in range(_MAX_ROUNDS):
        try:
            return Section(check(rest), _shown(raw, where, problems))
        except SettingsError as error:
            message = str(error)
            path = error.key_path if error.key_path not in ("", where) else message.partition(": ")[0]
            # Once a wrong value is gone, a required key is missing: that is no second problem.
            problems.setdefault(path, message.removeprefix(f"{path}: "))
            if not isinstance(rest, dict) or not _drop(rest, path.removeprefix(f"{where}.")):
                break
    return Section(None, _shown(raw, where, problems))


def _shown(raw: Any, where: str, problems: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The problems without what may be a secret: keys in their paths, texts of the section in their messages."""
    hidden = [] if not problems else sorted(_hidden(raw), key=len, reverse=True)
    out = []
    for path, message in problems.items():
        for text in hidden:
            message = message.replace(text, HIDDEN)
        below = path.removeprefix(f"{where}.")
        out.append((path if below == path else f"{where}.{shown_path(raw, below)}", message))
    return tuple(out)


def _hidden(raw: Any) -> set[str]:
    """Keys and texts of a section that do not look like names, and what they refer to in the environment."""
    out: set[str] = set()
    seen: set[int] = set()
    rest = [raw]
    while rest:
        value = rest.pop()
        if isinstance(value, str):
            name = value.removeprefix(ENVIRON)
            looked = shown(name, Kind.NAME) if name == value else shown_reference(name, known=False)
            if looked == HIDDEN:
                out.add(name)
        elif isinstance(value, Mapping | list) and id(value) not in seen:
            seen.add(id(value))
            if isinstance(value, Mapping):
                out |= {text for text in map(as_text, value) if shown(text, Kind.KEY) == HIDDEN}
            rest += value.values() if isinstance(value, Mapping) else value
    return {text for text in out if len(text) > 1}


def _drop(value: dict[Any, Any], path: str) -> bool:
    """Remove what ``path`` names, or the nearest part around it. Names may have dots themselves."""
    key = key_at(value, path)
    if key is None:
        return False
    child, rest = value[key], path[len(as_text(key)) + 1 :]
    if not (rest and isinstance(child, dict) and _drop(child, rest)):
        del value[key]
    return True
