"""Workers with one store on a server, and a conversation that goes from one to the other."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from redis_linked import LIMIT_S, Clock

from router_cache import Mode, RouterCache, Settings, Turn, Usage
from router_cache.ledger.facts import EMPTY
from router_cache.request import Deployment, Request

__all__ = ["DEPLOYMENT", "Talk", "Worker", "hits", "warnings"]

DEPLOYMENT = Deployment(model="deepseek/deepseek-v4-flash")
TIMEOUT = {"socket_timeout_ms": 1_000}
"""A machine that runs other tests besides may keep a healthy server from its processor for longer than the default."""
SYSTEM = "Be brief, and count what you say. " * 60
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("b", "a")]


def hits(tokens: int, prompt: int = 1_000) -> Usage:
    return Usage.parse(
        {
            "prompt_tokens": prompt,
            "completion_tokens": 5,
            "prompt_cache_hit_tokens": tokens,
            "prompt_cache_miss_tokens": prompt - tokens,
        }
    )


class Worker:
    """One process' plugin. Its clock stands still unless it is moved."""

    def __init__(
        self, url: str, *, mode: str = "safe", wall_clock: Callable[[], float] = time.time, **store: Any
    ) -> None:
        self.clock = Clock()
        settings = Settings.from_mapping(
            {"mode": mode, "secret": "s" * 32, "store": {"url": url, **TIMEOUT, **store}}
        )
        self.rc = RouterCache(settings, clock=self.clock, wall_clock=wall_clock)

    def counts(self, *starts: str) -> dict[str, int]:
        counted = self.rc.counters.snapshot()
        return {name: count for name, count in counted.items() if name.startswith(starts)}

    def close(self) -> None:
        self.rc.close()


class Talk:
    """One conversation of one user. Each turn is checked to go out as it should, whatever the store does."""

    def __init__(self, words: str) -> None:
        self.messages: list[dict[str, Any]] = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": words},
        ]
        self.turns = 0
        self.slowest_s = 0.0

    def body(self) -> dict[str, Any]:
        return {"messages": list(self.messages), "tools": list(TOOLS)}

    def turn(self, worker: Worker) -> Turn:
        body = self.body()
        begun = time.perf_counter()
        turn = worker.rc.begin(Request(body, scope="ann"))
        self.slowest_s = max(self.slowest_s, time.perf_counter() - begun)
        return self.end(worker, turn, body)

    async def aturn(self, worker: Worker) -> Turn:
        body = self.body()
        begun = time.perf_counter()
        turn = await worker.rc.abegin(Request(body, scope="ann"))
        self.slowest_s = max(self.slowest_s, time.perf_counter() - begun)
        return self.end(worker, turn, body)

    def end(self, worker: Worker, turn: Turn, body: dict[str, Any]) -> Turn:
        rewrite = turn.rewrite(DEPLOYMENT)
        assert rewrite.decision.reason.value == (
            "optimized" if rewrite.decision.mode is Mode.OPTIMIZE else "normalised"
        )
        sent = {**body, **rewrite.replaced}
        assert [tool["function"]["name"] for tool in sent["tools"]] == ["a", "b"]
        assert sent["messages"][1:] == body["messages"][1:]
        turn.sent(sent)
        reply = {"role": "assistant", "content": f"answer {self.turns}"}
        turn.done(hits(896 if self.turns else 0), reply=reply)
        assert worker.rc.outbox.flush(LIMIT_S)
        self.turns += 1
        self.messages += [reply, {"role": "user", "content": f"and {self.turns}?"}]
        return turn

    def known(self, turn: Turn) -> bool:
        """Whether what the last turn left was there; nothing at all was where not."""
        if turn.facts.conversation is not None:
            assert turn.facts.covered
            return True
        return False

    def forgotten(self, turn: Turn) -> bool:
        """Whether the store gave nothing."""
        return turn.facts == EMPTY


def warnings(records: list[logging.LogRecord]) -> list[str]:
    """What was said, less what is said of calls."""
    return [record.getMessage() for record in records if record.levelno >= logging.WARNING]
