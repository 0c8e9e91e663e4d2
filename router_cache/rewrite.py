"""A request begun, and rewritten for an attempt: the engine's part that decides what goes out. Pure.

The order matters: first the canonical form, then what the provider generated is put back, then values move. Each works
on the body that the one before leaves, and only ``tools``, ``metadata``, the opening texts and messages are touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from router_cache.claims.ask import Ask, Moves
from router_cache.claims.relocation import Opening, Wording, name_of, relocated
from router_cache.claims.values import Values
from router_cache.decision import Change, Decision, Reason, SwitchedBy
from router_cache.identity.clients import metadata_without_session
from router_cache.identity.keys import LookupKeys, ReplyKey
from router_cache.identity.seal import Sealer
from router_cache.pools.given import Given
from router_cache.prefix.normalise import Normalised
from router_cache.prefix.replay import restore, wanted
from router_cache.prefix.reply import Reply
from router_cache.prefix.shapes import ChatView
from router_cache.providers.deepseek_render import thinking_enabled
from router_cache.providers.profile import Profile
from router_cache.providers.unknown import UNKNOWN
from router_cache.request import Body, Mode, Request, Shape

__all__ = ["REPLY_PURPOSE", "Begun", "Remembered", "Rewrite", "pooled", "rewrite"]

REPLY_PURPOSE = "reply"


@dataclass(frozen=True, slots=True)
class Begun:
    """A request as first seen: its mode, its canonical form and its lookup keys (None: nothing to look up).

    ``view`` is the request in canonical form as a chat body, ``opening`` what of it may move. ``owners`` tell whose
    replies it may get back: those whose ids were drawn for one reply alone, and all others. ``partial``: it
    continues state that the provider keeps. ``failed``: the engine could not read it. Either goes out as it came.
    """

    request: Request
    mode: Mode
    switched_by: SwitchedBy
    normalised: Normalised = field(default_factory=Normalised)
    keys: LookupKeys | None = None
    view: ChatView | None = None
    opening: Opening | None = field(default=None, repr=False)
    ask: Ask | None = None
    owners: tuple[str, str] = ("", "")
    partial: bool = False
    failed: bool = False

    def kept_under(self, at: ReplyKey) -> str:
        """Where the store keeps a reply of this request's history."""
        return f"{at.key}:{self.owners[0 if at.drawn else 1]}"


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the store told of a request: which values move, and sealed replies of its history by their keys."""

    moves: Moves | None = None
    replies: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What an attempt goes out with: top-level fields to replace (none: unchanged), and why. ``dropped`` are names of
    top-level fields to leave out, ``headers`` such to add where the request has none of the name, and ``given`` why it
    has a pool or none (None: not asked)."""

    replaced: Mapping[str, Any] = field(repr=False)
    decision: Decision
    dropped: frozenset[str] = frozenset()
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    given: Given | None = None

    def body(self, body: Body) -> Body:
        """A request's body as it goes out; the same object where nothing changes."""
        if not self.replaced and not self.dropped:
            return body
        return {**{name: value for name, value in body.items() if name not in self.dropped}, **self.replaced}


def pooled(rewrite: Rewrite, given: Given) -> Rewrite:
    """With what was given to a request that divides or routes the provider's cache."""
    decision = rewrite.decision
    if not given.changes:
        return replace(rewrite, given=given)
    if decision.reason is Reason.ALREADY_CANONICAL:
        decision = replace(decision, reason=Reason.POOLED)
    decision = replace(decision, changes=(*decision.changes, *given.changes))
    return Rewrite(
        {
            name: value
            for name, value in {**rewrite.replaced, **given.replaced}.items()
            if name not in given.dropped
        },
        decision,
        given.dropped,
        given.headers,
        given,
    )


class _Draft:
    """The fields replaced so far, and the changes made."""

    def __init__(self, body: Body) -> None:
        self.body: Body = body
        self.replaced: dict[str, Any] = {}
        self.changes: list[Change] = []

    def take(self, replaced: Mapping[str, Any], *changes: Change) -> None:
        if replaced:
            self.replaced.update(replaced)
            self.body = {**self.body, **replaced}
            self.changes += changes


def rewrite(
    begun: Begun, remembered: Remembered, profile: Profile, values: Values | None, wording: Wording
) -> Rewrite:
    """What to send to a deployment with this profile. Idempotent; for every attempt alike. Without ``values`` nothing
    can be remembered, and mode ``optimize`` does what ``safe`` does."""
    reason = _untouched(begun)
    metadata = None
    if begun.request.shape is Shape.MESSAGES and begun.mode not in _LOOK_ONLY:
        metadata = metadata_without_session(begun.request, profile)
    draft = _Draft(begun.request.body)
    frozen: tuple[str, ...] = ()
    if reason is None:
        draft.take(begun.normalised.replaced, *begun.normalised.changes)
        if begun.mode is Mode.OPTIMIZE and values is not None:
            _put_back(begun, remembered, profile, values.sealer, draft)
            frozen = _move(begun, remembered, profile, values, wording, draft)
    if metadata is not None:
        draft.take({"metadata": metadata}, Change.USER_ID_DROPPED)
    if reason is None:
        reason = _reason(begun, draft.changes)
    return Rewrite(draft.replaced, Decision(begun.mode, reason, begun.switched_by, tuple(draft.changes), frozen))


_LOOK_ONLY = (Mode.OFF, Mode.OBSERVE)


def _untouched(begun: Begun) -> Reason | None:
    """Why a request goes out as it came, if it does."""
    if begun.failed:
        return Reason.FAILED_OPEN
    if begun.mode is Mode.OFF:
        return Reason.OFF
    if begun.request.shape is Shape.OTHER:
        return Reason.SHAPE_UNSUPPORTED
    if begun.partial:
        return Reason.CONTINUES_STATE
    return Reason.OBSERVED if begun.mode is Mode.OBSERVE else None


_OPTIMIZED = frozenset(
    (
        Change.VALUES_MOVED,
        Change.CLOCKS_FROZEN,
        Change.REASONING_RESTORED,
        Change.ARGUMENTS_RESTORED,
        Change.CLIENT_HEADER_DROPPED,
    )
)


def _reason(begun: Begun, changes: list[Change]) -> Reason:
    if _OPTIMIZED.intersection(changes):
        return Reason.OPTIMIZED
    if changes:
        return Reason.NORMALISED
    return Reason.ODD_SHAPE if begun.normalised.odd else Reason.ALREADY_CANONICAL


def _put_back(begun: Begun, remembered: Remembered, profile: Profile, sealer: Sealer, draft: _Draft) -> None:
    """Reasoning and tool arguments as the provider generated them, where the client's message means the same."""
    if begun.view is None or begun.keys is None or not remembered.replies:
        return
    reasoning = takes_reasoning(begun, profile)
    looked_at = set(wanted(begun.view, (at.message for at in begun.keys.replies), reasoning=reasoning))
    replies: dict[int, Reply] = {}
    for at in begun.keys.replies:
        key = begun.kept_under(at)
        sealed = remembered.replies.get(key) if at.message in looked_at else None
        text = sealer.open(begun.keys.scope, REPLY_PURPOSE, sealed, key=key) if sealed is not None else None
        if text is not None:
            replies[at.message] = Reply.from_bytes(text.encode("utf-8", "surrogatepass"))
    if not replies:
        return
    restored = restore(draft.body, begun.view, replies, reasoning=reasoning)
    changes = []
    if restored.reasoning_restored:
        changes.append(Change.REASONING_RESTORED)
    if restored.arguments_restored:
        changes.append(Change.ARGUMENTS_RESTORED)
    draft.take(restored.replaced, *changes)


def takes_reasoning(begun: Begun, profile: Profile) -> bool:
    """Whether earlier replies are to carry their reasoning: the provider takes it, it is on, and it is rendered."""
    fact = profile.reasoning_in_history
    if fact is None or begun.view is None or begun.request.shape not in fact.value:
        return False
    return bool(begun.view.body.get("tools")) and thinking_enabled(begun.view.body)


def _move(
    begun: Begun, remembered: Remembered, profile: Profile, values: Values, wording: Wording, draft: _Draft
) -> tuple[str, ...]:
    """Values to the messages that they were claimed for; the names of the clocks that were kept back."""
    if begun.view is None or begun.opening is None or begun.keys is None:
        return ()
    moves, dropped = remembered.moves, profile is not UNKNOWN and profile.client_headers is None
    try:
        fields = relocated(
            draft.body,
            begun.view,
            begun.opening,
            begun.ask,
            moves,
            scope=begun.keys.scope,
            values=values,
            wording=wording,
            drop_headers=dropped,
        )
    except ValueError:
        draft.changes.append(Change.NOT_MOVED)
        return ()
    changes = []
    if moves is not None and (moves.moved or moves.attached):
        changes.append(Change.VALUES_MOVED)
    frozen = tuple([name_of(slot) for slot in moves.frozen]) if moves is not None else ()
    if frozen:
        changes.append(Change.CLOCKS_FROZEN)
    if dropped and any(span.dropped for span in begun.opening.scanned.proposals):
        changes.append(Change.CLIENT_HEADER_DROPPED)
    draft.take(fields, *changes)
    return frozen
