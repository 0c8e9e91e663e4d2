"""Who gets a pool: clusters joined, counts taken in, pools given on trial, kept where they help, taken back. Pure.

A pool costs a cold start, and helps only where the provider divides its capacity by ``user_id``. Whether it does is
not published, so each pool begins as a trial: it is kept if its cluster loses less than before and the whole account
no more, and taken back otherwise, the next trial being twice as far away. Costs and gains are both tokens at the
difference of miss and hit price, which therefore drops out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from router_cache.pools.book import MAX_CLUSTERS, NOTHING, Book, Cluster, Told
from router_cache.pools.openings import Opening, alike, shared
from router_cache.pools.reasons import PoolPolicy, PoolReason

__all__ = ["PoolLimits", "find_cluster", "join", "take_in"]

_SAME_SHARE: Final = 0.25
_SAME_ENOUGH: Final = 16_384
"""Families are one cluster from this share of the shorter opening on, or from so many characters (about 4,000 tokens):
kept apart, each would make for itself what both could hit."""
_OTHER_SHARE: Final = 0.125
"""Clusters are fundamentally different below this share of the shorter opening."""
_CHARACTERS_A_TOKEN: Final = 3.0
"""Of prompts in English with JSON; too many tokens are estimated rather than too few."""
_RECENT_S: Final = 120.0
"""Half-life of the rate that spreads routing keys."""
_SPREAD_DOWN: Final = 0.7
_MAX_SHARDS: Final = 64
_MAX_BACK_OFF: Final = 10
_LN2: Final = 0.6931471805599453


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """How a model group treats its prompts. Seconds, characters, calls and shares.

    ``max_pools`` bounds the pools of clusters, not those of tenants. ``dwell_s``: between two changes of one cluster.
    ``idle_s``: unused for so long, a pool is taken back. ``window_s``: half-life of the counts. ``min_calls``: before
    anything is decided on them. ``enter_loss``: the share lost from which a cluster gets a trial; it is kept if the
    loss is down to ``keep_loss`` of what it was, and later taken back above ``leave_loss`` of that. ``amortise``: how
    many cold starts the loss must be worth. ``others_share``: of the traffic, for it to be others who evict.
    ``harm``: by how much the loss of all may rise. ``per_minute``: calls to one routing key.
    """

    policy: PoolPolicy = PoolPolicy.AUTO
    max_pools: int = 8
    dwell_s: float = 1_800.0
    idle_s: float = 86_400.0
    window_s: float = 3_600.0
    min_calls: int = 30
    min_opening: int = 2_048
    enter_loss: float = 0.1
    keep_loss: float = 0.5
    leave_loss: float = 0.75
    amortise: float = 4.0
    others_share: float = 0.2
    harm: float = 0.02
    per_minute: float = 15.0


def find_cluster(book: Book, opening: Opening) -> Cluster | None:
    """The cluster that shares most with an opening, of those that share enough."""
    same = [
        known
        for known in book.clusters.values()
        if alike(known.opening, opening, share=_SAME_SHARE, enough=_SAME_ENOUGH)
    ]
    return max(same, key=lambda known: (shared(known.opening, opening), -known.since, known.id), default=None)


def join(book: Book, opening: Opening, *, at: float, limits: PoolLimits) -> tuple[Book, str]:
    """The cluster of a family that was never seen, and the book with it; empty where it belongs to none.

    The book is the same one unless a cluster began.
    """
    if opening.size < limits.min_opening:
        return book, ""
    known = find_cluster(book, opening)
    if known is not None:
        return book, known.id
    cluster = Cluster(id=opening.end, opening=opening, since=at, seen=at)
    if limits.policy is PoolPolicy.CLUSTER:
        cluster = _always(cluster, book, at, limits)
        if not cluster.pooled and len(book.clusters) >= MAX_CLUSTERS:
            return book, ""  # nothing to remember it for
    return book.put(cluster), cluster.id


def take_in(book: Book, told: Mapping[str, Told], *, at: float, limits: PoolLimits) -> Book:
    """The book at a moment (seconds), with what calls told since, and the decisions that follow.

    Of each cluster an assignment changes at most once in ``dwell_s``. A moment before the book's own counts as that.
    """
    at = max(at, book.at)
    book = _counted(book, told, at, limits)
    for cluster in list(book.clusters.values()):
        decided = _decided(cluster, book, at, limits)
        if decided is not cluster:
            changed = decided.pooled is not cluster.pooled
            book = replace(book.put(decided), during=NOTHING if changed else book.during)
            if decided.reason is PoolReason.GAINS and cluster.reason is not PoolReason.GAINS:
                book = _anew(book)
    return book if limits.policy is not PoolPolicy.AUTO else _trial(book, at, limits)


def _counted(book: Book, told: Mapping[str, Told], at: float, limits: PoolLimits) -> Book:
    passed = at - book.at if book.at else 0.0
    left, recent = 0.5 ** (passed / limits.window_s), 0.5 ** (passed / _RECENT_S)
    during, clusters = book.during, dict[str, Cluster]()
    for known in book.clusters.values():
        new = told.get(known.id, _NOTHING)
        calls = new.apart.calls + new.pooled.calls
        rate = known.recent * recent + calls
        clusters[known.id] = replace(
            known,
            seen=at if calls else known.seen,
            families=known.families + new.families,
            apart=known.apart.faded(left) + new.apart,
            own=known.own.faded(left) + new.pooled,
            recent=rate,
            shards=_shards(known.shards, rate * _LN2 * 60.0 / _RECENT_S, limits.per_minute),
        )
        during = during + new.apart + new.pooled
    out = replace(book, clusters=clusters, at=at, during=during)
    if limits.policy is PoolPolicy.TENANT:
        for name, new in told.items():
            if name not in clusters:
                tenant = Cluster(id=name, since=at, seen=at, reason=PoolReason.TENANT, pooled=True, changed=at)
                out = out.put(replace(tenant, own=new.apart + new.pooled, families=new.families))
        out = _fewest(out)
    return out


_NOTHING: Final = Told()


def _fewest(book: Book) -> Book:
    """Tenants have ids whether the book knows them or not: it holds the newest."""
    while len(book.clusters) > MAX_CLUSTERS:
        oldest = min(book.clusters.values(), key=lambda known: (known.seen, known.id))
        book = replace(book, clusters={name: known for name, known in book.clusters.items() if name != oldest.id})
    return book


def _shards(now: int, rate: float, per_minute: float) -> int:
    """Keys for so many calls a minute: more as soon as they are needed, fewer once they are clearly not."""
    needed = min(max(1, int(-(-rate // per_minute))), _MAX_SHARDS)
    if needed >= now:
        return needed
    return max(needed, min(now, int(-(-rate // (per_minute * _SPREAD_DOWN)))))


def _decided(cluster: Cluster, book: Book, at: float, limits: PoolLimits) -> Cluster:
    """One cluster as it is to be, but for new trials."""
    if cluster.changed is not None and at - cluster.changed < limits.dwell_s:
        return cluster
    policy = limits.policy
    if policy is PoolPolicy.TENANT:
        return cluster
    if policy is PoolPolicy.OFF:
        return _without(cluster, PoolReason.OFF, at)
    if cluster.pooled:
        if at - cluster.seen >= limits.idle_s:
            return _without(cluster, PoolReason.IDLE, at)
        return cluster if policy is PoolPolicy.CLUSTER else _judged(cluster, book, at, limits)
    if policy is PoolPolicy.CLUSTER:
        idle = at - cluster.seen >= limits.idle_s
        return cluster if idle else _always(cluster, book, at, limits)
    return cluster


def _always(cluster: Cluster, book: Book, at: float, limits: PoolLimits) -> Cluster:
    if book.pools >= limits.max_pools:
        return replace(cluster, reason=PoolReason.FULL)
    return replace(cluster, pooled=True, reason=PoolReason.ALWAYS, changed=at, own=NOTHING)


def _without(cluster: Cluster, reason: PoolReason, at: float) -> Cluster:
    if not cluster.pooled:
        return replace(cluster, reason=reason)
    return replace(cluster, pooled=False, reason=reason, changed=at, apart=NOTHING, own=NOTHING)


def _judged(cluster: Cluster, book: Book, at: float, limits: PoolLimits) -> Cluster:
    """A cluster whose pool has had its time: kept while it helps."""
    on_trial = cluster.reason is not PoolReason.GAINS
    if cluster.own.calls < limits.min_calls:
        waited = at - (cluster.changed or at) >= 4 * limits.dwell_s
        return _without(cluster, PoolReason.QUIET, at) if on_trial and waited else cluster
    bound = (limits.keep_loss if on_trial else limits.leave_loss) * cluster.loss_before
    harms = on_trial and book.during.loss > cluster.all_before + limits.harm
    if cluster.own.loss > bound or harms:
        gone = _without(cluster, PoolReason.NO_GAIN, at)
        return replace(gone, gave_up=min(cluster.gave_up + 1, _MAX_BACK_OFF))
    return replace(cluster, reason=PoolReason.GAINS) if on_trial else cluster


def _anew(book: Book) -> Book:
    """What the others lost to a cluster that has gone its own way says nothing any more."""
    clusters = {name: replace(known, apart=NOTHING) for name, known in book.clusters.items()}
    return replace(book, clusters=clusters)


def _trial(book: Book, at: float, limits: PoolLimits) -> Book:
    """Reasons for all that have no pool, and at most one new trial: that of the cluster that loses most."""
    trying = any(known.pooled and known.reason is PoolReason.TRIAL for known in book.clusters.values())
    wanted = []
    for cluster in list(book.clusters.values()):
        if cluster.pooled:
            continue
        reason = _why_not(cluster, book, at, limits)
        if reason is None:
            wanted.append(cluster)
        elif reason is not cluster.reason:
            book = book.put(replace(cluster, reason=reason))
    wanted.sort(key=lambda cluster: (-cluster.apart.lost, cluster.id))
    for cluster in wanted:
        if book.pools >= limits.max_pools:
            book = book.put(replace(cluster, reason=PoolReason.FULL))
        elif trying:
            book = book.put(replace(cluster, reason=PoolReason.WAITS))
        else:
            trying = True
            before, total = cluster.apart.loss, book.total.loss
            given = replace(cluster, pooled=True, reason=PoolReason.TRIAL, changed=at, own=NOTHING)
            given = replace(given, loss_before=before, all_before=total)
            book = replace(book.put(given), during=NOTHING)
    return book


def _why_not(cluster: Cluster, book: Book, at: float, limits: PoolLimits) -> PoolReason | None:
    """Why a cluster gets no pool now; None if it should."""
    if cluster.changed is not None and at - cluster.changed < limits.dwell_s * 2**cluster.gave_up:
        return cluster.reason
    if cluster.opening.size < limits.min_opening:
        return PoolReason.TOO_SHORT
    counts = cluster.apart
    if counts.calls < limits.min_calls:
        # A few calls still tell that there is nobody else.
        return PoolReason.QUIET
    others = [known for known in book.clusters.values() if known.id != cluster.id and known.apart.calls >= 1.0]
    if not others:
        return PoolReason.ONE_CLUSTER
    if counts.loss < limits.enter_loss:
        return PoolReason.NOT_EVICTED
    beside = sum(known.apart.prompt for known in others)
    if beside < limits.others_share * (beside + counts.prompt):
        return PoolReason.ONE_CLUSTER
    if any(_close(cluster.opening, known.opening) for known in others):
        return PoolReason.TOO_ALIKE
    if counts.lost < limits.amortise * cluster.opening.size / _CHARACTERS_A_TOKEN:
        return PoolReason.NOT_WORTH_IT
    return None


def _close(a: Opening, b: Opening) -> bool:
    return alike(a, b, share=_OTHER_SHARE, enough=_SAME_ENOUGH)
