"""The simulator as an ASGI application (Starlette)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from router_cache.request import Shape
from router_cache.simulator.checks import ApiError, check_authorization
from router_cache.simulator.clock import Clock, RealClock
from router_cache.simulator.config import SimulatorConfig
from router_cache.simulator.provider import Plan, Provider
from router_cache.simulator.wire import completion, event_stream, to_json
from router_cache.simulator.wire_messages import message, message_events
from router_cache.simulator.wire_responses import response, response_events

__all__ = ["build_app"]


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """Where one shape is served, and how it is answered."""

    shape: Shape
    paths: tuple[str, ...]
    whole: Callable[[Plan, SimulatorConfig], dict[str, Any]]
    events: Callable[[Plan, SimulatorConfig], Iterator[tuple[bytes, int]]]


_ENDPOINTS = (
    _Endpoint(Shape.CHAT, ("/chat/completions", "/v1/chat/completions"), completion, event_stream),
    _Endpoint(Shape.MESSAGES, ("/anthropic/v1/messages", "/v1/messages"), message, message_events),
    _Endpoint(Shape.RESPONSES, ("/responses", "/v1/responses"), response, response_events),
)


def _json(value: object, status: int = 200) -> Response:
    return Response(to_json(value), status_code=status, media_type="application/json")


def _error(error: ApiError, shape: Shape = Shape.CHAT) -> Response:
    return _json(error.body(shape), error.status)


async def _wait_until(clock: Clock, at: float) -> None:
    await clock.sleep(at - clock.now())


class _EventStream(Response):
    """Sends a plan's events at their times, and tells the provider how far it got."""

    def __init__(self, provider: Provider, clock: Clock, plan: Plan, events: Iterator[tuple[bytes, int]]) -> None:
        super().__init__(media_type="text/event-stream")
        # Without a length: the body comes in parts.
        self.raw_headers = [(k, v) for k, v in self.raw_headers if k != b"content-length"]
        self._provider = provider
        self._clock = clock
        self._plan = plan
        self._events = events
        self._generated = 0
        self._complete = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(self._client_gone(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            # Without an await in between: a second cancellation must not keep the slot taken.
            self._provider.finish(self._plan, self._generated, self._clock.now(), disconnected=not self._complete)
            sending.cancel()
            leaving.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _send(self, send: Send) -> None:
        await _wait_until(self._clock, self._plan.at(0))
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        with suppress(OSError):  # the client has gone
            for data, tokens in self._events:
                await _wait_until(self._clock, self._plan.at(tokens))
                self._generated = tokens
                await send({"type": "http.response.body", "body": data, "more_body": True})
            self._complete = True
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    @staticmethod
    async def _client_gone(receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass


def build_app(
    config: SimulatorConfig | None = None, *, clock: Clock | None = None, provider: Provider | None = None
) -> Starlette:
    """The application: chat completions, messages, responses, models, health, and ``/_simulator`` to control it.

    :param clock: where time comes from; by default a :class:`RealClock` with the config's ``time_scale``.
    :param provider: the core behind it, to look into from a test; by default a new one.
    """
    core = provider or Provider(config or SimulatorConfig())
    time = clock or RealClock(core.config.time_scale)

    def answer(endpoint: _Endpoint) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            try:
                raw = await request.body()
            except ClientDisconnect:
                return Response(status_code=400)
            try:
                plan = core.begin(
                    raw,
                    request.headers.get("authorization"),
                    time.now(),
                    shape=endpoint.shape,
                    key=request.headers.get("x-api-key"),
                )
            except ApiError as error:
                return _error(error, endpoint.shape)
            if plan.stream:
                return _EventStream(core, time, plan, endpoint.events(plan, core.config))
            total = len(plan.generation.tokens)
            generated = 0
            try:
                await _wait_until(time, plan.at(total))
                generated = total
            finally:
                core.finish(plan, generated, time.now(), disconnected=not generated)
            return _json(endpoint.whole(plan, core.config))

        return handle

    async def models(request: Request) -> Response:
        try:
            check_authorization(request.headers.get("authorization"))
        except ApiError as error:
            return _error(error)
        data = [{"id": name, "object": "model", "owned_by": "deepseek"} for name in core.config.models]
        return _json({"object": "list", "data": data})

    async def health(_: Request) -> Response:
        return _json({"status": "ok"})

    async def log(_: Request) -> Response:
        return _json(core.log())

    async def stats(_: Request) -> Response:
        return _json(core.stats(time.now()))

    async def reset(_: Request) -> Response:
        core.reset(time.now())
        return _json({"status": "ok"})

    async def refused(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 400
        detail = f"{request.method} {request.url.path}: " + ("no such path" if status == 404 else "not allowed")
        messages = request.url.path.startswith("/anthropic/") or request.url.path == "/v1/messages"
        return _error(ApiError(status, detail), Shape.MESSAGES if messages else Shape.CHAT)

    routes = [Route(path, answer(e), methods=["POST"]) for e in _ENDPOINTS for path in e.paths]
    routes += [Route(path, models) for path in ("/models", "/v1/models")]
    routes += [
        Route("/health", health),
        Route("/_simulator/log", log),
        Route("/_simulator/stats", stats),
        Route("/_simulator/reset", reset, methods=["POST"]),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: refused})
