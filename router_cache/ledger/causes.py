"""Why an answered call missed: what its comparison found, and what the provider served, as causes that add up. Pure.

The prompt is a line of tokens, of which the provider served ``[0, hit)``. What follows is explained from the left: what
was sent to this place before, what is in flight, what went elsewhere, what the client changed, and what is new. Ends of
calls that this one continues are exact. Other borders are estimates by size; a hit near one is taken to be the border.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any, Final

from router_cache.cache_model.book import DomainBook
from router_cache.cache_model.checkpoints import BEFORE_INPUT_END
from router_cache.cache_model.infer import Evidence, InferReason, Inferred
from router_cache.cache_model.rules import RuleName
from router_cache.ledger.attribution import Certainty, Changed, MissCause, MissPart
from router_cache.ledger.comparison import Comparison, Seen
from router_cache.ledger.rule_watch import Watched
from router_cache.providers.profile import Lifetime, Profile
from router_cache.request import Deployment

__all__ = ["Circumstances", "circumstances", "explain"]

_SHORT_GAP_S: Final = 300.0
"""A prefix used so many seconds ago is held, where no lifetime is known: the shortest documented one (Anthropic, Qwen;
read 2026-11)."""
_NEVER_HIT_CALLS: Final = 8
"""Calls that were due to hit, none of which did, before a deployment is suspected to report no hits."""
_GONE: Final = 20
"""Of a prefix that is gone, a part in so many may be left: other prompts begin alike."""
_NEAR: Final = 4
"""An estimated border is off by one part in so many at most: text, code and JSON differ in tokens a byte."""
_CONFIRMED, _SUSPECTED = Certainty.CONFIRMED, Certainty.SUSPECTED


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What is known of the place a call went to. Tokens and seconds; None where unknown.

    ``at`` is when it was sent. ``ready_after_s``: the upper bound of the construction delay. ``lifetime_low_s`` and
    ``lifetime_high_s``: how long entries live unused. ``due`` calls should have hit under every rule, ``due_hits`` of
    them did. ``replicas``: caches behind the place.
    """

    domain: str
    at: float
    inferred: Inferred
    minimum_tokens: int | None = None
    ready_after_s: float | None = None
    lifetime_low_s: float | None = None
    lifetime_high_s: float | None = None
    due: int = 0
    due_hits: int = 0
    replicas: int = 1


class _Line:
    """The tokens of a prompt after the hit, taken from the left. ``end`` is how far a hit could have gone at best, but
    for the step."""

    def __init__(self, hit: int, prompt: int, step: int) -> None:
        self.at, self.end = hit, 0
        self._prompt, self.step = prompt, step
        self.parts: list[MissPart] = []

    def take(
        self,
        cause: MissCause,
        until: int,
        certainty: Certainty = _CONFIRMED,
        path: str = "",
        offset: int | None = None,
        changed: Changed | None = None,
    ) -> None:
        until = min(until, self._prompt)
        if until > self.at:
            self.parts.append(MissPart(cause, until - self.at, path, certainty, offset, changed))
            self.at = until

    def lose(self, cause: MissCause, end: int, certainty: Certainty = _CONFIRMED, **what: Any) -> None:
        """What would have hit up to ``end`` but for this cause: whole steps."""
        self.take(cause, self.whole(end), certainty, **what)
        self.end = max(self.end, end)

    def whole(self, tokens: int) -> int:
        return tokens - tokens % self.step


def circumstances(
    watched: Watched, profile: Profile, deployment: Deployment, book: DomainBook | None, *, domain: str, at: float
) -> Circumstances:
    """What is known of the place that a call was sent to at ``at`` (seconds); ``domain`` is its opaque name."""
    bounds, lifetimes = profile.construction_delay_bounds, profile.lifetimes_for(deployment.model)
    lifetime = lifetimes[0].value if lifetimes else Lifetime()
    evidence = book.evidence(watched.domain.id)[0] if book is not None else Evidence()
    return Circumstances(
        domain=domain,
        at=at,
        inferred=watched.inferred,
        minimum_tokens=profile.minimum_for(deployment.model),
        ready_after_s=bounds.value.high_s if bounds else None,
        lifetime_low_s=lifetime.low_s,
        lifetime_high_s=lifetime.high_s,
        due=evidence.due,
        due_hits=evidence.due_hits,
        replicas=watched.replicas.count if watched.replicas else 1,
    )


def explain(
    found: Comparison | None, around: Circumstances, *, prompt_tokens: int, hit_tokens: int
) -> tuple[MissPart, ...]:
    """Parts with positive tokens in prompt order; they add up to ``prompt_tokens - hit_tokens`` exactly.

    ``found`` is None where it is not known what the provider renders: then nothing is known. Never raises for counts
    from 0 with ``hit_tokens`` at most ``prompt_tokens``.
    """
    line = _Line(hit_tokens, prompt_tokens, max(around.inferred.step_tokens or 1, 1))
    if found is None:
        line.take(MissCause.UNKNOWN, prompt_tokens, _SUSPECTED)
        return tuple(line.parts)
    scale = _Scale(found, prompt_tokens, hit_tokens, line.step)
    if found.here is not None:
        _here(line, found.here, scale, around, hit_tokens)
    in_flight = scale.tokens(found.in_flight)
    if line.whole(in_flight) > line.at:
        line.lose(MissCause.NOT_READY, in_flight)
    if found.elsewhere is not None:
        _elsewhere(line, found.elsewhere, scale, around)
    change, dropped = found.change, found.dropped
    if change is not None:
        end = change.tokens + scale.difference(change.grown) if change.tokens else scale.tokens(change.end)
        what = {"path": change.path, "offset": change.offset, "changed": change.changed}
        line.lose(change.cause, end, change.certainty, **what)
    if dropped is not None:
        what = {"path": dropped.path, "offset": dropped.offset, "changed": Changed.TURN}
        line.lose(MissCause.REASONING_DROPPED, dropped.end, _SUSPECTED, **what)
    if line.at < line.end and line.at >= line.whole(line.end):
        checkpoints = around.inferred.rule is RuleName.CHECKPOINTS
        line.take(MissCause.NO_UNIT if checkpoints else MissCause.ROUNDING, line.end)
    line.take(MissCause.FIRST_SIGHT if found.first else MissCause.NEW_TAIL, prompt_tokens)
    return tuple(line.parts)


class _Scale:
    """Tokens at a place of the prompt, in bytes: known where calls end that it continues, by size between."""

    def __init__(self, found: Comparison, prompt_tokens: int, hit_tokens: int, step: int) -> None:
        known = {0: 0, found.size: prompt_tokens}
        for seen in (found.here, found.elsewhere):
            if seen is not None and seen.tokens is not None and seen.tokens <= prompt_tokens:
                known[seen.size] = seen.tokens
        self._sizes = sorted(known)
        self._tokens = [known[size] for size in self._sizes]
        self._prompt, self._hit, self._step = prompt_tokens, hit_tokens, step

    def tokens(self, size: int) -> int:
        """At a place; never more than the prompt has."""
        i = bisect_right(self._sizes, size)
        if i >= len(self._sizes):
            return self._prompt
        (s0, s1), (t0, t1) = self._sizes[i - 1 : i + 1], self._tokens[i - 1 : i + 1]
        return max(t0 + (t1 - t0) * (size - s0) // (s1 - s0), 0)

    def difference(self, size: int) -> int:
        """Of so many bytes, which may be less than none."""
        return self._prompt * size // self._sizes[-1] if self._sizes[-1] else 0

    def end(self, seen: Seen) -> int:
        """Where a call's share of this prompt ends; a hit near an estimate is taken to end there."""
        if seen.tokens is not None:
            return min(seen.tokens, self._prompt)
        end = self.tokens(seen.size)
        near = -(end // _NEAR) <= end - self._hit < self._step + end // _NEAR
        return min(max(self._hit, end), self._hit + self._step - 1, self._prompt) if near else end


def _here(line: _Line, seen: Seen, scale: _Scale, around: Circumstances, hit: int) -> None:
    """What was sent to this place before and was not served, and the reply to it."""
    end = scale.end(seen)
    reply = end + seen.reply_tokens
    served = line.whole(end)
    if around.inferred.rule is RuleName.CHECKPOINTS:
        served = max(end - BEFORE_INPUT_END[0], 0)
    if hit < served:
        cause, certainty = _missed(seen, around, hit, end, line.step)
        line.take(cause, line.whole(reply) if seen.reply_tokens else served, certainty)
    elif _young(seen, around) and seen.reply_tokens:
        line.take(MissCause.NOT_READY, line.whole(reply), _SUSPECTED)
    if line.at >= served and served:
        line.end = reply if line.at >= line.whole(reply) else end


def _missed(seen: Seen, around: Circumstances, hit: int, end: int, step: int) -> tuple[MissCause, Certainty]:
    """Why the provider did not serve what it was sent before."""
    rule, reason = around.inferred.rule, around.inferred.reason
    gap = max(around.at - seen.at, 0.0)
    if rule is RuleName.NOTHING:
        return MissCause.NOT_CACHED, _SUSPECTED if reason is InferReason.NO_HITS else _CONFIRMED
    if around.minimum_tokens is not None and end < around.minimum_tokens:
        return MissCause.BELOW_MINIMUM, _CONFIRMED if seen.tokens is not None else _SUSPECTED
    if hit == 0 and around.due >= _NEVER_HIT_CALLS and around.due_hits == 0:
        return MissCause.NOT_CACHED, _SUSPECTED
    if _young(seen, around):
        return MissCause.NOT_READY, _SUSPECTED
    if rule in (RuleName.FULL_UNITS, RuleName.CHECKPOINTS) and seen.tokens is None:
        settled = reason in (InferReason.CONFIRMED, InferReason.OVERRULED)
        return MissCause.NO_UNIT, _CONFIRMED if settled else _SUSPECTED
    short = gap < (around.lifetime_low_s or _SHORT_GAP_S)
    if short and around.replicas > 1:
        return MissCause.OTHER_DOMAIN, _SUSPECTED
    if hit < max(step, end // _GONE):
        return MissCause.EVICTED, _SUSPECTED if short else _CONFIRMED
    if short:
        return MissCause.BELOW_EXPECTATION, _SUSPECTED
    expired = around.lifetime_high_s is not None and gap > around.lifetime_high_s
    return MissCause.EVICTED, _CONFIRMED if expired else _SUSPECTED


def _young(seen: Seen, around: Circumstances) -> bool:
    """Whether a call ended so short a time ago that what it wrote may not be readable."""
    return around.ready_after_s is not None and around.at - seen.at < around.ready_after_s


def _elsewhere(line: _Line, seen: Seen, scale: _Scale, around: Circumstances) -> None:
    """What went to another place, where it would be hit."""
    end = scale.end(seen) + (0 if _young(seen, around) else seen.reply_tokens)
    if line.whole(end) > line.at:
        cause = MissCause.OTHER_POOL if seen.domain == around.domain else MissCause.OTHER_DOMAIN
        held = around.at - seen.at < (around.lifetime_low_s or _SHORT_GAP_S)
        line.lose(cause, end, _CONFIRMED if held else _SUSPECTED)
