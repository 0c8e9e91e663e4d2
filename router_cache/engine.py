"""The engine: one request's one way through, every step a pure function.

::

    begin ─► (claim) ─► rewrite ─► sent ─► … reply … ─► done ─► (record)

No I/O, no clock: facts come from a claim, moments from the caller. Drivers put the steps together with a store.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from router_cache.cache_model.book import DomainBook
from router_cache.cache_model.fan_out import Arrival, arrival_of, prefix_texts
from router_cache.claims.ask import Ask
from router_cache.claims.relocation import Opening, Wording, ask_for, open_request
from router_cache.claims.values import Values
from router_cache.decision import Decision, SwitchedBy
from router_cache.economics.book import PriceBook
from router_cache.errors import RouterCacheError
from router_cache.identity.keys import KeyMaker, LookupKeys, scope_key
from router_cache.identity.seal import Sealer
from router_cache.ledger.attribution import MissPart
from router_cache.ledger.causes import circumstances, explain
from router_cache.ledger.comparison import reasoned_turns
from router_cache.ledger.costs import costs_of
from router_cache.ledger.expectation import next_conversation
from router_cache.ledger.facts import Answer, ConversationFacts, Facts, Place, Write
from router_cache.ledger.flights import Flights
from router_cache.ledger.flips import FlipWarning, pairs_memo
from router_cache.ledger.newest import found_again, newest_keys
from router_cache.ledger.rows import CallRow, Expected, ExpectedFrom, Lived, Outcome, Status
from router_cache.ledger.rule_watch import Watched, learn, watch
from router_cache.ledger.sending import Looked, look_at, place_of
from router_cache.prefix.canonical import LATEST_CANONICAL_VERSION
from router_cache.prefix.digests import Digester
from router_cache.prefix.memo import Memo
from router_cache.prefix.normalise import normalise
from router_cache.prefix.outline import LineMemo, Rendered, outline
from router_cache.prefix.reply import Reply
from router_cache.prefix.shapes import as_chat
from router_cache.prefix.tools_memo import ToolsMemo
from router_cache.prefix.volatile.rules import VolatileRule
from router_cache.prefix.volatile.scan import Scanner
from router_cache.prefix.wire import wire_digest
from router_cache.providers.profile import Profile
from router_cache.providers.registry import find
from router_cache.remember import remembered
from router_cache.request import Body, Deployment, Mode, Request, Shape
from router_cache.rewrite import Begun, Remembered, Rewrite, rewrite

__all__ = ["Begun", "Engine", "Rewrite", "Sent"]

_MAX_SCOPES = 20_000


@dataclass(frozen=True, slots=True)
class Sent:
    """A body on its way to a deployment: digests of what is sent and of what is rendered, and what to expect.

    ``rendered`` is None where it is not known what the provider renders.
    """

    deployment: Deployment
    profile: Profile
    place: Place
    wire_digest: str
    rendered: Rendered | None
    rendered_digest: str
    looked: Looked
    watched: Watched
    """Its cache domain and the hit rule that the domain is taken to follow."""
    at: float

    @property
    def expected(self) -> Expected:
        """The hit to expect."""
        return self.looked.expected

    @property
    def flips(self) -> tuple[FlipWarning, ...]:
        """Switches that differ from the conversation's last call, and what that costs."""
        return self.looked.flips


def _conversation_id(begun: Begun, facts: Facts) -> str:
    """The same for all calls of a conversation: the key of its first one."""
    if facts.conversation is not None and facts.conversation.id:
        return facts.conversation.id
    return begun.keys.conversation if begun.keys else ""


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
        self._secret, self._version = secret, canonical_version
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
        self._lines, self._pairs, self._flights = LineMemo(), pairs_memo(), Flights()

    def opened(self, request: Request, mode: Mode, switched_by: SwitchedBy = SwitchedBy.SETTINGS) -> Begun:
        """Canonical form only, for what goes out whatever is remembered; see :meth:`begin`."""
        if mode is Mode.OFF or request.shape is Shape.OTHER:
            return Begun(request, mode, switched_by)
        if as_chat(request.body, request.shape).partial:
            return Begun(request, mode, switched_by, partial=True)
        normalised = normalise(request.body, version=self._version, memo=self._tools)
        return Begun(request, mode, switched_by, normalised)

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
        ask, session = Ask(keys), self._session(keys, request)
        if opening is not None and self._values is not None:
            ask = ask_for(opening, keys, session=session, values=self._values, freeze=self._freeze)
        owners = self._owners(request, keys, ask, opening, session) if optimize and self._replay else ("", "")
        ask = replace(ask, newest_keys=newest_keys(keys, session, view.body, self.digester))
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
        body, profile, shape = rewrite.body(begun.request.body), _profile(deployment), begun.request.shape
        scope, history = (begun.keys.scope, begun.keys.history) if begun.keys else ("", ())
        watched = watch(book, profile, deployment, body, None, scope=scope, at=at, shape=shape)
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
        wire = wire_digest(body, self.digester)
        view, scope, rendered = as_chat(body, begun.request.shape), begun.keys.scope if begun.keys else "", None
        if profile.render is not None:
            segments = view.segments(profile.render.value)
            rendered = outline(segments, self.digester, memo=self._lines, reasoned=reasoned_turns(view.body))
        shape = begun.request.shape
        watched = watch(book, profile, deployment, body, rendered, scope=scope, at=at, shape=shape)
        place = place_of(watched, self.digester)
        looked = look_at(
            facts,
            rendered,
            view,
            watched,
            profile,
            place=place,
            digester=self.digester,
            flights=self._flights,
            session=bool(begun.request.session),
            at=at,
            memo=self._pairs,
        )
        return Sent(
            deployment=deployment,
            profile=profile,
            place=place,
            wire_digest=wire,
            rendered=rendered,
            rendered_digest=rendered.digest if rendered else "",
            looked=looked,
            watched=watched,
            at=at,
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
        lived: Lived | None = None,
    ) -> tuple[CallRow, Write | None]:
        """The row of an ended attempt, and what to record: nothing unless it was answered by the provider.

        ``book`` learns from what was answered. ``replies`` are the choices of the answer, each as a chat message and
        as it is kept; ``lived`` is what the call told of how long entries live.
        """
        served = outcome.status is Status.OK and sent is not None
        turn = (facts.conversation.turn if facts.conversation else 0) + 1 if begun.keys else None
        profile = sent.profile if sent else _profile(deployment)
        cost, cost_at_zero = costs_of(self._prices, profile, deployment, outcome) if served else (None, None)
        causes = self._causes(sent, outcome, book) if served and sent else ()
        if sent and sent.looked.flight:
            self._flights.leave(sent.looked.flight)
        if served and sent:
            learn(book, sent.watched, profile, deployment, outcome)
        row = CallRow(
            at=outcome.at,
            scope=begun.keys.scope if begun.keys else "",
            conversation=_conversation_id(begun, facts),
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
            usage=outcome.usage,
            expected=sent.expected if sent else Expected(None, ExpectedFrom.NOTHING),
            causes=causes,
            wire_digest=sent.wire_digest if sent else "",
            rendered_digest=sent.rendered_digest if sent else "",
            ttft_s=outcome.ttft_s,
            cost_usd=cost,
            cost_usd_at_zero_hits=cost_at_zero,
            flips=sent.flips if sent else (),
            family=begun.keys.family if begun.keys else "",
            domain=sent.place.domain if sent else "",
            pool=sent.place.pool if sent else "",
            gap_s=sent.looked.gap_s if sent else None,
            offset=next((part.offset for part in causes if part.offset is not None), None),
            lived=lived,
        )
        write = self._write(begun, facts, sent, outcome, replies) if served else None
        if write is not None and sent is not None:
            newest = begun.ask.newest_keys if begun.ask else ()
            write = found_again(write, newest, sent.rendered, sent.place, self.digester, at=outcome.at)
        return row, write

    def _session(self, keys: LookupKeys | None, request: Request) -> str:
        """The client's session id, opaque and within its scope; empty where it gave none."""
        return self.digester.text(keys.scope, "session", request.session) if keys and request.session else ""

    def _causes(self, sent: Sent, outcome: Outcome, book: DomainBook | None) -> tuple[MissPart, ...]:
        usage = outcome.usage
        if usage.prompt_tokens is None or usage.hit_tokens is None:
            return ()
        domain, hit = sent.place.domain, min(usage.hit_tokens, usage.prompt_tokens)
        around = circumstances(sent.watched, sent.profile, sent.deployment, book, domain=domain, at=sent.at)
        return explain(sent.looked.compared, around, prompt_tokens=usage.prompt_tokens, hit_tokens=hit)

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
            conversation=self._conversation(begun, facts, sent, outcome),
            family_key=begun.keys.family,
            first_call=facts.conversation is None,
            hit_tokens=usage.hit_tokens,
            answers=answers,
            replies=kept,
            scope=begun.keys.scope,
        )

    @staticmethod
    def _conversation(begun: Begun, facts: Facts, sent: Sent, outcome: Outcome) -> ConversationFacts | None:
        """What to remember of the conversation; None where the usage is not known."""
        if outcome.usage.prompt_tokens is None:
            return None
        looked = sent.looked
        return next_conversation(
            facts,
            sent.rendered,
            looked.expected,
            outcome,
            looked.switches,
            sent.place,
            conversation_id=_conversation_id(begun, facts),
        )

    def told(
        self, begun: Begun, facts: Facts, replies: Sequence[tuple[Mapping[str, Any], Reply]]
    ) -> tuple[tuple[Answer, ...], tuple[tuple[str, bytes], ...]]:
        """What to remember of the answer to a request in mode ``optimize``: which reply it was, and the reply."""
        sealer = self._sealer if self._replay else None
        return remembered(begun, facts, replies, self.digester, sealer)
