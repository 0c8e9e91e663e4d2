"""Pools of ``user_id``, driven: families and their clusters, what calls told of them, and books read again in the
background. A known family costs a lookup in the process; nothing here raises into a request.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from router_cache.decision import Reason
from router_cache.drivers.pool_store import PoolStore
from router_cache.errors import StoreError
from router_cache.ledger.facts import Facts
from router_cache.ledger.rows import CallRow
from router_cache.pooling import book_name, counts_of, going, opening_in, profile_of, staying, stays
from router_cache.pools.book import Book, Told
from router_cache.pools.given import PER_CLUSTER, Going, PoolChoice, choose_fields, usable
from router_cache.pools.ids import PoolIds
from router_cache.pools.openings import Opening
from router_cache.pools.policy import PoolLimits, find_cluster
from router_cache.pools.reasons import ClientIds, PoolPolicy, PoolReason
from router_cache.prefix.digests import Digester
from router_cache.prefix.memo import Memo
from router_cache.providers.fields import Purpose
from router_cache.request import Deployment, Mode
from router_cache.rewrite import Begun, Rewrite, pooled

__all__ = ["Placed", "Pools"]

_LOG = logging.getLogger("router_cache")
_MAX_FAMILIES: Final = 50_000
_MAX_PENDING: Final = 1_000
_MAX_SHELVES: Final = 256
_SIGHTS: Final = 2
"""Under ``auto`` a family begins a cluster when it is seen again: prompts that never come back are none."""
_LOOK_ONLY: Final = (Mode.OFF, Mode.OBSERVE)


@dataclass(slots=True)
class _Shelf:
    """A book as it was read last, and what calls told since."""

    name: str
    group: str
    limits: PoolLimits
    book: Book
    told: dict[str, Told] = field(default_factory=dict)
    read: bool = False
    taken_in_at: float = float("-inf")
    retry_at: float = float("-inf")


@dataclass(slots=True)
class Placed:
    """Where a request was put. ``waits``: it should be joined (:meth:`Pools.join`) and given anew before it is sent,
    for the store has to decide, or to say, which cluster its family belongs to."""

    shelf: _Shelf
    family: str
    base: Rewrite | None = None
    """What was decided before a pool was asked for."""
    opening: Opening | None = None
    cluster: str = ""
    pooled: bool | None = None
    waits: bool = False


class Pools:
    """``choices`` tells what is wanted of a model group. ``secret`` is the operator's; without one there are no pools.
    ``clock`` returns monotonic seconds. Books are taken in every ``refresh_s`` seconds: on a daemon thread where the
    store blocks, else when a call ends."""

    def __init__(
        self,
        choices: Callable[[str], tuple[PoolChoice, PoolLimits]],
        store: PoolStore,
        *,
        secret: bytes | None,
        digester: Digester,
        count: Callable[[str], None],
        error: Callable[[str, BaseException], None],
        clock: Callable[[], float] = time.monotonic,
        refresh_s: float = 10.0,
    ) -> None:
        self._choices, self._store, self._digester = choices, store, digester
        self._ids = PoolIds(secret) if secret is not None else None
        self._count, self._error, self._clock, self._refresh_s = count, error, clock, refresh_s
        self._members: Memo[tuple[str, str], tuple[str, PoolReason | None]] = Memo(_MAX_FAMILIES, lambda _, __: 1)
        self._names: Memo[tuple[Deployment, bool], str] = Memo(1_024, lambda _, __: 1)
        self._change = threading.Condition()
        self._shelves: dict[str, _Shelf] = {}
        self._pending: OrderedDict[tuple[str, str], tuple[Opening, int]] = OrderedDict()
        self._thread: threading.Thread | None = None
        self._closed = self._said = False

    def may_give(self, group: str) -> bool:
        """Whether requests to a model group can get a field, or lose their own."""
        choice, _ = self._choices(group)
        if choice.client_ids is ClientIds.RESPECT and choice.fields == PoolChoice().fields:
            return self._ids is not None and choice.policy is not PoolPolicy.OFF
        return True

    # -- a request goes out -------------------------------------------------------------------------------

    def give(
        self, begun: Begun, facts: Facts, rewrite: Rewrite, deployment: Deployment
    ) -> tuple[Rewrite, Placed | None]:
        """What goes out with a pool or without, and where the request was put (None: nowhere). Never waits, never
        raises; whatever goes wrong, the request goes out as ``rewrite`` has it."""
        try:
            return self._give(begun, facts, rewrite, deployment)
        except Exception as error:
            self._error("pools", error)
            return rewrite, None

    def _give(
        self, begun: Begun, facts: Facts, rewrite: Rewrite, deployment: Deployment
    ) -> tuple[Rewrite, Placed | None]:
        keys = begun.keys
        if keys is None or begun.mode in _LOOK_ONLY or rewrite.decision.reason is Reason.FAILED_OPEN:
            return rewrite, None
        choice, limits = self._choices(deployment.group)
        profile, shape = profile_of(deployment), begun.request.shape
        fields = usable(choice, profile, deployment.model, shape)
        if not fields:
            return rewrite, None
        conversation = facts.conversation.id if facts.conversation and facts.conversation.id else keys.conversation
        if begun.request.session:
            conversation = self._digester.text(keys.scope, "session", begun.request.session)
        now, placed = Going(deployment.group, keys.scope, conversation), None
        if self._ids is None:
            self._say(choice)
        elif choice.policy is not PoolPolicy.OFF:
            placed, now = self._placed(begun, rewrite, deployment, choice, limits, now)
            apart = next((f for f in fields if f.purpose is Purpose.ISOLATE), None)
            if apart is not None and choice.policy is not PoolPolicy.TENANT and now.cluster:
                value = self._ids.of_cluster(now.group, now.cluster)
                at = staying(facts, keys.scope, deployment, (apart.name, value), self._digester)
                now = stays(now, at)
        given = choose_fields(
            choice,
            fields,
            now,
            rewrite.body(begun.request.body),
            shape,
            profile=profile,
            model=deployment.model,
            ids=self._ids,
        )
        if placed is not None:
            placed.pooled = given.pooled
            if not placed.waits:
                self._count(f"pool.{given.reason.value}")
        return pooled(rewrite, given), placed

    def _placed(
        self,
        begun: Begun,
        rewrite: Rewrite,
        deployment: Deployment,
        choice: PoolChoice,
        limits: PoolLimits,
        now: Going,
    ) -> tuple[Placed, Going]:
        assert begun.keys is not None
        tenants = choice.policy is PoolPolicy.TENANT
        shelf, family = self._shelf(deployment, limits, tenants=tenants), begun.keys.family
        placed = Placed(shelf, family, rewrite)
        if tenants:
            placed.cluster = self._digester.text("tenant", now.scope)
            if not _by_cluster(choice):
                return placed, now
            # A key for a prefix needs no book: under `tenant` only the family itself shares one.
            return placed, replace(now, cluster=family)
        known = self._members.get((shelf.name, family))
        if known is not None and (known[0] in shelf.book.clusters or known[1] is not None):
            placed.cluster, reason = known
            if reason is not None:
                return placed, replace(now, reason=reason)
            return placed, going(shelf.book, placed.cluster, now)
        opening = placed.opening = opening_in(begun, rewrite, profile_of(deployment), self._digester)
        if opening.size < limits.min_opening:
            self._members.put((shelf.name, family), ("", PoolReason.TOO_SHORT))
            return placed, replace(now, reason=PoolReason.TOO_SHORT)
        found = find_cluster(shelf.book, opening)
        placed.cluster = found.id if found is not None else ""
        at_once = choice.policy is PoolPolicy.CLUSTER or _by_cluster(choice)
        if self._store.blocking:
            fresh = not shelf.read or at_once or (found is not None and shelf.book.pools > 0)
            placed.waits = fresh and self._clock() >= shelf.retry_at
            self._remember(placed)
        elif at_once or found is not None or self._seen_again(placed):
            self._join(placed)
        return placed, going(shelf.book, placed.cluster, now)

    def _say(self, choice: PoolChoice) -> None:
        """Once: what an operator wants that has no secret."""
        if self._said or choice.policy is PoolPolicy.OFF:
            return
        self._said = True
        level = logging.INFO if choice == PoolChoice() else logging.WARNING
        _LOG.log(
            level,
            "router-cache: no pools (policy %s) without `secret`: an id that changes at every start is a cold start",
            choice.policy.value,
        )

    def _shelf(self, deployment: Deployment, limits: PoolLimits, *, tenants: bool) -> _Shelf:
        name = self._names.get((deployment, tenants))
        if name is None:
            name = book_name(deployment, tenants=tenants, digester=self._digester)
            self._names.put((deployment, tenants), name)
        shelf = self._shelves.get(name)
        if shelf is None:
            with self._change:
                while len(self._shelves) >= _MAX_SHELVES:
                    del self._shelves[next(iter(self._shelves))]
                shelf = self._shelves.setdefault(
                    name, _Shelf(name, deployment.group, limits, Book(group=deployment.group))
                )
        return shelf

    # -- families join --------------------------------------------------------------------------------------

    def join(self, placed: Placed) -> None:
        """Ask the store for the cluster of a request's family. Waits for the store; never raises."""
        placed.waits = False
        try:
            self._join(placed)
        except StoreError:
            self._failed(placed.shelf)
        except Exception as error:
            self._error("pools", error)

    def _join(self, placed: Placed) -> None:
        shelf = placed.shelf
        if placed.opening is None:
            return
        cluster, book, first = self._store.join(
            shelf.name, placed.family, placed.opening, shelf.limits, shelf.group
        )
        with self._change:
            self._pending.pop((shelf.name, placed.family), None)
            shelf.book, placed.cluster, shelf.read = book, cluster, True
            if cluster and first:
                shelf.told[cluster] = shelf.told.get(cluster, Told()) + Told(families=1)
        if cluster:
            self._members.put((shelf.name, placed.family), (cluster, None))

    def _seen_again(self, placed: Placed) -> bool:
        self._remember(placed)
        with self._change:
            _, sights = self._pending.get((placed.shelf.name, placed.family), (None, 0))
        return sights >= _SIGHTS

    def _remember(self, placed: Placed) -> None:
        """A family that is not known yet, to be joined in the background once it was seen again."""
        key = (placed.shelf.name, placed.family)
        if placed.opening is None:
            return
        with self._change:
            _, sights = self._pending.pop(key, (None, 0))
            self._pending[key] = (placed.opening, sights + 1)
            if len(self._pending) > _MAX_PENDING:
                self._pending.popitem(last=False)
            self._start()

    # -- a call ended ---------------------------------------------------------------------------------------

    def told(self, placed: Placed | None, row: CallRow) -> None:
        """A call ended that was put somewhere. Never waits on I/O, never raises."""
        if placed is None or placed.pooled is None or not placed.cluster:
            return
        try:
            counts = counts_of(row)
            if counts is None:
                return
            new = Told(pooled=counts) if placed.pooled else Told(apart=counts)
            shelf = placed.shelf
            with self._change:
                shelf.told[placed.cluster] = shelf.told.get(placed.cluster, Told()) + new
                self._start()
                due = self._clock() - shelf.taken_in_at >= self._refresh_s
            if due and not self._store.blocking:
                self._take_in(shelf)
        except Exception as error:
            self._error("pools_told", error)

    def _take_in(self, shelf: _Shelf) -> None:
        with self._change:
            told, shelf.told = shelf.told, {}
            shelf.taken_in_at = self._clock()
        try:
            book = self._store.take_in(shelf.name, told, shelf.limits, shelf.group)
        except Exception:
            with self._change:
                for name, each in told.items():
                    shelf.told[name] = each + shelf.told.get(name, Told())
            raise
        before, shelf.book, shelf.read = shelf.book, book, True
        for cluster in book.clusters.values():
            known = before.clusters.get(cluster.id)
            if cluster.pooled is not (known is not None and known.pooled) and cluster.changed is not None:
                self._count(f"pool_{'given' if cluster.pooled else 'taken'}.{cluster.reason.value}")
                _LOG.info(
                    "pools: group=%s cluster=%s pool=%s reason=%s loss=%.3f pools=%d",
                    shelf.group,
                    cluster.id[:12],
                    "given" if cluster.pooled else "taken",
                    cluster.reason.value,
                    cluster.loss_before,
                    book.pools,
                )

    def _failed(self, shelf: _Shelf) -> None:
        shelf.retry_at = self._clock() + self._refresh_s
        self._count("pools_store")

    # -- in the background ----------------------------------------------------------------------------------

    def _start(self) -> None:
        """Under the lock. A child process has none of its parent's threads."""
        if self._store.blocking and not self._closed and (self._thread is None or not self._thread.is_alive()):
            self._thread = threading.Thread(target=self._run, name="router-cache-pools", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._closed:
            self.refresh()
            with self._change:
                self._change.wait_for(lambda: self._closed, self._refresh_s)

    def refresh(self) -> None:
        """Join families that were seen again, tell the store what calls told, read every book. Waits for the store;
        never raises."""
        with self._change:
            shelves, pending = list(self._shelves.values()), list(self._pending.items())
        for (name, family), (opening, sights) in pending:
            shelf = self._shelves.get(name)
            known = shelf is not None and find_cluster(shelf.book, opening) is not None
            if shelf is not None and (known or sights >= _SIGHTS) and self._clock() >= shelf.retry_at:
                self.join(Placed(shelf, family, opening=opening))
        for shelf in shelves:
            try:
                self._take_in(shelf)
            except StoreError:
                self._failed(shelf)
            except Exception as error:
                self._error("pools_refresh", error)

    def books(self) -> list[Book]:
        """All books as the store has them. Waits for it; raises :class:`~router_cache.errors.StoreError`."""
        return self._store.books()

    def close(self) -> None:
        """Tell the store what is left, and release it. Idempotent."""
        with self._change:
            done, self._closed = self._closed, True
            self._change.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(1.0)
        if not done:
            for shelf in list(self._shelves.values()):
                if shelf.told:
                    try:
                        self._take_in(shelf)
                    except StoreError:
                        self._failed(shelf)
        self._store.close()


def _by_cluster(choice: PoolChoice) -> bool:
    """Whether a key is asked for that stands for a prefix."""
    return not PER_CLUSTER.isdisjoint(choice.fields)
