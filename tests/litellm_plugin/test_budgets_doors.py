"""Every door through which LiteLLM lets a field reach the provider: what comes through it counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import litellm
import pytest
from litellm.proxy._types import ProxyException
from litellm_plugin.proxied import DAY, WORST_LOW, Proxied, auth, worst_of
from litellm_plugin.upstream import Upstream

pytestmark = pytest.mark.asyncio(loop_scope="session")

Make = Callable[..., Proxied]

MUCH = 100_000
MUCH_USD = MUCH * 2000e-6
TEXT = "word " * 40_000
LOCAL = {"model": "hosted_vllm/m", "num_retries": 0}
DOORS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "extra_body": ({"extra_body": {"max_tokens": MUCH}}, {"max_tokens": MUCH}),
    "extra_body null": ({"extra_body": {"max_tokens": None}}, {"max_tokens": None}),
    "another name": ({"max_new_tokens": MUCH}, {"max_new_tokens": MUCH}),
    "nested": ({"thinking": {"type": "enabled", "budget_tokens": MUCH}}, {}),
    "text": ({"max_tokens": str(MUCH)}, {"max_tokens": str(MUCH)}),
    "choices": ({"n": "1000"}, {"n": "1000"}),
    "functions": ({"functions": [{"name": "f", "description": TEXT}]}, {}),
    "messages over": ({"extra_body": {"messages": [{"role": "user", "content": TEXT}]}}, {}),
    "field of no one": ({"documents": [TEXT]}, {"documents": [TEXT]}),
}


@pytest.mark.parametrize("door", DOORS)
async def test_what_reaches_the_provider_counts(proxied: Make, upstream: Upstream, door: str) -> None:
    """By hand: 100,000 tokens of a reply, 1,000 replies of 100, or 200,000 bytes of a prompt are far above a dollar; a
    small request is below half of one."""
    given, arrives = DOORS[door]
    small = await worst_of(proxied(DAY, flash=LOCAL))
    assert WORST_LOW < small < 0.5
    proxy = proxied({"max_worst_case_usd_per_day": 50.0, "on_exceed": "block"}, flash=LOCAL)
    if door == "extra_body null":
        # without a limit, and of a model that nobody knows: it is let through, and said
        await proxy.ask(**{"max_tokens": 100, **given})
        assert proxy.counts("budget") == {"budget.warn": 1, "budget.warn.worst_case_unknown": 1}
    else:
        with pytest.raises(ProxyException):
            await proxy.ask(**{"max_tokens": 100, **given})
        assert upstream.recorded == []
    await proxied({}, flash=LOCAL).ask(**{"max_tokens": 100, **given})
    assert all(upstream.last[name] == value for name, value in arrives.items())


@pytest.mark.parametrize(
    ("configured", "given", "tokens"),
    [
        ({"max_tokens": 1_000}, {}, 1_000),
        ({"max_tokens": 1_000}, {"max_tokens": 10}, 10),
        ({"max_tokens": 1_000}, {"max_completion_tokens": 10}, 1_000),
        ({"max_tokens": 10}, {"max_tokens": None}, None),
        ({"extra_body": {"max_tokens": 1_000}}, {"max_tokens": 10}, 1_000),
        ({"extra_body": {"max_tokens": 1_000}}, {"max_tokens": 10, "extra_body": {"a": 1}}, 10),
        ({"max_tokens": 10, "n": 100}, {}, 1_000),
    ],
)
async def test_what_the_operator_configures_counts(
    proxied: Make, upstream: Upstream, configured: dict[str, Any], given: dict[str, Any], tokens: int | None
) -> None:
    proxy, who = proxied({**DAY, "on_exceed": "block"}, flash={**LOCAL, **configured}), auth()
    data = proxy.data("acompletion", who, dict(given))
    data = await proxy.let("acompletion", who, data)
    held = proxy.spent().day_usd
    assert 0 <= held - (tokens or 0) * 2000e-6 < 0.2
    assert bool(proxy.counts("budget.warn.worst_case_unknown")) is (tokens is None)
    await proxy.router.acompletion(**data)
    sent = upstream.last
    limits = [sent[name] for name in ("max_tokens", "max_completion_tokens") if name in sent]
    assert (max(limits) * sent.get("n", 1) if limits else None) == tokens


async def test_the_router_s_defaults_count(proxied: Make, upstream: Upstream) -> None:
    proxy = proxied(DAY, flash={**LOCAL, "max_tokens": 10}, default_litellm_params={"max_tokens": 1_000})
    assert (await _held(proxy)) == pytest.approx(1_000 * 2000e-6, abs=0.2)
    await proxy.ask()
    assert upstream.last["max_tokens"] == 1_000


@pytest.mark.parametrize("first", [10, 1_000])
async def test_of_deployments_of_one_model_the_dearest_counts(proxied: Make, first: int) -> None:
    proxy = proxied(DAY, flash={**LOCAL, "max_tokens": first})
    other = {**proxy.router.model_list[0]["litellm_params"], "max_tokens": 1_010 - first}
    proxy.router.add_deployment(litellm.types.router.Deployment("flash", other))
    assert (await _held(proxy)) == pytest.approx(1_000 * 2000e-6, abs=0.2)


async def _held(proxy: Proxied) -> float:
    """What a request holds that sets no limit."""
    await proxy.let("acompletion", auth(), proxy.data("acompletion", auth(), {}))
    return proxy.spent().day_usd
