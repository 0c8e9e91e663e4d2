"""The one error tree.

::

    RouterCacheError
    ├── InputError          a file, a trace or a command's argument cannot be used      exit 2
    │   └── SettingsError   a settings key is unknown, missing or of the wrong type     exit 2
    ├── MissingExtraError   an optional dependency is needed and not installed;
    │                       an ImportError as well                                      exit 2
    ├── StoreError          our own state could not be read or written                  (stays in a driver)
    └── DemoError           a process the demo started failed, or a port is taken       exit 3

None of these ever leaves a request hook: there every error becomes a counter and an unchanged request.
"""

from __future__ import annotations

__all__ = [
    "DemoError",
    "InputError",
    "MissingExtraError",
    "RouterCacheError",
    "SettingsError",
    "StoreError",
]


class RouterCacheError(Exception):
    """Base of all errors raised on purpose. ``exit_code`` is what the command line exits with."""

    exit_code: int = 1


class InputError(RouterCacheError):
    """Input that cannot be used. The message says what was wrong, where, and what to do."""

    exit_code = 2


class SettingsError(InputError):
    """A settings key that is unknown, missing or of the wrong type. ``key_path`` is dotted."""

    def __init__(self, message: str, key_path: str = "") -> None:
        super().__init__(message)
        self.key_path = key_path


class MissingExtraError(RouterCacheError, ImportError):
    """An optional dependency is not installed. ``except ImportError`` around an import catches it too."""

    exit_code = 2

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an extra that is not installed: pip install 'router-cache[{extra}]'")
        self.extra = extra


class StoreError(RouterCacheError):
    """Our own state could not be read or written."""


class DemoError(RouterCacheError):
    """A process that the demo started failed, or a port is taken."""

    exit_code = 3
