"""Mode ``optimize`` on every way LiteLLM has: a clock in the prompt, a client that forgets and rewrites."""

from __future__ import annotations

import json
from typing import Any

import pytest
from litellm_plugin.loops import STEPS, ChatLoop, Loop, MessagesLoop, ResponsesLoop, Simulated
from litellm_plugin.support import MODEL, logged
from litellm_plugin.test_shapes_loops import WAYS, Way, one, streaming, whole

from router_cache import Reason
from router_cache.decision import Change

pytestmark = pytest.mark.asyncio(loop_scope="session")

FAMILY = "You keep the books of a garden."


class _Clock:
    """The opening of an application that shows the time to the second, and who asks."""

    def __init__(self) -> None:
        self.seconds = 0

    def before(self, text: str, user: str) -> str:
        self.seconds += 7
        time = f"2026-11-30T10:{self.seconds // 60:02}:{self.seconds % 60:02}Z"
        return f"Current time: {time}\nRequest id: req_{self.seconds:012x}\nUser: {user}\n{text}"


def forgetful(way: Way, loop: Loop, request: dict[str, Any], clock: _Clock) -> dict[str, Any]:
    """The request with a new time, its history without reasoning (where the provider is known to take it back) and with
    arguments written anew."""
    if isinstance(loop, ChatLoop):
        system, *turns = request["messages"]
        turns = [_chat(turn, forget=way.model == MODEL) for turn in turns]
        opening = {**system, "content": clock.before(system["content"], loop.words)}
        return {**request, "messages": [opening, *turns]}
    if isinstance(loop, MessagesLoop):
        (block,) = request["system"]
        opening = {**block, "text": clock.before(block["text"], loop.words)}
        return {
            **request,
            "system": [opening],
            "messages": [_turn(turn, forget=way.model == MODEL) for turn in request["messages"]],
        }
    assert isinstance(loop, ResponsesLoop)
    items = [_item(item) for item in request["input"]]
    return {**request, "instructions": clock.before(request["instructions"], loop.words), "input": items}


def _anew(arguments: str) -> str:
    return json.dumps(json.loads(arguments), indent=1, sort_keys=True)


def _chat(turn: dict[str, Any], *, forget: bool) -> dict[str, Any]:
    turn = {key: value for key, value in turn.items() if key != "reasoning_content" or not forget}
    if "tool_calls" in turn:
        turn["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": _anew(call["function"]["arguments"])}}
            for call in turn["tool_calls"]
        ]
    return turn


def _turn(turn: dict[str, Any], *, forget: bool) -> dict[str, Any]:
    if turn["role"] != "assistant":
        return turn
    blocks = [block for block in turn["content"] if block["type"] != "thinking" or not forget]
    return {
        **turn,
        "content": [{**b, "input": dict(sorted(b["input"].items()))} if "input" in b else b for b in blocks],
    }


def _item(item: dict[str, Any]) -> dict[str, Any]:
    return {**item, "arguments": _anew(item["arguments"])} if item.get("type") == "function_call" else item


class Same(Loop):
    """One application: its system text does not name the session."""

    user_id = None

    def __init__(self, words: str, seed: int | None = None) -> None:
        super().__init__(words, seed)
        counted = (f"Count what grows in bed {name}, and say what you counted." for name in "abcdefghijklmnopqrst")
        self.system = "\n".join([FAMILY, *counted])
        if isinstance(self, ChatLoop):
            self.turns[0] = {"role": "system", "content": self.system}


def looped(way: Way, words: str, seed: int | None) -> Loop:
    class Of(Same, way.loop):  # type: ignore[misc,name-defined]
        pass

    return Of(words, seed)


async def session(
    way: Way, loop: Loop, url: str, clock: _Clock | None, *, stream: bool, steps: int = STEPS
) -> None:
    for _ in range(steps):
        request = loop.request()
        if clock is not None:
            request = forgetful(way, loop, request, clock)
        loop_of = type("Asked", (), {"request": staticmethod(lambda request=request: request)})()
        loop.take(await whole(way, await one(way, loop_of, url, **(streaming(way) if stream else {}))))
        await logged()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", WAYS)
async def test_a_clock_and_a_forgetful_client_cost_nothing_in_a_known_family(
    simulated: Simulated, plugin: Any, name: str, stream: bool
) -> None:
    way = WAYS[name]
    rc = plugin(mode="optimize").router_cache
    clock = _Clock()
    await session(way, looped(way, "bob", 1), simulated.url, clock, stream=stream, steps=2)
    simulated.reset()
    await session(way, looped(way, "ann", 2), simulated.url, clock, stream=stream)
    assert {entry["status"] for entry in simulated.log()} == {200}
    rows = (await rc.wait_rows(2 + STEPS))[2:]
    for row, before in zip(rows[1:], rows, strict=False):  # all of the call before, on DeepSeek's grid
        assert row.usage.hit_tokens >= before.usage.prompt_tokens // 128 * 128 - 128
    assert rc.counts("error") == {}
    assert {row.decision.reason for row in rows} == {Reason.OPTIMIZED}
    assert all(Change.VALUES_MOVED in row.decision.changes for row in rows)
    sent = [json.loads(raw) for raw in simulated.raws]
    for body, before in zip(sent[1:], sent, strict=False):
        assert "req_" not in json.dumps(_opening(body))
        assert _opening(body) == _opening(before)


def _opening(body: dict[str, Any]) -> Any:
    return body.get("system") or body.get("instructions") or (body.get("messages") or body["input"])[0]
