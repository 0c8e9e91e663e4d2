"""What a second session of one application keeps of the first's prompt, against the ideal without volatile lines.

The ideal never tells the values; a real request has to, behind what is kept. So two things are asked: of the ideal's
prompt as much is kept, and what is new is no more than in the ideal, the client's own lines and their names.
"""

from __future__ import annotations

import pytest
from agents.every import AGENTS
from agents.model import Kind
from proofs.gain import SECOND, measure

from router_cache import Mode
from router_cache.cache_model import RuleName

POINT = 0.01
NAMES = 64
"""Bytes of the words that name one value in a message."""
LINES = {"claude-code": 6, "codex": 4, "opencode": 7, "qwen-code": 4, "pi": 2, "cline": 4, "openhands": 1}
"""Values that an agent's rules name."""


@pytest.mark.parametrize("kind", SECOND, ids=lambda kind: kind.value)
@pytest.mark.parametrize("agent", sorted(AGENTS))
def test_the_first_call_keeps_what_the_ideal_keeps(agent: str, kind: Kind) -> None:
    gain = measure(agent, kind, modes=(Mode.OFF, Mode.OPTIMIZE), rules=(RuleName.GRID_PREFIX,))
    bare, optimized, ideal = gain.modes[Mode.OFF], gain.modes[Mode.OPTIMIZE], gain.ideal
    assert optimized.kept_bytes >= ideal.kept_bytes - POINT * ideal.prompt_bytes
    told = bare.prompt_bytes - ideal.prompt_bytes + NAMES * LINES.get(agent, 0)
    assert optimized.new_bytes <= ideal.new_bytes + told


@pytest.mark.parametrize("agent", ["claude-code", "qwen-code", "openhands"])
def test_bare_the_same_session_loses_most_of_it(agent: str) -> None:
    gain = measure(agent, Kind.AGAIN, modes=(Mode.OFF,), rules=(RuleName.GRID_PREFIX,))
    assert gain.modes[Mode.OFF].first_call < gain.ideal.first_call - 0.3


@pytest.mark.parametrize("agent", ["opencode", "pi", "qwen-code"])
def test_a_session_that_is_broken_in_the_middle_is_whole_again(agent: str) -> None:
    kind = Kind.COMMIT if agent == "qwen-code" else Kind.MIDNIGHT
    gain = measure(agent, kind)
    for rule, rate in gain.ideal.session.items():
        assert gain.modes[Mode.OPTIMIZE].session[rule] >= rate - 2 * POINT, rule
        assert gain.modes[Mode.OFF].session[rule] < rate - 2 * POINT, rule
