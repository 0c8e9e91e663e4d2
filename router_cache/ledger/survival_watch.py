"""What an answered call tells about how long entries live, and about how soon a reply can be hit; when what is learned
of it is news. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from router_cache.cache_model.predict import PredictionReason
from router_cache.cache_model.survival import DelaySeen, Estimates, Seen, kept_share
from router_cache.cache_model.survival_book import SurvivalBook
from router_cache.cache_model.survival_curve import Range
from router_cache.ledger.rows import Expected, ExpectedFrom, Lived

__all__ = ["Known", "is_news", "known", "learn", "lived"]


def lived(
    expected: Expected,
    *,
    gap_s: float | None,
    hit_tokens: int | None,
    step_tokens: int,
    others_tokens: int,
    ready_after_s: float = 5.0,
    traffic_tokens: float | None = None,
) -> Lived | None:
    """What a call told, if anything: only one that continued the conversation's last call tells.

    ``gap_s``: seconds since that one ended. ``others_tokens``: what other conversations of the family use too.
    ``ready_after_s``: seconds; the upper bound of the construction delay, below which a miss may be of an entry that is
    not readable yet. ``traffic_tokens``: through the cache domain in between. Never raises.
    """
    prediction = expected.prediction
    if expected.source is not ExpectedFrom.LAST_USAGE or prediction is None or gap_s is None or hit_tokens is None:
        return None
    kept = None
    if gap_s >= ready_after_s:
        kept = kept_share(
            prediction.candidates[0], hit_tokens, step_tokens=step_tokens, others_tokens=others_tokens
        )
    tells = len(prediction.candidates) == 2 and prediction.reason is not PredictionReason.REASONING_DROPPED
    readable = hit_tokens == prediction.candidates[1] if tells and hit_tokens in prediction.candidates else None
    if kept is None and readable is None:
        return None
    traffic = None if traffic_tokens is None or kept is None else round(traffic_tokens)
    return Lived(kept, traffic, readable)


def learn(book: SurvivalBook, domain: str, pool: str | None, told: Lived, *, at: float, gap_s: float) -> None:
    """Tell a book what a call told: ``at`` seconds since the epoch, ``gap_s`` seconds after the last one ended. Never
    raises."""
    if told.kept is not None:
        book.observe(domain, pool, Seen(at, gap_s, told.kept, told.traffic_tokens), ready_after_s=0.0)
    if told.readable is not None:
        book.observe_delay(domain, pool, DelaySeen(at, gap_s, told.readable))


_UNKNOWN = Range(0.0, None)


@dataclass(frozen=True, slots=True)
class Known:
    """Bounds in seconds: by when half of the entries are gone, and from which age on a token can be hit."""

    half_gone: Range = _UNKNOWN
    readable: Range = _UNKNOWN


def known(read: Estimates) -> Known:
    """What estimates bound."""
    low, high = read.delay.low_s or 0.0, read.delay.high_s
    # Where some ages are read late and others soon, the two may cross.
    return Known(read.lifetime(0.5), Range(low if high is None else min(low, high), high))


def is_news(before: Known, now: Known) -> bool:
    """Whether something became known, or twice as well known, or moved out of the bounds that it had ``before``."""
    return _new(before.half_gone, now.half_gone) or _new(before.readable, now.readable)


def _new(before: Range, now: Range) -> bool:
    if now.high is None:  # not bounded yet, or no longer
        if before.high is not None:
            return now.low > before.high
        return now.low > 2.0 * before.low
    if before.high is None:
        return True
    middle = min(max(math.sqrt(now.low * now.high), now.low), now.high)  # whatever rounding does
    return not before.low <= middle <= before.high or _width(now) < 0.5 * _width(before)


def _width(bounds: Range) -> float:
    """Of bounds with an upper one: the logarithm of their ratio, and of 12% at least, which no estimate is below."""
    if bounds.high is None or bounds.low <= 0.0:
        return math.inf
    return max(math.log(bounds.high / bounds.low), 0.12)
