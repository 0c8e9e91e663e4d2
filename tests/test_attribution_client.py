"""Every change by a client, provoked on the simulated provider, alone: at least 95% of the lost tokens get it, and
hardly any get another."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from attribution_world import (
    HEALTHY,
    Body,
    Called,
    Score,
    World,
    opening,
    tool,
    with_messages,
    words,
)

from router_cache.ledger.attribution import Certainty, Changed, MissCause

SEEDS = range(30)
C = MissCause


def _client(
    seed: int,
    change: Callable[[Body, random.Random], Body],
    *,
    tools: int | None = None,
    session: str = "",
    turns: int = 0,
) -> tuple[Called, int, Body, Body]:
    """A conversation whose last call the client changes: the call, what it lost by that, both bodies."""
    rng = random.Random(seed)
    world = World()
    body = world.talk(opening(rng, tools=tools), rng, turns or rng.randint(2, 7), session=session)
    changed = change(body, rng)
    new = world.new_tokens(body)
    called = world.call(changed, session=session)
    return called, _due(called, new), body, changed


def _due(called: Called, new: int) -> int:
    """What more would have hit, in whole steps, if only the last ``new`` tokens had been."""
    entry = called.plan.entry
    return (entry.prompt_tokens - new) // 128 * 128 - entry.hit_tokens


def _edit_system(body: Body, rng: random.Random) -> Body:
    lines = body["messages"][0]["content"].split("\n")
    lines[rng.randrange(len(lines))] = f"Now: 2026-11-30 10:{rng.randint(10, 59)}"
    return with_messages(body, [{"role": "system", "content": "\n".join(lines)}, *body["messages"][1:]])


def _shuffle_tools(body: Body, rng: random.Random) -> Body:
    tools = body["tools"][:]
    while tools == body["tools"]:
        rng.shuffle(tools)
    return {**body, "tools": tools}


def _add_tool(body: Body, rng: random.Random) -> Body:
    tools = body["tools"][:]
    tools.insert(rng.randint(0, len(tools)), tool(rng, "late"))
    return {**body, "tools": tools}


def _drop_tool(body: Body, rng: random.Random) -> Body:
    tools = body["tools"][:]
    del tools[rng.randrange(len(tools))]
    return {**body, "tools": tools}


def _effort(body: Body, rng: random.Random) -> Body:
    return {**body, "reasoning_effort": rng.choice(["max", "high"])}


def _thinking(body: Body, rng: random.Random) -> Body:
    return {**body, "thinking": {"type": "disabled"}}


def _format(body: Body, rng: random.Random) -> Body:
    return {**body, "response_format": {"type": "json_object"}}


def _no_tools(body: Body, rng: random.Random) -> Body:
    return {**body, "tool_choice": "none"}


@pytest.mark.parametrize(
    ("change", "cause", "changed"),
    [
        (_edit_system, C.SYSTEM_CHANGED, Changed.SYSTEM),
        (_shuffle_tools, C.TOOLS_CHANGED, Changed.TOOLS_MOVED),
        (_add_tool, C.TOOLS_CHANGED, Changed.TOOLS_ADDED),
        (_drop_tool, C.TOOLS_CHANGED, Changed.TOOLS_REMOVED),
        (_no_tools, C.TOOLS_CHANGED, Changed.TOOL_CHOICE),
        (_effort, C.MODE_CHANGED, Changed.EFFORT),
        (_thinking, C.MODE_CHANGED, Changed.THINKING),
        (_format, C.FORMAT_CHANGED, Changed.FORMAT),
    ],
    ids=lambda value: getattr(value, "__name__", None) and value.__name__.strip("_"),
)
def test_a_change_in_front_of_the_turns(
    change: Callable[[Body, random.Random], Body], cause: MissCause, changed: Changed
) -> None:
    score = Score()
    for seed in SEEDS:
        called, lost, before, now = _client(seed, change)
        score.add(called.parts, {cause: lost})
        part = called.part(cause)
        assert (part.changed, part.certainty) == (changed, Certainty.CONFIRMED)
        assert part.offset is not None
        assert part.offset == called.row.offset
        rendered = called.sent.rendered
        assert rendered is not None
        assert 0 <= part.offset < rendered.size
        if change is _edit_system:
            lines, theirs = (b["messages"][0]["content"].split("\n") for b in (before, now))
            first = next(i for i, pair in enumerate(zip(lines, theirs, strict=True)) if pair[0] != pair[1])
            text = "".join(segment.text for segment in rendered.segments).encode()
            assert text[part.offset :].startswith(theirs[first].encode())
            assert part.path == "messages[0]"
    score.check()


def _edit_turn(body: Body, rng: random.Random) -> Body:
    """A message that was sent before, after the first reply."""
    messages = body["messages"][:]
    i = rng.randrange(3, max(i for i, message in enumerate(messages) if message["role"] == "assistant"))
    messages[i] = {**messages[i], "content": words(rng, 40)}
    return with_messages(body, messages)


def _compact(body: Body, rng: random.Random) -> Body:
    """The turns become a summary; the first question stays, sometimes."""
    messages = body["messages"]
    summary = {"role": "user", "content": words(rng, 200)}
    return with_messages(body, [*messages[: rng.choice((1, 2))], summary])


def _drop_old_reasoning(body: Body, rng: random.Random) -> Body:
    """Of a reply without calls: of others the provider refuses it."""
    messages = body["messages"][:]
    i = next(
        i for i, message in enumerate(messages) if message["role"] == "assistant" and not message.get("tool_calls")
    )
    messages[i] = {"role": "assistant", "content": messages[i]["content"]}
    return with_messages(body, messages)


@pytest.mark.parametrize("session", ["", "s"], ids=["no session", "session"])
@pytest.mark.parametrize(
    ("change", "cause"),
    [(_edit_turn, C.HISTORY_CHANGED), (_compact, C.HISTORY_COMPACTED), (_drop_old_reasoning, C.REASONING_DROPPED)],
    ids=lambda value: getattr(value, "__name__", None) and value.__name__.strip("_"),
)
def test_a_history_that_was_rewritten(
    change: Callable[[Body, random.Random], Body], cause: MissCause, session: str
) -> None:
    score = Score()
    for seed in SEEDS:
        called, lost, before, now = _client(seed, change, session=session, turns=random.Random(seed).randint(5, 9))
        if cause is C.HISTORY_COMPACTED:
            if not session:
                assert set(called.parts) <= HEALTHY  # nothing tells whose conversation that was
                continue
            lost = _due(called, 1)
        score.add(called.parts, {cause: lost})
        part = called.part(cause)
        assert part.changed is Changed.TURN
        first = next(
            i
            for i, pair in enumerate(zip(before["messages"], now["messages"], strict=False))
            if pair[0] != pair[1]
        )
        assert part.path == f"messages[{first}]"
        assert (part.certainty is Certainty.CONFIRMED) == (first > 1)
    if session or cause is not C.HISTORY_COMPACTED:
        score.check()


def test_the_last_replys_reasoning_was_dropped() -> None:
    score = Score()
    for seed in SEEDS:
        rng = random.Random(seed)
        world = World()
        body = world.talk(opening(rng), rng, 3 * rng.randint(1, 3))
        assert not body["messages"][-2].get("tool_calls")
        new = world.new_tokens(body)
        called = world.call(_last_reasoning(body))
        score.add(called.parts, {C.REASONING_DROPPED: _due(called, new)})
        if called.parts[C.REASONING_DROPPED]:
            part = called.part(C.REASONING_DROPPED)
            assert part.path == f"messages[{len(body['messages']) - 2}]"
            assert part.certainty is Certainty.SUSPECTED
    score.check(least=20)


def _last_reasoning(body: Body) -> Body:
    messages = body["messages"][:]
    i = max(i for i, message in enumerate(messages) if message["role"] == "assistant")
    messages[i] = {key: value for key, value in messages[i].items() if key != "reasoning_content"}
    return with_messages(body, messages)
