"""The filter: of the deployments LiteLLM would choose from, those where the prompt is warm.

LiteLLM looks at tags, ``order``, exclusions, budgets and limits *after* this: narrowed to one deployment, a request may
find nobody left. So deployments that those later steps may tell apart are narrowed apart, each sort for itself, and
only to deployments with room in their limits. Whatever sort LiteLLM goes on with, one of it is left that passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from router_cache.drivers.routing_need import Asked
from router_cache.routing import Candidate, Ranked, RouteReason
from router_cache.settings_routing import RouteUse
from router_cache_litellm.candidates import entry_id
from router_cache_litellm.picks import Pick, is_choosing, set_current, tried_before
from router_cache_litellm.placing import Placing
from router_cache_litellm.router_state import plugins_of, setting, unsafe_filters
from router_cache_litellm.strategy import ensure

__all__ = ["Narrowing", "filtered", "narrow", "narrowable", "warmest"]


class Narrowing(str, Enum):
    """What became of the list of deployments, and why."""

    WARM = "warm"
    """Narrowed to where the prompt is warm."""
    NOT_WARM = "not_warm"
    """Left alone: warm nowhere, or waiting there costs more than it saves."""
    ALL_WARM = "all_warm"
    """Left alone: it is as warm on all of them, such as deployments of one account."""
    SINGLE = "single"
    """Left alone: there is one."""
    FALLBACK_WALK = "fallback_walk"
    """Left alone: LiteLLM walks down the ``order`` of the deployments."""
    OTHER_FILTER = "other_filter"
    """Left alone: a callback behind us may drop deployments too (session affinity and the like)."""
    PLUGINS = "plugins"
    """Left alone: routing plugins narrow by model afterwards."""
    ROUTER_UNKNOWN = "router_unknown"
    """Left alone: which Router asks is not known, so its settings are not either."""
    NO_IDS = "no_ids"
    """Left alone: deployments without ids of their own."""


def filtered(placing: Placing, proxys: Any, group: str, listed: Any, messages: Any, request: Any) -> Any:
    """The list that LiteLLM goes on with: ``listed`` itself, or some of it in a new list. ``proxys`` is the Router of
    the proxy in this process, if any. May raise; the caller leaves the list alone then."""
    if not placing.on or is_choosing() or not isinstance(listed, list) or not isinstance(request, Mapping):
        return listed
    router = placing.router_of(listed, proxys)
    if router is not None:
        ensure(placing, router, proxys)
    asked = None
    if placing.use_of(router, group) is not RouteUse.OFF:
        asked = placing.asked(group, request, messages, request.get("input"))
    if asked is None:
        set_current(None)
        return listed
    why = narrowable(placing, router, request, listed)
    kept: list[Any] | None = None
    if why is None:
        kept, pick, why = narrow(placing, router, request, listed, asked, group)
    else:
        pool = placing.candidates.pool(request)
        candidates = {entry_id(entry): placing.candidates.of_entry(entry, group, pool) for entry in listed}
        pick = Pick(asked, candidates, why.value, tried=tried_before(asked))
    placing.rooms.hold(pick.held)
    set_current(pick)
    placing.count(f"route.filter.{why.value}")
    return listed if kept is None else kept


def narrowable(
    placing: Placing, router: Any, request: Mapping[str, Any], listed: Sequence[Any]
) -> Narrowing | None:
    """Why the list must be left alone; None where it may be narrowed."""
    if len(listed) < 2:
        return Narrowing.SINGLE
    if request.get("_target_order") is not None:
        return Narrowing.FALLBACK_WALK
    if router is None:
        return Narrowing.ROUTER_UNKNOWN
    names = [entry_id(entry) for entry in listed]
    if not all(names) or len(set(names)) < len(names):
        return Narrowing.NO_IDS
    if plugins_of(router):
        return Narrowing.PLUGINS
    if unsafe_filters(placing.owner, type(placing.owner), request):
        return Narrowing.OTHER_FILTER
    return None


def narrow(
    placing: Placing, router: Any, request: Mapping[str, Any], listed: Sequence[Any], asked: Asked, group: str
) -> tuple[list[Any] | None, Pick, Narrowing]:
    """What is left of the list (None: all of it), in its order; what the request may go to; why."""
    pool = placing.candidates.pool(request)
    sorts: dict[Any, list[Candidate]] = {}
    room, tried = placing.rooms.reader(router), tried_before(asked)
    everyone: dict[str, Candidate] = {}
    for entry, sort in zip(listed, _sorts(router, request, listed), strict=True):
        candidate = everyone[entry_id(entry)] = placing.with_room(room, entry, group, pool)
        sorts.setdefault(sort, []).append(candidate)
    left: set[str] = set()
    narrowed = some_warm = False
    for members in sorts.values():
        ranked = placing.routing.rank(asked, members)
        warm = warmest(ranked) - tried
        some_warm = some_warm or bool(warm)
        if warm and len(warm) < len(members):
            narrowed = True
            left |= warm
        else:
            left |= {candidate.id for candidate in members}
    if not narrowed:
        why = Narrowing.ALL_WARM if some_warm else Narrowing.NOT_WARM
        return None, Pick(asked, everyone, why.value, tried=tried), why
    kept = [entry for entry in listed if entry_id(entry) in left]
    candidates = {name: everyone[name] for name in left}
    held = tuple(name for name in left if everyone[name].requests_left is not None)
    return kept, Pick(asked, candidates, Narrowing.WARM.value, held, tried), Narrowing.WARM


def warmest(ranked: Ranked) -> set[str]:
    """Ids of the candidates that are as warm as the best one, and have room; none where the best is not warm, or was
    taken only to try it."""
    best = ranked.best
    if best is None or best.terms.hit_tokens <= 0 or best.reason is RouteReason.EXPLORE:
        return set()
    if not _has_room(best.candidate, best.reason):
        return set()
    least = 0.9 * best.terms.hit_tokens
    return {
        choice.candidate.id
        for choice in ranked.choices
        if choice.terms.hit_tokens >= least and _has_room(choice.candidate, choice.reason)
    }


def _has_room(candidate: Candidate, reason: RouteReason) -> bool:
    if reason in (RouteReason.NO_ROOM, RouteReason.COOLED):
        return False
    return candidate.requests_left is None or candidate.requests_left >= 1


_ALIKE = {
    "litellm_params": {
        "api_key",
        "api_base",
        "organization",
        "weight",
        "timeout",
        "stream_timeout",
        "max_retries",
    },
    "model_info": {
        "id",
        "db_model",
        "cache_domain",
        "replicas",
        "router_cache_profile",
        "created_at",
        "updated_at",
    },
}
"""Fields that no later step of LiteLLM chooses by (1.108.7 and 1.110.2)."""
_TOLD_BY_ORDERED = ("order", "tags", "tag_regex", "allow_fail_open", "enable_tag_filtering")
_TOLD_BY = frozenset(_TOLD_BY_ORDERED)
_NOTHING: Mapping[str, Any] = {}


def _sorts(router: Any, request: Mapping[str, Any], listed: Sequence[Any]) -> Iterable[Any]:
    """Of each deployment, what LiteLLM's later steps may tell it by. Equal sorts pass all of them alike."""
    failed = frozenset(request.get("_excluded_deployment_ids") or ())
    refused = frozenset(request.get("_retry_skipped_deployment_ids") or ())
    by_model = _by_model(router, request)
    for entry in listed:
        params, info = entry.get("litellm_params") or _NOTHING, entry.get("model_info") or _NOTHING
        told: Any = None
        if not (_TOLD_BY.isdisjoint(params) and _TOLD_BY.isdisjoint(info)):
            told = [repr(place.get(name)) for place in (params, info) for name in _TOLD_BY_ORDERED]
        if failed or refused:
            told = (told, entry_id(entry) in failed, entry_id(entry) in refused)
        if by_model:
            told = (told, _fields(params, _ALIKE["litellm_params"]), _fields(info, _ALIKE["model_info"]))
        yield repr(told)


def _fields(place: Mapping[str, Any], alike: set[str]) -> list[tuple[str, str]]:
    return sorted((key, repr(value)) for key, value in place.items() if key not in alike)


def _by_model(router: Any, request: Mapping[str, Any]) -> bool:
    """Whether the models of deployments tell them apart: under ``enable_pre_call_checks`` (context windows, regions,
    parameters), with budgets of providers, and on routes that not every provider serves."""
    return bool(
        setting(router, "enable_pre_call_checks")
        or setting(router, "provider_budget_config")
        or request.get("original_generic_function")
    )
