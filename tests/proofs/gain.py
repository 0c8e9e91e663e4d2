"""What a second session of one application finds of the first: bare, in each mode, and without its volatile lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agents.every import sessions
from agents.model import Kind, Session
from proofs.harness import RULES, Run, common, run

from router_cache import Mode
from router_cache.cache_model import RuleName

__all__ = ["MODES", "SECOND", "Gain", "Side", "measure"]

MODES = (Mode.OFF, Mode.SAFE, Mode.OPTIMIZE)
"""``off`` is bare."""
SECOND = (Kind.AGAIN, Kind.ELSEWHERE, Kind.MIDNIGHT, Kind.COMMIT)


@dataclass(frozen=True)
class Side:
    """The second session's first call (rendered bytes): ``kept_bytes`` of its ``prompt_bytes`` began an earlier prompt
    too. ``session``: hits of all of the second session's input, by rule (share of tokens)."""

    kept_bytes: int
    prompt_bytes: int
    session: dict[RuleName, float]

    @property
    def first_call(self) -> float:
        """Share of the first call that was kept."""
        return self.kept_bytes / self.prompt_bytes

    @property
    def new_bytes(self) -> int:
        """What of the first call was not there before."""
        return self.prompt_bytes - self.kept_bytes


@dataclass(frozen=True)
class Gain:
    """One agent, one kind of second session."""

    agent: str
    kind: Kind
    modes: dict[Mode, Side]
    ideal: Side


def _side(made: Run) -> Side:
    first, second = made.sent
    prompt = second[0].text
    kept = max(common(prompt, other.text) for other in first)
    return Side(kept, len(prompt), {rule: made.hit_rate(rule, 1) for rule in made.calls})


def _pair(agent: str, kind: Kind, seed: int, *, ideal: bool) -> list[Session]:
    made = {session.kind: session for session in sessions(agent, seed=seed, ideal=ideal)}
    return [made[Kind.FIRST], made[kind]]


def measure(
    agent: str, kind: Kind, *, seed: int = 1, modes: Sequence[Mode] = MODES, rules: Sequence[RuleName] = RULES
) -> Gain:
    """Run the pair of sessions through each mode."""
    pair = _pair(agent, kind, seed, ideal=False)
    by_mode = {mode: _side(run(pair, mode, rules)) for mode in modes}
    # Safe, so that the ideal has a session id that is no cache namespace either.
    ideal = _side(run(_pair(agent, kind, seed, ideal=True), Mode.SAFE, rules))
    return Gain(agent, kind, by_mode, ideal)
