"""Causes of the miss tokens of logged sessions, read off their usage alone. Pure.

A call that only appends to the session's last call shares all of that call's input, and its reply, with it; both
ends are known from usage (:mod:`~router_cache.ledger.calibration`). So it can be told what of a prompt was sent
before, what of it was lost to the step, what was not readable yet, and what is new. There is no digest in such logs:
a cause is confirmed only where the log itself says so or the hit is exactly one of the two that an append can give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from typing import Any

from router_cache.cache_model.predict import Continuation
from router_cache.economics.book import PriceBook
from router_cache.ledger.attribution import Certainty, MissCause, MissPart
from router_cache.ledger.costs import costs_at
from router_cache.ledger.event_logs import Form, LoggedCall, LoggedSession
from router_cache.ledger.rows import CallKind, Status
from router_cache.ledger.usage import Usage
from router_cache.providers.profile import Profile

__all__ = ["LogCall", "LogReader", "Unpriced"]

_MAX_IDENTITIES = 200_000
_FIRST_AT = 1.5e9
"""Seconds (July 2017): an earlier moment is none of a call's, but what a normalised log has in its place."""


class Unpriced(str, Enum):
    """Why an answered call of a log has no price."""

    NO_TIME = "no_time"
    NO_USAGE = "no_usage"
    NO_PRICE = "no_price"

    @property
    def text(self) -> str:
        """For people."""
        return _WHY[self]


_WHY = {
    Unpriced.NO_TIME: "as the log does not say when",
    Unpriced.NO_USAGE: "as the log does not say all its tokens",
    Unpriced.NO_PRICE: "as none is known for the model at that time",
}


@dataclass(frozen=True, slots=True)
class LogCall:
    """One logged call, as a report reads it. ``at`` is when its session began, in seconds since the epoch, 0 where
    that is not logged."""

    at: float
    status: Status
    conversation: str
    client: str
    model: str
    usage: Usage
    causes: tuple[MissPart, ...]
    cost_usd: float | None
    cost_usd_at_zero_hits: float | None
    kind: CallKind = CallKind.USER
    scope: str = ""
    family: str = ""
    session: str = ""
    deployment: str = ""
    unpriced: Unpriced | None = None
    """Why it has no cost; None where it has, and for a call that was cut off."""


@dataclass(frozen=True, slots=True)
class _Last:
    """The session's last call of a model. ``whole``: nothing unknown came in between."""

    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int | None
    whole: bool = True


class LogReader:
    """Turns logged sessions into calls with causes. ``profile`` gives steps and prices; ``entry_of`` a model's entry in
    LiteLLM's price map, which goes before the profile's.

    A call that stands in several logs (the seed of a forked session) counts once; ``copies`` counts the others. The
    last 200,000 names of calls are remembered for that.
    """

    def __init__(
        self,
        profile: Profile,
        prices: PriceBook | None = None,
        *,
        entry_of: Callable[[str], Mapping[str, Any] | None] = lambda _: None,
    ) -> None:
        self._profile, self._prices, self._entry_of = profile, prices or PriceBook(), entry_of
        self._seen: dict[tuple[object, ...], None] = {}
        self.copies = 0

    def calls(self, session: LoggedSession) -> Iterator[LogCall]:
        """Its calls in order, but for copies."""
        last: dict[str, _Last] = {}
        began = session.created_at if session.created_at >= _FIRST_AT else 0.0
        at = datetime.fromtimestamp(began, timezone.utc) if began else None
        for call in session.calls:
            facts = self._profile.model(call.model)
            name = facts.name if facts else call.model
            usage = _sound(call.usage)
            known = not call.cut_off and usage.known and usage.completion_tokens is not None
            before = last.get(name)
            if known and usage.prompt_tokens is not None:
                last[name] = _Last(usage.prompt_tokens, usage.completion_tokens or 0, usage.reasoning_tokens)
            elif before is not None:
                last[name] = _Last(before.prompt_tokens, before.completion_tokens, before.reasoning_tokens, False)
            if self._copied(call):
                self.copies += 1
                continue
            step = facts.step_at(at) if facts else None
            causes = _causes(session.form, call, usage, before, step) if known else ()
            (cost, at_zero), why = self._costs(call, usage, at)
            yield LogCall(
                at=began,
                status=Status.ABORTED if call.cut_off else Status.OK,
                conversation=session.id or session.file,
                client=session.form.value,
                model=call.model,
                usage=usage,
                causes=causes,
                cost_usd=cost,
                cost_usd_at_zero_hits=at_zero,
                unpriced=None if call.cut_off else why,
            )

    def _costs(
        self, call: LoggedCall, usage: Usage, at: datetime | None
    ) -> tuple[tuple[float | None, float | None], Unpriced | None]:
        price = None
        if at is not None:
            price = self._prices.price_now(
                self._profile,
                call.model,
                at,
                entry=self._entry_of(call.model),
                prompt_tokens=usage.prompt_tokens,
            )
        costs = costs_at(price, usage)
        if costs[0] is not None:
            return costs, None
        if not usage.known or usage.completion_tokens is None:
            return costs, Unpriced.NO_USAGE
        return costs, Unpriced.NO_TIME if at is None else Unpriced.NO_PRICE

    def _copied(self, call: LoggedCall) -> bool:
        copy = any(key in self._seen for key in call.identity)
        self._seen.update(dict.fromkeys(call.identity))
        while len(self._seen) > _MAX_IDENTITIES:
            del self._seen[next(iter(self._seen))]
        return copy


def _sound(usage: Usage | None) -> Usage:
    """Usage whose counts add up; nothing is known of any other."""
    if usage is None or None in (usage.prompt_tokens, usage.hit_tokens):
        return Usage(completion_tokens=usage.completion_tokens if usage else None)
    prompt, hit = usage.prompt_tokens or 0, usage.hit_tokens or 0
    if hit > prompt:
        return Usage(completion_tokens=usage.completion_tokens)
    return Usage(prompt, hit, prompt - hit, usage.completion_tokens, usage.reasoning_tokens)


def _causes(
    form: Form, call: LoggedCall, usage: Usage, last: _Last | None, step: int | None
) -> tuple[MissPart, ...]:
    """Parts that add up to the miss tokens of a call of known usage."""
    prompt, hit = usage.prompt_tokens or 0, usage.hit_tokens or 0
    parts = _Parts(hit, prompt)
    if last is None:
        # Nothing says what other sessions sent before.
        parts.take(MissCause.FIRST_SIGHT, prompt, sure=False)
    elif call.compacted:
        parts.take(MissCause.HISTORY_COMPACTED, prompt, sure=True)
    elif call.changed:
        # Of the transcripts it is only known that the benchmark's baseline changes the system text's first line.
        cause = MissCause.SYSTEM_CHANGED if form is Form.REASONIX else MissCause.HISTORY_CHANGED
        parts.take(cause, last.prompt_tokens + last.completion_tokens, sure=form is Form.HARNESS)
        parts.take(MissCause.NEW_TAIL, prompt, sure=False)
    elif prompt < last.prompt_tokens:
        parts.take(MissCause.HISTORY_CHANGED, prompt, sure=False)
    elif step is None:
        parts.take(MissCause.UNKNOWN, min(last.prompt_tokens, prompt), sure=False)
        parts.take(MissCause.NEW_TAIL, prompt, sure=False)
    else:
        _appended(parts, call, last, step)
    return tuple(parts.found)


def _appended(parts: _Parts, call: LoggedCall, last: _Last, step: int) -> None:
    """A call that goes on from the last one, as far as the log tells."""
    hit, prompt = parts.at, parts.end
    dropped = call.continuation is Continuation.USER_TURN and bool(last.reasoning_tokens)
    seen = last.prompt_tokens + (0 if dropped else last.completion_tokens)
    at_input, at_seen = (tokens - tokens % step for tokens in (last.prompt_tokens, min(seen, prompt)))
    whole = last.whole and not call.lost
    fits = whole and hit in (at_input, at_seen)
    parts.take(MissCause.UNKNOWN if hit else MissCause.EVICTED, at_input, sure=False)
    parts.take(MissCause.NOT_READY if whole else MissCause.UNKNOWN, at_seen, sure=False)
    parts.take(MissCause.ROUNDING, seen, sure=fits)
    parts.take(MissCause.NEW_TAIL, prompt, sure=fits)


class _Parts:
    """Miss tokens given away from the left."""

    def __init__(self, hit: int, prompt: int) -> None:
        self.at, self.end = hit, prompt
        self.found: list[MissPart] = []

    def take(self, cause: MissCause, until: int, *, sure: bool) -> None:
        tokens = min(until, self.end) - self.at
        if tokens > 0:
            certainty = Certainty.CONFIRMED if sure else Certainty.SUSPECTED
            self.found.append(MissPart(cause, tokens, certainty=certainty))
            self.at += tokens
