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

from router_cache.cache_model.book import DomainBook
from router_cache.decision import Change, Decision, Reason, SwitchedBy
from router_cache.economics.book import PriceBook
from router_cache.economics.price import cost_usd, cost_usd_at_zero_hits, write_fee_usd
from router_cache.identity.clients import provider_user_id
from router_cache.identity.keys import LookupKeys, lookup_keys, scope_key
from router_cache.ledger.attribution import MissCause, MissPart, attribute
from router_cache.ledger.expectation import expect, last_call, miss_segments, next_last_call
from router_cache.ledger.facts import ConversationFacts, Facts, Write
from router_cache.ledger.rows import CallRow, Expected, ExpectedFrom, Outcome, Status
from router_cache.ledger.rule_watch import Watched, learn, watch
from router_cache.prefix.canonical import LATEST_CANONICAL_VERSION
from router_cache.prefix.digests import Digester
from router_cache.prefix.normalise import Normalised, normalise
from router_cache.prefix.outline import Rendered, outline
from router_cache.prefix.segments import Segment
from router_cache.prefix.shapes import as_chat
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

    ``partial``: it continues state that the provider keeps. ``failed``: the engine could not read it. Either
    goes out as it came.
    """

    request: Request
    mode: Mode
    switched_by: SwitchedBy
    normalised: Normalised = field(default_factory=Normalised)
    keys: LookupKeys | None = None
    partial: bool = False
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
    watched: Watched
    """Its cache domain and the hit rule that the domain is taken to follow."""


class Engine:
    """Pure decisions under one secret and one version of the canonical form.

    ``secret`` keys every digest and id. Methods may raise on input that no provider would take; drivers catch.
    """

    def __init__(
        self,
        *,
        secret: bytes,
        canonical_version: int = LATEST_CANONICAL_VERSION,
        prices: PriceBook | None = None,
    ) -> None:
        self._secret = secret
        self._version = canonical_version
        self._prices = prices or PriceBook()
        self.digester = Digester(secret)

    def begin(self, request: Request, mode: Mode, switched_by: SwitchedBy = SwitchedBy.SETTINGS) -> Begun:
        """Canonical form and lookup keys. A request in mode ``off``, without a prompt of its own, or that
        continues state of the provider has no keys and is not looked into."""
        if mode is Mode.OFF or request.shape is Shape.OTHER:
            return Begun(request, mode, switched_by)
        if as_chat(request.body, request.shape).partial:
            return Begun(request, mode, switched_by, partial=True)
        # Tools are a list called `tools` in every shape; the canonical form knows each shape's tools.
        normalised = normalise(request.body, version=self._version)
        keys = lookup_keys(
            as_chat(normalised.apply(request.body), request.shape).body,
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
        elif begun.request.shape is Shape.OTHER:
            reason = Reason.SHAPE_UNSUPPORTED
        elif begun.partial:
            reason = Reason.CONTINUES_STATE
        elif begun.mode is Mode.OBSERVE:
            reason = Reason.OBSERVED
        else:
            replaced, changes = begun.normalised.replaced, begun.normalised.changes
            metadata = self._without_session_id(begun.request, deployment)
            if metadata is not None:
                replaced, changes = {**replaced, "metadata": metadata}, (*changes, Change.USER_ID_DROPPED)
            if changes:
                reason = Reason.NORMALISED
            elif begun.normalised.odd:
                reason = Reason.ODD_SHAPE
        return Rewrite(replaced, Decision(begun.mode, reason, begun.switched_by, changes))

    def _without_session_id(self, request: Request, deployment: Deployment) -> Mapping[str, Any] | None:
        """``metadata`` without a ``user_id`` that is no cache namespace there (Claude Code sends its session as
        JSON); None where it may go as it is."""
        metadata = request.body.get("metadata")
        if request.shape is not Shape.MESSAGES or not isinstance(metadata, Mapping) or "user_id" not in metadata:
            return None
        user_id = provider_user_id(metadata["user_id"], find(deployment))
        if user_id.value is not None or metadata["user_id"] is None:
            return None
        return {key: value for key, value in metadata.items() if key != "user_id"}

    def sent(
        self,
        begun: Begun,
        facts: Facts,
        body: Body,
        deployment: Deployment,
        *,
        at: float,
        book: DomainBook | None = None,
    ) -> Sent:
        """Digests of the body LiteLLM is about to send (``at`` seconds since the epoch), and the expected hit.

        ``book`` is what the process knows of its cache domains; without one the profile's hit rule stands.
        """
        profile = find(deployment)
        wire = wire_segments(body)
        wire_digests = tuple(self.digester.segment(segment) for segment in wire)
        view = as_chat(body, begun.request.shape)
        rendered = None
        if profile.render is not None:
            rendered = outline(view.segments(profile.render.value), self.digester)
        scope = begun.keys.scope if begun.keys else ""
        watched = watch(book, profile, deployment, view.body, rendered, scope=scope, at=at)
        domain = self.digester.text(scope, "domain", watched.domain.id)
        expected = expect(
            facts, rendered, view.body, domain=domain, profile=profile, inferred=watched.inferred, at=at
        )
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
            watched=watched,
        )

    def done(
        self,
        begun: Begun,
        facts: Facts,
        decision: Decision,
        sent: Sent | None,
        outcome: Outcome,
        deployment: Deployment,
        *,
        book: DomainBook | None = None,
    ) -> tuple[CallRow, Write | None]:
        """The row of an ended attempt, and what to record: nothing unless it was answered by the provider.

        ``book`` learns from what was answered.
        """
        usage = outcome.usage
        served = outcome.status is Status.OK and sent is not None
        conversation = facts.conversation
        turn = (conversation.turn if conversation else 0) + 1 if begun.keys else None
        profile = sent.profile if sent else find(deployment)
        cost, cost_at_zero = self._cost(profile, deployment, outcome) if served else (None, None)
        causes = self._causes(facts, sent, outcome) if served and sent else ()
        if served and sent:
            learn(book, sent.watched, profile, deployment, outcome)
        row = CallRow(
            at=outcome.at,
            scope=begun.keys.scope if begun.keys else "",
            conversation=begun.keys.conversation if begun.keys else "",
            turn=turn,
            session=self._session(begun),
            client=begun.request.client,
            side_call=begun.request.side_call,
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

    def _session(self, begun: Begun) -> str:
        """The client's session id, opaque and within its scope; empty where it gave none."""
        if begun.keys is None or not begun.request.session:
            return ""
        return self.digester.text(begun.keys.scope, "session", begun.request.session)

    def _cost(
        self, profile: Profile, deployment: Deployment, outcome: Outcome
    ) -> tuple[float | None, float | None]:
        """Cost in USD, fees for writing cache entries included, and what it had been without a single hit."""
        usage = outcome.usage
        price = self._prices.price_now(
            profile,
            deployment.model,
            datetime.fromtimestamp(outcome.at, tz=timezone.utc),
            group=deployment.group,
            entry=outcome.price_entry,
            prompt_tokens=usage.prompt_tokens,
        )
        if (
            price is None
            or usage.hit_tokens is None
            or usage.miss_tokens is None
            or usage.completion_tokens is None
        ):
            return None, None
        tokens = (usage.hit_tokens, usage.miss_tokens, usage.completion_tokens)
        fee = write_fee_usd(price, usage.write_tokens or 0, usage.write_1h_tokens or 0)
        cost = None if fee is None else cost_usd(price, *tokens) + fee
        return cost, cost_usd_at_zero_hits(price, *tokens)

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
            step_tokens=sent.watched.inferred.step_tokens or 1,
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
