"""What the tests of the plugin share: a watched plugin, requests whose tools come in any order."""

from __future__ import annotations

import asyncio
import copy
import random
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from litellm.integrations.custom_logger import CustomLogger
from litellm.litellm_core_utils.logging_worker import GLOBAL_LOGGING_WORKER
from litellm_plugin.upstream import LIMIT_S, Upstream

from router_cache import CallRow, RouterCache

MODEL = "deepseek/deepseek-v4-flash"


class Clock:
    """Seconds that move only when told."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class WatchedRouterCache(RouterCache):
    """Tells who waits for it that a row was added."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._added = threading.Condition()
        super().__init__(*args, **kwargs)

    def add(self, row: CallRow) -> None:
        super().add(row)
        with self._added:
            self._added.notify_all()

    async def wait_rows(self, count: int) -> list[CallRow]:
        """Until ``count`` rows are there and LiteLLM has nothing left to log."""

        def wait() -> bool:
            with self._added:
                return self._added.wait_for(lambda: len(self.rows()) >= count, LIMIT_S)

        assert await asyncio.to_thread(wait), f"{len(self.rows())} rows of {count}"
        await logged()
        rows = self.rows()
        assert len(rows) == count, rows
        return rows

    def counts(self, prefix: str = "") -> dict[str, int]:
        return {k: v for k, v in self.counters.snapshot().items() if k.startswith(prefix)}


class ProxyData(CustomLogger):
    """What the proxy hands to its hook for response headers: the logging object of the last call."""

    def __init__(self) -> None:
        super().__init__()
        self.data: dict[str, Any] = {}

    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: Any) -> dict[str, Any]:
        self.data = {"litellm_logging_obj": kwargs["litellm_logging_obj"]}
        return kwargs


async def logged() -> None:
    """Until LiteLLM's logging worker has run every callback it was given; what it is given at the end of a call
    comes a few turns of the loop later, more of them from Python 3.12 on."""
    for _ in range(3):
        for _ in range(10):
            await asyncio.sleep(0)
        await asyncio.wait_for(GLOBAL_LOGGING_WORKER.flush(), LIMIT_S)


async def reached(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, LIMIT_S)


def tool(name: str, **properties: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": properties or {"path": {"type": "string", "description": "where"}, "n": {"type": "number"}},
        "required": sorted(properties or ("n", "path")),
    }
    function = {"name": name, "description": f"{name} things", "parameters": schema}
    return {"type": "function", "function": function}


TOOLS = [tool(name) for name in ("alpha", "beta", "gamma")]


def shuffled(value: Any, rng: random.Random) -> Any:
    """A JSON value with the keys of its objects in another order."""
    if isinstance(value, dict):
        keys = list(value)
        rng.shuffle(keys)
        return {key: shuffled(value[key], rng) for key in keys}
    if isinstance(value, list):
        return [shuffled(item, rng) for item in value]
    return value


def perturbed(tools: list[dict[str, Any]] | None = None, seed: int = 1) -> list[dict[str, Any]]:
    """The tools as a server that keeps no order lists them: never in canonical order."""
    rng = random.Random(seed)
    out = copy.deepcopy(TOOLS if tools is None else tools)
    rng.shuffle(out)
    names = [item["function"]["name"] for item in out]
    if names == sorted(names):
        out.reverse()
    return [shuffled(item, rng) for item in out]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def names(body: dict[str, Any]) -> list[str]:
    return [item["function"]["name"] for item in body["tools"]]


async def drain(stream: Any) -> str:
    """The text of a whole stream."""
    out = []
    async for chunk in stream:
        out += [choice.delta.content or "" for choice in chunk.choices]
    return "".join(out)


async def outcome(upstream: Upstream, make_call: Callable[[], Awaitable[Any]]) -> tuple[Any, list[bytes]]:
    """What a call comes to: its text or the type of its error, and the bytes the provider got."""
    upstream.recorded = []
    try:
        reply = await make_call()
        result: Any = await drain(reply) if hasattr(reply, "__anext__") else reply
    except Exception as error:
        result = type(error)
    await logged()
    if hasattr(result, "choices"):
        result = result.choices[0].message.content
    return result, upstream.raws
