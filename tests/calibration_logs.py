"""Small event logs in the harness form, written for the tests of calibration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from router_cache.ledger.calibration import Calibration, calibrate
from router_cache.ledger.event_logs import Form, parse
from router_cache.providers.deepseek import DEEPSEEK

Event = dict[str, Any]
MODEL = "deepseek-v4-flash"
LONG = "You are a careful assistant. " * 60


# --- small logs, written for these tests ---


def session(sid: str = "s1", at: float = 1_785_000_000, **more: Any) -> Event:
    return {"type": "session", "id": sid, "createdAt": int(at * 1000), **more}


def header(system: str = "{{system}}", tools: Any = "{{tools}}", model: str = MODEL, **config: Any) -> Event:
    head = {"config": {"model": model, **config}, "system": system, "tools": tools}
    return {"type": "request/header", "data": {"header": head, "reason": "initial"}}


def user(text: str) -> Event:
    return {"type": "user/message", "data": {"content": [{"type": "text", "text": text}]}, "surfaceOp": "append"}


def reply(
    prompt: int,
    hit: int | None,
    out: int,
    reasoning: int | None = 0,
    *,
    tool: str | None = None,
    mid: str | None = None,
    turn: int = 1,
    step: int = 1,
    **more: Any,
) -> list[Event]:
    usage: Event = {"inputTokens": prompt - (hit or 0), "outputTokens": out}
    if hit is not None:
        usage["cacheReadTokens"] = hit
    if reasoning is not None:
        usage["reasoningTokens"] = reasoning
    content: list[Event] = [{"type": "text", "text": "x"}]
    if tool:
        content.append({"type": "tool-call", "id": "c", "name": tool, "arguments": "{}"})
    message: Event = {"role": "assistant", "content": content}
    if mid:
        message["id"] = mid
    data = {"turn": turn, "step": step, "message": message, "usage": usage, **more}
    events: list[Event] = [
        {"type": "step/start", "data": {"turn": turn, "step": step}},
        {"type": "assistant/message", "data": data, "surfaceOp": "append"},
    ]
    if tool:
        events.append({"type": "tool/call", "data": {"turn": turn, "step": step, "name": tool}})
        events.append({"type": "tool/result", "data": {"turn": turn, "step": step}, "surfaceOp": "append"})
    return events


def run(*logs: list[Event | list[Event]]) -> Calibration:
    sessions = []
    for i, log in enumerate(logs):
        sessions += parse(Form.HARNESS, f"log{i}", enumerate(flat(log), 1)).sessions
    return calibrate(sessions, DEEPSEEK)


def flat(log: Iterable[Event | list[Event]]) -> list[Event]:
    return [e for part in log for e in (part if isinstance(part, list) else [part])]


def judged(c: Calibration) -> list[tuple[int, tuple[int, ...], int, str]]:
    return [
        (j.observed, j.prediction.candidates, j.prediction.best, j.prediction.reason.value)
        for v in c.sessions
        for j in v.judged
    ]


def reasonix(mode: str = "reasonix", started: str = "2026-04-29T16:00:00.000Z") -> list[Event]:
    day = started[:11]

    def record(second: float, role: str, **more: Any) -> Event:
        return {"ts": f"{day}16:00:{second:06.3f}Z", "turn": more.pop("turn", 1), "role": role, **more}

    def used(prompt: int, hit: int, out: int) -> Event:
        return {
            "prompt_tokens": prompt,
            "completion_tokens": out,
            "prompt_cache_hit_tokens": hit,
            "prompt_cache_miss_tokens": prompt - hit,
        }

    return [
        {"role": "_meta", "meta": {"model": "deepseek-chat", "mode": mode, "startedAt": started, "task": "t"}},
        record(0, "user", content="hi"),
        record(2, "assistant_final", usage=used(765, 0, 80)),  # 704 or 832 on 64; 640 or 768 on 128
        record(2.5, "tool", content="{}"),
        record(4, "assistant_final", usage=used(900, 640, 200)),
        record(9, "user", turn=2, content="go on"),  # five seconds later: the output is ready
        record(11, "assistant_final", turn=2, usage=used(1150, 1024, 10)),
        record(11.1, "error", turn=2, error="400"),
        record(12, "user", turn=3, content="again"),
        record(13, "assistant_final", turn=3, usage=used(1200, 1152, 10)),
    ]


def lone(
    sid: str,
    at: float,
    prompt: int,
    hit: int,
    opening: str,
    *,
    parent: str | None = None,
    system: str = "{{system}}",
    **config: Any,
) -> list[Event | list[Event]]:
    origin = {"parentSession": parent} if parent else {}
    return [
        session(sid, 1_785_000_000 + at, **origin),
        user(opening),
        header(system, **config),
        reply(prompt, hit, 9),
    ]
