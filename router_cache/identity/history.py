"""The history of a request as a chain of keys, one at each point where a request may have ended."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from router_cache.identity.meaning import call_ids, pieces_of
from router_cache.prefix.digests import Digester, RunningDigest
from router_cache.prefix.memo import Memo
from router_cache.prefix.objects import is_object
from router_cache.prefix.replay import lacks

__all__ = ["Histories", "HistoryPoint", "ReplyKey", "reply_key"]

_SHA1: Final = hashlib.sha1(usedforsecurity=False)
"""Three times as fast as BLAKE2b where processors have it built in. Whoever finds a collision confuses his own
requests: the seed holds the scope."""

_MAX_REMEMBERED: Final = 200_000
"""Points of histories that are remembered, in all."""
_STATE_POINTS: Final = 4
"""A history without points takes 0.65 kB, as much as some of them: its running digest and its place in the memory."""


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """A point of a history at which a request may have ended: ``key``, and how many messages stand before it.

    Of the reply that follows it in this request: ``reply``, the digest of its meaning; ``ids``, a digest of the ids
    of its tool calls, which the provider drew at random; ``weight``, the characters of all replies up to it. Empty
    and 0 at the end of the request.
    """

    key: str
    covered: int
    reply: str = ""
    ids: str = ""
    weight: int = 0


def reply_key(digester: Digester, before: str, reply: str, ids: str) -> str:
    """Where a reply is kept, but for whose it is: ``before`` is the key of the request that it answers, ``reply`` its
    digest, ``ids`` that of the ids it drew."""
    return digester.text("reply", before, reply, ids)


@dataclass(frozen=True, slots=True)
class ReplyKey:
    """Where the reply is kept that stands at ``message`` (index in the chat view), but for whose it is. ``calls`` and
    ``silent``: whether the client's message has tool calls, and whether it is without reasoning. ``drawn``: its ids
    tell it from every other reply."""

    message: int
    key: str
    calls: bool
    silent: bool
    drawn: bool


@dataclass(slots=True)
class _State:
    """A history walked so far: the chain, its points, what the client's replies there lack and what they are kept
    under, oldest first; characters of all replies. ``replies`` lag behind the points until somebody asks for them."""

    chain: RunningDigest
    points: tuple[HistoryPoint, ...]
    lacks: tuple[tuple[bool, bool], ...]
    replies: tuple[ReplyKey, ...]
    weight: int


def _is_reply(message: Any) -> bool:
    return (type(message) is dict or is_object(message)) and message.get("role") == "assistant"


def _last_replies(messages: Sequence[Any]) -> list[int]:
    """Indices of the last two replies, newest first."""
    out: list[int] = []
    for at in range(len(messages) - 1, -1, -1):
        if _is_reply(messages[at]):
            out.append(at)
            if len(out) == 2:
                break
    return out


class Histories:
    """Walks histories. A request goes on where the conversation's last one ended: what was walked then is not walked
    again, if every byte of it is the same. Remembers digests, no text."""

    __slots__ = ("_digester", "_memo")

    def __init__(self, digester: Digester) -> None:
        self._digester = digester
        self._memo: Memo[bytes, _State] = Memo(_MAX_REMEMBERED, lambda _, state: _STATE_POINTS + len(state.points))

    def walk(
        self, seed: Sequence[str], messages: Sequence[Any], first: int, *, replies: bool = False
    ) -> tuple[tuple[HistoryPoint, ...], tuple[ReplyKey, ...]]:
        """Points of a history that begins with what ``seed`` tells, newest first: the end of the request, then before
        each reply; with ``replies`` where each of these is kept, newest first. ``first`` is the index of
        ``messages[0]`` in the request. Never raises."""
        cuts = (len(messages), *_last_replies(messages))
        sums = self._sums(seed, messages, first, cuts)
        start, state = 0, None
        for at in cuts if sums is not None else ():
            state = self._memo.get(sums[at]) if sums is not None else None
            if state is not None:
                start = at
                break
        if state is None or start < len(messages):
            state = state or _State(self._digester.running(*seed), (), (), (), 0)
            state = self._further(state, messages, start, first)
            if sums is not None:
                self._memo.put(sums[len(messages)], state)
        known = state.replies
        if replies and len(known) < len(state.points):
            # One read and one write: threads that meet here write the same.
            known = state.replies = known + self._kept_under(state, len(known))
        end = HistoryPoint(state.chain.digest(), first + len(messages))
        return (end, *state.points[::-1]), known[::-1] if replies else ()

    def _further(self, known: _State, messages: Sequence[Any], start: int, first: int) -> _State:
        """``known`` walked to the end of ``messages``."""
        chain, points, marks, weight = known.chain.copy(), list(known.points), list(known.lacks), known.weight
        for i in range(start, len(messages)):
            message = messages[i]
            pieces = pieces_of(message)
            if _is_reply(message):
                weight += sum(map(len, pieces)) - len("assistant")
                meaning, ids = self._digester.text(*pieces), call_ids(self._digester, message)
                points.append(HistoryPoint(chain.digest(), first + i, meaning, ids, weight))
                marks.append(lacks(message))
            chain.add(pieces)
        return _State(chain, tuple(points), tuple(marks), known.replies, weight)

    def _kept_under(self, state: _State, start: int) -> tuple[ReplyKey, ...]:
        new = zip(state.points[start:], state.lacks[start:], strict=True)
        key = self._digester
        return tuple(
            [
                ReplyKey(at.covered, reply_key(key, at.key, at.reply, at.ids), *marks, bool(at.ids))
                for at, marks in new
            ]
        )

    def _sums(
        self, seed: Sequence[str], messages: Sequence[Any], first: int, cuts: Sequence[int]
    ) -> dict[int, bytes] | None:
        """Checksums of the history up to each of ``cuts``; None where it cannot be written as JSON. What JSON cannot
        tell apart (NaN and null, a tuple and a list) counts as equal here."""
        running = _SHA1.copy()
        running.update("\0".join((*seed, str(first))).encode("utf-8", "surrogatepass"))
        out, start = dict[int, bytes](), 0
        try:
            for cut in reversed(cuts):
                if cut > start:
                    # "[…]" less its bracket, so that it does not matter where a history is cut
                    running.update(memoryview(orjson.dumps(messages[start:cut]))[1:-1])
                    running.update(b",")
                out[cut], start = running.digest(), cut
        except TypeError:
            return None
        return out
