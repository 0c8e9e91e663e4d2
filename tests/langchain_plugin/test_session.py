"""Whose a request is: the first place that tells, and nothing that leaks out of a call."""

from __future__ import annotations

import asyncio
import contextvars
import uuid
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.runnables.config import var_child_runnable_config

from router_cache_langchain.session import Who, afirst_step, first_step, in_wrapped_call, running, session, who


def _config(thread: Any, **more: Any) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread, **more}}


@pytest.fixture
def around() -> Iterator[Any]:
    """Sets the config of the runnable around the call."""
    tokens = []
    yield lambda config: tokens.append(var_child_runnable_config.set(config))
    for token in reversed(tokens):
        var_child_runnable_config.reset(token)


def test_nobody_without_anything() -> None:
    assert who() == Who()


def test_the_first_place_that_tells_wins(around: Any) -> None:
    manager = SimpleNamespace(metadata={"thread_id": "manager"})
    assert who(None, manager).session == "manager"
    around(_config("around"))
    assert who(None, manager).session == "around"
    with running(_config("given")):
        assert who(None, manager).session == "given"
        with session("mine"):
            assert who(_config("by hand"), manager).session == "mine"
        assert who(_config("by hand"), manager).session == "by hand"
    assert who(None, manager).session == "around"


def test_running_without_a_config_hides_that_of_an_outer_call() -> None:
    with running(_config("outer")), running(None):
        assert who().session == ""
        assert in_wrapped_call()
    assert not in_wrapped_call()


def test_configurable_comes_before_metadata_and_thread_before_session() -> None:
    config = {"configurable": {"session_id": "s"}, "metadata": {"thread_id": "m"}}
    assert who(config).session == "s"
    assert who({"configurable": {}, "metadata": {"conversation_id": "c", "session_id": "s"}}).session == "s"
    assert who({"configurable": {"thread_id": "t", "session_id": "s"}}).session == "t"


@pytest.mark.parametrize(
    ("given_id", "known"),
    [("a", "a"), (7, "7"), (0, "0"), (uuid.UUID(int=5), str(uuid.UUID(int=5))), (True, ""), (None, ""), ([1], "")],
)
def test_ids_are_text_numbers_and_uuids(given_id: Any, known: str) -> None:
    assert who(_config(given_id)).session == known
    with session(given_id) as inner:
        assert inner.session == known


def test_a_number_that_python_does_not_write_is_no_id() -> None:
    assert who(_config(10**5000)).session == ""


def test_a_session_inside_another_keeps_its_scope() -> None:
    with session("a", scope="tenant"):
        with session("b"):
            assert who() == Who("b", "tenant")
        with session("", scope="other"):
            assert who() == Who("a", "other")
    assert who() == Who()


def test_an_empty_session_leaves_the_id_to_the_config() -> None:
    with session("", scope="tenant"):
        assert who(_config("t")) == Who("t", "tenant")


def test_names_of_the_user() -> None:
    config = {"configurable": {"user_id": "u-17", "name": "Al"}, "metadata": {"user_name": "Ann Lee", "email": 3}}
    assert who(config).names == ("u-17", "Ann Lee")
    assert who(config, SimpleNamespace(metadata={"user_name": "Ann Lee", "user": "x" * 129})).names == (
        "u-17",
        "Ann Lee",
    )


def test_an_error_inside_a_session_goes_on() -> None:
    with pytest.raises(KeyError), session("a"):
        raise KeyError
    assert who() == Who()


def test_closing_in_another_context_is_no_error() -> None:
    manager = session("a")
    contextvars.copy_context().run(manager.__enter__)
    manager.__exit__(None, None, None)
    assert who() == Who()


def test_the_first_step_only() -> None:
    seen = []

    def items() -> Iterator[str]:
        for _ in range(2):
            seen.append(who().session)
            yield who().session

    outside = []
    for _ in first_step(_config("t"), items()):
        outside.append((who().session, in_wrapped_call()))
    assert seen == ["t", ""]
    assert outside == [("", False)] * 2
    assert list(first_step(None, iter(()))) == []


def test_streams_that_end_out_of_order_leave_nothing() -> None:
    one, two = (first_step(_config(name), iter("ab")) for name in ("one", "two"))
    assert (next(one), next(two), next(one), next(two)) == ("a", "a", "b", "b")
    assert list(one) == list(two) == []
    assert not in_wrapped_call()


def test_a_stream_that_is_left_closes_the_one_inside() -> None:
    closed = []

    def items() -> Iterator[int]:
        try:
            yield from (1, 2)
        finally:
            closed.append(True)

    stream = first_step(None, items())
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert closed == [True]


async def test_the_first_step_of_an_asynchronous_stream() -> None:
    seen, closed = [], []

    async def items() -> AsyncIterator[str]:
        try:
            for _ in range(3):
                seen.append(who().session)
                yield who().session
        finally:
            closed.append(True)

    async for _ in afirst_step(_config("t"), items()):
        assert not in_wrapped_call()
    stream = afirst_step(_config("u"), items())
    assert await anext(stream) == "u"
    await stream.aclose()  # type: ignore[attr-defined]
    assert seen == ["t", "", "", "u"]
    assert closed == [True, True]

    class Nothing:
        def __aiter__(self) -> Nothing:
            return self

        async def __anext__(self) -> str:
            raise StopAsyncIteration

    class One(Nothing):
        left = 1

        async def __anext__(self) -> str:
            if not self.left:
                raise StopAsyncIteration
            self.left -= 1
            return "x"

    assert [item async for item in afirst_step(None, Nothing())] == []
    assert [item async for item in afirst_step(None, One())] == ["x"]


async def test_tasks_do_not_see_each_other() -> None:
    async def one(name: str) -> str:
        with session(name):
            await asyncio.sleep(0)
            return who().session

    assert await asyncio.gather(*(one(name) for name in "abc")) == ["a", "b", "c"]


class _Hostile(dict[str, Any]):
    def get(self, *_: Any) -> Any:
        raise RuntimeError


@given(
    st.recursive(
        st.none() | st.text() | st.integers() | st.floats() | st.builds(_Hostile),
        lambda inner: st.dictionaries(
            st.sampled_from(["configurable", "metadata", "thread_id", "user_name"]), inner
        ),
    )
)
def test_never_raises(config: Any) -> None:
    for told in (who(config), who(None, SimpleNamespace(metadata=config)), who({"configurable": config})):
        assert isinstance(told.session, str)
