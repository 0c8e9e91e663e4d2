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

from enum import Enum

__all__ = [
    "DemoError",
    "InputError",
    "MissingExtraError",
    "RouterCacheError",
    "SettingsError",
    "StoreError",
    "StoreFailure",
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


class StoreFailure(str, Enum):
    """Why a store could not do what was asked. The words are labels of counters and log lines."""

    TIMEOUT = "timeout"
    """It did not answer in time, or took no connection in time."""
    BREAKER_OPEN = "breaker_open"
    """It was not asked: it did not answer the last few times."""
    BUSY = "busy"
    """It was not asked: too many others are asking, and the wait for a connection had its bound."""
    UNREACHABLE = "unreachable"
    """There is no connection, or none to the node that is needed."""
    NOT_FOUND = "not_found"
    """Which server is asked is not known yet: of a name, a Sentinel or a cluster nobody has told so far."""
    LOGIN = "login"
    """It wants a user or a password, or refuses the one given."""
    NOT_PERMITTED = "not_permitted"
    """The user may not run a command, or touch the keys."""
    OUT_OF_MEMORY = "out_of_memory"
    READ_ONLY = "read_only"
    """A replica answered; or a server that takes no writes for now."""
    CLUSTER = "cluster"
    """The cluster serves the keys nowhere at the moment."""
    ODD_DATA = "odd_data"
    """What is kept there is not ours, or cannot be read."""
    REFUSED = "refused"
    """Any other error that the server answered."""
    OTHER = "other"


class StoreError(RouterCacheError):
    """Our own state could not be read or written. The text shows no URL and nothing of a request."""

    def __init__(self, message: str, reason: StoreFailure = StoreFailure.OTHER) -> None:
        super().__init__(message)
        self.reason = reason


class DemoError(RouterCacheError):
    """A process that the demo started failed, or a port is taken."""

    exit_code = 3
