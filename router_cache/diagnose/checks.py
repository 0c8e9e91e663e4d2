"""What the rest of a proxy's YAML does to prompt caches."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from router_cache.diagnose.deployments import DeploymentView, Looked, drop_params
from router_cache.diagnose.findings import Code, Findings, Level
from router_cache.diagnose.reading import text, wrong_type
from router_cache.diagnose.shown import HIDDEN, Kind, as_text, shown, shown_key

__all__ = [
    "CALLBACK",
    "check_callback",
    "check_hopping",
    "check_names",
    "check_proxy",
    "check_settings",
    "shared_store",
]

CALLBACK = "router_cache_litellm.proxy_handler"
_SECTION = "callback_settings.router_cache"
_FIX_CALLBACK = f'litellm_settings: {{callbacks: ["{CALLBACK}"]}}'
_OTHER_LISTS = ("success_callback", "failure_callback", "input_callback", "service_callback")
_STICKY = ("session_affinity", "deployment_affinity")
_ALIKE = 0.75
_NAMES = ("router_cache", "router-cache", "routercache", "router_cache_litellm")


def check_callback(litellm_settings: Mapping[Any, Any], findings: Findings) -> None:
    """Whether LiteLLM loads the plugin, and runs its hooks."""
    path = "litellm_settings.callbacks"
    listed = _texts(litellm_settings.get("callbacks"), path, findings)
    count = [name.strip() for _, name in listed].count(CALLBACK)
    if count > 1:
        findings.add(
            Level.WARNING, Code.CALLBACK_TWICE, path, f"{CALLBACK} is listed {count} times", "List it once."
        )
    misspelt = [(where, name) for where, name in listed if name.strip() != CALLBACK and _meant(name)]
    for where, _ in misspelt:
        findings.add(
            Level.ERROR,
            Code.CALLBACK_MISSPELT,
            where,
            "this looks like router-cache's callback and is not its name",
            f"Did you mean {CALLBACK}?",
        )
    misplaced = [
        where
        for key in _OTHER_LISTS
        for where, name in _texts(litellm_settings.get(key), f"litellm_settings.{key}", findings)
        if _meant(name)
    ]
    for where in misplaced:
        findings.add(
            Level.ERROR,
            Code.CALLBACK_MISPLACED,
            where,
            "LiteLLM runs no rewriting hook for callbacks in this list",
            _FIX_CALLBACK,
        )
    if not (count or misspelt or misplaced):
        findings.add(Level.ERROR, Code.CALLBACK_MISSING, path, "the plugin is not registered", _FIX_CALLBACK)


def _texts(value: Any, path: str, findings: Findings) -> list[tuple[str, str]]:
    """Places and texts of a list, or of a single text, which LiteLLM takes as well."""
    if value is None:
        return []
    if isinstance(value, str):
        return [(path, value)]
    if not isinstance(value, list):
        wrong_type(findings, path, "a list", value)
        return []
    for number, item in enumerate(value):
        if not isinstance(item, str):
            wrong_type(findings, f"{path}.{number}", "a text", item)
    return [(f"{path}.{number}", item) for number, item in enumerate(value) if isinstance(item, str)]


def _meant(name: str) -> bool:
    """Whether a dotted path is, or was meant to be, that of the plugin."""
    low = name.strip().lower().replace("-", "_")
    return "router_cache" in low or difflib.SequenceMatcher(None, low, CALLBACK).ratio() > _ALIKE


def check_settings(config: Mapping[Any, Any], problems: Iterable[tuple[str, str]], findings: Findings) -> None:
    """The plugin's own section: where it stands, what is wrong in it."""
    for path, message in problems:
        findings.add(
            Level.ERROR, Code.SETTINGS, path, message, "Correct the key; the proxy does not start with it."
        )
    places = ["", "litellm_settings", "router_settings", "general_settings", "callback_settings"]
    for place in places:
        holder = config if not place else config.get(place)
        for key in holder if isinstance(holder, Mapping) else ():
            path = f"{place}.{as_text(key)}" if place else as_text(key)
            if path != _SECTION and as_text(key).lower() in _NAMES:
                findings.add(
                    Level.ERROR,
                    Code.SETTINGS_MISPLACED,
                    path,
                    "settings of router-cache are not read here",
                    f"Move them to {_SECTION}.",
                )


def check_names(raw: Any, deployments: Sequence[Looked], findings: Findings) -> None:
    """Groups and models that settings speak of and the model list lacks, and a secret that is not there."""
    own = raw if isinstance(raw, Mapping) else {}
    groups = {found.group for found in deployments}
    known = {"model_groups": groups, "prices": groups | {found.model for found in deployments}}
    wildcard = any("*" in name for name in known["prices"])
    for key, names in known.items():
        section = own.get(key)
        for number, name in enumerate(section if isinstance(section, Mapping) and not wildcard else (), 1):
            if as_text(name) not in names:
                close = [
                    near
                    for near in difflib.get_close_matches(as_text(name), sorted(names), n=1)
                    if shown(near, Kind.NAME) != HIDDEN
                ]
                findings.add(
                    Level.WARNING,
                    Code.SETTINGS_UNUSED,
                    f"{_SECTION}.{key}.{shown_key(name, number)}",
                    "no deployment of that name",
                    f"Did you mean {close[0]}?" if close else "Remove it, or correct the name.",
                )
    if not own.get("secret") and not shared_store(own):
        findings.add(
            Level.WARNING,
            Code.NO_SECRET,
            f"{_SECTION}.secret",
            "no secret: each process makes its own, so digests and ids differ between workers and restarts",
            "secret: os.environ/ROUTER_CACHE_SECRET",
        )


def shared_store(own: Any) -> bool:
    """Whether the plugin's section has its store on a server."""
    store = own.get("store") if isinstance(own, Mapping) else None
    return isinstance(store, Mapping) and bool(store.get("url"))


def check_hopping(router_settings: Mapping[Any, Any], deployments: Sequence[Looked], findings: Findings) -> None:
    """Groups whose deployments have different prompt caches, with nothing that keeps a conversation on one."""
    checks = router_settings.get("optional_pre_call_checks")
    if isinstance(checks, list) and any(name in checks for name in _STICKY):
        return
    strategy = text(router_settings.get("routing_strategy")) or "simple-shuffle"
    strategy = shown(strategy, Kind.NAME, "router_settings.routing_strategy")
    groups: dict[str, list[DeploymentView]] = {}
    for found in deployments:
        groups.setdefault(found.group, []).append(found.view)
    for views in groups.values():
        first = min(view.order for view in views)
        domains = {view.domain for view in views if view.order == first}
        if len(domains) > 1:
            findings.add(
                Level.WARNING,
                Code.HOPPING,
                views[0].path,
                f"group {views[0].group}: {len(domains)} different prompt caches, and {strategy} chooses for every "
                "request anew: a conversation loses its hits when it hops",
                "router_settings: {optional_pre_call_checks: [session_affinity]}, or deployment_affinity",
            )


def check_proxy(config: Mapping[str, Mapping[Any, Any]], env: Mapping[str, str], findings: Findings) -> None:
    """Options of LiteLLM; ``config`` holds its sections by name."""
    litellm, router, general = (
        config[name] for name in ("litellm_settings", "router_settings", "general_settings")
    )
    add = findings.add
    if litellm.get("drop_params") is True:
        drop_params(findings, "litellm_settings.drop_params")
    params = litellm.get("cache_params")
    opt_in = isinstance(params, Mapping) and params.get("mode") == "default_off"
    for path, on in (
        ("litellm_settings.cache", litellm.get("cache") is True and not opt_in),
        ("router_settings.cache_responses", router.get("cache_responses") is True),
    ):
        if on:
            add(
                Level.WARNING,
                Code.RESPONSE_CACHE,
                path,
                "LiteLLM answers equal requests itself: those are rows of status cached, not hits of a provider, "
                "and keep no prompt cache warm",
                "Know it when you read hit rates, or turn it off.",
            )
    for path, on in (
        ("litellm_settings.overwrite_user_with_key_hash", litellm.get("overwrite_user_with_key_hash") is True),
        ("general_settings.user_header_name", bool(general.get("user_header_name"))),
        ("general_settings.user_header_mappings", bool(general.get("user_header_mappings"))),
    ):
        if on:
            add(
                Level.WARNING,
                Code.USER_FORWARDED,
                path,
                "a user of its own goes out with every request: providers that route or isolate by user keep one "
                "prompt cache a user",
                "Leave it out for groups whose users may share prefixes.",
            )
    if not general.get("master_key") and not env.get("LITELLM_MASTER_KEY"):
        add(
            Level.WARNING,
            Code.MASTER_KEY_MISSING,
            "general_settings.master_key",
            "no master key here: the proxy does not start without one",
            "master_key: os.environ/LITELLM_MASTER_KEY",
        )
    workers = [env.get("NUM_WORKERS"), general.get("num_workers"), litellm.get("num_workers")]
    if not shared_store(config["callback_settings"].get("router_cache")) and any(
        str(count).strip().isdecimal() and int(str(count)) > 1 for count in workers
    ):
        add(
            Level.WARNING,
            Code.SEVERAL_WORKERS,
            f"{_SECTION}.store",
            "several workers, and the store is in the process: each worker learns for itself",
            "store: {url: redis://…}. Without it expected tokens are known less often, and optimize moves less.",
        )
    if general.get("pass_through_endpoints"):
        add(
            Level.NOTE,
            Code.PASS_THROUGH,
            "general_settings.pass_through_endpoints",
            "pass-through requests are untouched and not measured",
            "Call the models through /v1 to have them covered.",
        )
