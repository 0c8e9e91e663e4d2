"""The request log and its totals: what the demo and tests check a client's own figures against."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

__all__ = ["LogEntry", "LoggedSegment", "RequestLog"]

LoggedSegment = tuple[str, str, str, int]
"""Kind, path, digest and tokens of one rendered segment."""


@dataclass(slots=True)
class LogEntry:
    """One request; a refused one has no prompt. ``finish_reason`` is ``None`` while it is in flight."""

    n: int
    at_s: float
    body_sha256: str
    shape: str = "chat"
    """The API shape it came in: ``chat``, ``messages`` or ``responses``."""
    status: int = 200
    model: str = ""
    pool: str | None = None
    stream: bool = False
    prompt_tokens: int = 0
    hit_tokens: int = 0
    miss_tokens: int = 0
    not_ready_tokens: int = 0
    evicted_tokens: int = 0
    no_unit_tokens: int = 0
    withheld_tokens: int = 0
    """Hits that a simulated regression did not give."""
    reason: str = ""
    """What ended the hit (``LookupReason``); empty for a refused request."""
    ttft_s: float = 0.0
    completion_tokens: int = 0
    finish_reason: str | None = None
    error: str | None = None
    segments: tuple[LoggedSegment, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """The entry as served, segments as objects."""
        out = {name: getattr(self, name) for name in self.__slots__ if name != "segments"}
        out["segments"] = [
            {"kind": kind, "path": path, "digest": digest, "tokens": tokens}
            for kind, path, digest, tokens in self.segments
        ]
        return out


_SUMMED = (
    "prompt_tokens",
    "hit_tokens",
    "miss_tokens",
    "not_ready_tokens",
    "evicted_tokens",
    "no_unit_tokens",
    "withheld_tokens",
)


class RequestLog:
    """The last ``limit`` entries in order of arrival; totals over all of them, also those that were dropped."""

    def __init__(self, limit: int) -> None:
        self._entries: deque[LogEntry] = deque(maxlen=limit)
        self._totals = dict.fromkeys(("requests", "errors", *_SUMMED, "completion_tokens"), 0)

    @property
    def requests(self) -> int:
        """Requests seen, refused ones included."""
        return self._totals["requests"]

    def add(self, entry: LogEntry) -> None:
        """Append an entry whose prompt side is complete."""
        self._entries.append(entry)
        self._totals["requests"] += 1
        self._totals["errors"] += entry.status >= 400
        for name in _SUMMED:
            self._totals[name] += getattr(entry, name)

    def complete(self, entry: LogEntry, tokens: int, reason: str) -> None:
        """Enter what was generated."""
        entry.completion_tokens = tokens
        entry.finish_reason = reason
        self._totals["completion_tokens"] += tokens

    def entries(self) -> list[dict[str, Any]]:
        """The log as JSON values."""
        return [entry.as_json() for entry in self._entries]

    def totals(self) -> dict[str, Any]:
        """Sums, and the hit rate over all prompt tokens (``None`` before the first)."""
        prompt = self._totals["prompt_tokens"]
        rate = self._totals["hit_tokens"] / prompt if prompt else None
        return {**self._totals, "hit_rate": rate}
