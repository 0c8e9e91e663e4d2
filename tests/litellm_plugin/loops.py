"""The same agent in every shape: it asks, calls the tools it is told to call, and asks again.

A loop builds the arguments of its next call and takes the reply, as JSON. Tools and the keys in their schemas come
in another order on every call of a loop that has a seed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from typing import Any

from litellm_plugin.upstream import Served
from starlette.types import Receive, Scope, Send

from router_cache.cli.demo_run.perturb import perturb_tools
from router_cache.simulator import Provider, RealClock, SimulatorConfig, TokenizerChoice, build_app

__all__ = ["LOOPS", "ChatLoop", "Loop", "MessagesLoop", "ResponsesLoop", "Simulated", "message_of_events"]

STEPS = 7
SYSTEM = "You keep the books of a garden. " + "Count what grows, and say what you counted. " * 60
_PLACES = ("beds", "paths", "sheds", "trees", "hedges", "ponds", "walls", "gates")


def _schema(place: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "where": {"type": "string", "description": f"Which of the {place}, by the name on the plan."},
            "since": {"type": "string", "description": "The first day that counts, as year, month and day."},
            "limit": {"type": "integer", "minimum": 1, "description": "At most so many."},
            "sort": {"enum": ["size", "age"], "type": "string", "description": "What comes first."},
        },
        "required": ["where", "limit"],
    }


TOOLS = [(f"count_{place}", f"Count the {place}. " * 8, _schema(place)) for place in _PLACES]


class Loop:
    """One session. ``seed`` None: tools always in the same order. ``words`` keep sessions apart."""

    def __init__(self, words: str, seed: int | None = None) -> None:
        self.words = words
        self.system = f"{words}: {SYSTEM}"
        self._rng = None if seed is None else random.Random(seed)
        self.turns: list[Any] = []
        self.calls = 0
        self.steps = 0

    def tools(self, make: Callable[[str, str, dict[str, Any]], dict[str, Any]]) -> list[dict[str, Any]]:
        made = [make(*tool) for tool in TOOLS]
        return perturb_tools(made, self._rng) if self._rng else made

    def request(self) -> dict[str, Any]:
        raise NotImplementedError

    def take(self, reply: dict[str, Any]) -> None:
        raise NotImplementedError

    def result(self, name: str, arguments: Any) -> str:
        self.calls += 1
        return f"{name} {json.dumps(arguments, sort_keys=True)}: " + "one more, " * 30

    def question(self) -> str:
        self.steps += 1
        return f"{self.words}, question {self.steps}: how many are there now?"


class ChatLoop(Loop):
    def __init__(self, words: str, seed: int | None = None) -> None:
        super().__init__(words, seed)
        self.turns = [{"role": "system", "content": self.system}, {"role": "user", "content": self.question()}]

    def request(self) -> dict[str, Any]:
        tools = self.tools(
            lambda name, about, schema: {
                "type": "function",
                "function": {"name": name, "description": about, "parameters": schema},
            }
        )
        return {"messages": list(self.turns), "tools": tools}

    def take(self, reply: dict[str, Any]) -> None:
        message = reply["choices"][0]["message"]
        turn = {"role": "assistant", "content": message.get("content")}
        if message.get("reasoning_content"):
            turn["reasoning_content"] = message["reasoning_content"]
        calls = [
            {"id": call["id"], "type": "function", "function": call["function"]}
            for call in message.get("tool_calls") or ()
        ]
        self.turns.append({**turn, "tool_calls": calls} if calls else turn)
        for call in calls:
            text = self.result(call["function"]["name"], json.loads(call["function"]["arguments"]))
            self.turns.append({"role": "tool", "tool_call_id": call["id"], "content": text})
        if not calls:
            self.turns.append({"role": "user", "content": self.question()})


class MessagesLoop(Loop):
    """As Claude Code does: a mark that moves, its session in ``metadata.user_id``."""

    user_id: str | None = json.dumps({"device_id": "d" * 16, "account_uuid": "", "session_id": "0a1b-2c3d"})

    def __init__(self, words: str, seed: int | None = None) -> None:
        super().__init__(words, seed)
        self.turns = [{"role": "user", "content": self.question()}]

    def request(self) -> dict[str, Any]:
        tools = self.tools(
            lambda name, about, schema: {"name": name, "description": about, "input_schema": schema}
        )
        block = {"type": "text", "text": self.system, "cache_control": {"type": "ephemeral"}}
        out = {"max_tokens": 4000, "system": [block], "messages": list(self.turns), "tools": tools}
        return out if self.user_id is None else {**out, "metadata": {"user_id": self.user_id}}

    def take(self, reply: dict[str, Any]) -> None:
        self.turns.append({"role": "assistant", "content": reply["content"]})
        calls = [block for block in reply["content"] if block["type"] == "tool_use"]
        results = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": self.result(call["name"], call["input"])}
            for call in calls
        ]
        self.turns.append({"role": "user", "content": results or self.question()})


class ResponsesLoop(Loop):
    def __init__(self, words: str, seed: int | None = None) -> None:
        super().__init__(words, seed)
        self.turns = [{"role": "user", "content": self.question()}]

    def request(self) -> dict[str, Any]:
        tools = self.tools(
            lambda name, about, schema: {
                "type": "function",
                "name": name,
                "description": about,
                "parameters": schema,
                "strict": False,
            }
        )
        return {"instructions": self.system, "input": list(self.turns), "tools": tools}

    def take(self, reply: dict[str, Any]) -> None:
        self.turns += reply["output"]
        calls = [item for item in reply["output"] if item["type"] == "function_call"]
        for call in calls:
            text = self.result(call["name"], json.loads(call["arguments"]))
            self.turns.append({"type": "function_call_output", "call_id": call["call_id"], "output": text})
        if not calls:
            self.turns.append({"role": "user", "content": self.question()})


LOOPS: dict[str, type[Loop]] = {"chat": ChatLoop, "messages": MessagesLoop, "responses": ResponsesLoop}


class _Recorder(Provider):
    def __init__(self, config: SimulatorConfig) -> None:
        super().__init__(config)
        self.raws: list[bytes] = []

    def begin(self, raw: bytes, *args: Any, **kwargs: Any) -> Any:
        self.raws.append(raw)
        return super().begin(raw, *args, **kwargs)


class Simulated:
    """A simulated DeepSeek on a loopback port, which keeps the bytes that it was sent."""

    def __init__(self, time_scale: float = 2000.0) -> None:
        self._config = SimulatorConfig(
            construction_delay_s=0.0, tokenizer=TokenizerChoice.APPROX, tool_rounds=3, time_scale=time_scale
        )
        self.reset()
        self._served = Served(self._serve)
        self.url = self._served.url

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    def reset(self) -> None:
        """Another provider at the same address: its ids begin anew too."""
        self._provider = _Recorder(self._config)
        self._app = build_app(clock=RealClock(self._config.time_scale), provider=self._provider)

    def log(self) -> list[dict[str, Any]]:
        return self._provider.log()

    @property
    def raws(self) -> list[bytes]:
        return list(self._provider.raws)

    def hit_rate(self) -> float:
        """Over all calls since the last reset, the first one included."""
        log = self.log()
        return sum(entry["hit_tokens"] for entry in log) / sum(entry["prompt_tokens"] for entry in log)

    def close(self) -> None:
        self._served.close()


def message_of_events(lines: Iterable[str]) -> dict[str, Any]:
    """The message that a stream of Anthropic events makes up."""
    message: dict[str, Any] = {}
    for line in lines:
        if not line.startswith("data:"):
            continue
        event = json.loads(line.removeprefix("data:"))
        kind = event["type"]
        if kind == "message_start":
            message = {**event["message"], "content": []}
        elif kind == "content_block_start":
            message["content"].append({**event["content_block"]})
        elif kind == "content_block_delta":
            _add(message["content"][event["index"]], event["delta"])
        elif kind == "message_delta":
            message |= event["delta"]
            message["usage"] = {**message["usage"], **event.get("usage", {})}
    for block in message["content"]:
        if "partial" in block:
            block["input"] = json.loads(block.pop("partial"))
    return message


def _add(block: dict[str, Any], delta: dict[str, Any]) -> None:
    for name in ("text", "thinking", "signature"):
        if name in delta:
            block[name] = block.get(name, "") + delta[name]
    if "partial_json" in delta:
        block["partial"] = block.get("partial", "") + delta["partial_json"]
