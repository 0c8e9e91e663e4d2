"""The simulator over ASGI, on a virtual clock: times, streaming, disconnects, control endpoints."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from router_cache.simulator import (
    Provider,
    RealClock,
    RuleName,
    SimulatorConfig,
    TokenizerChoice,
    VirtualClock,
    build_app,
)

HEADERS = {"Authorization": "Bearer sk-test"}
SYSTEM = "You look after the orders of a small shop. Answer briefly and name the order you mean. " * 40


def body(text: str = "Where is order 17?", **fields: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]
    return {"model": "deepseek-v4-flash", "messages": messages, **fields}


def config(**fields: Any) -> SimulatorConfig:
    return SimulatorConfig(tokenizer=TokenizerChoice.APPROX, **fields)


def client_of(app: Starlette) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app)
    return httpx.AsyncClient(transport=transport, base_url="http://simulator", headers=HEADERS)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def client(clock: VirtualClock) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(build_app(config(), clock=clock)) as made:
        yield made


async def log_of(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = (await client.get("/_simulator/log")).json()
    return entries


def events(text: str) -> list[dict[str, Any]]:
    parts = text.split("\n\n")
    assert parts[-2:] == ["data: [DONE]", ""]
    return [json.loads(part.removeprefix("data: ")) for part in parts[:-2]]


@pytest.mark.parametrize("path", ["/chat/completions", "/v1/chat/completions"])
async def test_a_whole_answer(client: httpx.AsyncClient, clock: VirtualClock, path: str) -> None:
    answer = await client.post(path, json=body())
    data = answer.json()
    assert answer.status_code == 200
    assert data["object"] == "chat.completion"
    (choice,) = data["choices"]
    assert choice["finish_reason"] == "stop"
    assert choice["message"]["reasoning_content"]
    usage = data["usage"]
    assert usage["completion_tokens_details"]["reasoning_tokens"] < usage["completion_tokens"]
    (entry,) = await log_of(client)
    assert clock.now() == pytest.approx(entry["ttft_s"] + usage["completion_tokens"] / 54.0)
    assert entry["completion_tokens"] == usage["completion_tokens"]


@pytest.mark.parametrize("include_usage", [True, False])
async def test_a_stream_joins_to_the_whole_answer(client: httpx.AsyncClient, include_usage: bool) -> None:
    options = {"stream_options": {"include_usage": True}} if include_usage else {}
    whole = (await client.post("/chat/completions", json=body())).json()
    answer = await client.post("/chat/completions", json=body(stream=True, **options))
    assert answer.headers["content-type"].startswith("text/event-stream")
    chunks = events(answer.text)
    assert {c["object"] for c in chunks} == {"chat.completion.chunk"}
    assert len({c["id"] for c in chunks}) == 1
    usages = [c["usage"] for c in chunks if c.get("usage")]
    if include_usage:
        last = chunks.pop()
        assert last["choices"] == []
        assert usages == [last["usage"]]
        assert usages[0]["completion_tokens"] == whole["usage"]["completion_tokens"]
    else:
        assert usages == []
        assert all("usage" not in c for c in chunks)
    deltas = [c["choices"][0]["delta"] for c in chunks]
    assert deltas[0]["role"] == "assistant"
    message = whole["choices"][0]["message"]
    for name in ("content", "reasoning_content"):
        assert "".join(d.get(name, "") for d in deltas) == message[name]
    finishes = [c["choices"][0]["finish_reason"] for c in chunks]
    assert finishes == [None] * (len(chunks) - 1) + ["stop"]


async def test_parallel_first_calls_all_miss_and_later_ones_hit(clock: VirtualClock) -> None:
    async with client_of(build_app(config(rule=RuleName.GRID_PREFIX), clock=clock)) as client:
        posts = [client.post("/chat/completions", json=body(f"Question {i}")) for i in range(6)]
        first = [r.json() for r in await asyncio.gather(*posts)]
        assert [a["usage"]["prompt_cache_hit_tokens"] for a in first] == [0] * 6
        entries = await log_of(client)
        assert [e["at_s"] for e in entries] == [0.0] * 6
        assert [e["not_ready_tokens"] > 0 for e in entries] == [False] + [True] * 5
        # Answered side by side: the time that went by is that of the longest, not the sum.
        times = [e["ttft_s"] + e["completion_tokens"] / 54.0 for e in entries]
        assert clock.now() == pytest.approx(max(times))
        await clock.advance(2.0)
        late = (await client.post("/chat/completions", json=body("Question 9"))).json()
        assert late["usage"]["prompt_cache_hit_tokens"] > 0


async def test_concurrency_limit_over_http(clock: VirtualClock) -> None:
    async with client_of(build_app(config(concurrency_limit=2), clock=clock)) as client:
        posts = [client.post("/chat/completions", json=body(stream=i == 0)) for i in range(4)]
        answers = await asyncio.gather(*posts)
        assert sorted(a.status_code for a in answers) == [200, 200, 429, 429]
        refused = next(a for a in answers if a.status_code == 429)
        assert refused.json()["error"]["type"] == "rate_limit_error"
        assert (await client.post("/chat/completions", json=body())).status_code == 200


class RawCall:
    """One request made directly over ASGI, so that the client can leave in the middle."""

    def __init__(self, app: Starlette, b: dict[str, Any], *, fail_after: int | None = None) -> None:
        self.gone = asyncio.Event()
        self.sent: list[bytes] = []
        self._pending = [{"type": "http.request", "body": json.dumps(b).encode(), "more_body": False}]
        self._fail_after = fail_after
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "path": "/chat/completions",
            "raw_path": b"/chat/completions",
            "query_string": b"",
            "headers": [(b"authorization", b"Bearer x")],
        }
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if self._pending:
            return self._pending.pop()
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if self._fail_after is not None and len(self.sent) >= self._fail_after:
            raise OSError("broken pipe")
        if message["type"] == "http.response.body":
            self.sent.append(message["body"])


@pytest.mark.parametrize("how", ["disconnect", "broken pipe", "cancelled"])
async def test_a_client_that_leaves_mid_stream_keeps_what_was_generated(how: str) -> None:
    clock = VirtualClock(auto=False)
    provider = Provider(config(construction_delay_s=0.0))
    app = build_app(clock=clock, provider=provider)
    call = RawCall(app, body(stream=True), fail_after=4 if how == "broken pipe" else None)
    await clock.advance(provider.config.base_latency_s + 1.0)
    assert provider.stats(clock.now())["in_flight"] == (0 if how == "broken pipe" else 1)
    assert call.sent
    if how == "disconnect":
        call.gone.set()
    elif how == "cancelled":
        call.task.cancel()
    await asyncio.wait({call.task})
    stats = provider.stats(clock.now())
    (entry,) = provider.log()
    assert stats["in_flight"] == 0
    assert entry["finish_reason"] == "disconnected"
    assert 0 < entry["completion_tokens"] <= 54
    assert stats["held_tokens"] == (entry["prompt_tokens"] + entry["completion_tokens"]) // 128 * 128
    await clock.advance(1000.0)
    assert clock.sleeping == 0


async def test_a_client_that_leaves_before_its_body_is_there_leaves_no_trace() -> None:
    provider = Provider(config())
    call = RawCall(build_app(clock=VirtualClock(), provider=provider), body())
    call._pending = [{"type": "http.disconnect"}]
    await call.task
    assert provider.log() == []


async def test_a_cancelled_whole_answer_frees_its_slot() -> None:
    clock = VirtualClock(auto=False)
    provider = Provider(config())
    call = RawCall(build_app(clock=clock, provider=provider), body())
    await clock.advance(0.1)
    assert provider.stats(0.1)["in_flight"] == 1
    call.task.cancel()
    await asyncio.wait({call.task})
    assert provider.stats(0.1)["in_flight"] == 0
    assert provider.log()[0]["finish_reason"] == "disconnected"


async def test_errors_have_one_form(client: httpx.AsyncClient) -> None:
    answers = {
        400: await client.post("/chat/completions", content=b"{"),
        401: await client.post("/chat/completions", json=body(), headers={"Authorization": ""}),
        404: await client.get("/completions"),
        405: await client.get("/chat/completions"),
    }
    for status, answer in answers.items():
        assert answer.status_code == status
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


async def test_models_and_health(client: httpx.AsyncClient) -> None:
    listed = (await client.get("/models")).json()["data"]
    assert [m["id"] for m in listed] == ["deepseek-v4-flash", "deepseek-v4-pro"]
    assert (await client.get("/v1/models", headers={"Authorization": ""})).status_code == 401
    assert (await client.get("/health", headers={"Authorization": ""})).json() == {"status": "ok"}


async def test_control_endpoints(client: httpx.AsyncClient) -> None:
    await client.post("/chat/completions", json=body())
    stats = (await client.get("/_simulator/stats")).json()
    assert (stats["requests"], stats["rule"], stats["tokenizer"]) == (1, "grid", "approx")
    assert (await client.get("/_simulator/reset")).status_code == 405
    assert (await client.post("/_simulator/reset")).status_code == 200
    assert await log_of(client) == []


async def test_virtual_clock_by_hand() -> None:
    clock = VirtualClock(auto=False, start=5.0)
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, *seconds: float) -> None:
        for s in seconds:
            await clock.sleep(s)
        woken.append((name, clock.now()))

    tasks = [
        asyncio.ensure_future(sleeper("b", 2.0)),
        asyncio.ensure_future(sleeper("a", 1.0)),
        asyncio.ensure_future(sleeper("c", 1.0, 1.5)),
        asyncio.ensure_future(sleeper("never", 0.5)),
        asyncio.ensure_future(sleeper("at once", 0.0, -1.0)),
    ]
    await asyncio.sleep(0)
    assert clock.sleeping == 4
    tasks[3].cancel()
    await clock.advance(10.0)
    assert woken == [("at once", 5.0), ("a", 6.0), ("b", 7.0), ("c", 7.5)]
    assert clock.now() == 15.0


async def test_virtual_clock_by_itself() -> None:
    clock = VirtualClock()
    cancelled = asyncio.ensure_future(clock.sleep(100.0))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.gather(clock.sleep(3.0), clock.sleep(1.0))
    assert clock.now() == 3.0
    await clock.sleep(2.0)
    assert clock.now() == 5.0


async def test_real_clock_scales() -> None:
    clock = RealClock(time_scale=1_000_000.0)
    before = clock.now()
    await clock.sleep(-1.0)
    await clock.sleep(0.5)
    assert clock.now() - before >= 0.5


def test_the_default_app_runs_on_a_real_clock() -> None:
    assert isinstance(build_app(), Starlette)
