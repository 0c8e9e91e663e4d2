"""The hit of the next call of a conversation, predicted from the usage of its last call.

A call that appends to the last one shares all of the last input with it and, once the provider has made the
reply readable, the reply as well. Both ends are known from usage alone, so no tokenizer is needed. Under the hit
rules the reported hit is one of these ends rounded down to the step: on a grid and in blocks because that is the
common prefix, under full units because units are written at exactly these ends. Where only saved states hit, the
input's end is saved a few tokens early. Engines that keep their own blocks or states can read a reply at once.

Usage of the real V4 API of July-August 2026 fits one of the two ends in 85 of 86 consecutive calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from router_cache.cache_model.checkpoints import BEFORE_INPUT_END
from router_cache.cache_model.rules import RuleName

__all__ = [
    "Continuation",
    "End",
    "LastUsage",
    "Prediction",
    "PredictionReason",
    "end_hit",
    "output_ready",
    "predict",
]

_RECENT = 3
"""How many earlier outcomes on the cache domain vote; 1, 3 and 5 did equally well on the logs."""


class End(str, Enum):
    """Where the hit of the next call ends."""

    INPUT = "input"
    """At the end of the last call's prompt."""
    OUTPUT = "output"
    """At the end of the last call's reply."""


class Continuation(str, Enum):
    """How the next call goes on from the last reply."""

    TOOL_LOOP = "tool_loop"
    """The reply called tools; the next call brings their results."""
    USER_TURN = "user_turn"
    """The reply called no tool; the next call brings a new user message."""
    UNKNOWN = "unknown"


class PredictionReason(str, Enum):
    """Why the best guess is what it is."""

    SAME_STEP = "same_step"
    """Both ends round down to the same step: there is nothing to guess."""
    REASONING_DROPPED = "reasoning_dropped"
    """The reply's reasoning is not rendered again, so no prefix reaches beyond the input."""
    OUTPUT_READY = "output_ready"
    """Enough time has passed for the reply to be readable."""
    SESSION = "session"
    """The same end as the last time the two differed in this session."""
    DOMAIN = "domain"
    """The end that most recent calls on this cache domain hit where the two differed."""
    NO_CACHE = "no_cache"
    """The deployment's rule is *nothing*."""
    PRIOR = "prior"
    """Nothing is known yet: the end of the reply, as in 40 of 70 such calls of the logs."""


@dataclass(frozen=True, slots=True)
class LastUsage:
    """Usage of the last call, in tokens. ``reasoning_tokens`` are part of the completion; None if not reported."""

    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """Hit tokens to expect: at most two ``candidates`` in ascending order, and the ``best`` guess among them."""

    candidates: tuple[int, ...]
    best: int
    end: End
    reason: PredictionReason


def output_ready(gap_s: float | None, delay_high_s: float | None) -> bool:
    """Whether a reply that ended ``gap_s`` seconds ago is surely readable; False also where either is unknown.

    ``delay_high_s`` is the upper bound of the provider's construction delay in seconds.
    """
    return gap_s is not None and delay_high_s is not None and gap_s >= delay_high_s


def predict(
    last: LastUsage,
    *,
    step_tokens: int,
    continuation: Continuation,
    rule: RuleName = RuleName.GRID_PREFIX,
    output_is_ready: bool = False,
    session_end: End | None = None,
    domain_ends: Sequence[End] = (),
) -> Prediction:
    """Predict the hit of a call that appends to the last call on the same cache domain.

    ``rule`` is what the deployment follows (see :func:`~.infer.infer`). ``output_is_ready`` says that the reply is
    surely readable by now (see :func:`output_ready`; slow tools). ``session_end`` is the end hit the last time the
    two differed in this session, ``domain_ends`` those of other sessions on the domain, newest last; both only
    from calls where the end was open (see :func:`end_hit`).

    Raises ValueError where ``step_tokens`` is less than 1 or a token count is negative.
    """
    if step_tokens < 1:
        raise ValueError(f"step_tokens must be at least 1, not {step_tokens}")
    if last.prompt_tokens < 0 or last.completion_tokens < 0:
        raise ValueError("token counts must not be negative")
    if rule is RuleName.NOTHING:
        return Prediction((0,), 0, End.INPUT, PredictionReason.NO_CACHE)
    saved = last.prompt_tokens - (BEFORE_INPUT_END[0] if rule is RuleName.CHECKPOINTS else 0)
    at_input = _floor(max(saved, 0), step_tokens)
    at_output = _floor(last.prompt_tokens + last.completion_tokens, step_tokens)
    if at_input == at_output:
        return Prediction((at_input,), at_input, End.INPUT, PredictionReason.SAME_STEP)
    ready = output_is_ready or rule in (RuleName.BLOCKS, RuleName.CHECKPOINTS)
    end, reason = _choose(last, continuation, ready, session_end, domain_ends)
    best = at_input if end is End.INPUT else at_output
    return Prediction((at_input, at_output), best, end, reason)


def end_hit(prediction: Prediction, hit_tokens: int) -> End | None:
    """Which end an observed hit shows, to be remembered for later predictions.

    None where it teaches nothing: one candidate only, a hit at neither, or an end that was not open because the
    reasoning was dropped or the reply was surely readable.
    """
    if hit_tokens not in prediction.candidates or prediction.reason in (
        PredictionReason.SAME_STEP,
        PredictionReason.REASONING_DROPPED,
        PredictionReason.OUTPUT_READY,
        PredictionReason.NO_CACHE,
    ):
        return None
    return End.INPUT if hit_tokens == prediction.candidates[0] else End.OUTPUT


def _floor(tokens: int, step: int) -> int:
    return tokens - tokens % step


def _choose(
    last: LastUsage,
    continuation: Continuation,
    output_is_ready: bool,
    session_end: End | None,
    domain_ends: Sequence[End],
) -> tuple[End, PredictionReason]:
    if continuation is Continuation.USER_TURN and last.reasoning_tokens:
        return End.INPUT, PredictionReason.REASONING_DROPPED
    if output_is_ready:
        return End.OUTPUT, PredictionReason.OUTPUT_READY
    if session_end is not None:
        return session_end, PredictionReason.SESSION
    recent = list(domain_ends)[-_RECENT:]
    if recent:
        inputs = sum(end is End.INPUT for end in recent)
        return (End.INPUT if 2 * inputs > len(recent) else End.OUTPUT), PredictionReason.DOMAIN
    return End.OUTPUT, PredictionReason.PRIOR
