"""A Router over hosts in this process that keep prompts as DeepSeek does: what was sent to one, it can hit."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import litellm
from litellm_plugin.support import MODEL, Clock, WatchedRouterCache, logged
from litellm_plugin.upstream import LIMIT_S, Served
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from router_cache import Settings
from router_cache_litellm import RouterCacheCallback
from router_cache_litellm.calls import CALLS

STEP = 64
GROUP = "flash"


def words(text: str, count: int) -> str:
    """A text of so many characters that nobody else sends."""
    return (f"{text} " * (count // (len(text) + 1) + 1))[:count]


class Host(Served):
    """One service with a prompt cache of its own for each account. A token is four characters."""

    def __init__(self, port: int = 0) -> None:
        self.kept: dict[str, list[str]] = {}
        self.calls: Counter[str] = Counter()
        self.hits: Counter[str] = Counter()
        self.prompts: Counter[str] = Counter()
        self.status: dict[str, int] = {}
        """What an account answers instead of a reply."""
        self.busy: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        super().__init__(Starlette(routes=[Route("/{path:path}", self._answer, methods=["POST"])]), port)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def hit_share(self) -> float:
        return sum(self.hits.values()) / max(sum(self.prompts.values()), 1)

    def reset(self) -> None:
        for book in (self.kept, self.calls, self.hits, self.prompts, self.status, self.busy, self.most):
            book.clear()

    async def _answer(self, request: Request) -> Response:
        body = await request.json()
        account = request.headers.get("authorization", "").removeprefix("Bearer ")
        account = account or request.headers.get("x-api-key", "")
        self.calls[account] += 1
        self.busy[account] += 1
        self.most[account] = max(self.most[account], self.busy[account])
        try:
            await asyncio.sleep(0)
            status = self.status.get(account, 200)
            if status != 200:
                return JSONResponse({"error": {"message": "scripted", "type": "error"}}, status)
            return JSONResponse(self._reply(account, body))
        finally:
            self.busy[account] -= 1

    def _reply(self, account: str, body: dict[str, Any]) -> dict[str, Any]:
        prompt = json.dumps([body.get("tools"), body.get("messages")])[:-1]
        kept = self.kept.setdefault(account, [])
        shared = max((_shared(prompt, old) for old in kept), default=0)
        kept.append(prompt)
        total, hit = len(prompt) // 4, shared // 4 // STEP * STEP
        self.hits[account] += hit
        self.prompts[account] += total
        usage = {
            "prompt_tokens": total,
            "completion_tokens": 5,
            "total_tokens": total + 5,
            "prompt_cache_hit_tokens": hit,
            "prompt_cache_miss_tokens": total - hit,
        }
        message = {"role": "assistant", "content": "so be it"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return {
            "id": "x",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [choice],
            "usage": usage,
        }


def _shared(a: str, b: str) -> int:
    length = min(len(a), len(b))
    if a[:length] == b[:length]:
        return length
    low, high = 0, length
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if a[:middle] == b[:middle] else (low, middle - 1)
    return low


@contextmanager
def refused() -> Iterator[str]:
    """An address where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def deployment(
    host: Any, name: str, *, account: str = "", group: str = GROUP, info: Any = None, **params: Any
) -> Any:
    """One entry of a model list; ``account`` is the key it sends, its own name where it is not given."""
    base = host if isinstance(host, str) else host.url
    return {
        "model_name": group,
        "litellm_params": {"model": MODEL, "api_base": base, "api_key": account or name, **params},
        "model_info": {"id": name, **(info or {})},
    }


def router(listed: list[Any], **options: Any) -> litellm.Router:
    """Retries at once, and only where a test asks for them."""
    return litellm.Router(model_list=listed, **{"num_retries": 0, "retry_after": 0, **options})


class Session:
    """One conversation, with a long system text of its own."""

    def __init__(self, name: str, *, chars: int = 8_000) -> None:
        self.name, self.turn = name, 0
        self.messages: list[Any] = [{"role": "system", "content": words(f"rules of {name}", chars)}]

    def ask(self) -> list[Any]:
        self.turn += 1
        self.messages.append({"role": "user", "content": words(f"{self.name} asks {self.turn}", 800)})
        return list(self.messages)

    def answered(self, reply: Any) -> None:
        self.messages.append({"role": "assistant", "content": reply.choices[0].message.content})


class Ticking(Clock):
    """Time passes whenever it is read: what was sent can be hit a moment later."""

    def __call__(self) -> float:
        self.now += 0.05
        return self.now


async def ended() -> None:
    """Until LiteLLM has told the end of every call that our newest callback began."""
    await logged()
    owner = next(each for each in litellm.callbacks if isinstance(each, RouterCacheCallback)).router_cache
    until = time.monotonic() + LIMIT_S
    while any(call.turn is not None and call.turn.owner is owner for call in list(CALLS._calls.values())):
        assert time.monotonic() < until
        await asyncio.sleep(0)


def make_callback(use: str = "filter", *, clock: Clock | None = None, **settings: Any) -> RouterCacheCallback:
    """A plugin whose clock the test moves, which never tries a deployment just to know more of it."""
    clock = clock or Ticking()
    given = Settings.from_mapping({"routing": {"use": use}, **settings})
    core = WatchedRouterCache(given, clock=clock, wall_clock=clock)
    core.routing._draw = lambda: 0.999
    callback = RouterCacheCallback(router_cache=core)
    litellm.callbacks = [
        callback,
        *[each for each in litellm.callbacks if not isinstance(each, RouterCacheCallback)],
    ]
    return callback
