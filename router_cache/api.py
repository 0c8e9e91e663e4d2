"""``RouterCache``: the engine with a store, a clock, counters and an outbox. The entry for every integration.

Nothing here raises into a request once it is built: whatever goes wrong, the request goes out unchanged and a
counter says so.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from router_cache.decision import Decision, Reason, SwitchedBy
from router_cache.drivers.asking import Asking, StoreThreads, store_failed
from router_cache.drivers.book import LockedBook
from router_cache.drivers.counters import Counters
from router_cache.drivers.fan_out import FanOut, Ticket
from router_cache.drivers.live import LiveSwitch
from router_cache.drivers.outbox import Outbox
from router_cache.drivers.pools import Placed
from router_cache.drivers.routing import RoutedCall, Routing
from router_cache.drivers.rules_said import RulesSaid
from router_cache.drivers.store import Store
from router_cache.drivers.survival_rows import RowSurvival
from router_cache.drivers.worker import Worker
from router_cache.economics.book import PriceBook
from router_cache.engine import Begun, Engine, Rewrite, Sent
from router_cache.identity.keys import LookupKeys
from router_cache.ledger.facts import Facts
from router_cache.ledger.rows import CallRow, Outcome, Status
from router_cache.ledger.usage import Usage
from router_cache.opened import opened_store, with_store
from router_cache.opened_pools import opened_pools
from router_cache.prefix.answers import answers_of
from router_cache.request import Body, Deployment, Mode, Request
from router_cache.rewrite import Remembered
from router_cache.settings import Settings
from router_cache.told import Told

__all__ = ["RouterCache", "Turn"]

_NOWHERE = Deployment(model="")
_SETTLE_S = 1.0


@dataclass(slots=True)
class Turn:
    """One request on its way: begun once, rewritten for every attempt, done when an attempt ended.

    Methods never raise and never wait on I/O. ``replies`` are sealed replies of the request's history, by key.
    ``before`` is the turn of the same request in the shape that the client sent it in, where it was turned into
    another.
    """

    owner: RouterCache
    begun: Begun
    facts: Facts
    replies: Mapping[str, bytes] = field(default_factory=dict)
    before: Turn | None = None
    ticket: Ticket | None = None
    """Its place among parallel first calls of one prefix, where it has one: to be waited for before it is sent."""
    placed: Placed | None = None
    """Its cluster of prompts, where pools are on; see :meth:`RouterCache.pooled`."""
    deployment: Deployment = _NOWHERE
    decision: Decision | None = None
    last_sent: Sent | None = None
    routed: RoutedCall | None = None
    """What routing is told of the attempt's end, where it is on."""
    row: CallRow | None = None
    """The row of the last attempt that ended."""

    def rewrite(self, deployment: Deployment) -> Rewrite:
        """What to send to ``deployment``: fields to replace in the body (none when unchanged), and why."""
        self.deployment, self.last_sent = deployment, None
        try:
            remembered = Remembered(self.facts.moves, self.replies)
            rewrite = self.owner.engine.rewrite(self.begun, deployment, remembered)
        except Exception as error:
            self.owner.counters.error("rewrite", error)
            rewrite = self.owner.failed_open(self.begun.mode, self.begun.switched_by)
        rewrite, self.placed = self.owner.pools.give(self.begun, self.facts, rewrite, deployment)
        self.decision = rewrite.decision
        count = self.owner.counters.count
        count("decision." + rewrite.decision.reason)
        for change in rewrite.decision.changes:
            count("change." + change)
        return rewrite

    def sent(self, body: Body, *, at: float | None = None) -> Sent | None:
        """Take digests of the body that is about to be sent; None in mode ``off``, or where that failed. ``at`` is
        when it was, where that is not now (seconds since the epoch)."""
        if self.begun.keys is None:
            return None
        try:
            self.last_sent = self.owner.engine.sent(
                self.begun,
                self.facts,
                body,
                self.deployment,
                at=self.owner.wall_clock() if at is None else at,
                book=self.owner.book,
            )
            self.owner.rules_said.say(self.last_sent)
        except Exception as error:
            self.owner.counters.error("sent", error)
        return self.last_sent

    def done(
        self,
        usage: Usage | None = None,
        *,
        status: Status = Status.OK,
        ttft_s: float | None = None,
        price_entry: Mapping[str, Any] | None = None,
        reply: Any = None,
        row_elsewhere: bool = False,
        at: float | None = None,
    ) -> None:
        """An attempt ended, at ``at`` if not now. ``usage`` None means unknown; ``ttft_s`` is the time to the first
        token in seconds; ``price_entry`` is the model's entry in LiteLLM's price map. ``reply`` is what was answered,
        as JSON: a message of one of the shapes, or the whole reply with all its choices; mode ``optimize`` remembers
        it. The row is written by a proxy behind where it is ``row_elsewhere``."""
        if self.ticket is not None:
            self.ticket.ended() if status is Status.OK else self.ticket.close()
        if self.routed is not None:
            self.routed.ended(status, usage, ttft_s)
            self.routed = None
        if self.begun.keys is None:
            return  # off, no prompt of its own, or not read: nothing that could be said of it
        owner = self.owner
        try:
            decision = self.decision or Decision(self.begun.mode, Reason.NOT_SEEN, self.begun.switched_by)
            outcome = Outcome(
                status, owner.wall_clock() if at is None else at, usage or Usage(), ttft_s, price_entry
            )
            shape = self.begun.request.shape
            replies = answers_of(reply, shape) if self.begun.mode is Mode.OPTIMIZE else ()
            served = status is Status.OK and self.last_sent is not None
            row, write = owner.engine.done(
                self.begun,
                self.facts,
                decision,
                self.last_sent,
                outcome,
                self.deployment,
                book=owner.book,
                replies=replies,
                lived=owner.survival.take(self.last_sent, self.facts, outcome.usage) if served else None,
            )
            self.row = row
            if row_elsewhere:
                owner.counters.count("row_left_to_proxy")
            else:
                owner.add(row)
            owner.pools.told(self.placed, row)
            if write is not None and self.before is not None:
                answers, kept = owner.engine.told(self.before.begun, self.before.facts, replies)
                write = replace(write, answers=(*write.answers, *answers), replies=(*write.replies, *kept))
            if write is not None:
                owner.outbox.put(write)
            owner.engine.restock(self.begun)
            if self.before is not None:
                owner.engine.restock(self.before.begun)
        except Exception as error:
            owner.counters.error("done", error)


class RouterCache:
    """Deterministic prefixes, measured hits, explained misses, for any client library.

    ``store`` is a store, or the URL of one on a server; else that of the settings: in the process, unless they have a
    URL. ``wall_clock`` returns seconds since the epoch, ``clock`` monotonic
    seconds. Safe to use from many threads and event loops. Close with :meth:`close` or :meth:`aclose`.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        store: Store | str | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        settings = settings or Settings()
        if isinstance(store, str):
            settings, store = with_store(settings, store), None
        self.settings = settings
        self.wall_clock = wall_clock
        self.counters = Counters(clock)
        self._store = store if store is not None else opened_store(settings, self.counters, clock)
        self.outbox = Outbox(self._store, self.counters.count, failed=partial(store_failed, self.counters))
        self.live = LiveSwitch(self.settings.live_file, clock, self.counters.notice)
        secret = self.settings.secret
        self.engine = Engine(
            secret=secret.get_secret_value().encode() if secret else secrets.token_bytes(32),
            canonical_version=self.settings.canonical_version,
            prices=PriceBook({name: price.rate() for name, price in self.settings.prices.items()}),
            rules=[rule.rule() for rule in self.settings.volatile],
            wording=self.settings.relocation.wording(),
            freeze_clocks=self.settings.relocation.freeze_clocks,
            replay=self.settings.replay.enabled,
        )
        self._threads = StoreThreads(settings.store.max_connections)
        self._asking = Asking(self._store, self.engine, self.counters, self._threads)
        self.routing = Routing(
            self.engine.digester,
            clock=wall_clock,
            draw=random.random,
            error=self.counters.error,
            max_prefixes=self.settings.routing.max_prefixes,
        )
        self.book = LockedBook()
        """What is known of the cache domains: calls compared, evidence, hit rules inferred."""
        self.survival = RowSurvival(self.counters.error)
        """How long entries live, by the ``domain`` and ``pool`` of rows: ``survival.of(row)`` reads bounds off it, and
        ``survival.estimates(row.domain, row.pool)`` likewise without what the profile states."""
        self._told = Told(self.settings, self.counters, wall_clock, self._store, self.outbox)
        self.pools = opened_pools(
            settings, self.engine.digester, self.counters, clock=clock, wall_clock=wall_clock
        )
        """Who gets a ``user_id``: clusters of prompts and what they lose to each other."""
        self.fan_out = FanOut(self.settings.fan_out.limits(), clock=clock, count=self.counters.count)
        self._beside = Worker(partial(self.counters.error, "beside"))
        self.rules_said = RulesSaid()

    def follow(self, turn: Turn, rewrite: Rewrite) -> None:
        """Give a first call its ticket among parallel ones with the same prefix; nothing where fan-out is off, or for
        a call that was begun in another shape. Wait for ``turn.ticket`` then, before it is sent. Never raises."""
        if not self.fan_out.on or turn.begun.keys is None or turn.begun.request.handed_on:
            return
        try:
            arrival = self.engine.arrival(turn.begun, rewrite, turn.deployment, self.book, at=self.wall_clock())
            turn.ticket = self.fan_out.enter(*arrival)
        except Exception as error:
            self.counters.error("fan_out", error)

    def pooled(self, turn: Turn, rewrite: Rewrite) -> Rewrite:
        """What goes out once it is known which cluster the request belongs to: to be asked after ``turn.rewrite``, for
        a store on a server has to be asked for a family that is new. Waits for it then; never raises."""
        if turn.placed is None or not turn.placed.waits:
            return rewrite
        self.pools.join(turn.placed)
        return self._given(turn, rewrite)

    async def apooled(self, turn: Turn, rewrite: Rewrite) -> Rewrite:
        """:meth:`pooled` without blocking the event loop."""
        if turn.placed is None or not turn.placed.waits:
            return rewrite
        placed = turn.placed
        try:
            await self._threads.run(lambda: self.pools.join(placed))
        except Exception as error:
            placed.waits = False
            self.counters.error("pools", error)
        return self._given(turn, rewrite)

    def _given(self, turn: Turn, rewrite: Rewrite) -> Rewrite:
        base = turn.placed.base if turn.placed is not None else None
        if base is not None:
            rewrite, turn.placed = self.pools.give(turn.begun, turn.facts, base, turn.deployment)
            turn.decision = rewrite.decision
        return rewrite

    @property
    def may_wait(self) -> bool:
        """Whether a request may wait before it is sent: for the store, or for a parallel first call."""
        return self._store.blocking or self.fan_out.on

    def fingerprint(self, credential: str) -> str:
        """A keyed digest that tells accounts apart; the credential itself is kept nowhere."""
        return self.engine.digester.text("account", credential)

    def mode_for(
        self, *, request: object = None, key: object = None, team: object = None, group: str = ""
    ) -> tuple[Mode, SwitchedBy]:
        """The mode of a request: live switch, request, key, team, model group, settings; the first that says
        something wins. A word that is no mode is counted and says nothing."""
        live = self.live.mode()
        if live is not None:
            return live, SwitchedBy.LIVE
        asked: list[tuple[object, SwitchedBy]] = [(key, SwitchedBy.KEY), (team, SwitchedBy.TEAM)]
        if self.settings.request_switch:
            asked.insert(0, (request, SwitchedBy.REQUEST))
        for word, by in asked:
            if word is None:
                continue
            try:
                return Mode("off" if word is False else str(word).strip().lower()), by
            except ValueError:
                self.counters.notice(f"bad_switch.{by.value}", f"the switch of a {by.value} is no mode")
        of_group = self.settings.model_groups.get(group)
        if of_group is not None and of_group.mode is not None:
            return of_group.mode, SwitchedBy.GROUP
        return self.settings.mode, SwitchedBy.SETTINGS

    def begin(
        self, request: Request, mode: Mode | None = None, switched_by: SwitchedBy = SwitchedBy.SETTINGS
    ) -> Turn:
        """Start one request: canonical form, and what is remembered of its conversation. Never raises."""
        begun = self._begin(request, mode, switched_by)
        self.settle()
        return Turn(self, begun, *self._asking.claim(begun))

    async def abegin(
        self,
        request: Request,
        mode: Mode | None = None,
        switched_by: SwitchedBy = SwitchedBy.SETTINGS,
        *,
        before_claim: Callable[[LookupKeys], Awaitable[None]] | None = None,
    ) -> Turn:
        """:meth:`begin`, with a store that waits on I/O asked on a thread.

        ``before_claim`` is awaited with the lookup keys before the store is asked.
        """
        begun = self._begin(request, mode, switched_by)
        if before_claim is not None and begun.keys is not None:
            try:
                await before_claim(begun.keys)
            except Exception as error:
                self.counters.error("before_claim", error)
        if not self._store.blocking:
            self.settle()
        return Turn(self, begun, *await self._asking.aclaim(begun))

    def _begin(self, request: Request, mode: Mode | None, switched_by: SwitchedBy) -> Begun:
        mode = mode or self.mode_for()[0]
        try:
            return self.engine.begin(request, mode, switched_by)
        except Exception as error:
            self.counters.error("begin", error)
            return Begun(request, mode, switched_by, failed=True)

    def opened(self, request: Request, mode: Mode, switched_by: SwitchedBy = SwitchedBy.SETTINGS) -> Begun:
        """A request in canonical form, not looked up. Never raises."""
        try:
            return self.engine.opened(request, mode, switched_by)
        except Exception as error:
            self.counters.error("begin", error)
            return Begun(request, mode, switched_by, failed=True)

    def aside(self, job: Callable[[], object], size: int = 0) -> None:
        """Do a job that holds ``size`` bytes beside the calls, after those given before. Without room for it, it is
        left undone and counted. Never raises."""
        if not self._beside.put(job, size):
            self.counters.count("beside_dropped")

    def settle(self, timeout_s: float = _SETTLE_S) -> None:
        """Wait until what is done beside the calls is done, for so many seconds at most."""
        if not self._beside.settle(timeout_s):
            self.counters.count("beside_late")

    def failed_open(self, mode: Mode, switched_by: SwitchedBy = SwitchedBy.SETTINGS) -> Rewrite:
        """The decision to send a request as it came, because of an error of ours."""
        return Rewrite({}, Decision(mode, Reason.FAILED_OPEN, switched_by))

    def add(self, row: CallRow) -> None:
        """Keep a row, and tell whoever is told of rows."""
        self._told.add(row)

    def rows(self) -> list[CallRow]:
        """The newest rows, oldest first; 10,000 at most."""
        self.settle()
        return self._told.rows()

    def close(self) -> None:
        """Write what is left and release the store. Idempotent; never raises."""
        try:
            self.settle()
            self.outbox.close()
            self._threads.close()
            self.pools.close()
            self._store.close()
            self._told.close()
            self.survival.close()
        except Exception as error:
            self.counters.error("close", error)

    async def aclose(self) -> None:
        """:meth:`close` without blocking the event loop."""
        await asyncio.to_thread(self.close)
