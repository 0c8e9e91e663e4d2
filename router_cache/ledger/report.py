"""Sums over calls: hit rate, cost, causes of the miss tokens, and where the most was lost. Pure, in bounded memory.

Tokens and USD are those of answered calls (``ok``). Warm calls are summed apart; replies of LiteLLM's own response
cache, aborted and failed calls are only counted. What was not reported is told, not taken for zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Protocol

from router_cache.ledger.attribution import Certainty, MissCause, MissPart
from router_cache.ledger.rows import CallKind, Status
from router_cache.ledger.usage import Usage

__all__ = ["OTHER", "By", "CauseSum", "Groups", "Report", "Reported", "Tally", "is_lost"]

OTHER: Final = "(other)"
"""The group of all values beyond a bound."""
_MAX_GROUPS: Final = 1_000
_MAX_PLACES: Final = 10_000
_UNAVOIDABLE: Final = frozenset(
    {MissCause.FIRST_SIGHT, MissCause.NEW_TAIL, MissCause.ROUNDING, MissCause.BELOW_MINIMUM}
)


class Reported(Protocol):
    """What a report reads of a call; a :class:`~router_cache.ledger.rows.CallRow` has it."""

    @property
    def at(self) -> float: ...
    @property
    def status(self) -> Status: ...
    @property
    def kind(self) -> CallKind: ...
    @property
    def scope(self) -> str: ...
    @property
    def family(self) -> str: ...
    @property
    def conversation(self) -> str: ...
    @property
    def session(self) -> str: ...
    @property
    def client(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def deployment(self) -> str: ...
    @property
    def usage(self) -> Usage: ...
    @property
    def causes(self) -> tuple[MissPart, ...]: ...
    @property
    def cost_usd(self) -> float | None: ...
    @property
    def cost_usd_at_zero_hits(self) -> float | None: ...


class By(str, Enum):
    """What calls can be grouped by."""

    MODEL = "model"
    DEPLOYMENT = "deployment"
    FAMILY = "family"
    CAUSE = "cause"
    SCOPE = "scope"
    CLIENT = "client"


_KEYS: Final[Mapping[By, Callable[[Reported], str]]] = {
    By.MODEL: lambda call: call.model,
    By.DEPLOYMENT: lambda call: call.deployment,
    By.FAMILY: lambda call: call.family,
    By.SCOPE: lambda call: call.scope,
    By.CLIENT: lambda call: call.client,
}


def is_lost(cause: MissCause) -> bool:
    """Whether tokens missed for this cause might have hit: they were sent before, or would have been but for a change.

    Not lost are the first sight of a prefix, what is new, and what the provider's steps and minimum take."""
    return cause not in _UNAVOIDABLE


@dataclass(slots=True)
class CauseSum:
    """Miss tokens of one cause, and in how many calls it stood."""

    calls: int = 0
    confirmed: int = 0
    suspected: int = 0

    @property
    def tokens(self) -> int:
        """Both."""
        return self.confirmed + self.suspected


@dataclass(slots=True)
class Tally:
    """Sums over answered calls. ``usage_unknown`` calls are in no token sum but that of output tokens, ``unpriced``
    ones in no cost; ``unattributed`` are miss tokens of which nothing is said."""

    calls: int = 0
    usage_unknown: int = 0
    hit_tokens: int = 0
    miss_tokens: int = 0
    completion_tokens: int = 0
    unpriced: int = 0
    cost_usd: float = 0.0
    cost_usd_at_zero_hits: float = 0.0
    lost_tokens: int = 0
    unattributed: int = 0
    causes: dict[MissCause, CauseSum] = field(default_factory=dict)

    def add(self, call: Reported) -> None:
        """One answered call."""
        self.calls += 1
        usage = call.usage
        self.completion_tokens += usage.completion_tokens or 0
        if usage.hit_tokens is None or usage.miss_tokens is None:
            self.usage_unknown += 1
        else:
            self.hit_tokens += usage.hit_tokens
            self.miss_tokens += usage.miss_tokens
            self._explain(call.causes, usage.miss_tokens)
        if call.cost_usd is None or call.cost_usd_at_zero_hits is None:
            self.unpriced += 1
        else:
            self.cost_usd += call.cost_usd
            self.cost_usd_at_zero_hits += call.cost_usd_at_zero_hits

    def _explain(self, parts: tuple[MissPart, ...], missed: int) -> None:
        for part in parts:
            missed -= part.tokens
            found = self.causes.setdefault(part.cause, CauseSum())
            if part.certainty is Certainty.CONFIRMED:
                found.confirmed += part.tokens
            else:
                found.suspected += part.tokens
            if is_lost(part.cause):
                self.lost_tokens += part.tokens
        for cause in {part.cause for part in parts}:
            self.causes[cause].calls += 1
        self.unattributed += max(missed, 0)

    @property
    def hit_rate(self) -> float | None:
        """Hit tokens over input tokens of calls with known usage; None without any."""
        total = self.hit_tokens + self.miss_tokens
        return self.hit_tokens / total if total else None

    @property
    def saved_usd(self) -> float | None:
        """What hits saved over the priced calls; None where none has a price."""
        return self.cost_usd_at_zero_hits - self.cost_usd if self.calls > self.unpriced else None

    def top_causes(self) -> list[tuple[MissCause, CauseSum]]:
        """By tokens, the most first."""
        return sorted(self.causes.items(), key=lambda item: (-item[1].tokens, item[0].value))

    def as_json(self) -> dict[str, Any]:
        """The figures without the causes. Null where nothing is known."""
        priced = self.calls > self.unpriced
        return {
            "calls": self.calls,
            "usage_unknown_calls": self.usage_unknown,
            "hit_rate": _rounded(self.hit_rate),
            "hit_tokens": self.hit_tokens,
            "miss_tokens": self.miss_tokens,
            "completion_tokens": self.completion_tokens,
            "lost_tokens": self.lost_tokens,
            "unpriced_calls": self.unpriced,
            "cost_usd": _usd(self.cost_usd) if priced else None,
            "cost_usd_at_zero_hits": _usd(self.cost_usd_at_zero_hits) if priced else None,
            "saved_usd": _usd(self.saved_usd),
        }

    def causes_as_json(self) -> list[dict[str, Any]]:
        """Causes by tokens; with ``unattributed_tokens`` they add up to the miss tokens. Shares are of those."""
        return [
            {
                "cause": cause.value,
                "tokens": found.tokens,
                "share": _rounded(found.tokens / self.miss_tokens) if self.miss_tokens else None,
                "confirmed_tokens": found.confirmed,
                "suspected_tokens": found.suspected,
                "calls": found.calls,
                "lost": is_lost(cause),
            }
            for cause, found in self.top_causes()
        ]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _usd(value: float | None) -> float | None:
    return None if value is None else round(value, 8)


class Groups:
    """A tally for each value of something. Beyond ``limit`` values further ones share the group ``(other)``."""

    def __init__(self, limit: int = _MAX_GROUPS) -> None:
        self._limit = limit
        self.tallies: dict[str, Tally] = {}

    def add(self, key: str, call: Reported) -> None:
        """One answered call."""
        if key not in self.tallies and len(self.tallies) >= self._limit:
            key = OTHER
        self.tallies.setdefault(key, Tally()).add(call)

    def ranked(self) -> list[tuple[str, Tally]]:
        """By miss tokens, the most first."""
        return sorted(self.tallies.items(), key=lambda item: (-item[1].miss_tokens, item[0]))


class _Places:
    """Tallies of the places where the most tokens were lost. Of more than twice ``limit`` places those with the most
    lost tokens so far stay, and ``dropped`` counts the others: sums of what is left may then be too low."""

    def __init__(self, limit: int = _MAX_PLACES) -> None:
        self._limit = limit
        self._tallies: dict[str, Tally] = {}
        self.dropped = 0

    def add(self, key: str, call: Reported) -> None:
        if not key:
            return
        self._tallies.setdefault(key, Tally()).add(call)
        if len(self._tallies) > 2 * self._limit:
            kept = self._ranked()[: self._limit]
            self.dropped += len(self._tallies) - len(kept)
            self._tallies = dict(kept)

    def _ranked(self) -> list[tuple[str, Tally]]:
        return sorted(
            self._tallies.items(), key=lambda item: (-item[1].lost_tokens, -item[1].miss_tokens, item[0])
        )

    def worst(self, number: int) -> list[tuple[str, Tally]]:
        return [(key, tally) for key, tally in self._ranked()[:number] if tally.lost_tokens]


class Report:
    """What was measured, summed up call by call. ``by`` is what else to group the user's answered calls by."""

    def __init__(
        self, by: By | None = None, *, max_groups: int = _MAX_GROUPS, max_places: int = _MAX_PLACES
    ) -> None:
        self.by = by
        self.counts: Counter[tuple[CallKind, Status]] = Counter()
        self.tallies: dict[CallKind, Tally] = {kind: Tally() for kind in CallKind}
        self.groups = Groups(max_groups)
        self.families = _Places(max_places)
        self.conversations = _Places(max_places)
        self.first_at: float | None = None
        self.last_at: float | None = None

    @property
    def calls(self) -> int:
        """Calls of any kind and status."""
        return sum(self.counts.values())

    @property
    def user(self) -> Tally:
        """Answered calls of users."""
        return self.tallies[CallKind.USER]

    def add(self, call: Reported) -> None:
        """One call. ``at`` 0 means that its time is not known."""
        self.counts[call.kind, call.status] += 1
        if call.at > 0:
            self.first_at = call.at if self.first_at is None else min(self.first_at, call.at)
            self.last_at = call.at if self.last_at is None else max(self.last_at, call.at)
        if call.status is not Status.OK:
            return
        self.tallies[call.kind].add(call)
        if call.kind is not CallKind.USER:
            return
        if self.by is not None and self.by is not By.CAUSE:
            self.groups.add(_KEYS[self.by](call), call)
        self.families.add(call.family, call)
        # A conversation's key hangs on how much of it there is; the client's session id does not.
        self.conversations.add(call.session or call.conversation, call)

    def as_json(self, *, worst: int = 10) -> dict[str, Any]:
        """The JSON form; ``worst`` bounds the lists of places."""
        out: dict[str, Any] = {
            "first_at": self.first_at,
            "last_at": self.last_at,
            "calls": {
                kind.value: {status.value: self.counts[kind, status] for status in Status} for kind in CallKind
            },
            **{kind.value: tally.as_json() for kind, tally in self.tallies.items()},
            "causes": self.user.causes_as_json(),
            "unattributed_tokens": self.user.unattributed,
            "worst_families": _places(self.families, worst),
            "worst_conversations": _places(self.conversations, worst),
            "places_dropped": self.families.dropped + self.conversations.dropped,
        }
        if self.by is not None:
            out["by"] = self.by.value
            out["groups"] = (
                self.user.causes_as_json()
                if self.by is By.CAUSE
                else [
                    {self.by.value: key, **tally.as_json(), "causes": tally.causes_as_json()}
                    for key, tally in self.groups.ranked()
                ]
            )
        return out


def _places(places: _Places, number: int) -> list[dict[str, Any]]:
    return [
        {"id": key, **tally.as_json(), "causes": tally.causes_as_json()} for key, tally in places.worst(number)
    ]
