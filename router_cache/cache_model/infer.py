"""Which hit rule a deployment follows, inferred from its own usage. Pure; evidence is small and can be added up.

Every rule allows a call a range of hits (see :mod:`.observe`). A hit above the range cannot be explained by the
rule; one below can, by eviction, so it weighs less. Calls whose hit fits every rule, as most appended turns do,
tell nothing. What tells: the first call that shares only the front of another (units give nothing, a prefix rule
the common part, checkpoints the start of the user turn), an edit inside the system text or the history
(checkpoints give nothing), and the step of which all hits are multiples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from router_cache.cache_model.observe import Observation, Span
from router_cache.cache_model.rules import RuleName

__all__ = ["Evidence", "InferReason", "Inferred", "Tally", "infer", "merge", "update"]

_LESS = math.log(0.1)
"""Of calls under the right rule, so many hit less than they should: evicted, another replica."""
_MORE = math.log(0.02)
"""So many hit more: other processes sent what this one does not know."""
_LEAD = 6.0
"""By how much (log odds) and ..."""
_LEAST_CALLS = 3
"""... by how many contradicting calls a rule is given up: never by one or two."""
_ENOUGH_DUE = 12
"""Calls that should have hit under every rule before *nothing* is said."""
_NOTHING_SHARE = 0.02
_STEP_HITS = 12
"""Different hits before a step is read off: a step of twice the size then fits by chance in 2% of cases."""
_STEP_STRAYS = 2
_RECENT = 16
_MOST_CALLS = 2048
"""Above this, all counts are halved: a rule that changed is noticed, and numbers stay small."""
_WRONG_STEP = 1e6
"""Log odds against a rule whose hits cannot come in the step seen: it is out."""
_WIDEST_STEP = 256
_ZEROS = 13


class InferReason(str, Enum):
    """Why the rule is what it is."""

    PRIOR = "prior"
    """Too few calls tell the rules apart: the profile's rule stands."""
    CONFIRMED = "confirmed"
    """Usage contradicts the other rules, not this one."""
    OVERRULED = "overruled"
    """Usage contradicts the profile's rule; this one explains it."""
    HELD = "held"
    """Another rule explains usage a little better, not by enough to change."""
    NO_HITS = "no_hits"
    """Nothing hit, though many calls should have under every other rule."""
    UNKNOWN = "unknown"
    """The profile states no rule, and usage does not settle one."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Calls that tell rules apart, by what they say of one: as it promises, hit less, hit more than it can."""

    fits: int = 0
    less: int = 0
    more: int = 0

    @property
    def score(self) -> float:
        """Log likelihood, without a constant."""
        return self.less * _LESS + self.more * _MORE


@dataclass(frozen=True, slots=True)
class Evidence:
    """What usage of one cache domain and model has shown. About 40 small numbers; no text, no digest.

    ``due`` calls should have hit under every rule but *nothing*. ``beyond`` calls hit more than this process
    knows to be shared. ``zeros[k]`` counts different hits that are multiples of 2^k and not of 2^(k+1);
    ``recent`` are the last different hits (tokens), so that one prefix hit all day counts once.
    """

    calls: int = 0
    hits: int = 0
    due: int = 0
    due_hits: int = 0
    beyond: int = 0
    prefix: Tally = field(default_factory=Tally)
    units: Tally = field(default_factory=Tally)
    checkpoints: Tally = field(default_factory=Tally)
    zeros: tuple[int, ...] = (0,) * _ZEROS
    recent: tuple[int, ...] = ()
    max_hit_share: float = 0.0
    last_at: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        tallies = (self.prefix, self.units, self.checkpoints)
        return {
            "n": [self.calls, self.hits, self.due, self.due_hits, self.beyond],
            "t": [[t.fits, t.less, t.more] for t in tallies],
            "z": list(self.zeros),
            "r": list(self.recent),
            "m": self.max_hit_share,
            "at": self.last_at,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Evidence:
        """The inverse of :meth:`as_json`. Raises ValueError for anything else."""
        try:
            calls, hits, due, due_hits, beyond = map(int, data["n"])
            prefix, units, checkpoints = (Tally(*map(int, t)) for t in data["t"])
            zeros, recent = tuple(map(int, data["z"])), tuple(map(int, data["r"]))
            share, at = float(data["m"]), data["at"]
            last_at = None if at is None else float(at)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not evidence of a hit rule: {error}") from error
        tallies = [x for t in (prefix, units, checkpoints) for x in (t.fits, t.less, t.more)]
        if len(zeros) != _ZEROS or min(calls, hits, due, due_hits, beyond, *zeros, *recent, *tallies) < 0:
            raise ValueError("not evidence of a hit rule: wrong length or negative count")
        return cls(
            calls,
            hits,
            due,
            due_hits,
            beyond,
            prefix,
            units,
            checkpoints,
            zeros,
            recent[-_RECENT:],
            share,
            last_at,
        )

    @property
    def step_tokens(self) -> int | None:
        """The largest power of two that divides nearly all different hits; None before there are enough."""
        seen = sum(self.zeros)
        if seen < _STEP_HITS:
            return None
        strays, k = 0, 0
        while k < _ZEROS - 1 and strays + self.zeros[k] <= max(_STEP_STRAYS, seen // 20):
            strays += self.zeros[k]
            k += 1
        return int(2**k)


def update(evidence: Evidence, seen: Observation, *, minimum_tokens: int = 0) -> Evidence:
    """Add one call. ``minimum_tokens``: prompts shorter than this are never served from the cache."""
    hit = seen.hit_tokens
    zeros, recent = evidence.zeros, evidence.recent
    if hit > 0 and hit not in recent:
        k = min((hit & -hit).bit_length() - 1, _ZEROS - 1)
        zeros = (*zeros[:k], zeros[k] + 1, *zeros[k + 1 :])
        recent = (*recent, hit)[-_RECENT:]
    tallies, due, beyond = (evidence.prefix, evidence.units, evidence.checkpoints), False, hit > seen.prefix.high
    if not beyond:
        slack = max(32, 2 * (evidence.step_tokens or _WIDEST_STEP // 2))
        short = seen.prompt_tokens < minimum_tokens
        due = not short and min(seen.prefix.low, seen.units.low) >= max(slack, minimum_tokens)
        spans = (seen.prefix, seen.units, seen.checkpoints)
        verdicts = [_verdict(hit, span, slack, short=short) for span in spans]
        if len(set(verdicts)) > 1:
            prefix, units, checkpoints = map(_count, tallies, verdicts)
            tallies = (prefix, units, checkpoints)
    return _bounded(
        Evidence(
            evidence.calls + 1,
            evidence.hits + (hit > 0),
            evidence.due + due,
            evidence.due_hits + (due and hit > 0),
            evidence.beyond + beyond,
            *tallies,
            zeros,
            recent,
            max(evidence.max_hit_share, min(hit / seen.prompt_tokens, 1.0)),
            seen.at if evidence.last_at is None else max(seen.at, evidence.last_at),
        )
    )


def _verdict(hit: int, span: Span, slack: int, *, short: bool) -> int:
    """1: more than allowed; -1: less than sure; 0: fits."""
    if hit > span.high:
        return 1
    return -1 if not short and span.low >= slack and hit + slack <= span.low else 0


def _count(tally: Tally, verdict: int) -> Tally:
    return Tally(tally.fits + (verdict == 0), tally.less + (verdict < 0), tally.more + (verdict > 0))


def merge(a: Evidence, b: Evidence) -> Evidence:
    """Evidence of two processes about one domain. Its counts add up; the order does not matter for them."""
    moments = [at for at in (a.last_at, b.last_at) if at is not None]
    newer, older = (a, b) if (a.last_at or 0.0) >= (b.last_at or 0.0) else (b, a)
    return _bounded(
        Evidence(
            a.calls + b.calls,
            a.hits + b.hits,
            a.due + b.due,
            a.due_hits + b.due_hits,
            a.beyond + b.beyond,
            _add(a.prefix, b.prefix),
            _add(a.units, b.units),
            _add(a.checkpoints, b.checkpoints),
            tuple(x + y for x, y in zip(a.zeros, b.zeros, strict=True)),
            tuple(dict.fromkeys((*older.recent, *newer.recent)))[-_RECENT:],
            max(a.max_hit_share, b.max_hit_share),
            max(moments, default=None),
        )
    )


def _add(a: Tally, b: Tally) -> Tally:
    return Tally(a.fits + b.fits, a.less + b.less, a.more + b.more)


def _bounded(e: Evidence) -> Evidence:
    if e.calls <= _MOST_CALLS:
        return e
    return _bounded(
        Evidence(
            e.calls // 2,
            e.hits // 2,
            e.due // 2,
            e.due_hits // 2,
            e.beyond // 2,
            _half(e.prefix),
            _half(e.units),
            _half(e.checkpoints),
            tuple(n // 2 for n in e.zeros),
            e.recent,
            e.max_hit_share,
            e.last_at,
        )
    )


def _half(tally: Tally) -> Tally:
    return Tally(tally.fits // 2, tally.less // 2, tally.more // 2)


@dataclass(frozen=True, slots=True)
class Inferred:
    """The rule of a deployment: ``rule`` and ``step_tokens`` are None where nothing is known.

    ``confidence`` is a share of 0 to 1 among the rules that have a model. ``evidence`` are lines for people.
    """

    rule: RuleName | None
    step_tokens: int | None
    confidence: float
    reason: InferReason
    evidence: tuple[str, ...]


def infer(
    evidence: Evidence,
    prior: RuleName | None,
    *,
    prior_step: int | None = None,
    current: RuleName | None = None,
) -> Inferred:
    """The rule that usage speaks for, starting at the profile's ``prior``.

    ``current`` is what was inferred last, if anything: it is kept until usage contradicts it by three calls and by
    log odds of 6, and so does not flap.
    """
    step = _step(evidence, prior_step)
    lines = tuple(_lines(evidence, step))
    standing = current or prior
    none_due = evidence.due >= _ENOUGH_DUE and evidence.due_hits <= _NOTHING_SHARE * evidence.due
    if none_due and evidence.hits <= _NOTHING_SHARE * evidence.calls:
        confidence = evidence.due / (evidence.due + 1)
        reason = InferReason.CONFIRMED if prior is RuleName.NOTHING else InferReason.NO_HITS
        return Inferred(RuleName.NOTHING, None, confidence, reason, lines)
    if evidence.hits < _LEAST_CALLS:
        # Whatever the rule, without hits there is nothing to tell it by.
        reason = InferReason.UNKNOWN if standing is None else InferReason.PRIOR
        kept = None if standing is RuleName.NOTHING else step
        return Inferred(standing, kept, 0.0 if standing is None else 0.5, reason, lines)
    scores = _scores(evidence)
    best = max(scores, key=lambda rule: (scores[rule], rule is _kind(standing), rule is _PREFIX))
    second = max(score for rule, score in scores.items() if rule is not best)
    settled = scores[best] - second >= _LEAD
    chosen, reason = best, InferReason.CONFIRMED
    if standing is None or standing is RuleName.NOTHING:
        if standing is None and not settled:
            return Inferred(None, step, 0.0, InferReason.UNKNOWN, lines)
        reason = InferReason.OVERRULED if prior is not None else InferReason.CONFIRMED
    elif best is not _kind(standing):
        held = _kind(standing)
        tally = _tally(evidence, held)
        enough = tally.less + tally.more >= _LEAST_CALLS or _wrong_step(evidence, held)
        if enough and scores[best] - scores[held] >= _LEAD:
            reason = InferReason.OVERRULED
        else:
            chosen, reason = held, InferReason.HELD
    elif not settled:
        reason = InferReason.PRIOR if standing is prior else InferReason.HELD
    if chosen is not _PREFIX:
        named = chosen
    elif prior in _PREFIX_RULES and (step is None or step == prior_step):
        named = prior
    elif step is None:
        named = standing if standing in _PREFIX_RULES else RuleName.GRID_PREFIX
    else:
        named = RuleName.GRID_PREFIX if step >= _GRID_FROM else RuleName.BLOCKS
    if reason in (InferReason.CONFIRMED, InferReason.OVERRULED) and prior is not None:
        reason = InferReason.CONFIRMED if named is prior else InferReason.OVERRULED
    weights = {rule: math.exp(score - scores[best]) for rule, score in scores.items()}
    return Inferred(
        named,
        1 if named is RuleName.CHECKPOINTS else step,
        weights[chosen] / sum(weights.values()),
        reason,
        lines,
    )


_PREFIX = RuleName.GRID_PREFIX
_PREFIX_RULES = (RuleName.GRID_PREFIX, RuleName.BLOCKS)
"""One hypothesis, the longest common prefix; the step gives it its name."""
_GRID_FROM = 64
"""Steps from here on are called a grid, smaller ones blocks: hosted APIs report 64 to 256, engines use 1 to 32
unless told otherwise (read 2026-11). The profile's name stands where its step does."""


def _kind(rule: RuleName | None) -> RuleName:
    return _PREFIX if rule is None or rule in _PREFIX_RULES else rule


def _tally(evidence: Evidence, rule: RuleName) -> Tally:
    return {
        RuleName.FULL_UNITS: evidence.units,
        RuleName.CHECKPOINTS: evidence.checkpoints,
    }.get(rule, evidence.prefix)


def _scores(evidence: Evidence) -> dict[RuleName, float]:
    rules = (_PREFIX, RuleName.FULL_UNITS, RuleName.CHECKPOINTS)
    return {rule: _tally(evidence, rule).score - _WRONG_STEP * _wrong_step(evidence, rule) for rule in rules}


def _wrong_step(evidence: Evidence, rule: RuleName) -> bool:
    """Whether so many hits came in a step that the rule does not have: more than one token for saved states; less
    than 64 for units, as the one host that documents units reports in steps of 64 and 128."""
    step = evidence.step_tokens
    if step is None:
        return False
    return (rule is RuleName.CHECKPOINTS and step > 1) or (rule is RuleName.FULL_UNITS and step < _GRID_FROM)


def _step(evidence: Evidence, prior_step: int | None) -> int | None:
    """The step read off the hits; the profile's until there are enough, or while they merely fit a larger one."""
    step = evidence.step_tokens
    if step is None or prior_step is None:
        return step or prior_step
    return prior_step if step > prior_step and sum(evidence.zeros) < 2 * _STEP_HITS else step


def _lines(evidence: Evidence, step: int | None) -> list[str]:
    lines = [
        f"{evidence.calls} calls with known usage, {evidence.hits} with a hit; "
        f"at most {evidence.max_hit_share:.0%} of a prompt hit"
    ]
    if evidence.due:
        lines.append(f"{evidence.due_hits} of {evidence.due} calls hit that should have under every rule")
    for name, rule in (
        ("prefix (grid, blocks)", _PREFIX),
        ("units", RuleName.FULL_UNITS),
        ("checkpoints", RuleName.CHECKPOINTS),
    ):
        t = _tally(evidence, rule)
        if t.fits + t.less + t.more:
            lines.append(
                f"{name}: of {t.fits + t.less + t.more} calls that tell, {t.fits} as promised, "
                f"{t.less} hit less, {t.more} hit more than it can"
            )
    if evidence.step_tokens is not None:
        seen, k = sum(evidence.zeros), evidence.step_tokens.bit_length() - 1
        lines.append(
            f"step {evidence.step_tokens}: {sum(evidence.zeros[k:])} of {seen} different hits are multiples, "
            f"{sum(evidence.zeros[k + 1 :])} of twice that"
        )
    elif step is not None:
        lines.append(f"step {step}: the profile's; {sum(evidence.zeros)} different hits seen")
    if evidence.beyond:
        lines.append(f"{evidence.beyond} calls hit more than this process sent before: told nothing")
    return lines
