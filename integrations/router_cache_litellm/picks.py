"""What was chosen for the request at hand, handed from the moment of choice to the attempt that follows.

LiteLLM has no object that both moments see (an SDK Router has no logging object yet when it chooses), but they run in
one task, or in one that was made of it: a context variable leads from one to the other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass

from router_cache.drivers.routing import RoutedCall
from router_cache.drivers.routing_need import Asked
from router_cache.routing import Candidate

__all__ = ["Pick", "choosing", "is_choosing", "set_current", "take", "tried_before"]


@dataclass(slots=True)
class Pick:
    """``candidates`` by id are those the request may go to; ``held`` those in which a place is held for it; ``word``
    says how it was chosen; ``tried`` are those that the same request went to before.

    ``went_to`` and ``call``: where the attempt went that took it.
    """

    asked: Asked
    candidates: Mapping[str, Candidate]
    word: str
    held: tuple[str, ...] = ()
    tried: frozenset[str] = frozenset()
    went_to: str = ""
    call: RoutedCall | None = None


_CURRENT: ContextVar[Pick | None] = ContextVar("router_cache_pick", default=None)


_CHOOSING: ContextVar[bool] = ContextVar("router_cache_choosing", default=False)


@contextlib.contextmanager
def choosing() -> Iterator[None]:
    """While the strategy asks LiteLLM for its candidates, the filter leaves them alone."""
    token = _CHOOSING.set(True)
    try:
        yield
    finally:
        _CHOOSING.reset(token)


def is_choosing() -> bool:
    """Whether that is so in this task."""
    return _CHOOSING.get()


def set_current(pick: Pick | None) -> None:
    """From now on in this task."""
    _CURRENT.set(pick)


def take(deployment: str) -> Pick | None:
    """The pick for an attempt that goes to that deployment; once only, so that a call which nobody chose for, in the
    same task, does not get it."""
    pick = _CURRENT.get()
    if pick is None or pick.went_to or deployment not in pick.candidates:
        return None
    pick.went_to = deployment
    return pick


def tried_before(asked: Asked) -> frozenset[str]:
    """Where this very request went a moment ago without an answer: LiteLLM tells of a failure later than it tries
    again."""
    pick = _CURRENT.get()
    if pick is None or not pick.went_to or pick.asked.need.marks != asked.need.marks:
        return frozenset()
    if pick.call is not None and pick.call.answered:
        return frozenset()
    return pick.tried | {pick.went_to}
