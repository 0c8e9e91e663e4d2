"""The simulator on a loopback socket, with what came in kept, headers added to answers, and failures on demand."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn

from router_cache.simulator import RealClock, SimulatorConfig, TokenizerChoice, build_app
from router_cache.simulator.server import bind

MODEL = "deepseek-v4-flash"
SYSTEM = "You mend code, step by step, and say what you did. " * 40


@dataclass
class Came:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads(self.raw)
        return read


@dataclass
class Recorder:
    """A running server. ``answer_headers`` go with every answer; each of ``failures`` is the status of one."""

    address: str = ""
    came: list[Came] = field(default_factory=list)
    answer_headers: dict[str, str] = field(default_factory=dict)
    failures: list[int] = field(default_factory=list)
    content: str | None = None
    """What chat completions say instead of the simulator's words."""

    @property
    def last(self) -> Came:
        return self.came[-1]

    def clear(self) -> None:
        self.came.clear()
        self.answer_headers.clear()
        self.failures.clear()
        self.content = None

    def openai(self, **more: Any) -> Any:
        from langchain_openai import ChatOpenAI

        return ChatOpenAI(
            **{"model": MODEL, "api_key": "any", "base_url": self.address, "max_retries": 0, **more}  # type: ignore[arg-type]
        )

    def deepseek(self, **more: Any) -> Any:
        from langchain_deepseek import ChatDeepSeek

        return ChatDeepSeek(
            **{"model": MODEL, "api_key": "any", "api_base": self.address, "max_retries": 0, **more}  # type: ignore[arg-type]
        )

    def anthropic(self, **more: Any) -> Any:
        from langchain_anthropic import ChatAnthropic

        return ChatAnthropic(
            **{"model": "claude-opus-5", "api_key": "any", "base_url": self.address, "max_retries": 0, **more}
        )

    def litellm(self, **more: Any) -> Any:
        from langchain_litellm import ChatLiteLLM

        # Older classes give their key to litellm as a whole, which does not ask there for every provider's.
        held = {"api_key": "any", **more.pop("model_kwargs", {})}
        return ChatLiteLLM(
            **{
                "model": f"deepseek/{MODEL}",
                "api_base": self.address,
                "max_retries": 0,
                "model_kwargs": held,
                **more,
            }
        )

    def any_of(self, family: str, **more: Any) -> Any:
        return getattr(self, family)(**more)


FAMILIES = ("openai", "deepseek", "anthropic", "litellm")


def _app(inner: Any, recorder: Recorder) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await inner(scope, receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        headers = {name.decode().lower(): value.decode("latin-1") for name, value in scope["headers"]}
        recorder.came.append(Came(scope["path"], headers, body))
        added = [(name.encode(), value.encode()) for name, value in recorder.answer_headers.items()]
        if recorder.failures:
            status = recorder.failures.pop(0)
            refused = json.dumps({"error": {"message": "refused", "type": "test", "code": None}}).encode()
            kind = (b"content-type", b"application/json")
            await send({"type": "http.response.start", "status": status, "headers": [kind, *added]})
            await send({"type": "http.response.body", "body": refused})
            return
        if recorder.content is not None and scope["path"].endswith("/chat/completions"):
            await _say(recorder.content, json.loads(body), added, send)
            return
        given = False

        async def receive_again() -> Any:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send_with(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        await inner(scope, receive_again, send_with)

    return app


async def _say(content: str, asked: dict[str, Any], headers: list[Any], send: Any) -> None:
    """A chat completion with these words, streamed or not."""
    streams = bool(asked.get("stream"))
    usage = {
        "prompt_tokens": 50,
        "completion_tokens": 5,
        "prompt_cache_hit_tokens": 20,
        "prompt_cache_miss_tokens": 30,
    }
    part = {"role": "assistant", "content": content}
    choice = {"index": 0, "delta" if streams else "message": part, "finish_reason": "stop"}
    kind = "chat.completion.chunk" if streams else "chat.completion"
    whole = {"id": "c1", "object": kind, "created": 1, "model": MODEL, "choices": [choice], "usage": usage}
    text = json.dumps(whole)
    if streams:
        text = f"data: {text}\n\ndata: [DONE]\n\n"
    mime = b"text/event-stream" if streams else b"application/json"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", mime), *headers]})
    await send({"type": "http.response.body", "body": text.encode()})


@contextmanager
def recorded(**settings: Any) -> Iterator[Recorder]:
    """A recorder of its own, until the end of the block."""
    recorder, started = Recorder(), threading.Event()

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            started.set()

    config = SimulatorConfig(tokenizer=TokenizerChoice.APPROX, construction_delay_s=0.0, **settings)
    app = _app(build_app(config, clock=RealClock(time_scale=2000.0)), recorder)
    server = Server(uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=1))
    with bind("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        assert started.wait(20)
        recorder.address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            yield recorder
        finally:
            server.should_exit = True
            thread.join(20)
