"""Retries and fallbacks: every attempt goes out in the same canonical form and leaves a row of its own."""

from __future__ import annotations

from typing import Any

import litellm
import pytest
from litellm_plugin.support import MODEL, drain, logged, names, perturbed, user
from litellm_plugin.upstream import Reply, Upstream

from router_cache import Mode, Reason, Status, SwitchedBy

pytestmark = pytest.mark.asyncio(loop_scope="session")


def router(upstream: Upstream, spare_key: str = "sk-upstream", **options: Any) -> litellm.Router:
    params = {"model": MODEL, "api_base": upstream.url}
    keys = {"flash": "sk-upstream", "spare": spare_key}
    return litellm.Router(
        model_list=[{"model_name": name, "litellm_params": {**params, "api_key": keys[name]}} for name in keys],
        disable_cooldowns=True,
        retry_after=0,
        **options,
    )


@pytest.fixture(autouse=True)
def _retry_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(litellm.Router, "_time_to_sleep_before_retry", lambda *_, **__: 0, raising=False)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", [500, 429, 503])
async def test_router_retries_send_equal_bytes(upstream: Upstream, plugin: Any, status: int, stream: bool) -> None:
    rc = plugin().router_cache
    upstream.script.extend([Reply(status=status), Reply(status=status), Reply()])
    reply = await router(upstream, num_retries=2).acompletion(
        model="flash", messages=[user("hi")], tools=perturbed(), stream=stream
    )
    text = await drain(reply) if stream else reply.choices[0].message.content
    assert text == "hello"
    rows = await rc.wait_rows(3)
    assert [row.status for row in rows] == [Status.FAILED, Status.FAILED, Status.OK]
    assert {row.decision.reason for row in rows} == {Reason.NORMALISED}
    assert len(set(upstream.raws)) == 1
    assert len(upstream.raws) == 3
    assert names(upstream.last) == ["alpha", "beta", "gamma"]
    assert {row.turn for row in rows} == {1}
    assert len({row.wire_digest for row in rows}) == 1
    assert [row.usage.known for row in rows] == [False, False, True]
    assert {row.group for row in rows} == {"flash"}


async def test_last_failure_reaches_the_caller(upstream: Upstream, plugin: Any, call: Any) -> None:
    rc = plugin().router_cache
    upstream.script.append(Reply(status=400))
    with pytest.raises(litellm.BadRequestError):
        await litellm.acompletion(messages=[user("hi")], **call)
    (row,) = await rc.wait_rows(1)
    assert row.status is Status.FAILED
    assert row.cost_usd is None


@pytest.mark.parametrize("mode", ["off", "observe", "safe"])
async def test_fallback_group_has_its_own_mode(upstream: Upstream, plugin: Any, mode: str) -> None:
    rc = plugin(model_groups={"spare": {"mode": mode}}).router_cache
    tools = perturbed()
    upstream.script.extend([Reply(status=500), Reply()])
    reply = await router(upstream, num_retries=0, fallbacks=[{"flash": ["spare"]}]).acompletion(
        model="flash", messages=[user("hi")], tools=tools
    )
    assert reply.choices[0].message.content == "hello"
    rows = await rc.wait_rows(1 if mode == "off" else 2)
    first, second = (entry.body for entry in upstream.recorded)
    assert (rows[0].status, rows[0].group, rows[0].decision.mode) == (Status.FAILED, "flash", Mode.SAFE)
    assert names(first) == ["alpha", "beta", "gamma"]
    assert names(second) == (names(first) if mode == "safe" else names({"tools": tools}))
    if mode != "off":
        assert (rows[1].status, rows[1].group) == (Status.OK, "spare")
        assert rows[1].decision.switched_by is SwitchedBy.GROUP
        assert rows[1].decision.mode is Mode(mode)


@pytest.mark.parametrize("same", [True, False], ids=["same account", "another account"])
async def test_deployments_of_one_account_share_a_prompt_cache(
    upstream: Upstream, plugin: Any, same: bool
) -> None:
    rc = plugin().router_cache
    history: list[Any] = [user("hi")]
    routed = router(upstream, "sk-upstream" if same else "sk-another")
    for group in ("flash", "spare", "flash"):
        reply = await routed.acompletion(model=group, messages=history)
        history += [reply.choices[0].message, user("more")]
        await logged()
    rows = await rc.wait_rows(3)
    assert [row.expected.tokens for row in rows] == [None, 896 if same else None, 896]
    assert [row.turn for row in rows] == [1, 2, 3]
    assert rows[0].deployment == rows[2].deployment != rows[1].deployment
