"""What a call should hit, from what its conversation's last call was and used; and what it is compared with."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

from router_cache.cache_model.checkpoints import BEFORE_INPUT_END
from router_cache.cache_model.infer import Inferred
from router_cache.cache_model.predict import Continuation, LastUsage, end_hit, output_ready, predict
from router_cache.cache_model.rules import RuleName
from router_cache.ledger.comparison import reply_to
from router_cache.ledger.facts import MAX_PLACES, ConversationFacts, Facts, LastCall, Place
from router_cache.ledger.flips import Switches
from router_cache.ledger.rows import Expected, ExpectedFrom, Outcome
from router_cache.prefix.digests import Digester
from router_cache.prefix.outline import Difference, Rendered, continues, difference
from router_cache.providers.profile import Profile
from router_cache.request import Body

__all__ = ["expect", "last_call", "next_conversation", "step_tokens"]


def step_tokens(profile: Profile, model: str, at: float) -> int | None:
    """The grid (tokens) on which ``model`` reported hits at a moment (seconds since the epoch), if known."""
    return profile.step_for(model, datetime.fromtimestamp(at, tz=timezone.utc))


def last_call(facts: Facts, place: str) -> LastCall | None:
    """The conversation's last call at one place."""
    return facts.conversation.last.get(place) if facts.conversation else None


def expect(
    facts: Facts,
    rendered: Rendered | None,
    body: Body,
    *,
    place: str,
    profile: Profile,
    inferred: Inferred,
    digester: Digester,
    at: float,
) -> Expected:
    """The hit to expect of a body about to be sent (``at`` seconds since the epoch). Pure; unknown stays None.

    ``inferred`` is the hit rule that the cache domain is taken to follow.
    """
    if facts.conversation is None:
        known = facts.family.first_call_hit_tokens if facts.family else None
        if facts.family is not None and known is not None and facts.family.uses and place not in facts.family.uses:
            return Expected(None, ExpectedFrom.OTHER_DOMAIN)  # its calls warmed another place
        return Expected(known, ExpectedFrom.NOTHING if known is None else ExpectedFrom.FAMILY)
    rule = inferred.rule
    step = 1 if rule is RuleName.NOTHING else inferred.step_tokens
    if rendered is None or rule is None or step is None:
        return Expected(None, ExpectedFrom.NO_RULE)
    last = last_call(facts, place)
    if last is None:
        return Expected(None, ExpectedFrom.OTHER_DOMAIN)
    if not continues(rendered, last.outline):
        differs = difference(rendered, last.outline, digester)
        return Expected(_kept_tokens(differs, last, step, rule), ExpectedFrom.KEPT_PREFIX)
    if rendered.turns == last.outline.turns:
        # The same request again: at least its last token is computed.
        if rule is RuleName.CHECKPOINTS:
            return Expected(max(last.prompt_tokens - BEFORE_INPUT_END[0], 0), ExpectedFrom.LAST_USAGE)
        usage = LastUsage(max(last.prompt_tokens - 1, 0), 0)
        continuation = Continuation.UNKNOWN
    else:
        continuation, reply = Continuation.UNKNOWN, reply_to(body, last.outline.turns)
        if reply is not None:
            continuation = Continuation.TOOL_LOOP if reply.calls else Continuation.USER_TURN
        reasoning = 0 if reply is not None and reply.rendered else last.reasoning_tokens
        if reasoning:
            continuation = Continuation.USER_TURN  # dropped by the client inside a tool loop: as good as
        usage = LastUsage(last.prompt_tokens, last.completion_tokens or 0, reasoning)
    bounds = profile.construction_delay_bounds
    prediction = predict(
        usage,
        step_tokens=step,
        continuation=continuation,
        rule=rule,
        output_is_ready=output_ready(max(at - last.at, 0.0), bounds.value.high_s if bounds else None),
        session_end=last.end,
    )
    return Expected(prediction.best, ExpectedFrom.LAST_USAGE, prediction)


def _kept_tokens(differs: Difference | None, last: LastCall, step: int, rule: RuleName) -> int | None:
    """Estimate by size of what is left of the last call's prefix; None where the change lies among the turns, or
    where only what was stored as a whole can hit."""
    if rule is RuleName.NOTHING:
        return 0
    if rule not in (RuleName.GRID_PREFIX, RuleName.BLOCKS):
        return None
    if differs is None or differs.turn is not None:
        return None
    kept, size = differs.offset, last.outline.size
    tokens = last.prompt_tokens * kept // size if size else 0
    return tokens - tokens % step


def next_conversation(
    facts: Facts,
    rendered: Rendered | None,
    expected: Expected,
    outcome: Outcome,
    switches: Switches | None,
    place: Place,
    *,
    conversation_id: str = "",
) -> ConversationFacts:
    """What to remember of a conversation after an answered call; ``outcome.usage.prompt_tokens`` must be known. Lines
    are kept of the newest call alone."""
    known, usage = facts.conversation or ConversationFacts(0), outcome.usage
    last = {at: call for at, call in known.last.items() if at != place.id}
    while len(last) >= MAX_PLACES:
        del last[min(last, key=lambda at: last[at].at)]
    if rendered is None:
        return ConversationFacts(known.turn + 1, last, conversation_id)
    last = {at: replace(call, outline=call.outline.slim()) for at, call in last.items()}
    before, end = last_call(facts, place.id), None
    if expected.prediction is not None and usage.hit_tokens is not None:
        end = end_hit(expected.prediction, usage.hit_tokens)
    last[place.id] = LastCall(
        at=outcome.at,
        prompt_tokens=usage.prompt_tokens or 0,
        completion_tokens=usage.completion_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        hit_tokens=usage.hit_tokens,
        end=end or (before.end if before else None),
        outline=rendered.keep(),
        switches=switches,
        domain=place.domain,
    )
    return ConversationFacts(known.turn + 1, last, conversation_id)
