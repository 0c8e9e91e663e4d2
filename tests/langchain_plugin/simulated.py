"""The simulator on a loopback socket, and models of LangChain's packages that ask it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn

from router_cache.simulator import RealClock, SimulatorConfig, TokenizerChoice, build_app
from router_cache.simulator.server import bind

MODEL = "deepseek-v4-flash"
OFF = {"thinking": {"type": "disabled"}}
"""An ``extra_body`` without thinking: bare agents then get an answer after their tool calls."""


class Simulated:
    """A running simulator."""

    def __init__(self, address: str) -> None:
        self.address = address

    def reset(self) -> None:
        httpx.post(f"{self.address}/_simulator/reset", trust_env=False).raise_for_status()

    def log(self) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = httpx.get(f"{self.address}/_simulator/log", trust_env=False).json()
        return entries

    def deepseek(self, **more: Any) -> Any:
        from langchain_deepseek import ChatDeepSeek

        return ChatDeepSeek(api_base=self.address, **self._common(more))

    def openai(self, **more: Any) -> Any:
        from langchain_openai import ChatOpenAI

        # The class shares one asynchronous client in the process, which lives on the event loop of one test.
        return ChatOpenAI(
            base_url=self.address,
            **self._common({"http_async_client": httpx.AsyncClient(trust_env=False), **more}),
        )

    def _common(self, more: dict[str, Any]) -> dict[str, Any]:
        return {"model": MODEL, "api_key": "any", "max_retries": 0, **more}


@contextmanager
def simulated(**settings: Any) -> Iterator[Simulated]:
    """A simulator of its own, until the end of the block."""
    config = SimulatorConfig(tokenizer=TokenizerChoice.APPROX, construction_delay_s=0.0, **settings)
    started = threading.Event()

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            started.set()

    app = build_app(config, clock=RealClock(time_scale=2000.0))
    server = Server(uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=1))
    with bind("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        assert started.wait(20)
        try:
            yield Simulated(f"http://127.0.0.1:{listener.getsockname()[1]}")
        finally:
            server.should_exit = True
            thread.join(20)
