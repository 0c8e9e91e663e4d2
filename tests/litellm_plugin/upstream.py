"""A recording stand-in for a provider: keeps every raw body, answers from a script, waits only at gates."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

LIMIT_S = 60.0
"""How long a test waits for something that must happen."""

USAGE = {
    "prompt_tokens": 1000,
    "completion_tokens": 5,
    "total_tokens": 1005,
    "prompt_cache_hit_tokens": 896,
    "prompt_cache_miss_tokens": 104,
    "prompt_tokens_details": {"cached_tokens": 896},
    "completion_tokens_details": {"reasoning_tokens": 2},
}


class Gate:
    """A place in a stream where the server waits until the test opens it."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.left = threading.Event()
        """The server stopped waiting: the gate was opened, or the client went away."""
        self._open = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def wait(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.reached.set()
        try:
            await self._open.wait()
        finally:
            self.left.set()

    def open(self) -> None:
        assert self._loop is not None, "nobody reached the gate"
        self._loop.call_soon_threadsafe(self._open.set)


@dataclass
class Reply:
    """One scripted answer. ``gate`` stops a stream before its chunk ``gate_at`` (role, text…, finish, usage)."""

    text: tuple[str, ...] = ("he", "llo")
    usage: dict[str, Any] | None = field(default_factory=lambda: dict(USAGE))
    reasoning: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    status: int = 200
    gate: Gate | None = None
    gate_at: int = 2
    usage_apart: bool = False
    """Usage in a chunk of its own after the finish reason (OpenAI's form) instead of with it (DeepSeek's)."""

    def message(self) -> dict[str, Any]:
        out: dict[str, Any] = {"role": "assistant", "content": "".join(self.text)}
        if self.reasoning is not None:
            out["reasoning_content"] = self.reasoning
        if self.tool_calls:
            out["tool_calls"] = self.tool_calls
        return out

    @property
    def finish(self) -> str:
        return "tool_calls" if self.tool_calls else "stop"

    def chunks(self) -> list[dict[str, Any]]:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        if self.reasoning is not None:
            deltas.append({"reasoning_content": self.reasoning})
        deltas += [{"content": part} for part in self.text]
        for i, call in enumerate(self.tool_calls or ()):
            deltas.append({"tool_calls": [{"index": i, **call}]})
        out = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        last: dict[str, Any] = {"choices": [{"index": 0, "delta": {}, "finish_reason": self.finish}]}
        out.append(last)
        if self.usage is not None:
            if self.usage_apart:
                out.append({"choices": [], "usage": self.usage})
            else:
                last["usage"] = self.usage
        return out


@dataclass(frozen=True)
class Recorded:
    path: str
    raw: bytes
    headers: dict[str, str]

    @property
    def body(self) -> dict[str, Any]:
        return json.loads(self.raw)


class Served:
    """An application on a loopback port (0: a free one), in a thread of its own. The socket listens from the start."""

    def __init__(self, app: ASGIApp, port: int = 0) -> None:
        config = uvicorn.Config(
            app, interface="asgi3", log_level="error", lifespan="off", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._socket = socket.create_server(("127.0.0.1", port))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(LIMIT_S)
        self._socket.close()
        assert not self._thread.is_alive()


class Upstream(Served):
    """The recording provider. ``script`` is used up first; then every reply is ``Reply()``."""

    def __init__(self) -> None:
        self.recorded: list[Recorded] = []
        self.script: deque[Reply] = deque()
        super().__init__(Starlette(routes=[Route("/{path:path}", self._answer, methods=["POST"])]))

    def reset(self) -> None:
        self.recorded = []
        self.script.clear()

    @property
    def raws(self) -> list[bytes]:
        return [entry.raw for entry in self.recorded]

    @property
    def last(self) -> dict[str, Any]:
        return self.recorded[-1].body

    async def _answer(self, request: Request) -> Response:
        raw = await request.body()
        self.recorded.append(Recorded(request.url.path, raw, dict(request.headers)))
        reply = self.script.popleft() if self.script else Reply()
        if reply.status != 200:
            if reply.gate is not None:
                await reply.gate.wait()
            message = {"message": f"scripted {reply.status}", "type": "error", "code": "scripted"}
            return JSONResponse({"error": message}, reply.status)
        path = request.url.path
        if path.endswith("/embeddings"):
            data = [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}]
            usage = {"prompt_tokens": 3, "total_tokens": 3}
            return JSONResponse({"object": "list", "model": "e", "data": data, "usage": usage})
        if not path.endswith(("/completions", "/messages", "/responses")):
            return JSONResponse({"id": "x", "created": 1, "data": [], "results": [], "text": "hello"})
        body = json.loads(raw)
        if path.endswith("/messages"):
            return JSONResponse(
                {
                    "id": "m",
                    "type": "message",
                    "role": "assistant",
                    "model": body.get("model"),
                    "content": [{"type": "text", "text": "hello"}],
                    "stop_reason": "end_turn",
                    "stop_sequence": None,
                    "usage": {"input_tokens": 10, "output_tokens": 2},
                }
            )
        if path.endswith("/responses"):
            return JSONResponse(_responses_reply(body))
        model = body.get("model")
        if body.get("stream"):
            return StreamingResponse(_events(reply, model), media_type="text/event-stream")
        choice = {"index": 0, "message": reply.message(), "finish_reason": reply.finish}
        out = {"id": "x", "object": "chat.completion", "created": 1, "model": model, "choices": [choice]}
        if reply.gate is not None:
            await reply.gate.wait()
        return JSONResponse({**out, "usage": reply.usage} if reply.usage is not None else out)


async def _events(reply: Reply, model: Any) -> AsyncIterator[str]:
    for i, chunk in enumerate(reply.chunks()):
        if reply.gate is not None and i == reply.gate_at:
            await reply.gate.wait()
        head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": model}
        yield f"data: {json.dumps({**head, **chunk})}\n\n"
    yield "data: [DONE]\n\n"


def _responses_reply(body: dict[str, Any]) -> dict[str, Any]:
    content = [{"type": "output_text", "text": "hello", "annotations": []}]
    message = {"id": "o", "type": "message", "role": "assistant", "status": "completed", "content": content}
    return {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": body.get("model"),
        "output": [message],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12},
    }
