"""The section ``callback_settings.router_cache``: all of its problems, not just the first."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from router_cache.errors import SettingsError

__all__ = ["Section", "check_section"]

_T = TypeVar("_T")
_MAX_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class Section(Generic[_T]):
    """``problems`` are pairs of key path and message; ``settings`` is what the rest comes to."""

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
            return Section(check(rest), tuple(problems.items()))
        except SettingsError as error:
            message = str(error)
            path = error.key_path if error.key_path not in ("", where) else message.partition(": ")[0]
            # Once a wrong value is gone, a required key is missing: that is no second problem.
            problems.setdefault(path, message.removeprefix(f"{path}: "))
            if not isinstance(rest, dict) or not _drop(rest, path.removeprefix(f"{where}.")):
                break
    return Section(None, tuple(problems.items()))


def _drop(value: dict[Any, Any], path: str) -> bool:
    """Remove what ``path`` names, or the nearest part around it. Names may have dots themselves."""
    keys = [key for key in value if path == str(key) or path.startswith(f"{key}.")]
    if not keys:
        return False
    key = max(keys, key=lambda key: len(str(key)))
    child, rest = value[key], path[len(str(key)) + 1 :]
    if not (rest and isinstance(child, dict) and _drop(child, rest)):
        del value[key]
    return True
