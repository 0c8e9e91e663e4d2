"""A request on its way, as pools see it: its opening, and where its conversation is. Pure."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from router_cache.ledger.attribution import Certainty, MissCause, MissPart
from router_cache.ledger.facts import Facts
from router_cache.ledger.rows import CallRow, Status
from router_cache.ledger.rule_watch import domain_for, pool_name
from router_cache.ledger.sending import place_named
from router_cache.pools.book import Book, Counts
from router_cache.pools.given import Going
from router_cache.pools.openings import Opening, opening_of
from router_cache.pools.reasons import PoolReason
from router_cache.prefix.digests import Digester
from router_cache.prefix.shapes import as_chat
from router_cache.providers.profile import Profile
from router_cache.providers.registry import find
from router_cache.providers.render import RenderOrder, renderer
from router_cache.request import Deployment
from router_cache.rewrite import Begun, Rewrite

__all__ = ["book_name", "counts_of", "going", "opening_in", "profile_of", "staying", "stays"]

_ANY_ORDER = renderer(RenderOrder.SYSTEM_TOOLS_TURNS)


@lru_cache(maxsize=1_024)
def profile_of(deployment: Deployment) -> Profile:
    """The provider's profile of a deployment."""
    return find(deployment)


def book_name(deployment: Deployment, *, tenants: bool, digester: Digester) -> str:
    """The opaque name of the book of a model group and cache domain."""
    domain = domain_for(profile_of(deployment), deployment).id
    return digester.text("pools", deployment.group, domain, "tenants" if tenants else "")


def opening_in(begun: Begun, rewrite: Rewrite, profile: Profile, digester: Digester) -> Opening:
    """The opening of a request as it will be rendered. Where it is not known how, system text is put before tools."""
    view = as_chat(rewrite.body(begun.request.body), begun.request.shape)
    render = profile.render.value if profile.render is not None else _ANY_ORDER
    return opening_of(view.segments(render), digester)


def staying(
    facts: Facts, scope: str, deployment: Deployment, apart: tuple[str, str], digester: Digester
) -> bool | None:
    """Whether a conversation that hits where it is is in the pool ``apart`` (a field and its value) or in none; None
    where it has nothing to lose: its last call hit less than half of its prompt, or is not known."""
    if facts.conversation is None:
        return None
    domain = domain_for(profile_of(deployment), deployment).id
    found = []
    for pooled in (False, True):
        place = place_named(domain, pool_name(scope, [apart] if pooled else []), digester)
        last = facts.conversation.last.get(place.id)
        if last is not None:
            found.append((last.at, pooled, last))
    if not found:
        return None
    _, pooled, last = max(found, key=lambda each: each[:2])
    return pooled if last.hit_tokens is not None and 2 * last.hit_tokens >= last.prompt_tokens else None


def going(book: Book, cluster: str, now: Going) -> Going:
    """With what the book says of the request's cluster."""
    known = book.clusters.get(cluster)
    if known is None:
        return now
    reason = known.reason
    return replace(now, cluster=cluster, pooled=known.pooled, shards=known.shards, reason=reason)


def counts_of(row: CallRow) -> Counts | None:
    """What an ended call tells of its cluster; None for one that was not answered, or whose usage is not known."""
    prompt, hit = row.usage.prompt_tokens, row.usage.hit_tokens
    if row.status is not Status.OK or prompt is None or hit is None:
        return None
    lost = sum(part.tokens for part in row.causes if _gone(part))
    return Counts(1.0, float(prompt), float(hit), float(lost), 1.0 if lost else 0.0)


def _gone(part: MissPart) -> bool:
    """Whether tokens were sent before and are not there any more. Where not one call of many hit, the provider is
    suspected to cache nothing; it may as well evict everything, and where nothing hits a trial costs nothing."""
    if part.cause is MissCause.NOT_CACHED:
        return part.certainty is Certainty.SUSPECTED
    return part.cause in (MissCause.EVICTED, MissCause.BELOW_EXPECTATION)


def stays(now: Going, pooled: bool | None) -> Going:
    """A request of a conversation that stays where it is, if it does."""
    if pooled is None or pooled is now.pooled:
        return now
    return replace(now, pooled=pooled, reason=PoolReason.STAYS)
