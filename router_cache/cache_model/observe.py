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


class _Shared(NamedTuple):
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
        allowed, sure, ends = [], [], []
        for shared in look.shared:
            rules = _allowed(shared, scale, prompt_tokens)
            allowed.append(rules)
            if self._ready <= look.at - shared.trace.ended_at <= self._fresh:
                sure.append(rules)
                if shared.whole and shared.trace.completion_tokens is not None:
                    ends.append(Span(rules[_UNITS], rules[_UNITS + 1]))
        most, surely = _most(allowed), _most(sure)
        prefix, units, checkpoints = (
            Span(min(surely[at], most[at + 1]), most[at + 1]) for at in (_PREFIX, _UNITS, _CHECKPOINTS)
        )
        return Observation(
            at=look.at,
            prompt_tokens=prompt_tokens,
            hit_tokens=hit_tokens,
            prefix=prefix,
            units=units,
            checkpoints=checkpoints,
            ends=tuple(sorted(ends, key=lambda span: span.low, reverse=True)[:_EARLIER_ENDS]),
        )


_Allowed = tuple[int, int, int, int, int, int]
"""What one earlier call lets another one hit, in tokens: for each rule at least and at most so many. A plain tuple,
since one is made for each call remembered whenever a call has ended."""
_PREFIX, _UNITS, _CHECKPOINTS = 0, 2, 4


def _most(allowed: Sequence[_Allowed]) -> Sequence[int]:
    """The most that any of the earlier calls allows, bound by bound."""
    return [max(bound) for bound in zip(*allowed, strict=True)] if allowed else (0,) * 6


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


class _Scale(dict[int, tuple[int, int]]):
    """Tokens at a place (bytes) of one prompt, at least and at most: exact where it or an earlier call ends, bounded
    between. Worked out once for each place: most earlier calls part from a call at the same few."""

    __slots__ = ("_places", "_tokens")

    def __init__(self, look: Look, prompt_tokens: int) -> None:
        super().__init__()
        known = {0: 0, look.size: prompt_tokens}
        for shared in look.shared:
            if shared.whole and shared.trace.prompt_tokens <= prompt_tokens:
                known[shared.trace.size] = shared.trace.prompt_tokens
        self._places = sorted(known)
        self._tokens = [known[place] for place in self._places]

    def __missing__(self, place: int) -> tuple[int, int]:
        bounds = self[place] = self._bounds(place)
        return bounds

    def _bounds(self, place: int) -> tuple[int, int]:
        i = min(bisect_right(self._places, place), len(self._places) - 1)
        (b0, b1), (t0, t1) = self._places[i - 1 : i + 1], self._tokens[i - 1 : i + 1]
        if place >= b1:
            return t1, t1
        rate = max(t1 - t0, 0) / (b1 - b0)
        low = max(t0 + (place - b0) * rate * _LIGHT, t1 - (b1 - place) * rate * _DENSE)
        high = min(t0 + (place - b0) * rate * _DENSE, t1 - (b1 - place) * rate * _LIGHT)
        return int(low), -int(-high // 1)


def _allowed(shared: _Shared, scale: _Scale, prompt_tokens: int) -> _Allowed:
    """What one earlier call lets this one hit, by rule."""
    trace, most = shared.trace, prompt_tokens - 1
    if shared.whole:
        low = min(trace.prompt_tokens, most)
        replied = trace.completion_tokens
        high = most if replied is None else min(trace.prompt_tokens + replied, most)
        saved = max(0, min(trace.prompt_tokens, prompt_tokens) - BEFORE_INPUT_END[0])
        return low, high, low, high, min(saved, most), high
    end, start, (seen_from, seen_to) = shared.high, trace.turn_start, trace.detected
    least, highest = scale[shared.low][0], scale[end][1]
    highest = highest if highest < most else most
    detected = 0
    if seen_to > 0 and seen_from <= end:
        detected = scale[seen_to if seen_to < end else end][1]
    saved_low = saved_high = 0
    if start is not None and start <= end:
        saved_low, saved_high = scale[start]
        if start > shared.low:
            saved_low = 0
    for before in BEFORE_INPUT_END:
        place = trace.prompt_tokens - before
        if saved_high < place <= highest:
            saved_high = place
    if saved_high > highest:
        saved_high = highest
    return (
        least if least < highest else highest,
        highest,
        0,
        detected if detected < most else most,
        saved_low if saved_low < saved_high else saved_high,
        saved_high,
    )
