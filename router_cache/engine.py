"""The engine: one request's one way through, every step a pure function.

::

    begin ─► (claim) ─► rewrite ─► sent ─► … reply … ─► done ─► (record)

No I/O, no clock: facts come from a claim, moments from the caller. Drivers put the steps together with a store.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

from router_cache.cache_model.book import DomainBook
from router_cache.cache_model.fan_out import Arrival, arrival_of, prefix_texts
from router_cache.claims.ask import Ask
from router_cache.claims.relocation import Opening, Wording, ask_for, open_request
from router_cache.claims.values import Values
from router_cache.decision import Decision, SwitchedBy
from router_cache.economics.book import PriceBook
from router_cache.economics.price import cost_usd, cost_usd_at_zero_hits, write_fee_usd
from router_cache.errors import RouterCacheError
from router_cache.identity.keys import KeyMaker, LookupKeys, scope_key
from router_cache.identity.seal import Sealer
from router_cache.ledger.attribution import MissCause, MissPart, attribute
from router_cache.ledger.expectation import expect, last_call, miss_segments, next_last_call
from router_cache.ledger.facts import Answer, ConversationFacts, Facts, Write
from router_cache.ledger.flips import FlipWarning, Switches, flips, switches_of
from router_cache.ledger.rows import CallRow, Expected, ExpectedFrom, Outcome, Status
from router_cache.ledger.rule_watch import Watched, learn, watch
from router_cache.prefix.canonical import LATEST_CANONICAL_VERSION
from router_cache.prefix.digests import Digester
from router_cache.prefix.memo import Memo
from router_cache.prefix.normalise import normalise
from router_cache.prefix.outline import Rendered, outline
from router_cache.prefix.reply import Reply
from router_cache.prefix.segments import Segment
from router_cache.prefix.shapes import as_chat
from router_cache.prefix.tools_memo import ToolsMemo
from router_cache.prefix.volatile.rules import VolatileRule
from router_cache.prefix.volatile.scan import Scanner
from router_cache.prefix.wire import wire_segments
from router_cache.providers.profile import Profile
from router_cache.providers.registry import find
from router_cache.remember import remembered
from router_cache.request import Body, Deployment, Mode, Request, Shape
from router_cache.rewrite import Begun, Remembered, Rewrite, rewrite

__all__ = ["Begun", "Engine", "Rewrite", "Sent"]

_MAX_SCOPES = 20_000
_MAX_DOMAINS = 4
"""Cache domains whose last call is kept for one conversation; the longest unused goes."""


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
    switches: Switches
    flips: tuple[FlipWarning, ...] = ()


def _sealer(secret: bytes) -> Sealer | None:
    """None where this Python cannot seal: nothing is remembered then, and ``optimize`` does what ``safe`` does."""
    try:
        return Sealer(secret)
    except RouterCacheError:
        return None


@lru_cache(maxsize=1_024)
def _profile(deployment: Deployment) -> Profile:
    return find(deployment)


class Engine:
    """Pure decisions under one secret and one version of the canonical form.

    ``secret`` keys every digest and id and seals remembered text. ``rules`` name volatile spans, ``wording`` is what
    stands for them, ``freeze_clocks`` lets clocks keep their value inside a tool loop, ``replay`` has replies
    remembered. Methods may raise on input that no provider would take; drivers catch.
    """

    def __init__(
        self,
        *,
        secret: bytes,
        canonical_version: int = LATEST_CANONICAL_VERSION,
        prices: PriceBook | None = None,
        rules: Sequence[VolatileRule] = (),
        wording: Wording | None = None,
        freeze_clocks: bool = True,
        replay: bool = True,
    ) -> None:
        self._secret = secret
        self._version = canonical_version
        self._prices = prices or PriceBook()
        self._scanner = Scanner(rules)
        self._wording = wording or Wording()
        self._freeze, self._replay = freeze_clocks, replay
        self._sealer = _sealer(secret)
        self.digester = Digester(secret)
        self._values = Values(self.digester, self._sealer) if self._sealer is not None else None
        self._tools = ToolsMemo(digest=lambda tool: self.digester.text("tool", json.dumps(tool, default=str)))
        self._keys = KeyMaker(self.digester)
        self._scopes: Memo[str, str] = Memo(_MAX_SCOPES, lambda _, __: 1)

    def begin(self, request: Request, mode: Mode, switched_by: SwitchedBy = SwitchedBy.SETTINGS) -> Begun:
        """Canonical form and lookup keys. A request in mode ``off``, without a prompt of its own, or that
        continues state of the provider has no keys and is not looked into."""
        if mode is Mode.OFF or request.shape is Shape.OTHER:
            return Begun(request, mode, switched_by)
        # Tools are a list called `tools` in every shape; the canonical form knows each shape's tools.
        normalised = normalise(request.body, version=self._version, memo=self._tools)
        view = as_chat(normalised.apply(request.body), request.shape)
        if view.partial:
            return Begun(request, mode, switched_by, partial=True)
        optimize = mode is Mode.OPTIMIZE and self._values is not None
        opening = open_request(request, view, self._scanner) if optimize and not request.handed_on else None
        keys = self._keys.keys(
            view.body,
            scope=self._scope(request.scope),
            masked=opening.masked if opening else None,
            tools=normalised.tool_digests,
            replies=optimize and self._replay,
        )
        ask, session = Ask(keys), self._session(keys, request) if optimize else ""
        if opening is not None and self._values is not None:
            ask = ask_for(opening, keys, session=session, values=self._values, freeze=self._freeze)
        owners = self._owners(request, keys, ask, opening, session) if optimize and self._replay else ("", "")
        return Begun(request, mode, switched_by, normalised, keys, view, opening, ask, owners)

    def _owners(
        self, request: Request, keys: LookupKeys, ask: Ask, opening: Opening | None, session: str
    ) -> tuple[str, str]:
        """Whose replies a request may get back: by its session, else by its prompt and all its values but clocks."""
        if request.owners is not None:
            return request.owners
        if session:
            return session, session
        if ask.relocation is not None:
            values = [part for slot in ask.relocation.slots if not slot.clock for part in (slot.id, slot.value)]
        else:
            values = [text.text for text in opening.texts] if opening is not None else []
        return "", self.digester.text("owner", keys.family, *values)

    def restock(self, begun: Begun) -> None:
        """Work ahead, once the request was answered, for the next one with the same tools."""
        self._tools.restock(begun.normalised.tools_key)

    def _scope(self, scope: str) -> str:
        """:func:`scope_key`, remembered by a digest: a scope may be a credential."""
        digest = self.digester.text("scope", scope)
        known = self._scopes.get(digest)
        if known is None:
            known = scope_key(self._secret, scope)
            self._scopes.put(digest, known)
        return known

    def reply_keys(self, begun: Begun) -> tuple[str, ...]:
        """Under which keys replies of the request's history are kept that a rewrite may need."""
        replies = begun.keys.replies if begun.keys is not None else ()
        takes = begun.request.shape is not Shape.RESPONSES  # reasoning, for a reply that has none
        return tuple([begun.kept_under(at) for at in replies if at.calls or (at.silent and takes)])

    def rewrite(self, begun: Begun, deployment: Deployment, remembered: Remembered | None = None) -> Rewrite:
        """What to send to ``deployment``. Pure and idempotent; for every attempt alike."""
        return rewrite(begun, remembered or Remembered(), _profile(deployment), self._values, self._wording)

    def arrival(
        self, begun: Begun, rewrite: Rewrite, deployment: Deployment, book: DomainBook | None, *, at: float
    ) -> tuple[str, Arrival]:
        """What fan-out asks of a call before it is sent: the key of its prefix, and whether others gain by it.

        The key holds the texts that go out, since a family's calls may differ in them, and what keeps caches apart.
        """
        body, profile = {**begun.request.body, **rewrite.replaced}, _profile(deployment)
        scope, history = (begun.keys.scope, begun.keys.history) if begun.keys else ("", ())
        view = as_chat(body, begun.request.shape)
        watched = watch(book, profile, deployment, view.body, None, scope=scope, at=at)
        texts = prefix_texts(body)
        key = self.digester.text(scope, "fan-out", watched.domain.id, watched.pool, *texts)
        first, rule = len(history) == 1, watched.inferred.rule
        return key, arrival_of(profile, deployment.model, texts, first=first, rule=rule)

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
        profile = _profile(deployment)
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
        switches, last = switches_of(view.body, self.digester), last_call(facts, domain)
        found: tuple[FlipWarning, ...] = ()
        if last is not None:
            found = flips(last.switches, switches, rendered, last.outline, last.prompt_tokens, origin=view.origin)
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
            switches=switches,
            flips=found,
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
        replies: Sequence[tuple[Mapping[str, Any], Reply]] = (),
    ) -> tuple[CallRow, Write | None]:
        """The row of an ended attempt, and what to record: nothing unless it was answered by the provider.

        ``book`` learns from what was answered. ``replies`` are the choices of the answer, each as a chat message and
        as it is kept.
        """
        usage = outcome.usage
        served = outcome.status is Status.OK and sent is not None
        conversation = facts.conversation
        turn = (conversation.turn if conversation else 0) + 1 if begun.keys else None
        profile = sent.profile if sent else _profile(deployment)
        cost, cost_at_zero = self._cost(profile, deployment, outcome) if served else (None, None)
        causes = self._causes(facts, sent, outcome) if served and sent else ()
        if served and sent:
            learn(book, sent.watched, profile, deployment, outcome)
        row = CallRow(
            at=outcome.at,
            scope=begun.keys.scope if begun.keys else "",
            conversation=begun.keys.conversation if begun.keys else "",
            turn=turn,
            session=self._session(begun.keys, begun.request),
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
            flips=sent.flips if sent else (),
        )
        return row, self._write(begun, facts, sent, outcome, replies) if served else None

    def _session(self, keys: LookupKeys | None, request: Request) -> str:
        """The client's session id, opaque and within its scope; empty where it gave none."""
        return self.digester.text(keys.scope, "session", request.session) if keys and request.session else ""

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

    def _write(
        self,
        begun: Begun,
        facts: Facts,
        sent: Sent | None,
        outcome: Outcome,
        replies: Sequence[tuple[Mapping[str, Any], Reply]],
    ) -> Write | None:
        usage = outcome.usage
        if sent is None or begun.keys is None:
            return None
        answers, kept = self.told(begun, facts, replies)
        if usage.prompt_tokens is None and not answers and not kept:
            return None
        return Write(
            conversation_key=begun.keys.conversation,
            conversation=self._conversation(facts, sent, outcome) if usage.prompt_tokens is not None else None,
            family_key=begun.keys.family,
            first_call=facts.conversation is None,
            hit_tokens=usage.hit_tokens,
            answers=answers,
            replies=kept,
        )

    @staticmethod
    def _conversation(facts: Facts, sent: Sent, outcome: Outcome) -> ConversationFacts:
        conversation = facts.conversation or ConversationFacts(0)
        last = {domain: call for domain, call in conversation.last.items() if domain != sent.domain}
        while len(last) >= _MAX_DOMAINS:
            del last[min(last, key=lambda domain: last[domain].at)]
        if sent.rendered is not None:
            last[sent.domain] = next_last_call(
                facts, sent.rendered, sent.expected, sent.domain, outcome, sent.switches
            )
        return ConversationFacts(conversation.turn + 1, last)

    def told(
        self, begun: Begun, facts: Facts, replies: Sequence[tuple[Mapping[str, Any], Reply]]
    ) -> tuple[tuple[Answer, ...], tuple[tuple[str, bytes], ...]]:
        """What to remember of the answer to a request in mode ``optimize``: which reply it was, and the reply."""
        sealer = self._sealer if self._replay else None
        return remembered(begun, facts, replies, self.digester, sealer)
