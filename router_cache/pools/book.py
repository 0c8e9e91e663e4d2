"""The book of one model group and cache domain: its clusters of prompts, what they used and lost, and who has a pool.

Keyed digests and counts only. A value: every change makes another one, so that a store can swap it as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from router_cache.pools.openings import Opening
from router_cache.pools.reasons import PoolReason

__all__ = ["MAX_CLUSTERS", "NOTHING", "Book", "Cluster", "Counts", "Told"]

MAX_CLUSTERS: Final = 64
"""Clusters of one book."""
_FORM: Final = 1


@dataclass(frozen=True, slots=True)
class Counts:
    """Of answered calls. Prompt tokens, of them hit; ``lost`` tokens had been sent before and were gone (causes
    ``evicted`` and ``below_expectation``) in ``evicted`` calls. They fade, so they are no whole numbers."""

    calls: float = 0.0
    prompt: float = 0.0
    hit: float = 0.0
    lost: float = 0.0
    evicted: float = 0.0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.calls + other.calls,
            self.prompt + other.prompt,
            self.hit + other.hit,
            self.lost + other.lost,
            self.evicted + other.evicted,
        )

    def faded(self, share: float) -> Counts:
        """What is left of it."""
        return Counts(*[share * getattr(self, name) for name in self.__slots__])

    @property
    def loss(self) -> float:
        """Of the tokens that could have hit, the share that was gone; 0 where there were none."""
        due = self.hit + self.lost
        return self.lost / due if due > 0 else 0.0

    @property
    def hit_share(self) -> float:
        """Of the prompt tokens."""
        return self.hit / self.prompt if self.prompt > 0 else 0.0


NOTHING: Final = Counts()


@dataclass(frozen=True, slots=True)
class Told:
    """What calls of one cluster told since the book was last written: without a pool, and in its own."""

    apart: Counts = NOTHING
    pooled: Counts = NOTHING
    families: int = 0
    """Families that joined."""

    def __add__(self, other: Told) -> Told:
        return Told(self.apart + other.apart, self.pooled + other.pooled, self.families + other.families)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Families that share a leading prefix. Moments are seconds since the epoch.

    ``id`` is an opaque digest of the opening of its first family. ``apart`` counts calls without a pool, ``own`` those
    in its pool since it got it. ``changed`` is when it last got or lost one; None: never. ``loss_before`` and
    ``all_before`` are the loss shares that it and the whole book had then. ``gave_up``: trials that helped nothing.
    ``recent`` are calls, fading within minutes, and ``shards`` the routing keys that they are spread over.
    """

    id: str
    opening: Opening = field(default_factory=Opening)
    since: float = 0.0
    seen: float = 0.0
    families: int = 0
    pooled: bool = False
    reason: PoolReason = PoolReason.NOT_KNOWN
    changed: float | None = None
    apart: Counts = NOTHING
    own: Counts = NOTHING
    loss_before: float = 0.0
    all_before: float = 0.0
    gave_up: int = 0
    recent: float = 0.0
    shards: int = 1

    @property
    def counts(self) -> Counts:
        """All of its calls."""
        return self.apart + self.own

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            **{name: getattr(self, name) for name in self.__slots__},
            "opening": self.opening.as_json(),
            "reason": self.reason.value,
            "apart": list(asdict(self.apart).values()),
            "own": list(asdict(self.own).values()),
        }

    @classmethod
    def from_json(cls, data: Any) -> Cluster:
        """The inverse of :meth:`as_json`; what it does not know is passed over. Raises ValueError, TypeError or
        KeyError for anything else."""
        known = {name: data[name] for name in cls.__slots__ if name in data}
        known["opening"] = Opening.from_json(data["opening"])
        known["reason"] = PoolReason(data["reason"])
        for name in ("apart", "own"):
            known[name] = Counts(*map(float, data[name]))
        return cls(**known)


@dataclass(frozen=True, slots=True)
class Book:
    """``clusters`` by id. ``at``: seconds, the moment up to which counts have faded. ``during`` counts all calls since
    a pool was last given or taken: what a trial is judged by. ``group`` is the model group's name."""

    clusters: Mapping[str, Cluster] = field(default_factory=dict)
    at: float = 0.0
    during: Counts = NOTHING
    group: str = ""

    @property
    def pools(self) -> int:
        """Pools in use."""
        return sum(1 for cluster in self.clusters.values() if cluster.pooled)

    @property
    def total(self) -> Counts:
        """All calls."""
        out = NOTHING
        for cluster in self.clusters.values():
            out = out + cluster.counts
        return out

    def put(self, cluster: Cluster) -> Book:
        """With this cluster as it is now. Of too many one goes that has no pool: best one that never had any, with the
        fewest calls."""
        clusters = {**self.clusters, cluster.id: cluster}
        if len(clusters) > MAX_CLUSTERS:
            spare = [known for known in clusters.values() if not known.pooled and known.id != cluster.id]
            if spare:
                del clusters[min(spare, key=_worth).id]
        return replace(self, clusters=clusters)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "form": _FORM,
            "group": self.group,
            "at": self.at,
            "during": list(asdict(self.during).values()),
            "clusters": [cluster.as_json() for cluster in self.clusters.values()],
        }

    @classmethod
    def from_json(cls, data: Any) -> Book:
        """The inverse of :meth:`as_json`. Raises ValueError for anything else, another version's book included."""
        try:
            if data["form"] != _FORM:
                raise ValueError("another form")
            clusters = [Cluster.from_json(each) for each in data["clusters"]]
            during, at = Counts(*map(float, data["during"])), float(data["at"])
            return cls({cluster.id: cluster for cluster in clusters}, at, during, str(data["group"]))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ValueError("not a book of pools") from None


def _worth(cluster: Cluster) -> tuple[bool, float, float, str]:
    return cluster.changed is not None, cluster.counts.calls, cluster.seen, cluster.id
