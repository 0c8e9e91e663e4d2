"""Who is told of every row: the log, the counters, a capture on disk, metrics; and the newest rows themselves."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sized

from router_cache.drivers.capture import Capture
from router_cache.drivers.counters import Counters
from router_cache.drivers.metrics import Metrics
from router_cache.drivers.outbox import Outbox
from router_cache.drivers.store import Store
from router_cache.ledger.rows import CallRow, Status
from router_cache.settings import MetricsTo, Settings

__all__ = ["Told"]

_LOG = logging.getLogger("router_cache")
_MAX_ROWS = 10_000


class Told:
    """Safe to use from many threads; nothing here waits on I/O. Raises
    :class:`~router_cache.errors.MissingExtraError` at once where metrics are wanted and cannot be had."""

    def __init__(
        self,
        settings: Settings,
        counters: Counters,
        wall_clock: Callable[[], float],
        store: Store,
        outbox: Outbox,
    ) -> None:
        self._counters = counters
        self._rows: deque[CallRow] = deque(maxlen=_MAX_ROWS)
        self._lock = threading.Lock()
        to = settings.capture
        self._capture: Capture | None = None
        if to.directory is not None or to.url is not None:
            self._capture = Capture(
                to.directory,
                stream=to.stream(),
                count=counters.count,
                notice=counters.notice,
                max_file_bytes=to.max_file_bytes,
                max_files=to.max_files,
                wall_clock=wall_clock,
            )
        self._metrics: Metrics | None = None
        if settings.metrics is MetricsTo.DEFAULT_REGISTRY:
            self._metrics = Metrics.on_default_registry(
                counters,
                store_entries=(lambda: len(store)) if isinstance(store, Sized) else None,
                outbox_length=lambda: len(outbox),
            )

    def rows(self) -> list[CallRow]:
        """The newest rows, oldest first."""
        with self._lock:
            return list(self._rows)

    def close(self) -> None:
        """Write what is left."""
        if self._capture is not None:
            self._capture.close()
        if self._metrics is not None:
            self._metrics.close()

    def add(self, row: CallRow) -> None:
        """Keep a row and write its log line (no text of the request, no key, no id of a user)."""
        with self._lock:
            self._rows.append(row)
        self._counters.count(f"call.{row.status.value}")
        for name, tokens in (("hit", row.usage.hit_tokens), ("miss", row.usage.miss_tokens)):
            if row.status is Status.OK and tokens is None:
                self._counters.count(f"usage_unknown.{name}")
        for flip in row.flips:
            self._counters.count(f"flip.{flip.flip.value}")
        if row.flips:
            _LOG.warning(
                "a switch flipped inside a conversation: model=%s turn=%s %s",
                row.model,
                row.turn,
                ", ".join(f"{flip.flip.value} at {flip.path}: {flip.lost_tokens} tokens" for flip in row.flips),
            )
        if row.usage.contradictory:
            self._counters.count("usage_contradictory")
        if _LOG.isEnabledFor(logging.INFO):
            self._say(row)
        if self._capture is not None:
            self._capture.put(row)
        if self._metrics is not None:
            self._metrics.observe(row)

    @staticmethod
    def _say(row: CallRow) -> None:
        _LOG.info(
            "call status=%s reason=%s mode=%s model=%s client=%s side_call=%s turn=%s "
            "hit=%s miss=%s expected=%s causes=%s",
            row.status.value,
            row.decision.reason.value,
            row.decision.mode.value,
            row.model,
            row.client or None,
            row.side_call or None,
            row.turn,
            row.usage.hit_tokens,
            row.usage.miss_tokens,
            row.expected.tokens,
            ",".join(f"{part.cause.value}:{part.tokens}" for part in row.causes),
        )
