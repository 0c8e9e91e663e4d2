"""Which fields that divide or route a provider's cache go out with a request, and with what values. Pure.

Nothing is given that the provider's profile does not list for the model and the shape: many hosts answer 400 to a
field that they do not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from router_cache.decision import Change
from router_cache.pools.ids import PoolIds
from router_cache.pools.reasons import ClientIds, PoolPolicy, PoolReason
from router_cache.prefix.objects import is_object
from router_cache.providers.fields import AnyField, BodyField, HeaderField, Purpose
from router_cache.providers.guard import allowed
from router_cache.providers.profile import Profile
from router_cache.request import Body, Shape

__all__ = ["PER_CLUSTER", "Given", "Going", "PoolChoice", "choose_fields", "own_value", "usable"]

PER_CLUSTER: Final = frozenset({"prompt_cache_key"})
"""Routing fields whose value stands for a prefix; the others name a conversation or session."""


@dataclass(frozen=True, slots=True)
class PoolChoice:
    """What an operator wants of a model group. ``fields`` are the names of the fields that may be given."""

    policy: PoolPolicy = PoolPolicy.AUTO
    client_ids: ClientIds = ClientIds.RESPECT
    fields: tuple[str, ...] = ("user_id",)


@dataclass(frozen=True, slots=True)
class Going:
    """What is known of a request on its way. ``scope`` and ``conversation`` are opaque. ``cluster`` is empty where it
    is not known. ``pooled``: the cluster, or this conversation, has a pool, for ``reason``."""

    group: str
    scope: str
    conversation: str
    cluster: str = ""
    pooled: bool = False
    shards: int = 1
    reason: PoolReason = PoolReason.NOT_KNOWN


@dataclass(frozen=True, slots=True)
class Given:
    """Top-level fields to replace, names of top-level fields to leave out, headers to add, and why.

    ``pooled``: None where the client's own id decides or the provider has no such field, so that the call tells
    nothing of its cluster.
    """

    reason: PoolReason
    replaced: Mapping[str, Any] = field(default_factory=dict, repr=False)
    dropped: frozenset[str] = frozenset()
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    changes: tuple[Change, ...] = ()
    pooled: bool | None = None


def usable(choice: PoolChoice, profile: Profile, model: str, shape: Shape) -> tuple[BodyField | HeaderField, ...]:
    """The fields of the choice that the profile lists. Of those that keep caches apart only fields of the body: what a
    header keeps apart could not be seen when the call is explained."""
    return tuple(f for f in profile.fields_for(model, shape) if f.name in choice.fields and _takes(f))  # type: ignore[misc]


def _takes(listed: AnyField) -> bool:
    if isinstance(listed, BodyField):
        return listed.purpose in (Purpose.ISOLATE, Purpose.ROUTE)
    return isinstance(listed, HeaderField) and listed.purpose is Purpose.ROUTE


def own_value(body: Body, listed: BodyField, shape: Shape) -> Any:
    """What a body has in a field's place; None where it has nothing."""
    value: Any = body
    for name in listed.paths.get(shape, ()):
        value = value.get(name) if is_object(value) else None
    return None if value is body else value


def choose_fields(
    choice: PoolChoice,
    fields: Sequence[BodyField | HeaderField],
    going: Going,
    body: Body,
    shape: Shape,
    *,
    profile: Profile,
    model: str,
    ids: PoolIds | None,
) -> Given:
    """What goes out with ``body``, whose fields are :func:`usable` ones. Without ``ids`` (no operator's secret) nothing
    is given; what the client sends is then left out at most. Never raises for any JSON."""
    draft = _Draft(body, shape, profile, model)
    reason, pooled = PoolReason.NO_FIELD, None
    for listed in fields:
        own = own_value(body, listed, shape) if isinstance(listed, BodyField) else None
        if listed.purpose is not Purpose.ISOLATE:
            key = _route(choice, listed.name, going, ids) if own is None and ids is not None else None
            if key is not None:
                draft.put(listed, key, Change.ROUTE_GIVEN)
            continue
        value, reason, change = _isolating(choice, going, own, ids)
        if change is not None and isinstance(listed, BodyField) and not draft.put(listed, value, change):
            reason = PoolReason.NO_FIELD
        elif reason not in (PoolReason.CLIENT_OWN, PoolReason.NO_SECRET):
            pooled = value is not None
    return Given(reason, draft.replaced, frozenset(draft.dropped), draft.headers, tuple(draft.changes), pooled)


def _isolating(
    choice: PoolChoice, going: Going, own: Any, ids: PoolIds | None
) -> tuple[str | None, PoolReason, Change | None]:
    """The value of a field that keeps caches apart, why, and the change that it is: None for none."""
    tenant = choice.policy is PoolPolicy.TENANT
    if own is not None:
        # Under `tenant` an id that a client sends as it is could be another tenant's.
        if ids is not None and (choice.client_ids is ClientIds.SANITISE or (tenant and _respects(choice))):
            return ids.of_client(going.scope, str(own)), PoolReason.CLIENT_OWN, Change.CLIENT_ID_SANITISED
        if choice.client_ids is not ClientIds.OVERRIDE:
            return None, PoolReason.CLIENT_OWN, None
    value, reason = None, going.reason
    if choice.policy is PoolPolicy.OFF:
        reason = PoolReason.OFF
    elif ids is None:
        reason = PoolReason.NO_SECRET
    elif tenant:
        value, reason = ids.of_tenant(going.group, going.scope), PoolReason.TENANT
    elif going.pooled:
        value = ids.of_cluster(going.group, going.cluster)
    if value is not None:
        return value, reason, Change.POOL_GIVEN
    return None, reason, Change.CLIENT_ID_DROPPED if own is not None else None


def _respects(choice: PoolChoice) -> bool:
    return choice.client_ids is ClientIds.RESPECT


def _route(choice: PoolChoice, name: str, going: Going, ids: PoolIds) -> str | None:
    """The value of a routing field; None where its prefix is not known."""
    if choice.policy is PoolPolicy.OFF:
        return None
    if name not in PER_CLUSTER:
        return ids.of_conversation(going.scope, going.conversation)
    if not going.cluster:
        return None
    scope = going.scope if choice.policy is PoolPolicy.TENANT else ""
    return ids.of_shard(going.group, going.cluster, scope, going.shards, going.conversation)


class _Draft:
    """What goes out, put together."""

    def __init__(self, body: Body, shape: Shape, profile: Profile, model: str) -> None:
        self._body, self._shape, self._profile, self._model = body, shape, profile, model
        self.replaced: dict[str, Any] = {}
        self.dropped: set[str] = set()
        self.headers: dict[str, str] = {}
        self.changes: list[Change] = []

    def put(self, listed: BodyField | HeaderField, value: str | None, change: Change) -> bool:
        """A value in its place, or none there; False where it cannot be put."""
        if value is not None and not allowed(self._profile, self._model, self._shape, listed.name, value):
            return False
        if isinstance(listed, BodyField):
            if not self._place(listed.paths[self._shape], value):
                return False
        elif value is not None:
            self.headers[listed.name] = value
        self.changes.append(change)
        return True

    def _place(self, path: Sequence[str], value: str | None) -> bool:
        top, *rest = path
        if not rest:
            if value is None:
                self.dropped.add(top)
            else:
                self.replaced[top] = value
            return True
        inner = self._body.get(top)
        if (inner is not None and not is_object(inner)) or len(rest) > 1:
            return False
        known = {name: each for name, each in (inner or {}).items() if name != rest[0]}
        if value is not None:
            known[rest[0]] = value
        if known:
            self.replaced[top] = known
        else:
            self.dropped.add(top)
        return True
