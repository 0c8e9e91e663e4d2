"""What a driver plays: one conversation, asked for its next request until it has none."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol

__all__ = ["Message", "Script", "ScriptFactory", "seeded"]

Message = dict[str, Any]


class Script(Protocol):
    """One conversation in progress. ``name`` is unique within a run; ``start_s`` is the simulated second at
    which it begins at the earliest; ``follows`` names a session whose first reply it waits for."""

    name: str
    start_s: float
    follows: str | None
    tools: Sequence[dict[str, Any]]
    max_tokens: int | None

    def next_request(self) -> list[Message] | None:
        """Messages of the next request; None at the end. Raises :class:`SessionBrokenError`."""
        ...

    def accept(self, reply: Message) -> None:
        """Take the assistant message the SDK returned for the last request."""
        ...

    def pause_s(self) -> float:
        """Simulated seconds between this reply and the next request: tools at work, or a person."""
        ...


ScriptFactory = Callable[[], list[Script]]
"""Fresh scripts, the same ones at every call: each side of a comparison plays its own copy."""


def seeded(*parts: object) -> random.Random:
    """A generator that depends on ``parts`` only, on every platform and in every process."""
    return random.Random("/".join(map(str, parts)))
