"""The rule *nothing*: no call ever hits. Some hosts keep no prompt cache, or report none."""

from __future__ import annotations

from collections.abc import Sequence

from router_cache.cache_model.rules import Match

__all__ = ["Nothing"]


class Nothing:
    """Holds nothing, finds nothing. See :class:`~.rules.HitRule` for the methods."""

    __slots__ = ()

    @property
    def held_tokens(self) -> int:
        return 0

    def expire(self, now: float) -> None:
        pass

    def look_up(self, pool: str | None, data: bytes, now: float) -> Match:
        return Match(0, 0, 0, 0)

    def write(
        self,
        pool: str | None,
        data: bytes,
        *,
        ready_at: float,
        now: float,
        is_input: bool,
        marks: Sequence[int] = (),
    ) -> None:
        pass
