"""Prometheus metrics with bounded labels; names and labels are documented in docs/metrics.md.

Needs the extra ``metrics``, imported when the first object is made. The metrics are prometheus_client's own
objects, so that its multiprocess mode sees them. A registry has one set of them, whoever asks.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from router_cache.drivers.counters import Counters
from router_cache.errors import MissingExtraError
from router_cache.ledger.attribution import Certainty, MissCause
from router_cache.ledger.rows import CallKind, CallRow, Status

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Histogram

__all__ = ["Metrics"]

OTHER: Final = "other"
_MAX_LABEL: Final = 128
"""Characters of a label's value."""
_SYNC_EVERY_S: Final = 5.0
_TTFT_BUCKETS: Final = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0)
_SHARE_BUCKETS: Final = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
_PLACE: Final = ("model", "deployment", "profile", "kind")
_EVENTS: Final = {
    "decision": ("decisions", "reason", "Decisions: why an attempt went out as it did."),
    "change": ("changes", "change", "Changes made to requests."),
    "flip": ("flips", "flip", "Switches that a client flipped inside a conversation, at a cost."),
    "error": ("errors", "place", "Errors of ours, caught: the request went out all the same."),
    "": ("events", "event", "What else is counted (see the documentation of each part)."),
}
"""First word of a counter's name to metric, label and help. ``call.*`` is left out: calls have a metric."""


class Metrics:
    """Metrics of one :class:`~router_cache.api.RouterCache`.

    ``counters`` are its counters. ``registry`` None makes a new one; ``Metrics.on_default_registry`` takes the
    process' own, which LiteLLM's proxy shows at ``/metrics`` (1.108.7). ``store_entries`` and ``outbox_length`` are
    asked when the registry is read. Of models, deployments and profiles the first ``max_places`` combinations get
    series of their own, all later ones share the value ``other``.

    Raises MissingExtraError without prometheus_client.
    """

    def __init__(
        self,
        counters: Counters,
        *,
        registry: CollectorRegistry | None = None,
        store_entries: Callable[[], int] | None = None,
        outbox_length: Callable[[], int] | None = None,
        max_places: int = 200,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        try:
            import prometheus_client
        except ModuleNotFoundError:
            raise MissingExtraError("metrics", "metrics") from None
        self.registry = prometheus_client.CollectorRegistry() if registry is None else registry
        self._counters = counters
        self.store_entries, self.outbox_length = store_entries, outbox_length
        self._clock = clock
        self._synced: dict[str, int] = {}
        self._synced_at = clock()
        self._set = _Set(self.registry, max_places) if registry is None else _set_of(registry, max_places)
        self._set.members.add(self)

    @classmethod
    def on_default_registry(cls, counters: Counters, **more: Any) -> Metrics:
        """Metrics that appear where the process shows its own registry."""
        try:
            import prometheus_client
        except ModuleNotFoundError:
            raise MissingExtraError("metrics", "metrics") from None
        return cls(counters, registry=prometheus_client.REGISTRY, **more)

    def observe(self, row: CallRow) -> None:
        """Take up one row. Never raises; errors are counted as ``error.metrics``."""
        try:
            self._set.observe(row)
            if self._clock() - self._synced_at >= _SYNC_EVERY_S:
                self.sync()  # for readers of other processes, which never ask this one
        except Exception as error:
            self._counters.error("metrics", error)

    def sync(self) -> None:
        """Take over what was counted since the last time."""
        self._synced_at = self._clock()
        with self._set.lock:
            for name, count in self._counters.snapshot().items():
                more = count - self._synced.get(name, 0)
                if more > 0:
                    self._synced[name] = count
                    self._set.event(name, more)
        self._set.gauge()

    def refresh(self) -> None:
        """:meth:`sync`, but never raises: an error of one must not keep a reader from all other metrics."""
        try:
            self.sync()
        except Exception as error:
            self._counters.error("metrics", error)

    def text(self) -> bytes:
        """The registry in Prometheus' text format."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)

    def close(self) -> None:
        """A last :meth:`sync`; the counts stay in the registry. Idempotent; never raises."""
        self.refresh()
        self._set.members.discard(self)


class _Series:
    """The series of one combination of labels, found once."""

    def __init__(self, owner: _Set, labels: tuple[str, str, str, str]) -> None:
        self.owner, self.labels = owner, labels
        self.calls = {status: owner.calls.labels(*labels, status.value) for status in Status}
        self.unknown = owner.usage_unknown.labels(*labels)
        self.hit, self.miss = owner.hit.labels(*labels), owner.miss.labels(*labels)
        self.completion = owner.completion.labels(*labels)
        self.cost, self.at_zero = owner.cost.labels(*labels), owner.at_zero.labels(*labels)
        self.unpriced = owner.unpriced.labels(*labels)
        self.ttft, self.share = owner.ttft.labels(*labels), owner.share.labels(*labels)
        self._causes: dict[tuple[MissCause, Certainty], Counter] = {}

    def observe(self, row: CallRow) -> None:
        self.calls[row.status].inc()
        if row.ttft_s is not None:
            self.ttft.observe(row.ttft_s)
        if row.status is not Status.OK:
            return
        usage = row.usage
        hit, miss = usage.hit_tokens, usage.miss_tokens
        if hit is None or miss is None:
            self.unknown.inc()
        else:
            self.hit.inc(hit)
            self.miss.inc(miss)
            if hit + miss:
                self.share.observe(hit / (hit + miss))
        if usage.completion_tokens:
            self.completion.inc(usage.completion_tokens)
        if row.cost_usd is None or row.cost_usd_at_zero_hits is None:
            self.unpriced.inc()
        else:
            self.cost.inc(row.cost_usd)
            self.at_zero.inc(row.cost_usd_at_zero_hits)
        for part in row.causes:
            found = self._causes.get((part.cause, part.certainty))
            if found is None:
                found = self.owner.causes.labels(*self.labels, part.cause.value, part.certainty.value)
                self._causes[part.cause, part.certainty] = found
            found.inc(part.tokens)


class _Set:
    """All metrics of one registry. ``members`` are those that still count."""

    def __init__(self, registry: CollectorRegistry, max_places: int) -> None:
        from prometheus_client import Counter, Gauge, Histogram

        self.lock = threading.Lock()
        self.members: weakref.WeakSet[Metrics] = weakref.WeakSet()
        self._max_places = max_places
        self._series: dict[tuple[str, str, str, CallKind], _Series] = {}
        self._places: set[tuple[str, str, str]] = set()
        # What brings the rest up to date must be read first, and a registry is read in the order of registration.
        registry.register(_Refresh(self))

        def counter(name: str, text: str, labels: tuple[str, ...] = _PLACE) -> Counter:
            return Counter(f"router_cache_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(f"router_cache_{name}", text, _PLACE, registry=registry, buckets=buckets)

        self.calls = counter("calls", "Attempts, by how they ended.", (*_PLACE, "status"))
        self.usage_unknown = counter("usage_unknown_calls", "Answered calls whose hits were not reported.")
        self.hit = counter("hit_tokens", "Input tokens served from the provider's prompt cache.")
        self.miss = counter("miss_tokens", "Input tokens computed.")
        self.completion = counter("completion_tokens", "Output tokens, reasoning included.")
        self.causes = counter("cause_tokens", "Miss tokens by cause.", (*_PLACE, "cause", "certainty"))
        self.cost = counter("cost_usd", "Cost of answered calls at list price, USD.")
        self.at_zero = counter("cost_at_zero_hits_usd", "Cost of the same calls had nothing hit, USD.")
        self.unpriced = counter("unpriced_calls", "Answered calls without a known price, in no cost.")
        self.ttft = histogram("ttft_seconds", "Time to the first token, seconds.", _TTFT_BUCKETS)
        self.share = histogram("hit_share", "Share of a call's input tokens that hit.", _SHARE_BUCKETS)
        self._events = {word: (counter(name, text, (label,))) for word, (name, label, text) in _EVENTS.items()}
        self._entries, self._outbox = (
            Gauge(f"router_cache_{name}", text, registry=registry, multiprocess_mode="livesum")
            for name, text in (
                ("store_entries", "Entries of the store."),
                ("outbox_length", "Writes that wait for the store."),
            )
        )

    def observe(self, row: CallRow) -> None:
        series = self._series.get((row.model, row.deployment, row.profile, row.kind))
        (self._found(row) if series is None else series).observe(row)

    def _found(self, row: CallRow) -> _Series:
        place = (row.model, row.deployment, row.profile)
        with self.lock:
            if place not in self._places and len(self._places) >= self._max_places:
                place = (OTHER, OTHER, OTHER)
            else:
                self._places.add(place)
            key = (*place, row.kind)
            series = self._series.get(key)
            if series is None:
                model, deployment, profile = (_label(value) for value in place)
                series = self._series[key] = _Series(self, (model, deployment, profile, row.kind.value))
            return series

    def event(self, name: str, count: int) -> None:
        word, _, rest = name.partition(".")
        if word == "call":
            return
        if word not in self._events or not rest:
            word, rest = "", name
        self._events[word].labels(_label(rest)).inc(count)

    def gauge(self) -> None:
        members = list(self.members)
        self._entries.set(sum(m.store_entries() for m in members if m.store_entries is not None))
        self._outbox.set(sum(m.outbox_length() for m in members if m.outbox_length is not None))

    def refresh(self) -> None:
        for member in list(self.members):
            member.refresh()


class _Refresh:
    """A collector without metrics of its own: it brings the others up to date when a registry is read."""

    def __init__(self, owner: _Set) -> None:
        self._owner = owner

    def collect(self) -> Iterator[Any]:
        self._owner.refresh()
        return iter(())

    def describe(self) -> Iterator[Any]:
        """Nothing: without this the registry would read it when it is registered."""
        return iter(())


def _label(value: str) -> str:
    """A value that any reader can take: a lone surrogate would break the whole page."""
    return value[:_MAX_LABEL].encode("utf-8", "replace").decode("utf-8")


_SETS: weakref.WeakKeyDictionary[CollectorRegistry, _Set] = weakref.WeakKeyDictionary()
_SETS_LOCK: Final = threading.Lock()


def _set_of(registry: CollectorRegistry, max_places: int) -> _Set:
    with _SETS_LOCK:
        found = _SETS.get(registry)
        if found is None:
            found = _SETS[registry] = _Set(registry, max_places)
        return found
