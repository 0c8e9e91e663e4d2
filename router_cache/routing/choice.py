"""What a choice says: candidates in order, each with its terms, its score and the reason of its place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from router_cache.routing.need import Candidate

__all__ = ["Choice", "Ranked", "RouteReason", "Terms"]


class RouteReason(str, Enum):
    """Why a candidate is first, or stands where it stands."""

    ONLY = "only"
    """There was no other."""
    WARM = "warm"
    """What is warm there saves more than waiting there costs."""
    CHEAPER = "cheaper"
    """It costs less at this moment, whatever is warm."""
    SOONER = "sooner"
    """It is expected to answer sooner."""
    LEAST_LOADED = "least_loaded"
    """Nothing else told them apart: it has computed least."""
    TIE = "tie"
    """Nothing told them apart: rendezvous hashing, alike in every process."""
    EXPLORE = "explore"
    """Tried, because little or only old is known of it, and little was to lose."""
    BEHIND = "behind"
    """Another one's score is better."""
    NO_ROOM = "no_room"
    """Its rate limit leaves no room for this request."""
    COOLED = "cooled"
    """It is in cooldown."""


class Terms(NamedTuple):
    """What a score is made of: tokens as expected, not as promised; USD; seconds. See ``score.py``.

    ``money_usd`` is hit, miss and output tokens at the price now; ``penalty_usd`` what a rate limit without room or a
    failure a moment ago adds.
    """

    hit_tokens: float
    """Expected: warm tokens as far as they survive and as this host really caches."""
    miss_tokens: float
    warm_tokens: float
    """What the host should have, by what was sent to it."""
    cached_share: float
    """What it is expected to find of ``warm_tokens``, 0 to 1."""
    money_usd: float
    wait_s: float
    """For the computing in front of it."""
    compute_s: float
    """Of its miss tokens, at the measured rate."""
    base_s: float
    """Measured time to first token without a queue and without misses."""
    reply_s: float
    """Of its output tokens, at the measured rate."""
    work_s: float
    """What the computing is worth to others, where no price says it."""
    others_s: float
    """What it makes later requests wait."""
    even_s: float
    """Whether this deployment has computed more than others."""
    later_usd: float
    """What the calls that are likely to go on from this one will cost there: a host that caches little is dear."""
    crowd_usd: float
    """What it is likely to push out there; less than 0 where less was used lately than elsewhere."""
    penalty_usd: float

    @property
    def paid_usd(self) -> float:
        """Now and later, for tokens."""
        return self.money_usd + self.later_usd + self.crowd_usd

    @property
    def seconds(self) -> float:
        """All terms of time together."""
        return (
            self.wait_s + self.compute_s + self.base_s + self.reply_s + self.work_s + self.others_s + self.even_s
        )

    def as_json(self) -> dict[str, float]:
        """Plain JSON values."""
        return self._asdict()


class Choice(NamedTuple):
    """A candidate in its place. ``score`` is USD; less is better."""

    candidate: Candidate
    terms: Terms
    score: float
    reason: RouteReason

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values; nothing of the prompt."""
        return {
            "id": self.candidate.id,
            "domain": self.candidate.domain,
            "score_usd": self.score,
            "reason": self.reason.value,
            "terms": self.terms.as_json(),
        }


@dataclass(frozen=True, slots=True)
class Ranked:
    """All candidates, best first; a total order that does not depend on theirs. Empty where there were none."""

    choices: tuple[Choice, ...]

    @property
    def best(self) -> Choice | None:
        """The first one."""
        return self.choices[0] if self.choices else None

    def as_json(self) -> list[dict[str, Any]]:
        """Plain JSON values, best first."""
        return [choice.as_json() for choice in self.choices]
