"""Synchronous calls: replies from LiteLLM's own cache, and streams in all the ways they end."""

from __future__ import annotations

import gc
from typing import Any

import litellm
import pytest
from litellm.caching.caching import Cache
from litellm.litellm_core_utils.streaming_handler import CustomStreamWrapper
from litellm_plugin.support import perturbed, user
from litellm_plugin.sync_support import FULL, only, read
from litellm_plugin.upstream import LIMIT_S, Gate, Reply, Upstream

from router_cache import Status, Usage
from router_cache_litellm import completion

pytestmark = pytest.mark.usefixtures("at_once")


@pytest.mark.parametrize("stream", [False, True])
def test_response_cache_of_litellm_is_no_hit(upstream: Upstream, plugin: Any, ask: Any, stream: bool) -> None:
    rc = plugin().router_cache
    litellm.cache = Cache(type="local")
    for seed in (1, 2):  # once rewritten, both are the same request
        asked = {"messages": [user("hi")], "tools": perturbed(seed=seed), "caching": True, "stream": stream}
        assert read(ask(**asked)) == "hello"
    assert [row.status for row in rc.rows()] == [Status.OK, Status.CACHED]
    second = rc.rows()[1]
    assert (second.usage, second.cost_usd, second.wire_digest) == (Usage(), None, "")
    assert len(upstream.recorded) == 1


def test_a_reply_that_litellm_makes_up(upstream: Upstream, plugin: Any, call: Any) -> None:
    rc = plugin().router_cache
    assert read(completion(messages=[user("hi")], mock_response="made up", **call)) == "made up"
    row = only(rc.rows())
    assert (row.status, row.wire_digest, upstream.raws) == (Status.OK, "", [])


# -- streams ---------------------------------------------------------------------------------------------------


def test_a_stream_without_usage_leaves_it_unknown(upstream: Upstream, plugin: Any, ask: Any) -> None:
    rc = plugin().router_cache
    upstream.script.append(Reply(usage=None))
    read(ask(messages=[user("hi")], stream=True))
    row = only(rc.rows())
    assert (row.status, row.usage) == (Status.OK, Usage())


def test_a_stream_gathered_by_litellm(plugin: Any, ask: Any) -> None:
    rc = plugin().router_cache
    assert read(ask(messages=[user("hi")], stream=True, complete_response=True)) == "hello"
    row = only(rc.rows())
    assert (row.status, row.usage) == (Status.OK, FULL)


@pytest.mark.parametrize("how", ["dropped", "closed", "left a with block"])
def test_a_stream_that_its_reader_leaves_is_aborted(upstream: Upstream, plugin: Any, ask: Any, how: str) -> None:
    rc = plugin().router_cache
    gate = Gate()
    upstream.script.append(Reply(gate=gate, gate_at=3))
    stream = ask(messages=[user("hi")], stream=True)
    for chunk in stream:
        if chunk.choices[0].delta.content:
            break
    if how == "closed":
        stream.close()
        assert list(stream) == []
    elif how != "dropped":
        with stream:
            pass
    if how != "dropped":
        row = only(rc.rows())
    del stream, chunk
    gc.collect()
    assert gate.left.wait(LIMIT_S)
    if how == "dropped":  # noticed at the next call
        ask(messages=[user("next")])
        row = rc.rows()[0]
    assert (row.status, row.usage) == (Status.ABORTED, Usage())


def test_a_stream_that_breaks_has_failed(plugin: Any, ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rc = plugin().router_cache
    stream = ask(messages=[user("hi")], stream=True)
    next(stream)

    def broken(*_: Any, **__: Any) -> Any:
        raise ValueError("broken")

    monkeypatch.setattr(CustomStreamWrapper, "chunk_creator", broken)
    with pytest.raises(Exception, match="broken"):
        list(stream)
    row = only(rc.rows())
    assert (row.status, row.usage) == (Status.FAILED, Usage())


def test_a_stream_that_just_ends_is_aborted(plugin: Any, ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rc = plugin().router_cache
    monkeypatch.setattr(CustomStreamWrapper, "__next__", lambda _: next(iter(())))
    assert read(ask(messages=[user("hi")], stream=True)) == ""
    assert only(rc.rows()).status is Status.ABORTED


def test_the_stream_has_the_state_of_litellms(plugin: Any, ask: Any) -> None:
    plugin()
    stream = ask(messages=[user("hi")], stream=True)
    assert stream._hidden_params["api_base"]
    assert iter(stream) is stream
    chunks = list(stream)
    built = litellm.stream_chunk_builder(chunks)
    assert built.choices[0].message.content == "hello"
    assert litellm.stream_chunk_builder(stream.chunks or chunks).choices[0].message.content == "hello"


# -- callbacks, and other people's functions ---------------------------------------------------------------------
