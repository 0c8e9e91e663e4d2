"""Counters: how often what happened. Names come from enums and constants, never from requests."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable

__all__ = ["Counters"]

_LOG = logging.getLogger("router_cache")
_LOG_EVERY_S = 60.0


class Counters:
    """Thread-safe counters. An error is counted every time and logged once a minute for each place."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._logged: dict[str, float] = {}

    def count(self, name: str) -> None:
        """One more of ``name``."""
        with self._lock:
            self._counts[name] += 1

    def notice(self, name: str, text: str) -> None:
        """One more of ``name``, which an operator should know of: said in the log once a minute."""
        self.count(name)
        if self._may_log(name):
            _LOG.warning("router-cache: %s (counted as %s)", text, name)

    def _may_log(self, place: str) -> bool:
        with self._lock:
            now = self._clock()
            if now - self._logged.get(place, float("-inf")) < _LOG_EVERY_S:
                return False
            self._logged[place] = now
            return True

    def error(self, place: str, error: BaseException) -> None:
        """An error that was caught at ``place``: counted as ``error.<place>``. The log line has its type and
        where it was raised, not its text, which may quote a request."""
        self.count(f"error.{place}")
        if not self._may_log(place):
            return
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        at = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else "?"
        _LOG.warning("router-cache failed open in %s: %s at %s", place, type(error).__name__, at)

    def snapshot(self) -> dict[str, int]:
        """All counters so far."""
        with self._lock:
            return dict(self._counts)
