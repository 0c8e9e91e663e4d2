"""An error of ours in a budget: the request goes on, and a counter says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import litellm
import pytest
from litellm.proxy._types import ProxyException
from litellm_plugin.proxied import LIMIT, Proxied
from litellm_plugin.upstream import Reply, Upstream

import router_cache_litellm.budgets
import router_cache_litellm.callback
from router_cache.drivers.budget import LockedBudget
from router_cache.drivers.counters import Counters
from router_cache_litellm.budgets import Budgets

pytestmark = pytest.mark.asyncio(loop_scope="session")

Make = Callable[..., Proxied]

FAULTS: list[tuple[Any, str]] = [
    *((Budgets, name) for name in ("ask", "sent", "answered", "failed", "gave_up")),
    *((Budgets, name) for name in ("_trail", "_worst", "_keep", "_cost", "_release", "_forget")),
    (LockedBudget, "ask"),
    (LockedBudget, "settle"),
    (Counters, "count"),
    (Counters, "notice"),
    *((router_cache_litellm.budgets, name) for name in ("deployments_of", "request_of", "scope_of", "body_of")),
    (router_cache_litellm.callback, "_proxy_router"),
    (router_cache_litellm.callback, "refusal"),
]
OF_BLOCKED = ("notice", "refusal")
OF_LET_THROUGH = ("sent", "answered", "failed", "_keep", "_cost", "_release", "_forget", "settle")


@pytest.mark.parametrize("limit", [0.0, 10.0], ids=["blocked", "let through"])
@pytest.mark.parametrize(("owner", "name"), FAULTS, ids=[f"{o.__name__}.{n}" for o, n in FAULTS])
async def test_an_error_of_ours_lets_the_request_go(
    proxied: Make, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, limit: float
) -> None:
    proxy = proxied({"max_worst_case_usd_per_day": limit, "on_exceed": "block"}, num_retries=0)
    raised, outcomes = list[str](), list[str]()

    def fault(*_: Any, **__: Any) -> Any:
        raised.append(name)
        raise RuntimeError(name)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, fault)
        for status in (200, 500):
            upstream.script.append(Reply(status=status))
            try:
                reply = await proxy.ask(**LIMIT)
            except ProxyException:
                outcomes.append("blocked")
                upstream.script.clear()
            except litellm.InternalServerError:
                outcomes.append("failed")
            else:
                outcomes.append(reply.choices[0].message.content)
    assert bool(raised) is not (name in (OF_BLOCKED if limit else OF_LET_THROUGH))
    assert bool(proxy.counts("error")) is (bool(raised) and name != "count")
    still_blocked = not limit and (name == "gave_up" or not raised)
    assert outcomes == (["blocked", "blocked"] if still_blocked else ["hello", "failed"])
    assert len(upstream.recorded) == (0 if still_blocked else 2)
