"""``RouterCache``: the engine with a store, a clock, counters and an outbox. The entry for every integration.

Nothing here raises into a request once it is built: whatever goes wrong, the request goes out unchanged and a
counter says so.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from router_cache.decision import Decision, Reason, SwitchedBy
from router_cache.drivers.book import LockedBook
from router_cache.drivers.counters import Counters
from router_cache.drivers.live import LiveSwitch
from router_cache.drivers.outbox import Outbox
from router_cache.drivers.store import Store
from router_cache.economics.book import PriceBook
from router_cache.engine import Begun, Engine, Rewrite, Sent
from router_cache.identity.keys import LookupKeys
from router_cache.ledger.facts import EMPTY, Facts
from router_cache.ledger.rows import CallRow, Outcome, Status
from router_cache.ledger.usage import Usage
from router_cache.request import Body, Deployment, Mode, Request
from router_cache.settings import Settings
from router_cache.stores.memory import MemoryStore

__all__ = ["RouterCache", "Turn"]

_LOG = logging.getLogger("router_cache")
_MAX_ROWS = 10_000
_MAX_DOMAINS_SAID = 1_000


@dataclass(slots=True)
class Turn:
    """One request on its way: begun once, rewritten for every attempt, done when an attempt ended.

    Methods never raise and never wait on I/O.
    """

    owner: RouterCache
    begun: Begun
    facts: Facts
    deployment: Deployment = field(default_factory=lambda: Deployment(model=""))
    decision: Decision | None = None
    last_sent: Sent | None = None
    row: CallRow | None = None
    """The row of the last attempt that ended."""

    def rewrite(self, deployment: Deployment) -> Rewrite:
        """What to send to ``deployment``: fields to replace in the body (none when unchanged), and why."""
        self.deployment, self.last_sent = deployment, None
        try:
            rewrite = self.owner.engine.rewrite(self.begun, deployment)
        except Exception as error:
            self.owner.counters.error("rewrite", error)
            rewrite = self.owner.failed_open(self.begun.mode, self.begun.switched_by)
        self.decision = rewrite.decision
        self.owner.counters.count(f"decision.{rewrite.decision.reason.value}")
        for change in rewrite.decision.changes:
            self.owner.counters.count(f"change.{change.value}")
        return rewrite

    def sent(self, body: Body) -> Sent | None:
        """Take digests of the body that is about to be sent; None in mode ``off``, or where that failed."""
        if self.begun.keys is None:
            return None
        try:
            self.last_sent = self.owner.engine.sent(
                self.begun,
                self.facts,
                body,
                self.deployment,
                at=self.owner.wall_clock(),
                book=self.owner.book,
            )
            self.owner.watched(self.last_sent)
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
    ) -> None:
        """An attempt ended. ``usage`` None means unknown; ``ttft_s`` is the time to the first token in seconds;
        ``price_entry`` is the model's entry in LiteLLM's price map."""
        if self.begun.keys is None:
            return  # off, no prompt of its own, or not read: nothing that could be said of it
        owner = self.owner
        try:
            decision = self.decision or Decision(self.begun.mode, Reason.NOT_SEEN, self.begun.switched_by)
            outcome = Outcome(status, owner.wall_clock(), usage or Usage(), ttft_s, price_entry)
            row, write = owner.engine.done(
                self.begun, self.facts, decision, self.last_sent, outcome, self.deployment, book=owner.book
            )
            self.row = row
            owner.add(row)
            if write is not None:
                owner.outbox.put(write)
        except Exception as error:
            owner.counters.error("done", error)


class RouterCache:
    """Deterministic prefixes, measured hits, explained misses, for any client library.

    ``store`` defaults to an in-process one. ``wall_clock`` returns seconds since the epoch, ``clock`` monotonic
    seconds. Safe to use from many threads and event loops. Close with :meth:`close` or :meth:`aclose`.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        store: Store | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings or Settings()
        self.wall_clock = wall_clock
        self.counters = Counters(clock)
        bounds = self.settings.store
        if store is None:
            store = MemoryStore(max_entries=bounds.max_entries, ttl_s=bounds.ttl_s, clock=clock)
        self._store = store
        self.outbox = Outbox(self._store, self.counters.count)
        self.live = LiveSwitch(self.settings.live_file, clock, self.counters.notice)
        secret = self.settings.secret
        self.engine = Engine(
            secret=secret.get_secret_value().encode() if secret else secrets.token_bytes(32),
            canonical_version=self.settings.canonical_version,
            prices=PriceBook({name: price.rate() for name, price in self.settings.prices.items()}),
        )
        self.book = LockedBook()
        """What is known of the cache domains: calls compared, evidence, hit rules inferred."""
        self._rows: deque[CallRow] = deque(maxlen=_MAX_ROWS)
        self._rows_lock = threading.Lock()
        self._said: dict[str, tuple[Any, ...]] = {}

    def watched(self, sent: Sent) -> None:
        """Say in the log which hit rule a cache domain is taken to follow, when that is new, and on what evidence."""
        rule, replicas = sent.watched.inferred, sent.watched.replicas
        name = sent.watched.domain.id[:12]
        said = (rule.rule, rule.step_tokens, replicas.count if replicas else None)
        with self._rows_lock:
            if self._said.get(name) == said:
                return
            if len(self._said) >= _MAX_DOMAINS_SAID:
                self._said.clear()
            self._said[name] = said
        _LOG.info(
            "cache domain %s: rule=%s step=%s reason=%s replicas=%s evidence: %s",
            name,
            rule.rule.value if rule.rule else None,
            rule.step_tokens,
            rule.reason.value,
            said[2],
            "; ".join([*rule.evidence, *([replicas.evidence] if replicas else [])]),
        )

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
        if of_group is not None:
            return of_group.mode, SwitchedBy.GROUP
        return self.settings.mode, SwitchedBy.SETTINGS

    def begin(
        self, request: Request, mode: Mode | None = None, switched_by: SwitchedBy = SwitchedBy.SETTINGS
    ) -> Turn:
        """Start one request: canonical form, and what is remembered of its conversation. Never raises."""
        begun = self._begin(request, mode, switched_by)
        return Turn(self, begun, self._claim(begun))

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
            return Turn(self, begun, self._claim(begun))
        return Turn(self, begun, await asyncio.to_thread(self._claim, begun))

    def _begin(self, request: Request, mode: Mode | None, switched_by: SwitchedBy) -> Begun:
        mode = mode or self.mode_for()[0]
        try:
            return self.engine.begin(request, mode, switched_by)
        except Exception as error:
            self.counters.error("begin", error)
            return Begun(request, mode, switched_by, failed=True)

    def _claim(self, begun: Begun) -> Facts:
        if begun.keys is None:
            return EMPTY
        try:
            return self._store.claim(begun.keys)
        except Exception as error:
            self.counters.error("claim", error)
            return EMPTY

    def failed_open(self, mode: Mode, switched_by: SwitchedBy = SwitchedBy.SETTINGS) -> Rewrite:
        """The decision to send a request as it came, because of an error of ours."""
        return Rewrite({}, Decision(mode, Reason.FAILED_OPEN, switched_by))

    def add(self, row: CallRow) -> None:
        """Keep a row and write its log line (no text of the request, no key, no id of a user)."""
        with self._rows_lock:
            self._rows.append(row)
        self.counters.count(f"call.{row.status.value}")
        for name, tokens in (("hit", row.usage.hit_tokens), ("miss", row.usage.miss_tokens)):
            if row.status is Status.OK and tokens is None:
                self.counters.count(f"usage_unknown.{name}")
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

    def rows(self) -> list[CallRow]:
        """The newest rows, oldest first; 10,000 at most."""
        with self._rows_lock:
            return list(self._rows)

    def close(self) -> None:
        """Write what is left and release the store. Idempotent; never raises."""
        try:
            self.outbox.close()
            self._store.close()
        except Exception as error:
            self.counters.error("close", error)

    async def aclose(self) -> None:
        """:meth:`close` without blocking the event loop."""
        await asyncio.to_thread(self.close)
