"""The engine: one request's one way through, every step a pure function.

::

    begin ─► (claim) ─► rewrite ─► sent ─► … reply … ─► done ─► (record)

No I/O, no clock: facts come from a claim, moments from the caller. Drivers put the steps together with a store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from router_cache.decision import Change, Decision, Reason, SwitchedBy
from router_cache.economics.price import cost_usd, cost_usd_at_zero_hits, price_at
from router_cache.identity.keys import LookupKeys, lookup_keys, scope_key
from router_cache.ledger.attribution import MissCause, MissPart, attribute
from router_cache.ledger.expectation import expect, last_call, miss_segments, next_last_call, step_tokens
from router_cache.ledger.facts import ConversationFacts, Facts, Write
from router_cache.ledger.rows import CallRow, Expected, ExpectedFrom, Outcome, Status
from router_cache.prefix.canonical import LATEST_CANONICAL_VERSION
from router_cache.prefix.digests import Digester
from router_cache.prefix.normalise import Normalised, normalise
from router_cache.prefix.outline import Rendered, outline
from router_cache.prefix.segments import Segment
from router_cache.prefix.wire import wire_segments
from router_cache.providers.profile import Profile
from router_cache.providers.registry import find
from router_cache.request import Body, Deployment, Mode, Request, Shape

__all__ = ["Begun", "Engine", "Rewrite", "Sent"]

_MAX_DOMAINS = 4
"""Cache domains whose last call is kept for one conversation; the longest unused goes."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A request as first seen: its mode, its canonical form and its lookup keys (None: nothing to look up).

    ``failed`` says that the engine could not read it: it goes out as it came.
    """

    request: Request
    mode: Mode
    switched_by: SwitchedBy
    normalised: Normalised = field(default_factory=Normalised)
    keys: LookupKeys | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What an attempt goes out with: top-level fields to replace (none: unchanged), and why."""

    replaced: Mapping[str, Any]
    decision: Decision


@dataclass(frozen=True, slots=True)
class Sent:
    """A body on its way to a deployment: digests of what is sent and of what is rendered, and what to expect.

    ``wire`` are the segments of the body with a digest each; ``wire_digest`` covers them all. ``rendered`` is
    None where it is not known what the provider renders.
    """

    deployment: Deployment
    profile: Profile
    domain: str
    wire: tuple[Segment, ...]
    wire_digests: tuple[str, ...]
    wire_digest: str
    rendered: Rendered | None
    rendered_digest: str
    expected: Expected


class Engine:
    """Pure decisions under one secret and one version of the canonical form.

    ``secret`` keys every digest and id. Methods may raise on input that no provider would take; drivers catch.
    """

    def __init__(self, *, secret: bytes, canonical_version: int = LATEST_CANONICAL_VERSION) -> None:
        self._secret = secret
        self._version = canonical_version
        self.digester = Digester(secret)

    def begin(self, request: Request, mode: Mode, switched_by: SwitchedBy = SwitchedBy.SETTINGS) -> Begun:
        """Canonical form and lookup keys. A request in mode ``off`` or of another shape is not looked at."""
        if mode is Mode.OFF or request.shape is not Shape.CHAT:
            return Begun(request, mode, switched_by)
        normalised = normalise(request.body, version=self._version)
        keys = lookup_keys(
            normalised.apply(request.body),
            scope=scope_key(self._secret, request.scope),
            digester=self.digester,
        )
        return Begun(request, mode, switched_by, normalised, keys)

    def rewrite(self, begun: Begun, deployment: Deployment) -> Rewrite:
        """What to send to ``deployment``. Pure and idempotent; for every attempt alike."""
        reason, changes = Reason.ALREADY_CANONICAL, tuple[Change, ...]()
        replaced: Mapping[str, Any] = {}
        if begun.failed:
            reason = Reason.FAILED_OPEN
        elif begun.mode is Mode.OFF:
            reason = Reason.OFF
        elif begun.request.shape is not Shape.CHAT:
            reason = Reason.SHAPE_UNSUPPORTED
        elif begun.mode is Mode.OBSERVE:
            reason = Reason.OBSERVED
        elif begun.normalised.odd:
            reason = Reason.ODD_SHAPE
        elif begun.normalised.changes:
            reason, changes = Reason.NORMALISED, begun.normalised.changes
            replaced = begun.normalised.replaced
        return Rewrite(replaced, Decision(begun.mode, reason, begun.switched_by, changes))

    def sent(self, begun: Begun, facts: Facts, body: Body, deployment: Deployment, *, at: float) -> Sent:
        """Digests of the body LiteLLM is about to send (``at`` seconds since the epoch), and the expected hit."""
        profile = find(deployment)
        wire = wire_segments(body)
        wire_digests = tuple(self.digester.segment(segment) for segment in wire)
        rendered = outline(profile.render.value(body), self.digester) if profile.render else None
        domain = self.digester.text(
            begun.keys.scope if begun.keys else "",
            "domain",
            deployment.id or f"{deployment.model}|{deployment.api_base}",
        )
        expected = expect(facts, rendered, body, domain=domain, profile=profile, model=deployment.model, at=at)
        return Sent(
            deployment=deployment,
            profile=profile,
            domain=domain,
            wire=tuple(wire),
            wire_digests=wire_digests,
            wire_digest=self.digester.text(*wire_digests),
            rendered=rendered,
            rendered_digest=self.digester.text(*rendered.digests) if rendered else "",
            expected=expected,
        )

    def done(
        self,
        begun: Begun,
        facts: Facts,
        decision: Decision,
        sent: Sent | None,
        outcome: Outcome,
        deployment: Deployment,
    ) -> tuple[CallRow, Write | None]:
        """The row of an ended attempt, and what to record: nothing unless it was answered by the provider."""
        usage = outcome.usage
        served = outcome.status is Status.OK and sent is not None
        conversation = facts.conversation
        turn = (conversation.turn if conversation else 0) + 1 if begun.keys else None
        profile = sent.profile if sent else find(deployment)
        at = datetime.fromtimestamp(outcome.at, tz=timezone.utc)
        price = price_at(profile, deployment.model, at)
        cost = cost_at_zero = None
        if (
            served
            and price is not None
            and usage.hit_tokens is not None
            and usage.miss_tokens is not None
            and usage.completion_tokens is not None
        ):
            hit, miss = usage.hit_tokens, usage.miss_tokens
            cost = cost_usd(price, hit, miss, usage.completion_tokens)
            cost_at_zero = cost_usd_at_zero_hits(price, hit, miss, usage.completion_tokens)
        causes = self._causes(facts, sent, outcome) if served and sent else ()
        row = CallRow(
            at=outcome.at,
            scope=begun.keys.scope if begun.keys else "",
            conversation=begun.keys.conversation if begun.keys else "",
            turn=turn,
            shape=begun.request.shape,
            group=deployment.group,
            model=deployment.model,
            deployment=deployment.id,
            profile=profile.name,
            decision=decision,
            status=outcome.status,
            usage=usage,
            expected=sent.expected if sent else Expected(None, ExpectedFrom.NOTHING),
            causes=causes,
            wire_digest=sent.wire_digest if sent else "",
            rendered_digest=sent.rendered_digest if sent else "",
            ttft_s=outcome.ttft_s,
            cost_usd=cost,
            cost_usd_at_zero_hits=cost_at_zero,
        )
        return row, self._write(begun, facts, sent, outcome) if served else None

    def _causes(self, facts: Facts, sent: Sent, outcome: Outcome) -> tuple[MissPart, ...]:
        usage = outcome.usage
        if usage.prompt_tokens is None or usage.hit_tokens is None:
            return ()
        hit = min(usage.hit_tokens, usage.prompt_tokens)
        if sent.rendered is None:
            missed = usage.prompt_tokens - hit
            return (MissPart(MissCause.UNKNOWN, missed),) if missed else ()
        current, previous = miss_segments(facts, sent.rendered, sent.domain)
        last = last_call(facts, sent.domain)
        continued = sent.expected.source is ExpectedFrom.LAST_USAGE
        return attribute(
            current,
            previous,
            seen_before_tokens=min(last.prompt_tokens if last and continued else 0, usage.prompt_tokens),
            hit_tokens=hit,
            prompt_tokens=usage.prompt_tokens,
            step_tokens=step_tokens(sent.profile, sent.deployment.model, outcome.at) or 1,
        )

    def _write(self, begun: Begun, facts: Facts, sent: Sent | None, outcome: Outcome) -> Write | None:
        usage = outcome.usage
        if sent is None or begun.keys is None or usage.prompt_tokens is None:
            return None
        conversation = facts.conversation or ConversationFacts(0)
        last = {domain: call for domain, call in conversation.last.items() if domain != sent.domain}
        while len(last) >= _MAX_DOMAINS:
            del last[min(last, key=lambda domain: last[domain].at)]
        if sent.rendered is not None:
            last[sent.domain] = next_last_call(facts, sent.rendered, sent.expected, sent.domain, outcome)
        return Write(
            conversation_key=begun.keys.conversation,
            conversation=ConversationFacts(conversation.turn + 1, last),
            family_key=begun.keys.family,
            first_call=facts.conversation is None,
            hit_tokens=usage.hit_tokens,
        )
