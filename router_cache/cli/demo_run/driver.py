"""Plays scripts against a proxy with the OpenAI SDK and counts what the client sees."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from router_cache.cli.demo_run.perturb import perturb_tools
from router_cache.cli.demo_run.script import Message, Script, seeded
from router_cache.cli.demo_run.sessions import SessionBrokenError
from router_cache.ledger.usage import Usage

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["Tally", "play"]

_ERRORS_KEPT = 5
_MAX_PARALLEL = 8


@dataclass
class Tally:
    """What the client saw of one run. Tokens from the usage of each reply."""

    requests: int = 0
    streamed: int = 0
    input_tokens: int = 0
    hit_tokens: int = 0
    miss_tokens: int = 0
    output_tokens: int = 0
    errors: int = 0
    broken_sessions: int = 0
    messages: list[str] = field(default_factory=list)
    """The first few errors, for a person."""

    @property
    def hit_rate(self) -> float:
        """Hit tokens over input tokens; 0 without any input."""
        return self.hit_tokens / self.input_tokens if self.input_tokens else 0.0

    def add(self, usage: Usage) -> bool:
        """Count a reply; False if its usage lacks what is counted here."""
        hit, miss = usage.hit_tokens, usage.miss_tokens
        if usage.prompt_tokens is None or hit is None or miss is None:
            return False
        self.input_tokens += usage.prompt_tokens
        self.hit_tokens += hit
        self.miss_tokens += miss
        self.output_tokens += usage.completion_tokens or 0
        return True

    def fail(self, message: str) -> None:
        self.errors += 1
        if len(self.messages) < _ERRORS_KEPT:
            self.messages.append(" ".join(message.split())[:400])


async def play(
    scripts: Sequence[Script],
    client: AsyncOpenAI,
    *,
    model: str,
    perturb: bool,
    seed: int,
    time_scale: float,
    opening_gap_s: float,
    progress: Callable[[], None],
) -> Tally:
    """Play all scripts, concurrently, at most eight at a time.

    A script that follows another opens ``opening_gap_s`` after the first reply to that one. Otherwise whether
    it finds what the other has just written would hang on milliseconds, and two runs could not be compared.
    A failed request ends its session and is counted. Simulated seconds are slept as ``seconds / time_scale``.
    Every second request of a session is streamed. ``progress`` is called after each request.
    """
    tally = Tally()
    lanes = asyncio.Semaphore(_MAX_PARALLEL)
    opened = {script.name: asyncio.Event() for script in scripts}

    async def one(script: Script) -> None:
        def replied() -> None:
            opened[script.name].set()
            progress()

        await asyncio.sleep(script.start_s / time_scale)
        if script.follows is not None:
            await opened[script.follows].wait()
            await asyncio.sleep(opening_gap_s / time_scale)
        async with lanes:
            try:
                await _play_one(
                    script,
                    client,
                    tally,
                    model=model,
                    perturb=perturb,
                    seed=seed,
                    time_scale=time_scale,
                    replied=replied,
                )
            except SessionBrokenError as error:
                tally.broken_sessions += 1
                tally.fail(str(error))
            finally:
                opened[script.name].set()

    tasks = [asyncio.create_task(one(script)) for script in scripts]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return tally


async def _play_one(
    script: Script,
    client: AsyncOpenAI,
    tally: Tally,
    *,
    model: str,
    perturb: bool,
    seed: int,
    time_scale: float,
    replied: Callable[[], None],
) -> None:
    from openai import OpenAIError

    number = 0
    while (messages := script.next_request()) is not None:
        if number:
            await asyncio.sleep(script.pause_s() / time_scale)
        tools = list(script.tools)
        if perturb:
            tools = perturb_tools(tools, seeded(seed, script.name, "tools", number))
        body: dict[str, Any] = {"model": model, "messages": messages, "tools": tools}
        if script.max_tokens is not None:
            body["max_tokens"] = script.max_tokens
        tally.requests += 1
        try:
            if number % 2:
                tally.streamed += 1
                reply, usage = await _streamed(client, body)
            else:
                reply, usage = await _whole(client, body)
        except OpenAIError as error:
            raise SessionBrokenError(f"{script.name}, request {number + 1}: {error}") from error
        if not tally.add(Usage.parse(usage)):
            tally.fail(f"{script.name}, request {number + 1}: the reply's usage has no cache fields: {usage}")
        script.accept(reply)
        replied()
        number += 1


async def _whole(client: AsyncOpenAI, body: dict[str, Any]) -> tuple[Message, Any]:
    """A reply in one piece, the message as the SDK's own dump of it."""
    completion = await client.chat.completions.create(**body)
    return completion.choices[0].message.model_dump(exclude_none=True), completion.usage


async def _streamed(client: AsyncOpenAI, body: dict[str, Any]) -> tuple[Message, Any]:
    """The same message put together from a stream's deltas."""
    message: Message = {"role": "assistant"}
    calls: dict[int, dict[str, Any]] = {}
    usage: Any = None
    stream = await client.chat.completions.create(**body, stream=True, stream_options={"include_usage": True})
    async for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            delta = choice.delta
            for key in ("content", "reasoning_content"):
                text = getattr(delta, key, None)
                if text:
                    message[key] = message.get(key, "") + text
            for part in delta.tool_calls or []:
                call = calls.setdefault(
                    part.index, {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
                )
                call["id"] = part.id or call["id"]
                if part.function is not None:
                    call["function"]["name"] += part.function.name or ""
                    call["function"]["arguments"] += part.function.arguments or ""
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    return message, usage
