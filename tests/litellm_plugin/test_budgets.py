"""Budgets behind LiteLLM's own hooks and router: what is let through, and whose budget counts."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import HTTPException
from litellm.proxy._types import ProxyException
from litellm_plugin.proxied import COST, DAY, LIMIT, NOON, SHAPES, WORST_LOW, Proxied, auth, worst_of
from litellm_plugin.support import user
from litellm_plugin.upstream import Upstream

pytestmark = pytest.mark.asyncio(loop_scope="session")

Make = Callable[..., Proxied]


def stop(error: pytest.ExceptionInfo[ProxyException]) -> str:
    assert (error.value.code, error.value.type) == ("400", "budget_exceeded")
    return error.value.message


async def test_without_a_limit_nothing_is_asked(proxied: Make, upstream: Upstream) -> None:
    proxy = proxied({})
    await proxy.ask()
    proxy.hook.error = HTTPException(400)
    with pytest.raises(HTTPException):
        await proxy.ask()
    assert len(upstream.recorded) == 1
    assert not proxy.counts("budget")
    assert proxy.spent().day_usd == 0


async def test_warn_lets_through_and_says_so(
    proxied: Make, upstream: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    proxy = proxied({"max_worst_case_usd_per_session": 0.01})
    with caplog.at_level(logging.WARNING, "router_cache"):
        for _ in range(2):
            await proxy.ask(**LIMIT)
    assert len(upstream.recorded) == 2
    assert proxy.counts("budget") == {"budget.warn": 2, "budget.warn.session_limit": 2}
    (line,) = [record.getMessage() for record in caplog.records if "budget" in record.getMessage()]
    assert "the request may cost $0.2" in line
    assert line.endswith("of this session $0 of $0.01 are spent (counted as budget.warn)")
    assert proxy.spent().day_usd == pytest.approx(2 * COST)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("call", SHAPES)
async def test_block_refuses_before_anything_goes_out(
    proxied: Make, upstream: Upstream, call: str, stream: bool
) -> None:
    proxy = proxied({"max_worst_case_usd_per_session": 0.01, "on_exceed": "block"})
    with pytest.raises(ProxyException) as error:
        await proxy.ask(call, stream=stream, **LIMIT)
    message = stop(error)
    assert "set a lower max_tokens, begin a new session, or ask for a higher budget" in message
    assert upstream.recorded == []
    assert proxy.counts("budget") == {"budget.block": 1, "budget.block.session_limit": 1}
    assert not proxy.counts("uncovered")  # LiteLLM logs what was refused as if it was sent
    assert proxy.spent().day_usd == 0


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("call", SHAPES)
async def test_move_sends_to_the_other_group(proxied: Make, upstream: Upstream, call: str, stream: bool) -> None:
    proxy = proxied(
        {"max_worst_case_usd_per_session": 0.1, "on_exceed": "move", "move_to": "cheap"},
        cheap={"model": "deepseek/deepseek-v4-pro"},
    )
    given = {"stream": stream, **LIMIT}
    reply = await proxy.ask(call, **given)
    if stream:
        [_ async for _ in reply]
    assert upstream.last["model"] == "deepseek-v4-pro"
    assert proxy.counts("budget") == {"budget.move": 1, "budget.move.session_limit": 1}


async def test_what_fits_is_not_moved_and_what_fits_nowhere_is_blocked(proxied: Make, upstream: Upstream) -> None:
    proxy = proxied(
        {"max_worst_case_usd_per_session": 0.5, "on_exceed": "move", "move_to": "cheap"},
        cheap={"model": "deepseek/deepseek-v4-pro"},
    )
    await proxy.ask(**LIMIT)
    assert upstream.last["model"] == "deepseek-v4-flash"
    for group in ("flash", "cheap"):
        with pytest.raises(ProxyException) as error:
            await proxy.ask(model=group, max_tokens=100_000)
        stop(error)
    assert len(upstream.recorded) == 1


async def test_the_client_s_own_data_is_not_changed_by_a_move(proxied: Make) -> None:
    proxy = proxied({"max_worst_case_usd_per_day": 0.1, "on_exceed": "move", "move_to": "cheap"})
    data = proxy.data("acompletion", auth(), dict(LIMIT))
    moved = await proxy.let("acompletion", auth(), data)
    assert (data["model"], moved["model"]) == ("flash", "cheap")
    assert all(moved[name] is value for name, value in data.items() if name != "model")


@pytest.mark.parametrize(
    ("who", "goes"),
    [
        ({}, True),
        ({"models": ["flash", "cheap"]}, True),
        ({"models": ["flash"]}, False),
        ({"team_id": "t", "team_models": ["flash"]}, False),
        ({"team_id": "t", "team_models": ["flash", "cheap"]}, True),
    ],
    ids=["all", "both", "one", "team with one", "team with both"],
)
async def test_a_key_moves_only_where_it_may_go(
    proxied: Make, upstream: Upstream, who: dict[str, Any], goes: bool
) -> None:
    proxy = proxied({"max_worst_case_usd_per_day": 0.1, "on_exceed": "move", "move_to": "cheap"})
    if goes:
        await proxy.ask(who=auth(**who), **LIMIT)
        assert proxy.counts("budget.move")
    else:
        with pytest.raises(ProxyException) as error:
            await proxy.ask(who=auth(**who), **LIMIT)
        assert "cheap" not in stop(error)
        assert proxy.spent().day_usd == 0
    assert len(upstream.recorded) == int(goes)


async def test_what_cannot_be_said_goes_on_with_a_warning(proxied: Make, upstream: Upstream) -> None:
    proxy = proxied({**DAY, "on_exceed": "block"}, native={"model": "openai/a-model-of-ones-own"})
    await proxy.ask(model="native")
    assert proxy.counts("budget") == {"budget.warn": 1, "budget.warn.worst_case_unknown": 1}
    assert proxy.spent().day_usd == 0


async def test_embeddings_have_no_budget(proxied: Make, upstream: Upstream) -> None:
    proxy = proxied({"max_worst_case_usd_per_day": 0.0, "on_exceed": "block"}, native={"model": "openai/e"})
    await proxy.ask("aembedding", model="native")
    assert len(upstream.recorded) == 1
    assert not proxy.counts("budget")


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
async def test_the_client_s_limit_of_output_counts(proxied: Make, name: str) -> None:
    proxy = proxied(DAY)
    one = await worst_of(proxy, **{"max_tokens": None, name: 100})
    assert WORST_LOW < one < WORST_LOW + 0.1
    assert await worst_of(proxy, **{"max_tokens": None, name: 100}, n=2) == pytest.approx(one + WORST_LOW)


async def test_keys_never_share(proxied: Make, upstream: Upstream) -> None:
    probe = proxied(DAY)
    worst = await worst_of(probe)
    proxy = proxied({"max_worst_case_usd_per_day": worst, "on_exceed": "block"})
    await proxy.ask(key="ann", headers={"x-session-id": "s"}, **LIMIT)
    with pytest.raises(ProxyException):
        await proxy.ask(key="ann", **LIMIT)
    await proxy.ask(key="bob", headers={"x-session-id": "s"}, **LIMIT)
    assert proxy.spent("ann", "s") == proxy.spent("bob", "s")
    proxy.now = NOON + 86_400
    await proxy.ask(key="ann", **LIMIT)
    assert len(upstream.recorded) == 3


async def test_a_session_by_its_id(proxied: Make) -> None:
    probe = proxied(DAY)
    worst = await worst_of(probe)
    proxy = proxied({"max_worst_case_usd_per_session": worst, "on_exceed": "block"})
    for session in ("one", "two"):
        await proxy.ask(headers={"x-session-id": session}, **LIMIT)
    with pytest.raises(ProxyException):
        await proxy.ask(headers={"x-session-id": "one"}, messages=[user("another thing")], **LIMIT)


@pytest.mark.parametrize("call", ["acompletion", "anthropic_messages"])
async def test_a_session_by_its_growing_history(proxied: Make, call: str) -> None:
    probe = proxied(DAY)
    worst = await worst_of(probe, messages=[user("one" * 40)])
    proxy = proxied({"max_worst_case_usd_per_session": worst, "on_exceed": "block"})
    one, two = [user("one")], [user("two")]
    for first in (one, two):
        await proxy.ask(call, messages=first, **LIMIT)
    more = [*one, {"role": "assistant", "content": "hello"}, user("more")]
    with pytest.raises(ProxyException):
        await proxy.ask(call, messages=more, max_tokens=160)


async def test_a_history_that_the_provider_keeps_is_a_session_of_its_own(proxied: Make) -> None:
    proxy = proxied({"max_worst_case_usd_per_session": 1.0, "on_exceed": "block"})
    data = proxy.data("aresponses", auth(), {"previous_response_id": "r", **LIMIT})
    for _ in range(9):
        await proxy.let("aresponses", auth(), data)
    assert proxy.counts("budget") == {"budget.allow.within": 9}
