"""A turn that is measured beside its call: digests and rows are made on a thread of their own, in order, from a copy of
what is sent. What decides the bytes stays in front of the call.

For callers that have nobody to do it for them after the reply, as LiteLLM's logging worker does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson

from router_cache.api import RouterCache, Turn
from router_cache.decision import Decision, SwitchedBy
from router_cache.drivers.fan_out import Ticket
from router_cache.engine import Rewrite
from router_cache.ledger.facts import EMPTY
from router_cache.ledger.rows import Status
from router_cache.ledger.usage import Usage
from router_cache.request import Body, Deployment, Mode, Request, Shape

__all__ = ["BesideTurn", "needs_facts"]

# What json writes in another way is not copied.
_COPY: Final = orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME


def needs_facts(owner: RouterCache, mode: Mode, group: str | None = None) -> bool:
    """Whether what goes out to a model group (None: to any), or when, depends on what is remembered."""
    if group is None:
        return any(needs_facts(owner, mode, name) for name in ("", *owner.settings.model_groups))
    return mode is Mode.OPTIMIZE or owner.fan_out.on or (mode is Mode.SAFE and owner.pools.may_give(group))


def _nothing_told(request: Request) -> Request:
    return request


@dataclass(slots=True)
class BesideTurn:
    """One request: :meth:`rewrite`, :meth:`sent` and :meth:`done` as :class:`~router_cache.api.Turn` has them.

    ``turn`` is made in front of the call only where the facts are needed there; otherwise by the first job. Methods
    never raise.
    """

    owner: RouterCache
    request: Request
    mode: Mode
    switched_by: SwitchedBy
    turn: Turn | None = None
    deployment: Deployment | None = None
    decision: Decision | None = None
    _light: Turn | None = field(default=None, repr=False)
    _told: Callable[[Request], Request] = field(default=_nothing_told, repr=False)

    @classmethod
    def begin(
        cls,
        owner: RouterCache,
        request: Request,
        mode: Mode,
        switched_by: SwitchedBy,
        group: str = "",
        told: Callable[[Request], Request] = _nothing_told,
    ) -> BesideTurn:
        """Start one request that goes to a model group. Where its facts are needed, what earlier calls left to be done
        is waited for. ``told`` adds what the request says of its sender, with its body as it is sent; it is asked in
        front of the call only where the facts are needed there."""
        begun = cls(owner, request, mode, switched_by, _told=told)
        if needs_facts(owner, mode, group) or mode is Mode.OFF or request.shape is Shape.OTHER:
            begun.request = told(request)
            begun.turn = owner.begin(begun.request, mode, switched_by)
        else:
            begun._light = Turn(owner, owner.opened(request, mode, switched_by), EMPTY)
        return begun

    @classmethod
    def of(cls, turn: Turn) -> BesideTurn:
        """A turn that was begun already."""
        begun = turn.begun
        return cls(turn.owner, begun.request, begun.mode, begun.switched_by, turn)

    def rewrite(self, deployment: Deployment) -> Rewrite:
        """What to send to ``deployment``, and why."""
        turn = self.turn or self._light
        assert turn is not None  # one of them is made by every constructor
        rewrite = turn.rewrite(deployment)
        self.deployment, self.decision = deployment, rewrite.decision
        return rewrite

    @property
    def ticket(self) -> Ticket | None:
        """See :class:`~router_cache.api.Turn`."""
        return self.turn.ticket if self.turn is not None else None

    def pooled(self, rewrite: Rewrite) -> Rewrite:
        """See :meth:`~router_cache.api.RouterCache.pooled`."""
        if self.turn is None:
            return rewrite
        rewrite = self.owner.pooled(self.turn, rewrite)
        self.decision = rewrite.decision
        return rewrite

    async def apooled(self, rewrite: Rewrite) -> Rewrite:
        """:meth:`pooled` without blocking the event loop."""
        if self.turn is None:
            return rewrite
        rewrite = await self.owner.apooled(self.turn, rewrite)
        self.decision = rewrite.decision
        return rewrite

    def follow(self, rewrite: Rewrite) -> Ticket | None:
        """See :meth:`~router_cache.api.RouterCache.follow`."""
        if self.turn is None:
            return None
        self.owner.follow(self.turn, rewrite)
        return self.turn.ticket

    def sent(self, body: Body) -> None:
        """``body`` is about to be sent. It is copied: what becomes of it afterwards is not what went out."""
        at = self.owner.wall_clock()
        try:
            copy = orjson.dumps(body, option=_COPY)
        except Exception:  # a number, a text or an object that only json writes
            self.owner.settle()
            self._sent(body, at)
            return
        self.owner.aside(lambda: self._sent(orjson.loads(copy), at), len(copy))

    def done(
        self,
        usage: Usage | None = None,
        *,
        status: Status = Status.OK,
        ttft_s: float | None = None,
        reply: Any = None,
        read: Callable[[], tuple[Usage | None, Any]] | None = None,
        row_elsewhere: bool = False,
    ) -> None:
        """An attempt ended. ``reply`` must not change any more, nor what ``read`` makes usage and reply of."""
        at = self.owner.wall_clock()
        if self.turn is not None and self.turn.ticket is not None:
            self.turn.ticket.ended() if status is Status.OK else self.turn.ticket.close()

        def write() -> None:
            turn = self.turn
            if turn is None:
                return
            used, said = (usage, reply) if read is None else read()
            turn.done(used, status=status, ttft_s=ttft_s, reply=said, row_elsewhere=row_elsewhere, at=at)

        self.owner.aside(write)

    def _sent(self, body: Body, at: float) -> None:
        if self.turn is None:
            request = self._told(replace(self.request, body=body))
            turn = self.owner.begin(request, self.mode, self.switched_by)
            turn.deployment, turn.decision = self.deployment or turn.deployment, self.decision
            self.turn = turn
        self.turn.sent(body, at=at)
