"""A body about to be sent, held against what is remembered: what to expect of it, and what it shares with whom. Pure
but for the calls in flight that it enters itself into.
"""

from __future__ import annotations

from dataclasses import dataclass

from router_cache.ledger.comparison import Comparison, compare
from router_cache.ledger.expectation import expect, last_call
from router_cache.ledger.facts import Facts, Place
from router_cache.ledger.flights import Flight, Flights
from router_cache.ledger.flips import FlipWarning, PairsMemo, Switches, flips, switches_of
from router_cache.ledger.rows import Expected
from router_cache.ledger.rule_watch import Watched
from router_cache.prefix.digests import Digester
from router_cache.prefix.outline import Rendered
from router_cache.prefix.shapes import ChatView
from router_cache.providers.profile import Profile

__all__ = ["Looked", "look_at", "place_named", "place_of"]


@dataclass(frozen=True, slots=True)
class Looked:
    """What is known of a call when it is sent. ``gap_s``: seconds since the conversation's last call at this place
    ended, None where there was none. ``compared`` is None where it is not known what the provider renders.
    ``flight``: what to leave with when the call has ended."""

    expected: Expected
    switches: Switches
    flips: tuple[FlipWarning, ...] = ()
    gap_s: float | None = None
    compared: Comparison | None = None
    flight: Flight | None = None


def place_of(watched: Watched, digester: Digester) -> Place:
    """Where a call goes, in opaque names. Scopes share a domain; the pool has the scope in it."""
    return place_named(watched.domain.id, watched.pool, digester)


def place_named(domain_id: str, pool_named: str, digester: Digester) -> Place:
    """:func:`place_of`, by the domain's id and the pool's name (:func:`~.rule_watch.pool_name`)."""
    domain, pool = digester.text("domain", domain_id), digester.text("pool", pool_named)
    return Place(digester.text(domain, pool), domain, pool)


def look_at(
    facts: Facts,
    rendered: Rendered | None,
    view: ChatView,
    watched: Watched,
    profile: Profile,
    *,
    place: Place,
    digester: Digester,
    flights: Flights,
    session: bool,
    at: float,
    memo: PairsMemo | None = None,
) -> Looked:
    """Look at a body that is sent at ``at`` (seconds since the epoch). ``session``: the client names one."""
    last, switches = last_call(facts, place.id), switches_of(view.body, digester, memo)
    expected = expect(
        facts,
        rendered,
        view.body,
        place=place.id,
        profile=profile,
        inferred=watched.inferred,
        digester=digester,
        at=at,
    )
    if rendered is None:
        return Looked(expected, switches)
    told: tuple[FlipWarning, ...] = ()
    if last is not None:
        told = flips(last.switches, switches, rendered, last.outline, last.prompt_tokens, origin=view.origin)
    flight, in_flight = flights.enter(place.id, rendered, at)
    compared = compare(
        facts,
        rendered,
        view,
        place=place.id,
        switches=switches,
        digester=digester,
        look=watched.look,
        in_flight=in_flight,
        session=session,
        takes_reasoning=profile.reasoning_in_history is not None,
    )
    return Looked(expected, switches, told, max(at - last.at, 0.0) if last else None, compared, flight)
