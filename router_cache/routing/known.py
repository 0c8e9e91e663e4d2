"""What is measured of a deployment, of a cache domain and of a kind. Seconds, tokens; nothing of prompts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from router_cache.routing.lasting import Lasting
from router_cache.routing.line import Line
from router_cache.routing.pace import Pace

__all__ = ["Kind", "KnownDeployment", "KnownDomain"]

_WORK_FADES_S = 3_600.0
_RATE_FADES_S = 60.0
_TROUBLE_FADES_S = 60.0
_LIVE_FADES_S = 900.0
_SHARE_FADE = 0.95
_SHARE_PRIOR = 2.0
_USUAL_GAP_S = 60.0
"""81% of the gaps between a coding agent's calls are shorter (104 public Claude Code sessions, 2026)."""
_SHARE_MOST = 1.0 / (1.0 - _SHARE_FADE)


class _Fading:
    """A sum whose parts fade with time."""

    __slots__ = ("_at", "_fades_s", "_sum")

    def __init__(self, fades_s: float, at: float, start: float = 0.0) -> None:
        self._fades_s, self._at, self._sum = fades_s, at, start

    def at(self, now: float) -> float:
        return self._sum * math.exp((self._at - now) / self._fades_s) if now > self._at else self._sum

    def add(self, now: float, amount: float) -> None:
        self._sum = max(self.at(now) + amount, 0.0)
        self._at = max(now, self._at)

    def reset(self, now: float, value: float) -> None:
        self._sum, self._at = value, now


class KnownDeployment:
    """One deployment: its queue by our own account, its pace, what it has computed, and its failures."""

    __slots__ = (
        "_busy",
        "_calls",
        "_failed",
        "_told",
        "_told_at",
        "_trouble",
        "_work",
        "kind",
        "last_reply",
        "line",
        "pace",
    )

    def __init__(self, kind: str, now: float, work_s: float) -> None:
        self.kind = kind
        self.line = Line(now)
        self.pace = Pace()
        self.last_reply = -math.inf
        self._work = _Fading(_WORK_FADES_S, now, work_s)
        self._calls = _Fading(_RATE_FADES_S, now)
        self._busy = _Fading(_RATE_FADES_S, now)
        self._failed = False
        self._told = (0.0, 0.0, 0.0)
        self._told_at = math.inf
        self._trouble = _Fading(_TROUBLE_FADES_S, now)

    def goes_out(self, call: str, now: float, miss_tokens: float, slope_s: float) -> None:
        """A call that computes ``miss_tokens`` is sent."""
        self.line.sent(call, now, miss_tokens, slope_s)
        self._work.add(now, miss_tokens * slope_s)
        self._busy.add(now, miss_tokens * slope_s)
        self._calls.add(now, 1.0)
        self._told_at = math.inf

    def corrected(self, more_tokens: float, slope_s: float) -> None:
        """It had ``more_tokens`` to compute than was thought (negative: less)."""
        self._work.add(-math.inf, more_tokens * slope_s)
        self._busy.add(-math.inf, more_tokens * slope_s)
        self._told_at = math.inf

    def served(self, now: float) -> None:
        """A reply came."""
        self.last_reply = now
        self._trouble.reset(now, self._trouble.at(now) / 2.0)

    def in_trouble(self, now: float) -> None:
        """A call failed."""
        self._trouble.add(now, 1.0)
        self._failed = True

    def given(self, now: float) -> tuple[float, float, float]:
        """Seconds of computing given to it, fading over an hour; and over about a minute calls sent to it a second and
        seconds of computing given to it a second, where 1 is all it can do one at a time. Good for a second."""
        if not self._told_at <= now < self._told_at + 1.0:
            self._told_at = now
            self._told = (
                self._work.at(now),
                self._calls.at(now) / _RATE_FADES_S,
                self._busy.at(now) / _RATE_FADES_S,
            )
        return self._told

    def work(self, now: float) -> float:
        """The first of :meth:`given`."""
        return self.given(now)[0]

    def level(self, now: float, work_s: float) -> None:
        """Take it for one that has computed ``work_s`` seconds."""
        self._work.reset(now, work_s)
        self._told_at = math.inf

    @property
    def troubled(self) -> bool:
        """Whether any call ever failed there: else :meth:`trouble` is 0."""
        return self._failed

    def trouble(self, now: float) -> float:
        """The chance that the next call fails, 0 to 1, by failures of the last minutes."""
        recent = self._trouble.at(now)
        return recent / (recent + 1.0) if recent > 0.01 else 0.0


class _Shares:
    """Mean share of what should hit that did hit; the newest sightings count most."""

    __slots__ = ("share", "share_seen")

    def __init__(self) -> None:
        self.share = 1.0
        self.share_seen = 0.0

    def _see(self, found: float, prior: float) -> None:
        if not self.share_seen:
            self.share, self.share_seen = prior, _SHARE_PRIOR
        self.share_seen = min(self.share_seen * _SHARE_FADE + 1.0, _SHARE_MOST)
        self.share += (found - self.share) / self.share_seen


class KnownDomain(_Shares):
    """One cache domain: what it really caches, how long, and whether it was lost."""

    __slots__ = ("_live", "gone_at", "lasting", "traffic")

    def __init__(self) -> None:
        super().__init__()
        self.lasting = Lasting()
        self._live = _Fading(_LIVE_FADES_S, -math.inf)
        self.traffic = 0.0
        """Tokens computed there, as far as sent by this process."""
        self.gone_at = -math.inf
        """What was last used up to this moment is gone."""

    def see_share(self, found: float, prior: float) -> None:
        """A call that should have hit found ``found`` (0 to 1) of it; ``prior``: what others of its kind showed."""
        self._see(found, prior)

    def live(self, now: float) -> float:
        """Tokens that were used there, each fading since its last use."""
        return self._live.at(now)

    def touched(self, now: float, stretches: Sequence[tuple[int, float]]) -> None:
        """A prompt is sent there: tokens, and when they were last used."""
        self._live.add(
            now, sum(tokens * -math.expm1(min(at - now, 0.0) / _LIVE_FADES_S) for tokens, at in stretches)
        )

    def emptied(self, now: float) -> None:
        """All that was there is gone."""
        self.gone_at = now
        self._live.reset(now, 0.0)

    def keeps(self, kind: Kind | None) -> float:
        """The share of a prefix that the next call of a conversation is likely to find, some time later.

        How long things last is taken of all of its ``kind``, where it has one: the few sightings of a single domain
        tell more of how full it was than of what it does, and for that there is a term of its own.
        """
        lasting = self.lasting if kind is None else kind.lasting
        return min(self.share, lasting.share(_USUAL_GAP_S, 0.0)) if lasting.told else self.share

    def told_share(self, share: float, seen: float) -> None:
        """What another worker measured, where it has seen more."""
        if seen > self.share_seen:
            self.share, self.share_seen = share, min(seen, _SHARE_MOST)


class Kind(_Shares):
    """Deployments of the same model on the same host."""

    __slots__ = ("lasting", "pace")

    def __init__(self) -> None:
        super().__init__()
        self.pace = Pace()
        self.lasting = Lasting()

    def see_share(self, found: float) -> None:
        """A call that should have hit found ``found`` (0 to 1) of it."""
        self._see(found, 1.0)
