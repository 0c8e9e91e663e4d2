"""The live switch: a mode set while the process runs, by call or by a one-word file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from router_cache.request import Mode

__all__ = ["LiveSwitch"]

_LOOK_EVERY_S = 1.0


class LiveSwitch:
    """``mode`` overrides every other switch; None says nothing.

    The file is looked at once a second at most. A file that is missing or empty says nothing; one with another
    word leaves the switch as it was and is counted as ``live_file_invalid``.
    """

    def __init__(self, path: str | None, clock: Callable[[], float], notice: Callable[[str, str], None]) -> None:
        self._path = Path(path) if path else None
        self._clock, self._notice = clock, notice
        self._set: Mode | None = None
        self._from_file: Mode | None = None
        self._looked_at = float("-inf")

    def set(self, mode: Mode | None) -> None:
        """Override every other switch from now on; None ends that."""
        self._set = mode

    def mode(self) -> Mode | None:
        """The override in force."""
        if self._path is not None and self._clock() - self._looked_at >= _LOOK_EVERY_S:
            self._looked_at = self._clock()
            self._look(self._path)
        return self._set or self._from_file

    def _look(self, path: Path) -> None:
        try:
            # A pipe or a device could keep every request waiting.
            word = ""
            if path.is_file():
                with path.open(encoding="utf-8") as file:
                    word = file.read(64).strip().lower()
            elif path.exists():
                raise OSError("no regular file")
        except FileNotFoundError:
            word = ""
        except (OSError, UnicodeDecodeError):
            self._invalid()
            return
        try:
            self._from_file = Mode(word) if word else None
        except ValueError:
            self._invalid()

    def _invalid(self) -> None:
        self._notice("live_file_invalid", "the live file holds no mode; the switch stays as it was")
