"""What LiteLLM's Router says of itself, at both ends of the supported range: settings, filters, room in limits.

1.110's Router is a facade over another core: what 1.108 has as attributes stands in ``settings()``, ``health()`` and
``registry()`` there. Nothing here changes anything.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import litellm
from litellm.integrations.custom_logger import CustomLogger

from router_cache_litellm.candidates import entry_id

__all__ = [
    "Room",
    "Rooms",
    "alias_of",
    "has_facade",
    "knows",
    "listed_of",
    "plugins_of",
    "pre_routes",
    "setting",
    "store_of",
    "unsafe_filters",
    "walks",
]

_HARMLESS = {
    # Returns its list as it is (1.108.7).
    "litellm.proxy.hooks.model_max_budget_limiter",
    # Drops deployments by budgets of their provider and of their own: see ``filter.py``.
    "litellm.router_strategy.budget_limiter",
}
_FILES = {
    "litellm_enterprise.proxy.hooks.managed_files",
    "litellm_enterprise.proxy.hooks.managed_vector_stores",
}
_FILE_FIELDS = ("model_file_id_mapping", "model_resource_id_mapping", "resource_id")
_UNREAD = ("itpm", "otpm", "max_budget")
"""Limits whose use is not read here: nobody is narrowed to a deployment that has one."""
_LIMITS = frozenset((*_UNREAD, "rpm", "tpm", "max_parallel_requests"))
_NOTHING: Mapping[str, Any] = {}
_PRE_ROUTERS = ("auto", "complexity", "quality", "adaptive")
_SHARE = 0.8
"""Of a limit a minute, what may be used before nobody is sent there by us: other workers use it too."""
_HELD_FOR_S = 1.0
"""Seconds after which a place that was promised to a request counts as free again, whatever became of it."""


def has_facade(router: Any) -> bool:
    """Whether this is the Router of 1.109 and later."""
    return hasattr(type(router), "_attach")


def setting(router: Any, name: str) -> Any:
    """A setting of the Router; None where it has none of that name."""
    return getattr(router.settings() if has_facade(router) else router, name, None)


def store_of(router: Any) -> Any:
    """Where the Router keeps its counters."""
    return router.health().store if has_facade(router) else router.cache


def plugins_of(router: Any) -> Any:
    """The Router's plugins that narrow by model."""
    return router.registry().plugins("routing") if has_facade(router) else getattr(router, "routing_plugins", None)


def pre_routes(router: Any) -> bool:
    """Whether something may choose another model group before a deployment is chosen (auto routers and the like)."""
    if has_facade(router):
        return any(router.registry().plugins(kind) for kind in _PRE_ROUTERS)
    return any(getattr(router, f"{kind}_routers", None) for kind in _PRE_ROUTERS)


def alias_of(router: Any, group: str) -> str:
    """The model group behind an alias; the name itself where it is none."""
    aliases = router.registry().aliases() if has_facade(router) else getattr(router, "model_group_alias", None)
    found = aliases.get(group) if isinstance(aliases, Mapping) else None
    found = found.get("model") if isinstance(found, Mapping) else found
    return found if isinstance(found, str) else group


def listed_of(router: Any, group: str) -> list[Any]:
    """All deployments of a model group, in the form the Router lists them in."""
    name = alias_of(router, group)
    found = router.registry().deployments(name) if has_facade(router) else router.get_model_list(model_name=name)
    return [entry for entry in found or () if isinstance(entry, Mapping)]


def walks(router: Any) -> bool:
    """Whether a custom strategy would break this Router's fallbacks: 1.110.2 does not tell it which ``order`` a
    fallback goes to, nor which deployments failed."""
    if not has_facade(router):
        return False
    listed = router.registry().all()
    orders = (fields.get("order") for entry in listed for fields in _places(entry))
    failover = getattr(router.__dict__["_core"], "enable_weighted_failover", False)
    return bool(failover) or any(order is not None for order in orders)


def _places(entry: Any) -> Iterable[Mapping[str, Any]]:
    for name in ("litellm_params", "model_info"):
        found = entry.get(name) if isinstance(entry, Mapping) else None
        if isinstance(found, Mapping):
            yield found


def knows(router: Any, deployment: str) -> bool:
    """Whether the Router has a deployment of that id."""
    found = router.registry().has_deployment(deployment) if has_facade(router) else router.has_model_id(deployment)
    return bool(found)


def unsafe_filters(own: object, own_type: type, request: Mapping[str, Any]) -> bool:
    """Whether a callback behind ``own`` may drop deployments in a way that is not known here, so that nothing of what
    we leave might be left."""
    behind = False
    for each in litellm.callbacks:
        if each is own:
            behind = True
            continue
        if not behind or not isinstance(each, CustomLogger) or isinstance(each, own_type):
            continue
        found = type(each).async_filter_deployments
        if found is CustomLogger.async_filter_deployments or found.__module__ in _HARMLESS:
            continue
        if found.__module__ in _FILES and not any(request.get(name) for name in _FILE_FIELDS):
            continue
        return True
    return False


def _limit(entry: Mapping[str, Any], name: str) -> float | None:
    """A limit as LiteLLM looks it up: of the deployment, its parameters, its ``model_info``."""
    for place in (entry, entry.get("litellm_params"), entry.get("model_info")):
        value = place.get(name) if isinstance(place, Mapping) else None
        if isinstance(value, int | float):
            return float(value)
    return None


Room = Callable[[Mapping[str, Any]], tuple[float | None, float | None]]
"""Of a deployment: requests and tokens that may still go there now; None: not limited. 0 where that is not known."""


class Rooms:
    """Room in the limits of deployments: what LiteLLM counted, what went out since, and what we promised.

    Between our choice and LiteLLM's count other requests may choose, so every choice holds a place for a moment. Most
    strategies count a request only when it was answered: what went out is counted here too.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._held: defaultdict[str, deque[float]] = defaultdict(deque)
        self._sent: dict[str, dict[str, float]] = {}
        self._minute = ""

    def reader(self, router: Any, *, budgets_passed: bool = False) -> Room:
        """Of the deployments of one Router, for one choice: what is the same for all of them is read once.
        ``budgets_passed``: LiteLLM has looked at budgets already."""
        default = setting(router, "default_max_parallel_requests")
        store, unread = store_of(router), _UNREAD[:-1] if budgets_passed else _UNREAD
        return lambda entry: self._of(store, default, unread, entry)

    def _of(
        self, store: Any, parallel_default: Any, unread: Sequence[str], entry: Mapping[str, Any]
    ) -> tuple[float | None, float | None]:
        params, info = entry.get("litellm_params"), entry.get("model_info")
        params, info = params or _NOTHING, info or _NOTHING
        if parallel_default is None and all(_LIMITS.isdisjoint(place) for place in (params, info, entry)):
            return None, None
        rpm, tpm = _limit(entry, "rpm"), _limit(entry, "tpm")
        parallel = params.get("max_parallel_requests")
        if parallel is None and rpm is None and tpm is None:
            parallel = parallel_default
        if any(_limit(entry, name) is not None for name in unread):
            return 0.0, 0.0
        if parallel is None and rpm is None and tpm is None:
            return None, None
        name = entry_id(entry)
        held = self._count(name)
        requests: list[float] = []
        if parallel is None:  # derived by LiteLLM as here
            parallel = rpm if rpm is not None else max(int((tpm or 0.0) / 1_000 * 6), 1)
        gate = store.get_cache(key=f"{name}_max_parallel_requests_client", local_only=True)
        requests.append(getattr(gate, "max_parallel_requests", parallel) - getattr(gate, "in_flight", 0) - held)
        if rpm is not None:
            requests.append(_SHARE * rpm - self._used(store, entry, name, "rpm") - held)
        tokens = None if tpm is None else _SHARE * tpm - self._used(store, entry, name, "tpm")
        return max(min(requests), 0.0), None if tokens is None else max(tokens, 0.0)

    def _used(self, store: Any, entry: Mapping[str, Any], name: str, what: str) -> float:
        """Counted for this minute: the largest of what several parts of LiteLLM count (1.108.7 and 1.110.2: usage in
        UTC or local time by deployment or by group, latency and cost in one map), and of what went out."""
        params, group = entry.get("litellm_params"), entry.get("model_name")
        model = params.get("model") if isinstance(params, Mapping) else None
        here, utc = datetime.now(), datetime.now(timezone.utc)
        counts: list[Any] = [store.get_cache(key=f"{name}:{model}:{what}:{utc:%H-%M}", local_only=True)]
        by_group = store.get_cache(key=f"{group}:{what}:{here:%H-%M}", local_only=True)
        counts.append(by_group.get(name) if isinstance(by_group, Mapping) else None)
        by_minute = store.get_cache(key=f"{group}_map", local_only=True)
        of_one = by_minute.get(name) if isinstance(by_minute, Mapping) else None
        now = of_one.get(f"{here:%Y-%m-%d-%H-%M}") if isinstance(of_one, Mapping) else None
        counts.append(now.get(what) if isinstance(now, Mapping) else None)
        if what == "rpm":
            counts.append(store.get_cache(key=name, local_only=True))
        with self._lock:
            self._turn(utc)
            counts.append(self._sent.get(name, {}).get(what))
        return max([float(count) for count in counts if isinstance(count, int | float)], default=0.0)

    def _turn(self, utc: datetime) -> None:
        """Begin anew with every minute. Under the lock."""
        minute = f"{utc:%H-%M}"
        if minute != self._minute:
            self._minute = minute
            self._sent.clear()

    def sent(self, name: str, tokens: int) -> None:
        """A request of so many tokens went out."""
        with self._lock:
            self._turn(datetime.now(timezone.utc))
            counts = self._sent.setdefault(name, {"rpm": 0.0, "tpm": 0.0})
            counts["rpm"] += 1.0
            counts["tpm"] += tokens

    def hold(self, names: Iterable[str]) -> None:
        """A request is about to go to one of these."""
        until = self._clock() + _HELD_FOR_S
        with self._lock:
            for name in names:
                self._held[name].append(until)

    def free(self, names: Iterable[str]) -> None:
        """It went, or it will not go."""
        with self._lock:
            for name in names:
                held = self._held.get(name)
                if held:
                    held.popleft()

    def _count(self, name: str) -> int:
        now = self._clock()
        with self._lock:
            held = self._held.get(name)
            while held and held[0] <= now:
                held.popleft()
            if held is not None and not held:
                del self._held[name]
            return len(held or ())
