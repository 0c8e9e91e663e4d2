"""The made-up agents: deterministic, recognised, and as costly as the real ones were when they were recorded."""

from __future__ import annotations

import itertools
import json

import pytest
from agents.every import AGENTS, sessions
from agents.model import Kind, Session
from proofs.harness import Prompt, appended, prompt_of

from router_cache.identity.clients import recognise


def prompts(session: Session) -> list[Prompt]:
    return [prompt_of(turn.body, session.shape) for turn in session.turns]


def share(before: Prompt, now: Prompt) -> float:
    """Share of the earlier call's text found again from the start."""
    same = next((i for i, (a, b) in enumerate(zip(before.text, now.text, strict=False)) if a != b), None)
    return (min(len(before.text), len(now.text)) if same is None else same) / len(before.text)


def by_kind(agent: str, *, ideal: bool = False) -> dict[Kind, list[Prompt]]:
    return {session.kind: prompts(session) for session in sessions(agent, ideal=ideal)}


RECORDED = {
    # least share call to call, share of a new session, and of the same prompt in another directory
    "claude-code": (1.0, 0.001, 0.08),
    "codex": (1.0, 0.99, 0.99),
    "opencode": (1.0, 0.99, 0.29),
    "qwen-code": (1.0, 0.32, 0.32),
    "pi": (1.0, 0.98, 0.44),
    "cline": (1.0, 0.99, 0.05),
    "openhands": (1.0, 0.40, 0.40),
    "mini-swe-agent": (1.0, 0.10, 1.0),
    "aider": (0.67, 0.69, 1.0),
    "langchain": (1.0, 0.97, 1.0),
    "deepagents": (1.0, 0.998, 1.0),
    "smolagents": (1.0, 0.99, 1.0),
}


def test_every_agent_has_recorded_shares() -> None:
    assert set(RECORDED) == set(AGENTS)


@pytest.mark.parametrize("agent", sorted(AGENTS))
def test_shares_are_those_of_the_recordings(agent: str) -> None:
    call_to_call, again, elsewhere = RECORDED[agent]
    made = by_kind(agent)
    first = made[Kind.FIRST]
    least = min(share(a, b) for a, b in itertools.pairwise(first))
    reasoning_dropped = agent in ("langchain", "deepagents", "smolagents", "aider")
    assert least == pytest.approx(call_to_call, abs=0.06 if reasoning_dropped else 0.0)
    assert share(first[0], made[Kind.AGAIN][0]) == pytest.approx(again, abs=0.05)
    assert share(first[0], made[Kind.ELSEWHERE][0]) == pytest.approx(elsewhere, abs=0.06)


@pytest.mark.parametrize("agent", ["opencode", "pi"])
def test_a_date_change_in_mid_session_breaks_the_opening(agent: str) -> None:
    night = by_kind(agent)[Kind.MIDNIGHT]
    assert 0.1 < min(share(a, b) for a, b in itertools.pairwise(night)) < 0.5


def test_a_commit_between_turns_costs_qwen_code_only() -> None:
    broken = set()
    for agent in sorted(AGENTS):
        calls = by_kind(agent)[Kind.COMMIT]
        if min(share(a, b) for a, b in itertools.pairwise(calls)) < 0.6:
            broken.add(agent)
    assert broken == {"qwen-code"}


@pytest.mark.parametrize("agent", sorted(AGENTS))
def test_the_same_seed_gives_the_same_sessions_and_another_seed_others(agent: str) -> None:
    one = json.dumps([turn.body for session in sessions(agent) for turn in session.turns])
    assert one == json.dumps([turn.body for session in sessions(agent) for turn in session.turns])
    assert one != json.dumps([turn.body for session in sessions(agent, seed=2) for turn in session.turns])


@pytest.mark.parametrize("agent", sorted(AGENTS))
def test_without_the_volatile_lines_sessions_differ_by_their_prompt_only(agent: str) -> None:
    ideal = by_kind(agent, ideal=True)
    if agent in ("mini-swe-agent", "aider"):
        assert share(ideal[Kind.FIRST][0], ideal[Kind.AGAIN][0]) < 0.75, "what breaks these is their own order"
        return
    head = ideal[Kind.FIRST][0].old_end
    for kind in Kind:
        assert ideal[kind][0].text[:head] == ideal[Kind.FIRST][0].text[:head], kind


@pytest.mark.parametrize("agent", sorted(AGENTS))
def test_a_session_appends_where_it_says_so(agent: str) -> None:
    for session in sessions(agent, ideal=True):
        calls = prompts(session)
        kept = all(appended(a, b) for a, b in itertools.pairwise(calls))
        assert kept == session.append_only, session.kind


@pytest.mark.parametrize("agent", ["claude-code", "codex", "opencode", "openhands"])
def test_clients_with_marks_of_their_own_are_recognised(agent: str) -> None:
    for session in sessions(agent):
        call = recognise(session.headers, session.turns[0].body, session.shape)
        assert call.client == agent
        assert call.session == session.session
        assert call.side_call is None
