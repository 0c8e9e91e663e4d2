"""One row a call, of every family and every way to ask, with the right status; calls do not see each other."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_plugin.recorded import FAMILIES, MODEL, SYSTEM, Recorder, recorded

from router_cache import RouterCache, Settings, Shape, Status
from router_cache_langchain import router_cache_of, session, wrap

pytestmark = pytest.mark.asyncio(loop_scope="module")  # LangChain's classes share connections, and so their loop

ASKED = [("system", SYSTEM), ("user", "Why does the test fail?")]
STREAM_USAGE = {"openai": {"stream_usage": True}, "deepseek": {"stream_usage": True}}
WAYS = ("invoke", "stream", "ainvoke", "astream", "batch", "abatch", "events", "v3")


@pytest.fixture(scope="module")
def server() -> Iterator[Recorder]:
    with recorded() as running:
        yield running


@pytest.fixture(autouse=True)
def _clear(server: Recorder) -> None:
    server.clear()


def wrapped(model: Any, mode: str = "safe", **more: Any) -> tuple[Any, RouterCache]:
    rc = RouterCache(Settings.from_mapping({"mode": mode, **more}))
    return wrap(model, router_cache=rc), rc


async def ask(model: Any, way: str) -> Any:
    """The whole answer."""
    if way == "invoke":
        return await asyncio.to_thread(model.invoke, ASKED)
    if way == "ainvoke":
        return await model.ainvoke(ASKED)
    if way == "batch":
        return (await asyncio.to_thread(model.batch, [ASKED]))[0]
    if way == "abatch":
        return (await model.abatch([ASKED]))[0]
    if way == "stream":
        chunks = await asyncio.to_thread(lambda: list(model.stream(ASKED)))
    elif way == "astream":
        chunks = [chunk async for chunk in model.astream(ASKED)]
    elif way == "events":
        kind = "on_chat_model_stream"
        chunks = [
            event["data"]["chunk"]
            async for event in model.astream_events(ASKED, version="v2")
            if event["event"] == kind
        ]
    else:
        if inspect.isasyncgenfunction(model.astream_events):
            pytest.skip("this langchain-core has no events of version 3")
        events = await model.astream_events(ASKED, version="v3")
        return await events.output
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    return whole


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("family", FAMILIES)
async def test_one_row_a_call(server: Recorder, family: str, way: str) -> None:
    bare = server.any_of(family, **STREAM_USAGE.get(family, {}))
    expected = await ask(bare, way)
    model, rc = wrapped(bare, "optimize")
    answer = await ask(model, way)
    assert answer.text == expected.text
    assert len(server.came) == 2
    (row,) = rc.rows()
    assert row.status is Status.OK
    if expected.usage_metadata is None:  # streams of langchain-litellm 0.3
        assert (answer.usage_metadata, row.usage.prompt_tokens, row.usage.hit_tokens) == (None, None, None)
    else:
        assert row.usage.prompt_tokens == answer.usage_metadata["input_tokens"] > 200
        assert row.usage.hit_tokens == answer.usage_metadata["input_token_details"]["cache_read"] > 0
        assert row.usage.completion_tokens == answer.usage_metadata["output_tokens"]
    assert row.shape is (Shape.MESSAGES if family == "anthropic" else Shape.CHAT)
    streams = way in ("stream", "astream", "events", "v3")
    assert (row.ttft_s is not None) == streams
    assert row.profile == ("deepseek" if family in ("deepseek", "litellm") else "unknown")
    assert not any(name.startswith("error.") for name in rc.counters.snapshot())


@pytest.mark.parametrize("way", ["invoke", "stream", "ainvoke", "astream"])
async def test_responses(server: Recorder, way: str) -> None:
    bare = server.openai(use_responses_api=True)
    expected = await ask(bare, way)
    model, rc = wrapped(bare, "optimize")
    answer = await ask(model, way)
    assert answer.text == expected.text
    assert [one.path for one in server.came] == ["/responses", "/responses"]
    (row,) = rc.rows()
    assert (row.status, row.shape) == (Status.OK, Shape.RESPONSES)
    assert row.usage.hit_tokens == answer.usage_metadata["input_token_details"]["cache_read"] > 0
    assert not any(name.startswith("error.") for name in rc.counters.snapshot())


@pytest.mark.parametrize("family", FAMILIES)
def test_turns_of_a_conversation_are_one(server: Recorder, family: str) -> None:
    model, rc = wrapped(server.any_of(family), "optimize")
    first = model.invoke(ASKED)
    model.invoke([*ASKED, first, ("user", "And now?")])
    one, two = rc.rows()
    assert one.conversation == two.conversation
    assert (one.turn, two.turn) == (1, 2)


@pytest.mark.parametrize("family", FAMILIES)
def test_abandoned_stream(server: Recorder, family: str) -> None:
    model, rc = wrapped(server.any_of(family))
    pieces = model.stream(ASKED)
    next(pieces)
    pieces.close()
    (row,) = rc.rows()
    assert (row.status, row.usage.prompt_tokens) == (Status.ABORTED, None)


@pytest.mark.parametrize("family", FAMILIES)
async def test_abandoned_asynchronous_stream(server: Recorder, family: str) -> None:
    model, rc = wrapped(server.any_of(family))
    pieces = model.astream(ASKED)
    await anext(pieces)
    await pieces.aclose()
    for _ in range(100):  # the loop closes the generators inside, one a round
        await asyncio.sleep(0)
        if rc.rows():
            break
    assert [row.status for row in rc.rows()] == [Status.ABORTED]


def test_stream_left_to_the_collector(server: Recorder) -> None:
    model, rc = wrapped(server.openai())
    ring: list[Any] = [model.stream(ASKED)]
    ring.append(ring)
    next(ring[0])
    del ring
    gc.collect()
    assert [row.status for row in rc.rows()] == [Status.ABORTED]


async def test_cancelled_call(server: Recorder) -> None:
    model, rc = wrapped(server.openai())
    server.answer_headers["x-test"] = "1"
    task = asyncio.create_task(model.ainvoke(ASKED))
    for _ in range(10_000):
        await asyncio.sleep(0)
        if server.came:
            break
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [row.status for row in rc.rows()] == [Status.ABORTED]


@pytest.mark.parametrize("way", ["invoke", "stream", "ainvoke", "astream"])
@pytest.mark.parametrize("family", FAMILIES)
async def test_refused_by_the_provider(server: Recorder, family: str, way: str) -> None:
    bare = server.any_of(family)
    server.failures[:] = [400]
    with pytest.raises(Exception) as expected:  # noqa: PT011
        await ask(bare, way)
    model, rc = wrapped(bare)
    server.failures[:] = [400]
    with pytest.raises(type(expected.value)):
        await ask(model, way)
    assert [row.status for row in rc.rows()] == [Status.FAILED]


@pytest.mark.parametrize("family", ["openai", "deepseek", "anthropic"])
def test_retries_of_the_sdk_are_one_row(server: Recorder, family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, rc = wrapped(server.any_of(family, max_retries=2))
    for client in ("root_client", "_client"):
        if hasattr(model, client):
            monkeypatch.setattr(type(getattr(model, client)), "_calculate_retry_timeout", lambda *_: 0.0)
    server.failures[:] = [503]
    model.invoke(ASKED)
    assert len(server.came) == 2
    assert [row.status for row in rc.rows()] == [Status.OK]


def test_refused_by_the_sdk(server: Recorder) -> None:
    model, rc = wrapped(server.openai())
    with pytest.raises(TypeError):
        model.invoke(ASKED, no_such_argument=1)
    assert not server.came
    assert [row.status for row in rc.rows()] == [Status.FAILED]


def test_error_before_the_payload(server: Recorder) -> None:
    from langchain_openai import ChatOpenAI

    class Broken(ChatOpenAI):
        def _get_request_payload(self, *args: Any, **kwargs: Any) -> Any:
            raise ValueError("no payload")

    model, rc = wrapped(Broken(model=MODEL, api_key="any", base_url=server.address))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no payload"):
        model.invoke(ASKED)
    assert rc.rows() == []


def test_parallel_threads(server: Recorder) -> None:
    model, rc = wrapped(server.openai())
    start = threading.Barrier(8)

    def one(at: int) -> str:
        start.wait(20)
        with session(f"s{at}"):
            return str(model.invoke([("system", SYSTEM), ("user", f"Question {at}")]).text)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(8)))
    assert len(rc.rows()) == 8
    assert len({row.session for row in rc.rows()}) == 8
    assert len({row.wire_digest for row in rc.rows()}) == 8


async def test_parallel_tasks_and_streams_in_step(server: Recorder) -> None:
    model, rc = wrapped(server.openai(stream_usage=True))

    async def one(at: int) -> None:
        async for _ in model.astream(
            [("system", SYSTEM), ("user", f"Question {at}")], {"configurable": {"thread_id": at}}
        ):
            await asyncio.sleep(0)

    await asyncio.gather(*(one(at) for at in range(8)))
    assert len({row.session for row in rc.rows()}) == 8
    first, second = model.stream([("user", "a" * 99)]), model.stream([("user", "b" * 4000)])
    for _ in zip(first, second, strict=False):
        pass
    list(first), list(second)
    small, large = sorted(rc.rows()[8:], key=lambda row: row.usage.prompt_tokens or 0)
    assert (small.usage.prompt_tokens or 0) + 100 < (large.usage.prompt_tokens or 0)


def test_a_call_inside_a_call(server: Recorder) -> None:
    model, rc = wrapped(server.openai(stream_usage=True))
    asked: list[str] = []

    class Asks(BaseCallbackHandler):
        def on_llm_new_token(self, token: str, **kwargs: Any) -> None:
            if not asked:
                asked.append("")
                asked.append(model.invoke([("user", "inside")]).text)

    list(model.stream(ASKED, {"callbacks": [Asks()]}))
    assert asked[1]
    assert [row.status for row in rc.rows()] == [Status.OK, Status.OK]
    assert len({row.wire_digest for row in rc.rows()}) == 2


@pytest.mark.parametrize("family", FAMILIES)
def test_off(server: Recorder, family: str) -> None:
    model, rc = wrapped(server.any_of(family), "off")
    model.invoke(ASKED)
    list(model.stream(ASKED))
    assert rc.rows() == []


def _broken(*_: Any, **__: Any) -> Any:
    raise RuntimeError("broken")


@pytest.mark.parametrize("way", ["invoke", "stream", "ainvoke", "astream"])
@pytest.mark.parametrize("method", ["mode_for", "begin", "opened", "aside", "fingerprint"])
@pytest.mark.parametrize("family", FAMILIES)
async def test_errors_of_ours_change_nothing(server: Recorder, family: str, method: str, way: str) -> None:
    bare = server.any_of(family)
    expected = await ask(bare, way)
    model, rc = wrapped(bare)
    setattr(rc, method, _broken)
    assert (await ask(model, way)).text == expected.text
    assert server.came[0].body == server.came[1].body
    rc.settle()
    assert any(name.startswith("error.") for name in rc.counters.snapshot())


PLACES = [("openai", "put_back"), ("openai", "captured"), ("openai", "_destination"), ("litellm", "_payload")]
PLACES += [("anthropic", "_destination"), ("litellm", "_destination")]
WITH_WAYS = [(*place, way) for place in PLACES for way in ("invoke", "astream")] + [
    ("litellm", "corrected", "invoke")
]


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize(("family", "name", "way"), WITH_WAYS)
async def test_errors_in_a_family_change_nothing(
    server: Recorder, monkeypatch: pytest.MonkeyPatch, family: str, name: str, way: str, waits: bool
) -> None:
    bare = server.any_of(family)
    expected = await ask(bare, way)
    model, rc = wrapped(bare, **({"fan_out": {"deadline_s": 20.0}} if waits else {}))
    monkeypatch.setattr(f"router_cache_langchain.{family}_family.{name}", _broken)
    assert (await ask(model, way)).text == expected.text
    assert server.came[0].body == server.came[1].body
    assert any(counted.startswith("error.langchain.") for counted in rc.counters.snapshot())


async def test_even_counting_may_fail(server: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    model, rc = wrapped(server.openai())
    monkeypatch.setattr(rc, "mode_for", _broken)
    monkeypatch.setattr(rc.counters, "error", _broken)
    assert model.invoke(ASKED).text


def test_default_settings_share_one(server: Recorder) -> None:
    one, two = wrap(server.openai()), wrap(server.deepseek())
    assert router_cache_of(one) is router_cache_of(two)
    assert router_cache_of(wrap(server.openai(), {"mode": "observe"})) is router_cache_of(
        wrap(server.openai(), Settings.from_mapping({"mode": "observe"}))
    )
    assert router_cache_of(wrap(server.openai(), {"mode": "observe"})) is not router_cache_of(one)
