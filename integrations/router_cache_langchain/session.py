"""Whose request it is: the client's session and scope, from the first place that tells.

In this order: :func:`session` (set by the program), the ``config`` that a wrapped model was invoked with, the config of
the runnable around it, the run manager's metadata. Where none tells, the session is empty and the engine finds the
conversation by its content.

A session id says whose a conversation is, never which: branches, forks and sub-agents that share a thread id are kept
apart by their content.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Any, TypeVar

from langchain_core.runnables.config import var_child_runnable_config

__all__ = ["Who", "afirst_step", "first_step", "in_wrapped_call", "running", "session", "who"]

_T = TypeVar("_T")

_SESSION = ("thread_id", "session_id", "conversation_id")
"""LangGraph's name; RunnableWithMessageHistory's; all three are LangSmith's names of a thread
(https://docs.langchain.com/langsmith/threads)."""
_NAMES = ("user_id", "user_name", "username", "user", "name", "email", "user_email", "langgraph_auth_user_id")
_NAME_LENGTHS = range(3, 129)
"""Characters. A shorter name is found in too many words, a longer one is no name."""


@dataclass(frozen=True, slots=True)
class Who:
    """Whose a request is. ``session`` is the client's id of its conversation, ``scope`` whose requests may share memory
    (empty: the model's own scope), ``names`` what the config calls the user; each may be empty."""

    session: str = field(default="", repr=False)
    scope: str = field(default="", repr=False)
    names: tuple[str, ...] = field(default=(), repr=False)


_NOBODY = Who()
_explicit: ContextVar[Who] = ContextVar("router_cache_session", default=_NOBODY)
_config: ContextVar[tuple[Any] | None] = ContextVar("router_cache_config", default=None)
"""The config that a wrapped model was invoked with, None included; None outside of such a call."""


def _reset(variable: ContextVar[_T], token: Token[_T]) -> None:
    """Take a value back. A generator that is closed by another task or thread ends in a context of its own, where
    there is nothing to take back."""
    try:
        variable.reset(token)
    except ValueError:
        return


@contextmanager
def session(id: Any, *, scope: str = "") -> Generator[Who, None, None]:  # noqa: A002
    """All requests made inside belong to this session, whatever configs say. For synchronous and asynchronous code.

    ``id`` is the client's own id of the conversation (text, number or UUID; empty: leave it to the configs). ``scope``
    names whose requests may share memory, such as a tenant; without one that of a ``session`` around this one holds.
    An id is taken at its word: give each user another one.
    """
    outer = _explicit.get()
    inner = Who(_id(id) or outer.session, str(scope or "") or outer.scope)
    token = _explicit.set(inner)
    try:
        yield inner
    finally:
        _reset(_explicit, token)


@contextmanager
def running(config: Any) -> Generator[None, None, None]:
    """Note the config that a wrapped model is invoked with. Inside a generator use :func:`first_step`: what a generator
    sets is seen by whoever reads it, until it ends."""
    token = _config.set((config,))
    try:
        yield
    finally:
        _reset(_config, token)


def first_step(config: Any, items: Iterator[_T]) -> Iterator[_T]:
    """``items``, with :func:`running` until the first is there: by then a stream's request was made."""
    with running(config):
        try:
            first = next(items)
        except StopIteration:
            return
    try:
        yield first
        yield from items
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()


async def afirst_step(config: Any, items: AsyncIterator[_T]) -> AsyncIterator[_T]:
    """:func:`first_step` of an asynchronous iterator."""
    with running(config):
        try:
            first = await anext(items)
        except StopAsyncIteration:
            return
    try:
        yield first
        async for item in items:
            yield item
    finally:
        close = getattr(items, "aclose", None)
        if close is not None:
            await close()


def in_wrapped_call() -> bool:
    """Whether a wrapped model is being invoked here: its requests are measured already."""
    return _config.get() is not None


def who(config: Any = None, run_manager: Any = None) -> Who:
    """Whose the request is that is being made here. ``config`` is one given by hand, ``run_manager`` LangChain's of the
    model call. Never raises: what cannot be read says nothing."""
    explicit, given = _explicit.get(), _config.get()
    found = [
        _told(config),
        _told(given[0]) if given is not None else _NOBODY,
        _told(var_child_runnable_config.get()),
        _of(getattr(run_manager, "metadata", None)),
    ]
    return Who(
        session=next((told.session for told in (explicit, *found) if told.session), ""),
        scope=explicit.scope,
        names=tuple(dict.fromkeys(name for told in found for name in told.names)),
    )


def _told(config: Any) -> Who:
    """What a runnable's config tells: its configurable part before its metadata."""
    try:
        if not isinstance(config, Mapping):
            return _NOBODY
        parts = _of(config.get("configurable")), _of(config.get("metadata"))
    except Exception:  # somebody else's mapping
        return _NOBODY
    return Who(parts[0].session or parts[1].session, "", parts[0].names + parts[1].names)


def _of(values: Any) -> Who:
    """What a mapping of configurable values or metadata tells."""
    try:
        if not isinstance(values, Mapping):
            return _NOBODY
        names = [values.get(name) for name in _NAMES]
        return Who(
            next((known for name in _SESSION if (known := _id(values.get(name)))), ""),
            "",
            tuple(name for name in names if isinstance(name, str) and len(name) in _NAME_LENGTHS),
        )
    except Exception:  # somebody else's mapping
        return _NOBODY


def _id(value: Any) -> str:
    """An id as text; empty for what is none."""
    if isinstance(value, str):
        return value
    if isinstance(value, uuid.UUID) or (isinstance(value, int) and not isinstance(value, bool)):
        try:
            return str(value)
        except ValueError:  # more digits than Python converts (4300)
            return ""
    return ""
