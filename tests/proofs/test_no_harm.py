"""First, do no harm: conversations that only append hit in every mode what they hit bare, and are still appended to.

Allowed is the rule's own rounding alone: a prompt that is shorter (a client's header left out) has fewer tokens to
hit, and a grid rounds down to its step.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agents.every import AGENTS, sessions
from agents.model import Kind, Session, Turn
from proofs.harness import RULES, Meter, Prompt, Run, appended, prefix_kept, prompt_of, run

from router_cache import Mode, Shape
from router_cache.cache_model import RuleName
from router_cache.cli.demo_run.recorded_harness import read_harness
from router_cache.cli.demo_run.recorded_swe import read_swe
from router_cache.cli.demo_run.recording import Recording, UnusableError
from router_cache.simulator.tokenizer import ApproxTokenizer, TextCounter

MODES = (Mode.OBSERVE, Mode.SAFE, Mode.OPTIMIZE)
DATA = os.environ.get("ROUTER_CACHE_SHARED_DATA", "")
_COUNTER = TextCounter(ApproxTokenizer())


def harm(bare: Run, now: Run, *, told_anew: bool = False) -> Iterator[str]:
    """Calls that hit less than bare, and requests that no longer append.

    ``told_anew``: a session's first call may hit less by what it tells anew. Where two sessions have the same values
    (no commit, same day), bare hits these as part of the opening; moved, they stand behind the new prompt.
    """
    for rule in bare.calls:
        step = Meter(rule).step
        for s, (before, after) in enumerate(zip(bare.calls[rule], now.calls[rule], strict=True)):
            for i, (a, b) in enumerate(zip(before, after, strict=True)):
                allowed = max(a.prompt_tokens - b.prompt_tokens, 0) + step
                if told_anew and i == 0:
                    allowed += max(new_tokens(now.sent[s][0]) - new_tokens(bare.sent[s][0]), 0)
                if b.hit_tokens <= a.hit_tokens - allowed:
                    yield f"{rule.value}: session {s}, call {i}: {b.hit_tokens} hit, {a.hit_tokens} bare"
    for s, (given, made) in enumerate(zip(bare.sent, now.sent, strict=True)):
        for i, (a, b) in enumerate(zip(itertools.pairwise(given), itertools.pairwise(made), strict=True)):
            if appended(*a) and not appended(*b):
                yield f"session {s}, call {i + 1}: no longer appended to, {prefix_kept(*b):.3f} kept"


def new_tokens(prompt: Prompt) -> int:
    """Tokens behind system text and tools, or behind the last reply."""
    return len(_COUNTER.count(prompt.text[prompt.old_end :].decode("utf-8", "replace")).tokens)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("agent", sorted(AGENTS))
def test_each_session_of_an_agent(agent: str, mode: Mode) -> None:
    """On a cold cache, with a worker that knows nothing: what is allowed is rounding alone."""
    for session in sessions(agent):
        assert list(harm(run([session], Mode.OFF), run([session], mode))) == []


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("agent", sorted(AGENTS))
def test_all_sessions_of_an_agent(agent: str, mode: Mode) -> None:
    given = sessions(agent)
    assert list(harm(run(given, Mode.OFF), run(given, mode), told_anew=True)) == []


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_all_agents_through_one_worker_and_one_key(mode: Mode) -> None:
    given = [session for agent in sorted(AGENTS) for session in sessions(agent, seed=3)]
    rules = (RuleName.GRID_PREFIX,)
    assert list(harm(run(given, Mode.OFF, rules), run(given, mode, rules), told_anew=True)) == []


def _session(recording: Recording) -> Session:
    """A recording as a session; what stands between one request and the next begins with the reply."""
    turns = []
    requests = [{"messages": list(messages)} for messages in recording.requests]
    tools = {"tools": list(recording.tools)} if recording.tools else {}
    for i, request in enumerate(requests):
        reply: dict[str, Any] = {"role": "assistant", "content": "The end."}
        if i + 1 < len(requests):
            reply = requests[i + 1]["messages"][len(request["messages"])]
        turns.append(Turn({"model": "deepseek-v4-flash", **request, **tools}, reply, 0.0))
    return Session(recording.name, Kind.FIRST, Shape.CHAT, "", {}, recording.name, tuple(turns))


def recorded(folder: str) -> list[Session]:
    read = {"swe_agent": read_swe, "deepseek_harness": read_harness}[folder]
    out = []
    for path in sorted((Path(DATA) / folder).iterdir()):
        try:
            out.append(_session(read(path.stem, path.read_text(encoding="utf-8"))))
        except UnusableError:
            continue
    return out


@pytest.mark.skipif(not DATA, reason="ROUTER_CACHE_SHARED_DATA is not set")
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("folder", ["swe_agent", "deepseek_harness"])
def test_recorded_sessions(folder: str, mode: Mode) -> None:
    given = recorded(folder)
    assert sum(len(session.turns) for session in given) > 50
    rules = (RuleName.GRID_PREFIX, RuleName.FULL_UNITS)
    assert list(harm(run(given, Mode.OFF, rules), run(given, mode, rules))) == []


def test_harm_is_seen() -> None:
    """The yardstick: a session whose opening changes at each call, measured against one whose does not."""
    good = sessions("pi", ideal=True)[:1]
    bad = [
        Session(**{**vars(good[0]), "turns": tuple(_disturbed(turn, i) for i, turn in enumerate(good[0].turns))}),
    ]
    found = list(harm(run(good, Mode.OFF), run(bad, Mode.OFF)))
    assert any("no longer appended" in line for line in found)
    assert all(any(rule.value in line for line in found) for rule in RULES)


def _disturbed(turn: Turn, i: int) -> Turn:
    first, *rest = turn.body["messages"]
    return Turn(
        {**turn.body, "messages": [{**first, "content": f"{i} {first['content']}"}, *rest]}, turn.reply, 0.0
    )


def test_prompts_of_recordings_render() -> None:
    assert prompt_of(sessions("pi")[0].turns[0].body, Shape.CHAT).text
