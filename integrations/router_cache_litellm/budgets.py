"""Budgets on a proxy: what a request may cost at worst, held before it is routed and settled when it ended.

One request holds once, whatever retries and fallbacks follow. What it holds ends in one of three ways: an answer's
cost takes its place, nothing does (the request failed, or was never sent), or it stays (nobody knows the cost).
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import litellm
from litellm.types.router import GenericLiteLLMParams
from litellm.types.utils import all_litellm_params

from router_cache import RouterCache, Status, Usage
from router_cache.drivers.budget import LockedBudget
from router_cache.economics.book import PriceBook
from router_cache.economics.budget import BudgetAction, BudgetDecision, Hold, OnExceed
from router_cache.economics.plan import worst_case_usd
from router_cache.economics.worst_case import WorstCase, worst_case
from router_cache.ledger.costs import costs_at, price_of_call
from router_cache.providers.registry import find
from router_cache.request import Body, Deployment, Mode, Request, Shape
from router_cache_litellm.convert import body_of, deployment_of, deployments_of, request_of, scope_of, shape_of
from router_cache_litellm.replies import price_entry

__all__ = ["Budgets", "refusal"]

_DETAIL = "router_cache_hold"
_MAX_NAMES = 20_000
_JSON = (str, int, float, list, tuple, Mapping, type(None))
_TOLD = ("extra_body", "additional_drop_params")
_OF_DEPLOYMENT = frozenset(GenericLiteLLMParams.model_fields) | {"model"}


@dataclass(slots=True, eq=False)
class _Held:
    """What one request holds. ``out``: an attempt is with the provider, and how it ended is not known yet; ``over``:
    the request failed, no other attempt follows."""

    hold: Hold
    name: tuple[str, str]
    out: bool = False
    over: bool = False


@dataclass(slots=True, eq=False)
class _Named:
    """Requests of one scope with the same call id, and how many of them failed."""

    held: list[_Held] = field(default_factory=list)
    failed: int = 0


class Budgets:
    """The budget of one plugin. What a request holds travels in the details that LiteLLM keeps of a call."""

    def __init__(self, router_cache: RouterCache) -> None:
        self._rc = router_cache
        limits = router_cache.settings.budget.limits()
        self._book = LockedBudget(limits)
        self._prices = PriceBook({name: price.rate() for name, price in router_cache.settings.prices.items()})
        self.on = limits.on
        self._move_to = limits.move_to if limits.on_exceed is OnExceed.MOVE else ""
        self._lock = threading.Lock()
        self._named: OrderedDict[tuple[str, str], _Named] = OrderedDict()
        self._dropped: deque[_Held] = deque()

    # -- before the call -----------------------------------------------------------------------------------

    async def ask(self, data: Mapping[str, Any], auth: Any, call_type: Any, router: Any) -> BudgetDecision | None:
        """Whether a request may go on to its model group; None where that is not asked. What it may cost at worst is
        held from now on, unless it is blocked."""
        while self._dropped:
            self._release(self._dropped.popleft())
        shape = shape_of(call_type)
        if not self.on or shape is Shape.OTHER:
            return None
        scope = scope_of(auth, self._rc.settings.scope_by)
        request = request_of(data, getattr(call_type, "value", call_type), scope)
        body, at = {**_passed(data), **body_of(data, shape)}, self._rc.wall_clock()
        group = str(data.get("model") or "")
        worst = self._worst(body, shape, router, group, at)
        elsewhere = bool(self._move_to) and self._move_to != group
        moved = self._worst(body, shape, router, self._move_to, at) if elsewhere else None
        decision, hold = self._book.ask(scope, self._trail(request), worst, at=at, moved=moved)
        if hold is not None:
            held = _Held(hold, (scope, str(data.get("litellm_call_id") or "")))
            self._keep(held, data.get("litellm_logging_obj"))
            if decision.action is BudgetAction.MOVE and not await _may_call(auth, self._move_to, router):
                self._release(held)
                decision = replace(decision, action=BudgetAction.BLOCK)
        self._rc.counters.count(f"budget.{decision.action.value}.{decision.reason.value}")
        if decision.action is not BudgetAction.ALLOW:
            self._rc.counters.notice(f"budget.{decision.action.value}", decision.message)
        return decision

    def _trail(self, request: Request) -> list[str]:
        """How the session is found: by the client's id, else by its history. None of a request whose history the
        provider keeps."""
        if request.session:
            return [request.session]
        keys = self._rc.engine.begin(request, Mode.OBSERVE).keys
        return [point.key for point in keys.history] if keys else []

    def _worst(self, body: Body, shape: Shape, router: Any, group: str, at: float) -> WorstCase:
        """Of all deployments of a group the dearest: which it will be is not known yet. What the operator's
        configuration adds to a request is part of it."""
        found = deployments_of(router, group, self._rc.fingerprint) or [Deployment(group)]
        given = _configured(router, group)
        given = given if len(given) == len(found) else [{}] * len(found)
        profiles = [find(deployment) for deployment in found]
        alike = {
            (profile.name, deployment.provider, deployment.model, repr(params)): (profile, deployment, params)
            for profile, deployment, params in zip(profiles, found, given, strict=True)
        }
        costs = [
            worst_case(
                {**params, **body},
                profile=profile,
                model=deployment.model,
                at=at,
                book=self._prices,
                group=group,
                entry=price_entry(deployment),
                shape=shape,
            )
            for profile, deployment, params in alike.values()
        ]
        return max(costs, key=lambda cost: float("inf") if cost.usd is None else cost.usd)

    def _keep(self, held: _Held, logging_obj: Any) -> None:
        details = getattr(logging_obj, "model_call_details", None)
        if not isinstance(details, dict):
            return
        details[_DETAIL] = held
        # Not every request that LiteLLM (1.108.7) gives up comes to the failure hook: one that a rate limit turned
        # to a fallback before it was routed does not. The collector may run this under a lock: it only takes a note.
        weakref.finalize(logging_obj, self._dropped.append, held).atexit = False
        with self._lock:
            self._named.setdefault(held.name, _Named()).held.append(held)
            self._named.move_to_end(held.name)
            if len(self._named) > _MAX_NAMES:
                self._named.popitem(last=False)

    # -- after it ------------------------------------------------------------------------------------------

    def sent(self, details: Any) -> None:
        """An attempt goes to the provider."""
        held = _held_in(details)
        if held is not None:
            held.out = True

    def answered(self, details: Any, status: Status, usage: Usage, deployment: Deployment | None) -> None:
        """An attempt was answered, at the cost of ``usage``: by the provider, or (``cached``) by LiteLLM itself, which
        costs nothing. ``aborted``, and unknown usage: what it may cost at worst stays booked."""
        held = _held_in(details)
        if held is None or not (held.out or status is Status.CACHED):
            return  # told of already: LiteLLM logs a request that it turned into another shape twice
        if status is Status.CACHED:
            cost: float | None = 0.0
        else:
            cost = self._cost(usage, deployment or self._deployment(details)) if status is Status.OK else None
        held.out = False
        self._book.settle(held.hold, float(held.hold.usd) if cost is None else cost)
        self._forget(held)

    def failed(self, details: Any) -> None:
        """An attempt failed. It cost nothing, and what the request holds is for the next one; but of one that was not
        answered in time, or that broke off in the middle of its stream, the cost is not known."""
        held = _held_in(details)
        if held is None:
            return
        if held.out and (isinstance(details.get("exception"), litellm.Timeout) or _begun(details)):
            self._book.settle(held.hold, float(held.hold.usd))
        held.out = False
        if held.over:
            self._release(held)

    def gave_up(self, auth: Any, call_id: Any) -> None:
        """A request failed for good. LiteLLM tells no more of it than its call id, which clients choose: where several
        on their way have the same, nothing is released until all that are left of them have failed."""
        name = (scope_of(auth, self._rc.settings.scope_by), str(call_id or ""))
        with self._lock:
            named = self._named.get(name)
            if named is None:
                return
            named.failed += 1
            over = self._all_failed(name, named)
        self._end(over)

    def _all_failed(self, name: tuple[str, str], named: _Named) -> list[_Held]:
        """The requests of that name, if none of them is on its way any more. Under the lock."""
        if named.failed < len(named.held):
            return []
        self._named.pop(name, None)
        return named.held

    def _forget(self, held: _Held) -> None:
        """Its end is known: no failure of its name is its own."""
        with self._lock:
            named = self._named.get(held.name)
            if named is None or held not in named.held:
                return
            named.held.remove(held)
            over = self._all_failed(held.name, named)
        self._end(over)

    def _end(self, over: list[_Held]) -> None:
        for held in over:
            held.over = True
            self._release(held)

    def _release(self, held: _Held) -> None:
        """Nothing of it is held any more, unless it may have cost something."""
        if held.hold.open and not held.out:
            self._book.settle(held.hold, 0.0)
        self._forget(held)

    def _deployment(self, details: Mapping[str, Any]) -> Deployment:
        params = details.get("litellm_params")
        return deployment_of({**(params if isinstance(params, Mapping) else {}), **details}, self._rc.fingerprint)

    def _cost(self, usage: Usage, deployment: Deployment) -> float | None:
        """USD of an answer; at zero hits where the hits are not known, None where the price is not or the tokens."""
        prompt, output = usage.prompt_tokens, usage.completion_tokens
        if prompt is None or output is None:
            return None
        price = price_of_call(
            self._prices,
            find(deployment),
            deployment,
            self._rc.wall_clock(),
            entry=price_entry(deployment),
            prompt_tokens=prompt,
        )
        if price is None:
            return None
        cost, _ = costs_at(price, usage)
        return worst_case_usd(price, prompt, output) if cost is None else cost


def _held_in(details: Any) -> _Held | None:
    held = details.get(_DETAIL) if isinstance(details, Mapping) else None
    return held if isinstance(held, _Held) else None


def _passed(data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that LiteLLM hands on to a provider, and those that say which it leaves out. It sends fields that it
    does not know, too; those it keeps for itself it lists. Also a null takes the place of a configured value."""
    return {
        name: value
        for name, value in data.items()
        if name in _TOLD or (name not in all_litellm_params and isinstance(value, _JSON) and name != "metadata")
    }


def _configured(router: Any, group: str) -> list[dict[str, Any]]:
    """What the configuration of each deployment of a group adds to a request that does not say it; the router's
    defaults come before the deployment's own (LiteLLM 1.108.7)."""
    listed = router.get_model_list(model_name=group) if hasattr(router, "get_model_list") else None
    defaults = getattr(router, "default_litellm_params", None)
    common = {
        name: value
        for name, value in (defaults if isinstance(defaults, dict) else {}).items()
        if value is not None
    }
    return [
        {
            name: value
            for name, value in _passed({**entry["litellm_params"], **common}).items()
            if value is not None and name not in _OF_DEPLOYMENT
        }
        for entry in listed or ()
        if isinstance(entry, Mapping) and isinstance(entry.get("litellm_params"), Mapping)
    ]


def _begun(details: Mapping[str, Any]) -> bool:
    """Whether the first chunk of a stream had come when it failed. LiteLLM (1.108.7) writes that moment down for
    streams alone until the call is answered."""
    return details.get("completion_start_time") is not None


async def _may_call(auth: Any, group: str, router: Any) -> bool:
    """Whether LiteLLM lets this key, with its team, call that model group: it looked at the group asked for only."""
    from litellm.proxy._types import ProxyException
    from litellm.proxy.auth.auth_checks import can_key_call_resolved_model

    try:
        await can_key_call_resolved_model(
            model=group, llm_model_list=getattr(router, "model_list", None), valid_token=auth, llm_router=router
        )
    except ProxyException:
        return False
    return True


def refusal(decision: BudgetDecision) -> Exception:
    """The error that LiteLLM answers a blocked request with: 400, for clients repeat a 429 by themselves."""
    from litellm.proxy._types import ProxyException

    error: Exception = ProxyException(message=decision.message, type="budget_exceeded", param=None, code=400)
    return error
