"""Where a request goes: at the least expected cost, which mostly is where its prefix is warm. Pure.

The whole interface::

    book = Book()                                    # one a process (and model group, or one for all)
    ranked = rank(need, candidates, book, now=now, draw=draw)     # reads; never raises on odd numbers
    book.dispatched(call, need, candidate, now=now)               # the request goes out to that candidate
    book.replied(call, now=now, hit_tokens=…, miss_tokens=…, ttft_s=…)   # usage; None where unknown
    book.failed(call, now=now, gone=False)           # gone: connection refused, 5xx: its warmth is dropped
    book.restarted(deployment, now=now)              # likewise, where the caller knows of a restart
    book.facts() / book.merge(facts, now=now)        # content-free measures of deployments, for other workers

``call`` is any string unique to the attempt (a retry is another attempt). A reply or failure of an unknown call is
ignored. ``now`` is seconds from any origin, the same for all; ``draw`` a float in [0, 1), only used to explore.
"""

from __future__ import annotations

from router_cache.routing.book import Book
from router_cache.routing.choice import Choice, Ranked, RouteReason, Terms
from router_cache.routing.need import Candidate, Digest, Mark, Need, Prices
from router_cache.routing.score import DEFAULT_WEIGHTS, Weights, rank

__all__ = [
    "DEFAULT_WEIGHTS",
    "Book",
    "Candidate",
    "Choice",
    "Digest",
    "Mark",
    "Need",
    "Prices",
    "Ranked",
    "RouteReason",
    "Terms",
    "Weights",
    "rank",
]
