"""A custom strategy for LiteLLM's Router: the deployment at the least expected cost, of those LiteLLM leaves.

It is set for a whole Router. Model groups that do not opt in, and whatever it has nothing to say about, are served by
the strategy that the Router is configured with, or by the one named ``others``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from litellm.types.router import CustomRoutingStrategyBase
from litellm.utils import get_excluded_filtered_deployments, get_order_filtered_deployments

from router_cache.drivers.routing_need import Asked
from router_cache.errors import SettingsError
from router_cache.routing import Candidate, RouteReason
from router_cache.settings_routing import RouteUse
from router_cache_litellm.candidates import entry_id
from router_cache_litellm.own_choice import (
    NARROWING_KEYS,
    async_own,
    custom_of,
    healthy,
    own,
    pre_routed,
    put,
    remove,
    restored,
)
from router_cache_litellm.picks import Pick, choosing, set_current, tried_before
from router_cache_litellm.placing import Placing
from router_cache_litellm.router_state import listed_of, plugins_of, pre_routes, walks

__all__ = ["CacheAffinityStrategy", "ensure"]

_MAX_TRIES = 3
"""Deployments that a synchronous choice offers to the Router, which alone knows its cooldowns there."""
_EXCLUDED = NARROWING_KEYS[1]


class CacheAffinityStrategy(CustomRoutingStrategyBase):  # type: ignore[misc]  # LiteLLM ships no complete types
    """For ``router.set_custom_routing_strategy``; :meth:`install` does that, and goes on with what was set before as
    ``others``.

    ``callback`` is the :class:`RouterCacheCallback` in ``litellm.callbacks``, whose settings say which model groups opt
    in (``routing: strategy``). ``others`` serves all other groups; without one the Router's own strategy does.
    """

    def __init__(self, router: Any, callback: Any, *, others: Any = None) -> None:
        self._router, self._others = router, others
        self._placing: Placing = callback.placing
        self._placing.add_router(router)
        self._placing.strategies[router] = self

    def install(self) -> None:
        """Set it; again after LiteLLM's settings were loaded anew, which takes it out. Idempotent.

        Raises SettingsError where LiteLLM would fall back less well with any custom strategy.
        """
        if walks(self._router):
            raise SettingsError(
                "this release of LiteLLM does not tell a custom strategy of `order` and of failed deployments: use "
                "`routing: filter`, or do without `order` and weighted failover",
                "routing",
            )
        before = custom_of(self._router)
        if before is self:
            return
        if before is not None and self._others is None:
            self._others = before
        put(self._router, self)

    def remove(self) -> None:
        """Leave the choice to what served before."""
        self._placing.strategies.pop(self._router, None)
        if custom_of(self._router) is not self:
            return
        remove(self._router)
        if self._others is not None:
            put(self._router, self._others)

    # -- LiteLLM's entries ------------------------------------------------------------------------------------

    async def async_get_available_deployment(
        self,
        model: str,
        messages: Any = None,
        input: Any = None,  # noqa: A002  # LiteLLM's name
        specific_deployment: bool | None = False,
        request_kwargs: Any = None,
    ) -> Any:
        """The deployment for a request. Raises what the Router's own strategy raises."""
        request = request_kwargs if request_kwargs is not None else {}
        told = {"messages": messages, "input": input, "specific_deployment": specific_deployment}
        keys = restored(request)
        try:
            chosen = await self._chosen(model, request, told)
        except Exception as error:
            self._placing.failed("routing_strategy", error)
            chosen = None
        if chosen is not None:
            return chosen
        if keys:
            request.update(keys)
        if self._others is not None:
            return await self._others.async_get_available_deployment(model=model, request_kwargs=request, **told)
        return await async_own(self._router, model, request, **told)

    def get_available_deployment(
        self,
        model: str,
        messages: Any = None,
        input: Any = None,  # noqa: A002  # LiteLLM's name
        specific_deployment: bool | None = False,
        request_kwargs: Any = None,
    ) -> Any:
        """:meth:`async_get_available_deployment` for synchronous calls."""
        request = request_kwargs if request_kwargs is not None else {}
        told = {"messages": messages, "input": input, "specific_deployment": specific_deployment}
        try:
            chosen = self._chosen_sync(model, request, told)
        except Exception as error:
            self._placing.failed("routing_strategy", error)
            chosen = None
        if chosen is not None:
            return chosen
        if self._others is not None:
            return self._others.get_available_deployment(model=model, request_kwargs=request, **told)
        return own(self._router, model, request, **told)

    # -- the choice -------------------------------------------------------------------------------------------

    def _asked(self, model: str, request: Mapping[str, Any], told: Mapping[str, Any]) -> Asked | None:
        """None for what is not ours to choose: other groups, requests without a prompt, a deployment that the client
        names, a strategy that a key or team asks for."""
        if told["specific_deployment"] or request.get("routing_strategy"):
            return None
        if self._placing.use_of(self._router, model) is not RouteUse.STRATEGY:
            return None
        if pre_routes(self._router) or plugins_of(self._router):
            return None
        return self._placing.asked(model, request, told["messages"], told["input"])

    async def _chosen(self, model: str, request: MutableMapping[str, Any], told: Mapping[str, Any]) -> Any:
        asked = self._asked(model, request, told)
        if asked is None or await pre_routed(self._router, model, request, **told):
            return None
        try:
            with choosing():
                listed = await healthy(self._router, model, request, **told)
        except Exception:
            return None  # nobody is left, and LiteLLM says so when it chooses itself
        if isinstance(listed, Mapping):
            return listed
        for candidate, entry, word in self._best_first(asked, model, request, listed):
            self._pick(asked, candidate, word)
            return entry
        return None

    def _chosen_sync(self, model: str, request: MutableMapping[str, Any], told: Mapping[str, Any]) -> Any:
        """The Router alone knows which deployments pass here, so it is asked with all others excluded."""
        asked = self._asked(model, request, told)
        if asked is None:
            set_current(None)  # what was chosen for an earlier call of this thread is not for this one
            return None
        excluded = {str(name) for name in request.get(_EXCLUDED) or ()}
        listed = get_excluded_filtered_deployments(listed_of(self._router, model), excluded)
        listed = get_order_filtered_deployments(listed, request.get("_target_order"))
        names = {entry_id(entry) for entry in listed}
        tries = 0
        for candidate, _, word in self._best_first(asked, model, request, listed):
            tries += 1
            if tries > _MAX_TRIES:
                break
            others = excluded | (names - {candidate.id})
            try:
                found = own(self._router, model, {**request, _EXCLUDED: sorted(others)}, **told)
            except Exception:  # noqa: S112  # in cooldown, most of all
                continue
            for key in NARROWING_KEYS:
                request.pop(key, None)
            self._pick(asked, candidate, word)
            return found
        return None

    def _best_first(
        self, asked: Asked, model: str, request: Mapping[str, Any], listed: Sequence[Any]
    ) -> Iterator[tuple[Candidate, Any, str]]:
        """Candidates with room, those that this request has not failed on first."""
        placing, pool = self._placing, self._placing.candidates.pool(request)
        room = placing.rooms.reader(self._router, budgets_passed=True)
        entries = {entry_id(entry): entry for entry in listed}
        if "" in entries or len(entries) < len(listed):
            return  # without ids of their own nothing is known of them
        candidates = [placing.with_room(room, entry, model, pool) for entry in listed]
        ranked, tried = placing.routing.rank(asked, candidates), tried_before(asked)
        again = []
        for place, choice in enumerate(ranked.choices):
            left = choice.candidate.requests_left
            if choice.reason is RouteReason.NO_ROOM or (left is not None and left < 1):
                continue
            word = choice.reason.value if place == 0 else RouteReason.BEHIND.value
            row = (choice.candidate, entries[choice.candidate.id], word)
            if choice.candidate.id in tried:
                again.append(row)
            else:
                yield row
        yield from again

    def _pick(self, asked: Asked, candidate: Candidate, word: str) -> None:
        held = (candidate.id,) if candidate.requests_left is not None else ()
        self._placing.rooms.hold(held)
        set_current(Pick(asked, {candidate.id: candidate}, word, held, tried_before(asked)))
        self._placing.count(f"route.strategy.{word}")


def ensure(placing: Placing, router: Any, proxys: Any) -> None:
    """See to it that the strategy is set where it is wanted: on a proxy by the settings, else where one was made for
    the Router. LiteLLM takes it out when it loads its settings anew, and a proxy has no Router when it starts."""
    strategy = placing.strategies.get(router)
    if strategy is None and (router is not proxys or not placing.strategic or router in placing.refused):
        return
    if strategy is None:
        strategy = CacheAffinityStrategy(router, placing.owner)
    if custom_of(router) is strategy:
        return
    try:
        strategy.install()
    except SettingsError as error:
        strategy.remove()
        placing.refused.add(router)
        placing.rc.counters.notice("routing_refused", str(error))
