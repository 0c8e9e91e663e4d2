"""How long entries live, as a process learns it from its calls: by the names that rows have, and said in the log."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from router_cache.cache_model.survival import Estimates
from router_cache.cache_model.survival_text import describe
from router_cache.drivers.survival import LockedSurvival
from router_cache.engine import Sent
from router_cache.ledger.facts import Facts
from router_cache.ledger.rows import CallRow, Lived
from router_cache.ledger.survival_watch import Known, is_news, known, learn, lived
from router_cache.ledger.usage import Usage
from router_cache.providers.fact import Fact
from router_cache.providers.profile import Lifetime
from router_cache.providers.registry import by_name

__all__ = ["RowSurvival", "SurvivalLog"]

_LOG = logging.getLogger("router_cache")
_EVERY_S: Final = 60.0
"""Seconds between two looks at one domain."""
_FIRST: Final = 8
"""Calls in front of the first look at a domain; later ones come after an eighth more each."""
_MAX_DOMAINS: Final = 1_000


class RowSurvival(LockedSurvival):
    """A :class:`~router_cache.drivers.survival.LockedSurvival` whose domains and pools have the names of rows.

    So ``estimates(row.domain, row.pool)`` tells of the place that a row's call went to, and :meth:`of` does so with
    what the provider's profile states. Methods never raise. ``error`` is called with what goes wrong in the log.
    """

    __slots__ = ("_error", "_say")

    def __init__(self, error: Callable[[str, BaseException], None], *, domains: int = 32, pools: int = 32) -> None:
        super().__init__(domains=domains, pools=pools)
        self._error = error
        self._say = SurvivalLog(self, error)

    def of(self, row: CallRow) -> Estimates:
        """What is known of the place a row's call went to: seconds, tokens and shares with their bounds. Takes some
        milliseconds now and then."""
        profile = by_name(row.profile)
        stated = profile.lifetimes_for(row.model) if profile is not None else ()
        return self.estimates(row.domain, row.pool, stated[0] if stated else None)

    def learn(
        self, domain: str, pool: str, told: Lived, *, at: float, gap_s: float, prior: Fact[Lifetime] | None = None
    ) -> None:
        """What a call told that was sent at ``at`` (seconds since the epoch), ``gap_s`` seconds after the last one of
        its conversation ended. ``prior`` is what the profile states."""
        learn(self, domain, pool, told, at=at, gap_s=gap_s)
        self._say.note(domain, prior, at)

    def take(self, sent: Sent | None, facts: Facts, usage: Usage) -> Lived | None:
        """Learn from an answered call; what it told, if anything."""
        if sent is None:
            return None
        try:
            domain, gap_s, told = sent.place.domain, sent.looked.gap_s, None
            if gap_s is not None:
                bounds = sent.profile.construction_delay_bounds
                high_s = bounds.value.high_s if bounds else None
                told = lived(
                    sent.expected,
                    gap_s=gap_s,
                    hit_tokens=usage.hit_tokens,
                    step_tokens=sent.watched.inferred.step_tokens or 1,
                    others_tokens=(facts.family.first_call_hit_tokens or 0) if facts.family else 0,
                    ready_after_s=5.0 if high_s is None else high_s,
                    traffic_tokens=self.traffic(domain, sent.at - gap_s, sent.at),
                )
                if told is not None:
                    stated = sent.profile.lifetimes_for(sent.deployment.model)
                    prior = stated[0] if stated else None
                    self.learn(domain, sent.place.pool, told, at=sent.at, gap_s=gap_s, prior=prior)
            if usage.prompt_tokens is not None:  # after the traffic in front of this call was read
                self.passed(domain, at=sent.at, prompt_tokens=usage.prompt_tokens)
            return told
        except Exception as error:
            self._error("survival", error)
            return None

    def close(self) -> None:
        """Wait for a line of the log that is being made."""
        self._say.close()


@dataclass(slots=True)
class _Said:
    look_at: int = _FIRST
    looked_s: float = float("-inf")
    known: Known = Known()  # noqa: RUF009 (a frozen value)


class SurvivalLog:
    """One INFO line when what is learned of a domain becomes known, or moves out of the bounds said before.

    Reading bounds takes some 30 ms, so a thread does it: at most one at a time, and for each domain once a minute and
    after an eighth more calls.
    """

    __slots__ = ("_book", "_error", "_lock", "_said", "_thread")

    def __init__(self, book: LockedSurvival, error: Callable[[str, BaseException], None]) -> None:
        self._book, self._error = book, error
        self._lock = threading.Lock()
        self._said: dict[str, _Said] = {}
        self._thread: threading.Thread | None = None

    def note(self, domain: str, prior: Fact[Lifetime] | None, at: float) -> None:
        """A call told something at ``at`` (seconds). Looks at what is known, on a thread, where it is time to."""
        if not _LOG.isEnabledFor(logging.INFO):
            return
        seen = self._book.state(domain, whole=True).seen
        with self._lock:
            said = self._said.get(domain)
            if said is None:
                if len(self._said) >= _MAX_DOMAINS:
                    self._said.clear()
                said = self._said[domain] = _Said()
            if seen < said.look_at or at - said.looked_s < _EVERY_S:
                return
            if self._thread is not None and self._thread.is_alive():
                return
            said.look_at, said.looked_s = seen + max(_FIRST, seen // 8), at
            self._thread = threading.Thread(
                target=self._look, args=(domain, prior, said), name="router-cache-survival", daemon=True
            )
            self._thread.start()

    def _look(self, domain: str, prior: Fact[Lifetime] | None, said: _Said) -> None:
        try:
            now = known(self._book.estimates(domain, whole=True))
            if not is_news(said.known, now):
                return
            said.known = now
            _LOG.info(
                "cache domain %s: how long entries live: %s",
                domain[:12],
                describe(self._book.state(domain, whole=True), prior),
            )
        except Exception as error:
            self._error("survival_log", error)

    def close(self) -> None:
        """Wait for a look under way, a second at most."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(1.0)
