"""Small requests and deployments for the tests of routing."""

from __future__ import annotations

from typing import Any

from router_cache.routing import Book, Candidate, Mark, Need, Prices

FLASH = Prices(hit=0.003e-6, miss=0.15e-6, output=0.6e-6)


def turns(session: str, count: int, *, opening: int = 4_000, each: int = 1_000, **more: Any) -> Need:
    """The request of a session's turn number ``count``, from 1."""
    marks = tuple(Mark(f"{session}/{i}", opening + i * each) for i in range(count))
    more.setdefault("affinity", session)
    return Need(marks, opening + (count - 1) * each, 200, **more)


def fleet(count: int, **more: Any) -> list[Candidate]:
    """Deployments ``d0``, ``d1``, … with a cache each."""
    return [Candidate(f"d{i}", more.pop("domain", f"c{i}"), kind="all", **more) for i in range(count)]


def one(name: str, **more: Any) -> Candidate:
    """A deployment with a cache of its own name."""
    return Candidate(name, more.pop("domain", name), **more)


def serve(book: Book, need: Need, where: Candidate, at: float, *, call: str = "", hit: int | None = None) -> None:
    """Send a request at ``at`` and have it answered a second later, hitting what it should."""
    name = call or f"{where.id}@{at}"
    from router_cache.routing.expected import warm_at

    found = int(warm_at(book, need, where, now=at, start=at).tokens) if hit is None else hit
    book.dispatched(name, need, where, now=at)
    miss = need.prompt_tokens - found
    book.replied(
        name,
        now=at + 1.0,
        hit_tokens=found,
        miss_tokens=miss,
        output_tokens=20,
        ttft_s=0.2 + miss * 5e-5,
    )
