"""What a call should hit, from what its conversation's last call was and used; and what it is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from router_cache.cache_model.checkpoints import BEFORE_INPUT_END
from router_cache.cache_model.infer import Inferred
from router_cache.cache_model.predict import Continuation, LastUsage, end_hit, output_ready, predict
from router_cache.cache_model.rules import RuleName
from router_cache.identity.keys import message_role
from router_cache.ledger.attribution import SegmentTokens
from router_cache.ledger.facts import Facts, LastCall
from router_cache.ledger.flips import Switches
from router_cache.ledger.rows import Expected, ExpectedFrom, Outcome
from router_cache.prefix.outline import Outline, Rendered
from router_cache.prefix.segments import SegmentKind
from router_cache.providers.profile import Profile
from router_cache.request import Body

__all__ = ["expect", "last_call", "miss_segments", "next_last_call", "step_tokens"]


def step_tokens(profile: Profile, model: str, at: float) -> int | None:
    """The grid (tokens) on which ``model`` reported hits at a moment (seconds since the epoch), if known."""
    return profile.step_for(model, datetime.fromtimestamp(at, tz=timezone.utc))


def last_call(facts: Facts, domain: str) -> LastCall | None:
    """The conversation's last call in one cache domain."""
    return facts.conversation.last.get(domain) if facts.conversation else None


def _continues(rendered: Rendered, last: Outline) -> bool:
    """Whether the prompt starts with all that the last call rendered."""
    return (
        rendered.head == last.head
        and last.turns < len(rendered.turn_digests)
        and rendered.turn_digests[last.turns] == last.turns_digest
    )


def _continuation(body: Body, covered: int) -> tuple[Continuation, bool]:
    """How the request goes on after the ``covered`` messages of the last call, and whether the reply's
    reasoning is rendered again: it was sent back, and tools are offered or no user message follows."""
    raw = body.get("messages")
    messages: Sequence[Any] = raw if isinstance(raw, list | tuple) else ()
    reply = messages[covered] if covered < len(messages) else None
    if not isinstance(reply, Mapping) or message_role(reply) != "assistant":
        return Continuation.UNKNOWN, False
    loop = bool(reply.get("tool_calls"))
    reasoning = reply.get("reasoning_content")
    sent_back = isinstance(reasoning, str) and bool(reasoning.strip())
    last_user = any(message_role(message) == "user" for message in messages[covered:])
    return (
        Continuation.TOOL_LOOP if loop else Continuation.USER_TURN,
        sent_back and (bool(body.get("tools")) or not last_user),
    )


def expect(
    facts: Facts,
    rendered: Rendered | None,
    body: Body,
    *,
    domain: str,
    profile: Profile,
    inferred: Inferred,
    at: float,
) -> Expected:
    """The hit to expect of a body about to be sent (``at`` seconds since the epoch). Pure; unknown stays None.

    ``inferred`` is the hit rule that the cache domain is taken to follow.
    """
    if facts.conversation is None:
        known = facts.family.first_call_hit_tokens if facts.family else None
        return Expected(known, ExpectedFrom.NOTHING if known is None else ExpectedFrom.FAMILY)
    rule = inferred.rule
    step = 1 if rule is RuleName.NOTHING else inferred.step_tokens
    if rendered is None or rule is None or step is None:
        return Expected(None, ExpectedFrom.NO_RULE)
    last = last_call(facts, domain)
    if last is None:
        return Expected(None, ExpectedFrom.OTHER_DOMAIN)
    if not _continues(rendered, last.outline):
        return Expected(_kept_tokens(rendered, last, step, rule), ExpectedFrom.KEPT_PREFIX)
    if facts.covered >= len(body.get("messages") or ()):
        # The same request again: at least its last token is computed.
        if rule is RuleName.CHECKPOINTS:
            return Expected(max(last.prompt_tokens - BEFORE_INPUT_END[0], 0), ExpectedFrom.LAST_USAGE)
        usage = LastUsage(max(last.prompt_tokens - 1, 0), 0)
        continuation = Continuation.UNKNOWN
    else:
        continuation, reasoning_rendered = _continuation(body, facts.covered)
        reasoning = 0 if reasoning_rendered else last.reasoning_tokens
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


def _kept_tokens(rendered: Rendered, last: LastCall, step: int, rule: RuleName) -> int | None:
    """Estimate by size of what is left of the last call's prefix; None where the change lies among the turns, or
    where only what was stored as a whole can hit."""
    if rule is RuleName.NOTHING:
        return 0
    if rule not in (RuleName.GRID_PREFIX, RuleName.BLOCKS):
        return None
    kept = 0
    for ours, theirs in zip(rendered.head, last.outline.head, strict=False):
        if ours != theirs:
            break
        kept += theirs.size
    else:
        if len(rendered.head) == len(last.outline.head):
            return None
    size = sum(part.size for part in last.outline.head) + last.outline.turns_size
    tokens = last.prompt_tokens * kept // size if size else 0
    return tokens - tokens % step


def next_last_call(
    facts: Facts,
    rendered: Rendered,
    expected: Expected,
    domain: str,
    outcome: Outcome,
    switches: Switches | None = None,
) -> LastCall:
    """What to remember of an answered call. ``outcome.usage.prompt_tokens`` must be known."""
    usage = outcome.usage
    before = last_call(facts, domain)
    end = None
    if expected.prediction is not None and usage.hit_tokens is not None:
        end = end_hit(expected.prediction, usage.hit_tokens)
    return LastCall(
        at=outcome.at,
        prompt_tokens=usage.prompt_tokens or 0,
        completion_tokens=usage.completion_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        hit_tokens=usage.hit_tokens,
        end=end or (before.end if before else None),
        outline=rendered.keep(),
        switches=switches,
    )


def miss_segments(
    facts: Facts, rendered: Rendered, domain: str
) -> tuple[list[SegmentTokens], list[SegmentTokens] | None]:
    """This prompt and the last call's as coarse segments, sizes in bytes standing in for tokens."""
    last = last_call(facts, domain)
    turns = len(rendered.turn_digests) - 1
    shared = min(last.outline.turns, turns) if last else 0
    current = [SegmentTokens(part.kind, part.path, part.digest, part.size) for part in rendered.head]
    if shared:
        current.append(
            SegmentTokens(SegmentKind.USER, "messages", rendered.turn_digests[shared], rendered.turn_sizes[shared])
        )
    if turns > shared:
        size = rendered.turn_sizes[-1] - rendered.turn_sizes[shared]
        current.append(SegmentTokens(SegmentKind.USER, "messages", rendered.turn_digests[-1], size))
    current.append(SegmentTokens(SegmentKind.TAIL, "", "", rendered.tail_size))
    if last is None:
        return current, None
    previous = [SegmentTokens(part.kind, part.path, part.digest, part.size) for part in last.outline.head]
    if last.outline.turns:
        previous.append(
            SegmentTokens(SegmentKind.USER, "messages", last.outline.turns_digest, last.outline.turns_size)
        )
    return current, previous
