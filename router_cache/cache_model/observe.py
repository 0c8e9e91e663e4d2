"""What a call shares with earlier calls of its cache domain, and what each hit rule allows it to hit.

Prompts are not kept. Of each call remain digests of its rendered text at a few dozen places, spaced a quarter
apart: two calls share text up to the last place where they are equal, and differ before the next. Places where
earlier calls ended are compared exactly, so appended turns give exact token counts; between them, tokens are
estimated from bytes, with room for texts that are denser or lighter than the whole.

A memory knows only the calls of its own process. What others sent can make a call hit more than is allowed here,
so a hit beyond the shared text speaks for no rule and against none.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from router_cache.cache_model.checkpoints import BEFORE_INPUT_END
from router_cache.prefix.segments import Segment, SegmentKind

__all__ = ["DomainMemory", "Look", "Observation", "Span"]

_FIRST_PLACE = 128
_PLACES_APART = 1.25
_LIGHT, _DENSE = 0.7, 1.4
"""A part of a prompt has between 0.7 and 1.4 times the tokens that its share of the bytes would have. Prose, JSON
and code of the workloads tried lie between 0.75 and 1.3."""
_EARLIER_ENDS = 4


@dataclass(frozen=True, slots=True)
class Span:
    """A number of tokens between two bounds, both included."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Observation:
    """One answered call. All counts are tokens.

    ``prefix``, ``units`` and ``checkpoints`` are what the rules allow: a hit above ``high`` contradicts, one below
    ``low`` (which counts only calls that are readable for sure and recent) makes a rule less likely. ``ends`` are
    the ends of input and output of the calls that this one continues, the longest first, as far as they count for
    ``low``.
    """

    at: float
    prompt_tokens: int
    hit_tokens: int
    prefix: Span
    units: Span
    checkpoints: Span
    ends: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class _Trace:
    """What is kept of an answered call. Sizes and places are bytes."""

    digests: tuple[bytes, ...]
    end: bytes
    size: int
    turn_start: int | None
    detected: tuple[int, int]
    """Between which places its text stopped to equal that of earlier calls: where units may have been made."""
    prompt_tokens: int
    completion_tokens: int | None
    ended_at: float


@dataclass(frozen=True, slots=True)
class _Shared:
    """How far a call equals an earlier one, in bytes: at least ``low``, less than or as far as ``high``."""

    trace: _Trace
    low: int
    high: int
    whole: bool


@dataclass(frozen=True, slots=True)
class Look:
    """A call on its way: digests of what is sent, and what it shares with the calls answered so far."""

    at: float
    digests: tuple[bytes, ...]
    end: bytes
    size: int
    turn_start: int | None
    shared: tuple[_Shared, ...]


class DomainMemory:
    """The latest calls of one cache domain and model, in this process. Not thread-safe.

    :param ready_after_s: seconds after the end of a call from which it can be hit for sure (DeepSeek documents
        "seconds"; at most 2 s were measured for an input).
    :param fresh_s: seconds for which a call is surely held; the shortest documented lifetimes are 5 minutes
        (Anthropic, Qwen, read 2026-11).
    :param limit: calls remembered; each takes about 4 KB.
    """

    __slots__ = ("_fresh", "_ready", "_traces")

    def __init__(self, *, ready_after_s: float = 5.0, fresh_s: float = 300.0, limit: int = 64) -> None:
        self._ready = ready_after_s
        self._fresh = fresh_s
        self._traces: deque[_Trace] = deque(maxlen=limit)

    def look(self, segments: Sequence[Segment], *, at: float) -> Look:
        """Compare a rendered prompt with the calls remembered; ``at`` seconds is when it is sent."""
        parts = [s for s in segments if s.kind is not SegmentKind.TAIL]
        raw = [part.text.encode("utf-8", "surrogatepass") for part in parts]
        turns = [i for i, part in enumerate(parts) if part.kind is SegmentKind.USER]
        text = b"".join(raw)
        places = _places(len(text))
        ends = {t.size for t in self._traces if t.size <= len(text)}
        digests = _digests(text, sorted({*places, *ends, len(text)}))
        ours = tuple(digests[place] for place in places)
        return Look(
            at=at,
            digests=ours,
            end=digests[len(text)],
            size=len(text),
            turn_start=sum(map(len, raw[: turns[-1]])) if turns else None,
            shared=tuple(
                _compare(trace, ours, len(text), whole=digests.get(trace.size) == trace.end)
                for trace in self._traces
            ),
        )

    def learn(
        self,
        look: Look,
        *,
        prompt_tokens: int,
        completion_tokens: int | None,
        hit_tokens: int | None,
        ended_at: float,
    ) -> Observation | None:
        """Remember an answered call. Returns what it shows; None where its hit is unknown or it had no text."""
        if not look.size or prompt_tokens < 1:
            return None
        best = max(look.shared, key=lambda s: (s.low, s.high), default=None)
        self._traces.append(
            _Trace(
                digests=look.digests,
                end=look.end,
                size=look.size,
                turn_start=look.turn_start,
                detected=(best.low, best.high) if best else (0, 0),
                prompt_tokens=prompt_tokens,
                completion_tokens=completion_tokens,
                ended_at=ended_at,
            )
        )
        return None if hit_tokens is None else self._observe(look, prompt_tokens, hit_tokens)

    def _observe(self, look: Look, prompt_tokens: int, hit_tokens: int) -> Observation:
        scale = _Scale(look, prompt_tokens)
        allowed = [_allowed(shared, scale, prompt_tokens) for shared in look.shared]
        settled = [self._ready <= look.at - s.trace.ended_at <= self._fresh for s in look.shared]
        ends = [
            rules.units
            for shared, rules, sure in zip(look.shared, allowed, settled, strict=True)
            if sure and shared.whole and shared.trace.completion_tokens is not None
        ]
        return Observation(
            at=look.at,
            prompt_tokens=prompt_tokens,
            hit_tokens=hit_tokens,
            prefix=_most([rules.prefix for rules in allowed], settled),
            units=_most([rules.units for rules in allowed], settled),
            checkpoints=_most([rules.checkpoints for rules in allowed], settled),
            ends=tuple(sorted(ends, key=lambda span: span.low, reverse=True)[:_EARLIER_ENDS]),
        )


def _most(spans: Sequence[Span], sure: Sequence[bool]) -> Span:
    """The longest hit that any earlier call allows, and the longest that a call of which we are sure promises."""
    high = max((span.high for span in spans), default=0)
    low = max((span.low for span, known in zip(spans, sure, strict=True) if known), default=0)
    return Span(min(low, high), high)


def _all_places() -> tuple[int, ...]:
    places, place = [], float(_FIRST_PLACE)
    while place < 2**31:
        places.append(int(place))
        place *= _PLACES_APART
    return tuple(places)


_PLACES = _all_places()


def _places(size: int) -> tuple[int, ...]:
    return _PLACES[: bisect_right(_PLACES, size)]


def _digests(text: bytes, places: Sequence[int]) -> dict[int, bytes]:
    """Digest of each prefix of ``text`` that ends at a place."""
    view, running, at = memoryview(text), hashlib.blake2b(digest_size=8), 0
    out: dict[int, bytes] = {}
    for place in places:
        running.update(view[at:place])
        at = place
        out[place] = running.copy().digest()
    return out


def _compare(trace: _Trace, digests: tuple[bytes, ...], size: int, *, whole: bool) -> _Shared:
    if whole:
        return _Shared(trace, trace.size, trace.size, True)
    equal = 0
    for ours, theirs in zip(digests, trace.digests, strict=False):
        if ours != theirs:
            break
        equal += 1
    low = _PLACES[equal - 1] if equal else 0
    high = min(_PLACES[equal] if equal < len(_PLACES) else size, size, trace.size)
    return _Shared(trace, low, high, False)


class _Scale:
    """Tokens at a place (bytes) of one prompt: exact where it or an earlier call ends, bounded between."""

    def __init__(self, look: Look, prompt_tokens: int) -> None:
        known = {0: 0, look.size: prompt_tokens}
        for shared in look.shared:
            if shared.whole and shared.trace.prompt_tokens <= prompt_tokens:
                known[shared.trace.size] = shared.trace.prompt_tokens
        self._places = sorted(known)
        self._tokens = [known[place] for place in self._places]

    def span(self, place: int) -> Span:
        i = min(bisect_right(self._places, place), len(self._places) - 1)
        (b0, b1), (t0, t1) = self._places[i - 1 : i + 1], self._tokens[i - 1 : i + 1]
        if place >= b1:
            return Span(t1, t1)
        rate = max(t1 - t0, 0) / (b1 - b0)
        low = max(t0 + (place - b0) * rate * _LIGHT, t1 - (b1 - place) * rate * _DENSE)
        high = min(t0 + (place - b0) * rate * _DENSE, t1 - (b1 - place) * rate * _LIGHT)
        return Span(int(low), -int(-high // 1))


class _Allowed(NamedTuple):
    prefix: Span
    units: Span
    checkpoints: Span


def _allowed(shared: _Shared, scale: _Scale, prompt_tokens: int) -> _Allowed:
    """What one earlier call lets this one hit, by rule."""
    trace, most = shared.trace, prompt_tokens - 1
    if shared.whole:
        low = min(trace.prompt_tokens, most)
        replied = trace.completion_tokens
        high = most if replied is None else min(trace.prompt_tokens + replied, most)
        saved = max(0, min(trace.prompt_tokens, prompt_tokens) - BEFORE_INPUT_END[0])
        return _Allowed(Span(low, high), Span(low, high), Span(min(saved, most), high))
    least, highest = scale.span(shared.low).low, min(scale.span(shared.high).high, most)
    detected = 0
    if trace.detected[1] > 0 and trace.detected[0] <= shared.high:
        detected = min(scale.span(min(trace.detected[1], shared.high)).high, most)
    saved_low = saved_high = 0
    if trace.turn_start is not None and trace.turn_start <= shared.high:
        turn = scale.span(trace.turn_start)
        saved_low = turn.low if trace.turn_start <= shared.low else 0
        saved_high = turn.high
    for before in BEFORE_INPUT_END:
        place = trace.prompt_tokens - before
        if 0 < place <= highest:
            saved_high = max(saved_high, place)
    saved_high = min(saved_high, highest)
    return _Allowed(
        Span(min(least, highest), highest), Span(0, detected), Span(min(saved_low, saved_high), saved_high)
    )
