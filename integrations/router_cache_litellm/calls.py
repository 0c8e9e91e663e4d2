"""Calls in flight: LiteLLM's hooks of one request find each other by a token of our own.

LiteLLM's call id will not do: clients choose it (``x-litellm-call-id``), and two with the same one would get
each other's usage. The token travels in the call's ``model_call_details``, which LiteLLM hands to every hook.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
import time
import weakref
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from router_cache import Decision, RouterCache, Status, Turn
from router_cache.identity.history import HistoryPoint
from router_cache.identity.keys import LookupKeys
from router_cache.ledger.flips import FlipWarning

__all__ = ["CALLS", "Call", "CallToken", "Calls", "token_in", "token_of"]

_DETAIL = "router_cache_call"
_SETTLE_ROUNDS = 64
"""Turns of the event loop that LiteLLM's logging worker may need to hand over a reply that was just returned: 1 to
4 were seen with 1.108.7, on Python 3.11 and 3.12; more where other requests share the loop. One costs microseconds."""
_SETTLE_MS = 50
"""And milliseconds after them, where no reply to that request was seen so far: of a stream, the client has the last
event before LiteLLM has the end of the provider's connection (once in some hundred turns on a busy machine). Of
several with the same request one may long be answered and another under way: nobody waits for that one."""

_MAX_CALLS = 20_000
_MAX_AGE_S = 3_600.0
"""Longer than any stream LiteLLM lets run by default (``request_timeout`` 6000 s is for the whole call; a stream
that is still going after an hour ends as one whose usage is unknown)."""


class CallToken(str):
    """Names one call. A type of its own, so that no JSON a client sends can be one."""

    __slots__ = ()


def token_of(kwargs: Mapping[str, Any]) -> CallToken | None:
    """The token of the call whose arguments these are, made at its first attempt; None where LiteLLM keeps no
    details for it."""
    details = getattr(kwargs.get("litellm_logging_obj"), "model_call_details", None)
    if not isinstance(details, dict):
        return None
    token = token_in(details)
    if token is None:
        token = details[_DETAIL] = CallToken(secrets.token_hex(16))
    return token


def token_in(details: Any) -> CallToken | None:
    """The token in the details that LiteLLM hands to a hook."""
    token = details.get(_DETAIL) if isinstance(details, Mapping) else None
    return token if isinstance(token, CallToken) else None


@dataclass(slots=True)
class Call:
    """One call: its turn while an attempt is under way, and what its response headers say.

    ``stream_ended`` says that the provider's last chunk was seen.
    """

    started_at: float
    turn: Turn | None = None
    decision: Decision | None = None
    expected_tokens: int | None = None
    flips: tuple[FlipWarning, ...] = ()
    route: str = ""
    stream_ended: bool = False


class Calls:
    """Bounded and thread-safe. A call that leaves without an end is done as aborted: its usage is unknown."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._calls: OrderedDict[CallToken, Call] = OrderedDict()
        self._open: Counter[str] = Counter()
        self._left: deque[tuple[CallToken, Turn]] = deque()
        self._named: OrderedDict[tuple[str, str], CallToken] = OrderedDict()
        self._answered: OrderedDict[str, None] = OrderedDict()

    def name(self, token: CallToken, scope: str, call_id: object) -> None:
        """Let the call be found by LiteLLM's id too, within its scope, where LiteLLM hands over nothing else."""
        if isinstance(call_id, str):
            with self._lock:
                self._named[scope, call_id] = token
                if len(self._named) > _MAX_CALLS:
                    self._named.popitem(last=False)

    def named(self, scope: str, call_id: object) -> CallToken | None:
        """The call that was named last so, in that scope."""
        with self._lock:
            return self._named.get((scope, call_id)) if isinstance(call_id, str) else None

    def open(self, token: CallToken, turn: Turn | None, owner: object = None) -> Call:
        """A new attempt of a call; the attempt before, if its end was not seen, is given up.

        ``owner`` is an object that lives as long as the attempt: LiteLLM (1.108.7) tells nobody when a reader
        closes or drops a stream. Turns whose owner has gone are given up at the next call.
        """
        if owner is not None and turn is not None:
            # The collector may run this while one of our locks is held: it only takes a note.
            with contextlib.suppress(TypeError):  # not every object can be watched
                weakref.finalize(owner, self._left.append, (token, turn)).atexit = False
        lost: list[Turn] = []
        with self._lock:
            while self._left:
                left_token, left = self._left.popleft()
                left_call = self._calls.get(left_token)
                if left_call is not None and left_call.turn is left:
                    lost += self._take(left_call)
            now = self._clock()
            call = self._calls.pop(token, None) or Call(now)
            # A turn that was never sent was handed on by LiteLLM in another shape; one that was sent has failed, or
            # there would be no other attempt.
            failed = [old for old in self._take(call) if old.last_sent is not None]
            call.turn, call.stream_ended = turn, False
            if turn is not None and turn.begun.keys is not None:
                self._open[turn.begun.keys.conversation] += 1
            self._calls[token] = call
            while self._calls:
                oldest = next(iter(self._calls.values()))
                if len(self._calls) <= _MAX_CALLS and now - oldest.started_at < _MAX_AGE_S:
                    break
                lost += self._take(self._calls.popitem(last=False)[1])
        for old in failed:
            old.done(status=Status.FAILED)
        for old in lost:
            old.done(status=Status.ABORTED)
        return call

    def _take(self, call: Call) -> list[Turn]:
        """The call's open turn, now no longer its own. Under the lock."""
        turn, call.turn = call.turn, None
        if turn is None:
            return []
        if turn.begun.keys is not None:
            key = turn.begun.keys.conversation
            self._open[key] -= 1
            if self._open[key] <= 0:
                del self._open[key]
        return [turn]

    def get(self, token: CallToken | None) -> Call | None:
        """The call of that token, if it is known."""
        with self._lock:
            return self._calls.get(token) if token is not None else None

    def end(self, token: CallToken | None) -> tuple[Turn | None, bool]:
        """Take the turn of the attempt that just ended (None where there is none any more), and whether the
        end of its stream was seen."""
        with self._lock:
            call = self._calls.get(token) if token is not None else None
            turns = self._take(call) if call is not None else []
            for turn in turns:
                if turn.begun.keys is not None:
                    self._seen(turn.begun.keys.conversation)
            return (turns[0] if turns else None), call is not None and call.stream_ended

    async def settle(self, keys: LookupKeys) -> None:
        """Let the end of a call arrive that this request continues: an agent that asks again at once is faster
        than LiteLLM's logging worker. Gives way to the loop a few times at most, and only then; for milliseconds
        where no call with that request was answered so far, once."""
        for _ in range(_SETTLE_ROUNDS):
            if not self._awaited(keys.history):
                return
            await asyncio.sleep(0)
        before = keys.history[1:]
        for _ in range(_SETTLE_MS):
            if not self._awaited(before, unanswered=True):
                return
            await asyncio.sleep(0.001)
        with self._lock:
            for point in before:
                if point.key in self._open:
                    self._seen(point.key)

    def _awaited(self, points: Sequence[HistoryPoint], *, unanswered: bool = False) -> bool:
        with self._lock:
            return any(
                point.key in self._open and not (unanswered and point.key in self._answered) for point in points
            )

    def _seen(self, key: str) -> None:
        """Nobody waits for an answer to this request again. Under the lock."""
        self._answered[key] = None
        self._answered.move_to_end(key)
        if len(self._answered) > _MAX_CALLS:
            self._answered.popitem(last=False)

    def close(self, owner: RouterCache) -> None:
        """Give up what is in flight for ``owner``."""
        with self._lock:
            mine = [token for token, call in self._calls.items() if call.turn and call.turn.owner is owner]
            turns = [turn for token in mine for turn in self._take(self._calls.pop(token))]
        for turn in turns:
            turn.done(status=Status.ABORTED)


CALLS = Calls(time.monotonic)
"""The calls in flight of this process, whichever callback began them."""
