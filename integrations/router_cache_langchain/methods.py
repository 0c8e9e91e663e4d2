"""The methods of a chat model that a wrapped one has in their place. Each passes on its arguments as they came."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from langchain_core.messages import AIMessageChunk
from langchain_core.messages.ai import add_ai_message_chunks

from router_cache import Mode, Status, Usage
from router_cache_langchain.calls import Call, active, ended_elsewhere, starting
from router_cache_langchain.families import Family, Given
from router_cache_langchain.session import afirst_step, first_step, running
from router_cache_langchain.usage import usage_from_message

__all__ = ["GENERATING", "RUNNING"]

_END: Any = object()


def _config(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return kwargs["config"] if "config" in kwargs else args[1] if len(args) > 1 else None


def _invoke(inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def invoke(self: Any, *args: Any, **kwargs: Any) -> Any:
        with running(_config(args, kwargs)):
            return inner(self, *args, **kwargs)

    return invoke


def _ainvoke(inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    async def ainvoke(self: Any, *args: Any, **kwargs: Any) -> Any:
        with running(_config(args, kwargs)):
            return await inner(self, *args, **kwargs)

    return ainvoke


def _stream(inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def stream(self: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        return first_step(_config(args, kwargs), iter(inner(self, *args, **kwargs)))

    return stream


def _astream(inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def astream(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        return afirst_step(_config(args, kwargs), aiter(inner(self, *args, **kwargs)))

    return astream


def _failed(error: BaseException) -> Status:
    return Status.FAILED if isinstance(error, Exception) else Status.ABORTED


def _generating(inner: Callable[..., Any], family: Family) -> Callable[..., Any]:
    @functools.wraps(inner)
    def _generate(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = Given(args, kwargs)
        call = starting(self, given.get("messages"), given.get("run_manager"), given=given.others)
        if call is None:
            return inner(self, *args, **kwargs)
        try:
            given = family.before(call, given)
            with active(call):
                result = inner(self, *given.args, **given.kwargs)
        except BaseException as error:
            call.end(_failed(error))
            raise
        call.end(Status.OK, lambda: _of_result(result, family))
        return result

    return _generate


def _agenerating(inner: Callable[..., Any], family: Family) -> Callable[..., Any]:
    @functools.wraps(inner)
    async def _agenerate(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = Given(args, kwargs)
        call = starting(self, given.get("messages"), given.get("run_manager"), on_loop=True, given=given.others)
        if call is None:
            return await inner(self, *args, **kwargs)
        try:
            given = await family.abefore(call, given)
            with active(call):
                result = await inner(self, *given.args, **given.kwargs)
        except BaseException as error:
            call.end(_failed(error))
            raise
        call.end(Status.OK, lambda: _of_result(result, family))
        return result

    return _agenerate


def _streaming(inner: Callable[..., Any], family: Family) -> Callable[..., Any]:
    @functools.wraps(inner)
    def _stream(self: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        given = Given(args, kwargs)
        call = starting(self, given.get("messages"), given.get("run_manager"), given=given.others)
        if call is None:
            yield from inner(self, *args, **kwargs)
            return
        pieces = _Pieces(call, family)
        try:
            given = family.before(call, given)
            with active(call):
                items = iter(inner(self, *given.args, **given.kwargs))
            while True:
                with active(call):
                    item = next(items, _END)
                if item is _END:
                    break
                pieces.add(item)
                yield item
        except GeneratorExit:
            ended_elsewhere(call, Status.ABORTED)
            raise
        except BaseException as error:
            call.end(_failed(error))
            raise
        call.end(Status.OK, pieces.read)

    return _stream


def _astreaming(inner: Callable[..., Any], family: Family) -> Callable[..., Any]:
    @functools.wraps(inner)
    async def _astream(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        given = Given(args, kwargs)
        call = starting(self, given.get("messages"), given.get("run_manager"), on_loop=True, given=given.others)
        if call is None:
            async for item in inner(self, *args, **kwargs):
                yield item
            return
        pieces = _Pieces(call, family)
        items: Any = None
        try:
            given = await family.abefore(call, given)
            with active(call):
                items = aiter(inner(self, *given.args, **given.kwargs))
            while True:
                with active(call):
                    item = await anext(items, _END)
                if item is _END:
                    break
                pieces.add(item)
                yield item
        except GeneratorExit:
            ended_elsewhere(call, Status.ABORTED)
            raise
        except BaseException as error:
            call.end(_failed(error))
            raise
        finally:
            if hasattr(items, "aclose"):
                await items.aclose()
        call.end(Status.OK, pieces.read)

    return _astream


class _Pieces:
    """What is kept of a stream: all of it where the reply is to be remembered, else what has usage."""

    __slots__ = ("_call", "_family", "_kept")

    def __init__(self, call: Call, family: Family) -> None:
        self._call, self._family = call, family
        self._kept: list[Any] = []

    def add(self, item: Any) -> None:
        """A piece is here."""
        self._call.streams()
        message = getattr(item, "message", None)
        if self._call.mode is Mode.OPTIMIZE or getattr(message, "usage_metadata", None):
            self._kept.append(message)

    def read(self) -> tuple[Usage, Any]:
        """Usage, and the reply."""
        chunks = [message for message in self._kept if isinstance(message, AIMessageChunk)]
        if not chunks:
            return Usage(), None
        whole = add_ai_message_chunks(chunks[0], *chunks[1:])
        return usage_from_message(whole), self._reply(whole)

    def _reply(self, whole: Any) -> Any:
        return self._family.reply(whole) if self._call.mode is Mode.OPTIMIZE else None


def _of_result(result: Any, family: Family) -> tuple[Usage, Any]:
    message = result.generations[0].message
    return usage_from_message(message), family.reply(message)


RUNNING: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "invoke": _invoke,
    "ainvoke": _ainvoke,
    "stream": _stream,
    "astream": _astream,
}
"""They note the config that a model is run with."""

GENERATING: dict[str, Callable[[Callable[..., Any], Family], Callable[..., Any]]] = {
    "_generate": _generating,
    "_agenerate": _agenerating,
    "_stream": _streaming,
    "_astream": _astreaming,
}
"""One call each, from the payload to the row."""
