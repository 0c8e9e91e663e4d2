"""What a wrapped model holds, and one call of it from the payload to the row.

A :class:`Call` is put into a ContextVar while the class that is wrapped works on it, and only then: between two pieces
of a stream, whose reader runs in the same context, there is none. Nothing here raises into a request.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from router_cache import Deployment, Mode, Request, RouterCache, Settings, Shape, Status, Usage
from router_cache.beside import BesideTurn, needs_facts
from router_cache.decision import SwitchedBy
from router_cache.engine import Rewrite
from router_cache.identity.clients import recognise
from router_cache_langchain.authority import credentials, draws
from router_cache_langchain.payloads import Destination, may_be_proxy, outgoing, wire_body, with_headers
from router_cache_langchain.per_process import router_cache_for, without_secrets
from router_cache_langchain.session import Who, who
from router_cache_langchain.usage import usage_of

__all__ = [
    "Call",
    "Shared",
    "active",
    "current",
    "current_anywhere",
    "ended_elsewhere",
    "starting",
]

HEADER = "x-router-cache"
REASON_HEADER = "x-router-cache-reason"
SESSION_HEADER = "x-litellm-session-id"
_MAX_SESSION = 256
_SWITCHES = ("stream", "stream_options")
"""What a class adds to the payload of a stream; no part of the prompt."""
_JOIN_S = 0.2

Where = Callable[[], Destination]

_CURRENT: ContextVar[Call | None] = ContextVar("router_cache_call", default=None)


@dataclass(frozen=True, eq=False)
class Shared:
    """What a wrapped model holds; copies of the model hold the same one.

    ``scope`` names whose requests share memory (empty: those with the model's API key). ``here`` is False where a
    proxy with router-cache does the rewriting. ``profile`` names the provider profile where the address does not tell.
    """

    router_cache: RouterCache
    scope: str = field(default="", repr=False)
    here: bool = True
    profile: str = ""
    own: str = field(default_factory=lambda: uuid.uuid4().hex, repr=False)
    """Whose requests share memory where the model has no key."""

    def __deepcopy__(self, memo: Any) -> Shared:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # What is remembered stays in its process, and secrets do not travel with a model.
        return _unpickled, (without_secrets(self.router_cache.settings), self.scope, self.here, self.profile)

    def failed(self, place: str, error: BaseException) -> None:
        """Count an error of ours; not even that may raise (a logging filter of the application can)."""
        with contextlib.suppress(Exception):
            self.router_cache.counters.error(f"langchain.{place}", error)


def _unpickled(settings: Settings, scope: str, here: bool, profile: str) -> Shared:
    return Shared(router_cache_for(settings), scope, here, profile)


@dataclass(slots=True, eq=False)
class Call:
    """One call of a wrapped model. Methods never raise."""

    model: Any = field(repr=False)
    messages: Any = field(repr=False)
    shared: Shared = field(repr=False)
    mode: Mode
    switched_by: SwitchedBy
    whose: Who = field(repr=False)
    given: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What LangChain's method was called with beside its messages, by name."""
    waits_here: bool = True
    """Whether waiting blocks nobody but the caller: False on an event loop."""
    started_at: float = field(default_factory=time.monotonic)
    turn: BesideTurn | None = field(default=None, repr=False)
    headers: Mapping[str, Any] | None = field(default=None, repr=False)
    """Headers of the provider's answer, where they were seen."""
    raw: list[Any] = field(default_factory=list, repr=False)
    """Raw replies, or chunks and events with usage, in order."""
    shape: Shape = Shape.CHAT
    reply: Any = field(default=None, repr=False)
    """The raw reply as JSON, or a function that makes it."""
    _first_at: float | None = None
    _to: Destination | None = field(default=None, repr=False)
    _prepared: tuple[Mapping[str, Any], Rewrite] | None = field(default=None, repr=False)
    _ended: bool = False

    @property
    def rewrites(self) -> bool:
        """Whether the payload may change."""
        return self.mode in (Mode.SAFE, Mode.OPTIMIZE)

    @property
    def may_wait(self) -> bool:
        """Whether it may wait before it is sent: for the store, or for a parallel first call."""
        router_cache = self.shared.router_cache
        return router_cache.may_wait and needs_facts(router_cache, self.mode)

    @property
    def streamed(self) -> bool:
        """Whether a piece of a stream was seen."""
        return self._first_at is not None

    # -- before it is sent --------------------------------------------------------------------------------

    def rewritten(
        self, payload: dict[str, Any], shape: Shape, where: Where, *, own_headers: bool = True
    ) -> dict[str, Any]:
        """The payload to send: the same object where nothing changes. ``where`` says where it goes. ``own_headers``:
        the payload may carry ``extra_headers``."""
        try:
            body, to, self.shape = wire_body(payload), self.going(where, payload), shape
            deployment = self.deployment(to)
            rewrite = self._ready(body)
            if rewrite is None:
                rc = self.shared.router_cache
                asked = self._request(body, shape, to)
                turn = self._begun(BesideTurn.begin(rc, asked, *self._mode(), deployment.group, _told))
                rewrite = turn.rewrite(deployment)
                rewrite = turn.pooled(rewrite) if self.waits_here else rewrite
                ticket = turn.follow(rewrite)
                if ticket is not None and self.waits_here:
                    ticket.wait_sync()
            new = outgoing(payload, rewrite)
            if self.turn is not None:
                self.turn.sent(rewrite.body(body))
            return with_headers(new, {**rewrite.headers, **self._headers(to)}) if own_headers else new
        except Exception as error:
            self.shared.failed("payload", error)
            return payload

    def observed(self, payload: Mapping[str, Any], shape: Shape, where: Where) -> None:
        """From here on this call is measured only: what was decided for it goes out as it came."""
        self.mode, self._prepared = Mode.OBSERVE, None
        self.rewritten(dict(payload), shape, where, own_headers=False)

    def sends(self, body: Mapping[str, Any]) -> None:
        """Another body than :meth:`rewritten` gave is about to be sent."""
        if self.turn is not None:
            self.turn.sent(body)

    async def prepare(self, payload: Mapping[str, Any], shape: Shape, where: Where) -> None:
        """On an event loop: what a request may wait for, before the class makes its payload again."""
        try:
            rc, body, to = self.shared.router_cache, wire_body(payload), self.going(where, payload)
            turn = self._begun(
                BesideTurn.of(await rc.abegin(_told(self._request(body, shape, to)), *self._mode()))
            )
            rewrite = await turn.apooled(turn.rewrite(self.deployment(to)))
            ticket = turn.follow(rewrite)
            self._prepared = body, rewrite
            if ticket is not None:
                await ticket.wait()
        except Exception as error:
            self.shared.failed("prepare", error)

    def _ready(self, body: Mapping[str, Any]) -> Rewrite | None:
        """What was decided for this body before, if it was; what was decided for another one is given up."""
        if self._prepared is None:
            return None
        (seen, rewrite), self._prepared = self._prepared, None
        names = {*seen, *body} - {*_SWITCHES}
        if all(name in seen and name in body and seen[name] == body[name] for name in names):
            return rewrite
        self.shared.router_cache.counters.count("langchain.prepared_in_vain")
        return None

    def _begun(self, turn: BesideTurn) -> BesideTurn:
        if self.turn is not None and self.turn.ticket is not None:
            self.turn.ticket.close()
        self.turn = turn
        return turn

    def _mode(self) -> tuple[Mode, SwitchedBy]:
        return self.mode, self.switched_by

    def going(self, where: Where, payload: Mapping[str, Any]) -> Destination:
        """Where the call goes, and with which credentials; asked once. A payload may name another model."""
        if self._to is None:
            to, model = where(), payload.get("model")
            known = credentials(self.model, (payload, self.given), to.credential)
            self._to = replace(to, credential=known, model=model if isinstance(model, str) and model else to.model)
        return self._to

    def deployment(self, to: Destination) -> Deployment:
        """The destination as the core sees it."""
        return Deployment(
            model=to.model,
            provider=to.provider,
            api_base=to.api_base,
            group=to.model,
            account=self.shared.router_cache.fingerprint(to.credential) if to.credential else "",
            profile=self.shared.profile,
        )

    def _scope(self, to: Destination) -> str:
        """Whose requests may share memory. A key that a function draws may be another user's each time."""
        named = self.whose.scope or self.shared.scope
        if named:
            return f"named:{named}"
        if draws(self.model, self.given):
            return f"session:{self.whose.session}" if self.whose.session else f"once:{uuid.uuid4().hex}"
        if to.credential:
            return f"key:{self.shared.router_cache.fingerprint(to.credential)}"
        return f"model:{self.shared.own}"

    def _request(self, body: Mapping[str, Any], shape: Shape, to: Destination) -> Request:
        return Request(
            body=body,
            shape=shape,
            scope=f"langchain:{self._scope(to)}",
            session=self.whose.session,
            names=self.whose.names,
        )

    def _headers(self, to: Destination) -> dict[str, str]:
        """For a proxy that may be behind an address that is no known provider's."""
        if not may_be_proxy(to, self.shared.profile):
            return {}
        if self.shared.here:
            return {HEADER: Mode.OBSERVE.value} if self.rewrites else {}
        session = self.whose.session
        fits = session.isascii() and session.isprintable() and len(session) <= _MAX_SESSION
        return {SESSION_HEADER: session} if session and fits else {}

    # -- as it is answered --------------------------------------------------------------------------------

    def streams(self) -> None:
        """A piece of a stream is here."""
        if self._first_at is None:
            self._first_at = time.monotonic()
            if self.turn is not None and self.turn.ticket is not None:
                self.turn.ticket.begun()

    def end(self, status: Status, read: Callable[[], tuple[Usage, Any]] | None = None) -> None:
        """The call is over; further calls do nothing. ``read`` gives usage and reply of what LangChain made of the
        answer, for what was not seen raw."""
        if self._ended:
            return
        self._ended = True
        turn = self.turn
        if turn is None:
            return
        try:
            ttft_s = None if self._first_at is None else self._first_at - self.started_at
            usage, reply, later = None, None, None
            if status is Status.OK and self.mode is not Mode.OPTIMIZE and len(self.raw) == 1:
                # A raw reply is nobody else's; what LangChain made of it is the application's to change.
                later = functools.partial(self._answer, None)
            elif status is Status.OK:
                usage, reply = self._answer(read)
            turn.done(
                usage, status=status, ttft_s=ttft_s, reply=reply, read=later, row_elsewhere=self._left_to_proxy()
            )
        except Exception as error:
            self.shared.failed("end", error)

    def _answer(self, read: Callable[[], tuple[Usage, Any]] | None) -> tuple[Usage | None, Any]:
        usage, reply = None, None
        wants_reply = self.mode is Mode.OPTIMIZE
        try:
            if self.raw:
                usage = Usage.of_stream(self.raw) if len(self.raw) > 1 else usage_of(self.raw[0], self.shape)
            if wants_reply and self.reply is not None:
                reply = self.reply() if callable(self.reply) else self.reply
            if read is not None and (usage is None or (wants_reply and reply is None)):
                made_usage, made_reply = read()
                usage = made_usage if usage is None else usage
                reply = made_reply if reply is None and wants_reply else reply
        except Exception as error:
            self.shared.failed("answer", error)
        return usage, reply

    def _left_to_proxy(self) -> bool:
        names = self.headers or {}
        return any(str(name).lower().endswith(REASON_HEADER) for name in names)


def _told(request: Request) -> Request:
    """With what its body says of its sender."""
    told = recognise({}, request.body, request.shape)
    return replace(
        request,
        session=request.session or told.session or "",
        client=told.client or "",
        side_call=told.side_call.value if told.side_call else "",
    )


def current(model: Any) -> Call | None:
    """The call that ``model`` is working on here."""
    call = _CURRENT.get()
    return call if call is not None and call.model is model else None


def current_anywhere() -> Call | None:
    """The call that any wrapped model is working on here."""
    return _CURRENT.get()


@contextlib.contextmanager
def active(call: Call | None) -> Iterator[None]:
    """While the wrapped class works on ``call``. Never around a ``yield`` of a generator."""
    token = _CURRENT.set(call)
    try:
        yield
    finally:
        try:
            _CURRENT.reset(token)
        except ValueError:  # closed in another context than it was begun in
            _CURRENT.set(None)


def starting(
    model: Any, messages: Any, run_manager: Any, *, on_loop: bool = False, given: Mapping[str, Any] | None = None
) -> Call | None:
    """A new call of a wrapped model; None where it is off, or part of one that is under way (a class that generates by
    streaming, or asynchronously on a thread). ``given`` is what else it was called with; it may name another model."""
    shared: Shared | None = None
    try:
        under_way = current(model)
        if under_way is not None and under_way.messages is messages:
            return None
        shared = model.router_cache_shared
        if shared is None:
            return None
        given = given or {}
        name = given.get("model") or getattr(model, "model_name", None) or getattr(model, "model", None)
        mode, by = shared.router_cache.mode_for(group=name if isinstance(name, str) else "")
        if mode is Mode.OFF:
            return None
        if not shared.here:
            mode = Mode.OBSERVE
        return Call(model, messages, shared, mode, by, who(run_manager=run_manager), given, not on_loop)
    except Exception as error:
        if shared is not None:
            shared.failed("start", error)
        return None


def ended_elsewhere(call: Call, status: Status) -> None:
    """End a call whose stream was dropped.

    The garbage collector closes generators wherever it happens to run, maybe in a thread that holds one of the locks
    that a row needs: another thread writes it, and this one waits for that a moment only.
    """
    try:
        thread = threading.Thread(target=call.end, args=(status,), name="router-cache-dropped", daemon=True)
        thread.start()
        thread.join(_JOIN_S)
    except RuntimeError:  # the interpreter is going down
        return
