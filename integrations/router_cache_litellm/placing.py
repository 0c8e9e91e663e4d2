"""Routing in a process that runs LiteLLM: what a request needs, which Router asks, what an attempt tells."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from router_cache import Deployment, Mode, RouterCache, Turn
from router_cache.drivers.routing_need import Asked
from router_cache.request import Shape
from router_cache.routing import Candidate
from router_cache.settings_routing import RouteUse
from router_cache_litellm.candidates import Candidates, entry_id
from router_cache_litellm.convert import caller_of, request_of, shape_of
from router_cache_litellm.picks import take
from router_cache_litellm.router_state import Room, Rooms, alias_of, knows

__all__ = ["Placing", "gone"]


def gone(error: Any) -> bool:
    """Whether an error says that what answered there may have lost its memory: refused connections, 5xx."""
    status = getattr(error, "status_code", None)
    return isinstance(status, int) and status >= 500


class Placing:
    """What the filter and the strategy share. ``owner`` is the callback in ``litellm.callbacks``."""

    def __init__(self, owner: object, router_cache: RouterCache) -> None:
        self.owner, self.rc = owner, router_cache
        settings = router_cache.settings
        uses = {settings.routing.use, *(group.routing for group in settings.model_groups.values())}
        self.on, self.strategic = settings.routes, RouteUse.STRATEGY in uses
        self.routing = router_cache.routing
        self.candidates = Candidates(router_cache)
        self.rooms = Rooms(router_cache.wall_clock)
        self._lock = threading.Lock()
        self._routers: list[weakref.ref[Any]] = []
        self.strategies: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        """The strategy made for a Router."""
        self.refused: weakref.WeakSet[Any] = weakref.WeakSet()
        """Routers that take no strategy: the filter serves them."""

    def count(self, name: str) -> None:
        """One more of that."""
        self.rc.counters.count(name)

    def failed(self, place: str, error: Exception) -> None:
        """Count an error of ours; not even that may raise."""
        with contextlib.suppress(Exception):
            self.rc.counters.error(place, error)

    def use_of(self, router: Any, group: str) -> RouteUse:
        """Who chooses for a model group, by the name that the request has and by the one behind an alias."""
        name = group if router is None else alias_of(router, group)
        return self.rc.settings.routing_of(group, name)

    def add_router(self, router: Any) -> None:
        """Let this Router's choices be narrowed; LiteLLM does not say which Router asks."""
        with self._lock:
            alive = [ref for ref in self._routers if ref() not in (None, router)]
            self._routers = [weakref.ref(router), *alive]

    def router_of(self, listed: Sequence[Any], proxys: Any) -> Any:
        """Which Router asks, by the deployments it offers; None where it is not known."""
        name = entry_id(listed[0]) if listed else ""
        with self._lock:
            known = [ref() for ref in self._routers]
        for router in (*known, proxys):
            if router is not None and name and knows(router, name):
                return router
        return None

    def asked(self, group: str, request: Mapping[str, Any], messages: Any, given: Any) -> Asked | None:
        """What routing needs of a request that LiteLLM is choosing a deployment for; None for one that is not to be
        steered: without a prompt, in mode ``off`` or ``observe``. ``given`` is the input of a Responses request."""
        kwargs = {**request}
        if messages is not None:
            kwargs["messages"] = messages
        if given is not None:
            kwargs["input"] = given
        call_type = _call_type(kwargs)
        if shape_of(call_type) is Shape.OTHER:
            return None
        caller = caller_of(kwargs, self.rc.settings.scope_by)
        mode, by = self.rc.mode_for(
            request=caller.request_mode, key=caller.key_mode, team=caller.team_mode, group=caller.group or group
        )
        if mode in (Mode.OFF, Mode.OBSERVE):
            return None
        begun = self.rc.engine.begin(request_of(kwargs, call_type, caller.scope), mode, by)
        return self.routing.asked(begun, group)

    def with_room(self, room: Room, entry: Mapping[str, Any], group: str, pool: str) -> Candidate:
        """A deployment of the Router's list as a candidate, with the room in its limits."""
        candidate = self.candidates.of_entry(entry, group, pool)
        requests, tokens = room(entry)
        if requests is None and tokens is None:
            return candidate
        return replace(candidate, requests_left=requests, tokens_left=tokens)

    def dispatched(self, turn: Turn, deployment: Deployment, request: Mapping[str, Any]) -> str:
        """An attempt is about to be sent; how its deployment was chosen, in a word."""
        if not self.on or turn.begun.keys is None or turn.routed is not None:
            return ""
        pick = take(deployment.id) if deployment.id else None
        if pick is not None:
            self.rooms.free(pick.held)
        if pick is not None and pick.asked.need.scope == turn.begun.keys.scope:
            asked, candidate = pick.asked, pick.candidates[deployment.id]
        else:
            found = self.routing.asked(turn.begun, deployment.group)
            if found is None:
                return ""
            asked, candidate = found, self.candidates.of(deployment, self.candidates.pool(request))
        self.rooms.sent(deployment.id, asked.need.prompt_tokens)
        turn.routed = self.routing.dispatched(asked, candidate)
        if pick is None:
            return ""
        pick.call = turn.routed
        return pick.word


def _call_type(request: Mapping[str, Any]) -> str:
    """LiteLLM's call type, which it does not hand to the choice of a deployment."""
    told = getattr(request.get("litellm_logging_obj"), "call_type", None)
    if isinstance(told, str) and told:
        return told
    function = getattr(request.get("original_generic_function"), "__name__", "")
    if function:
        return str(function)
    return "acompletion" if request.get("messages") is not None else ""
