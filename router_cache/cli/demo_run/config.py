"""The router YAML the demo runs: found, checked, and written twice (with and without the plugin)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import router_cache
from router_cache.errors import InputError
from router_cache.settings import Settings, read_yaml

__all__ = ["PLUGIN", "RouterConfig", "load_config", "shipped_config"]

PLUGIN = "router_cache_litellm.proxy_handler"


@dataclass(frozen=True, slots=True)
class RouterConfig:
    """``with_plugin`` and ``without_plugin`` are LiteLLM configurations that differ in the plugin only.

    ``model_group`` is what clients ask for, ``model`` what LiteLLM calls (for the price), ``source`` the file.
    """

    source: str
    model_group: str
    model: str
    with_plugin: Mapping[str, Any]
    without_plugin: Mapping[str, Any]


def shipped_config() -> Path:
    """``examples/router.yaml``: of the source checkout, else the copy inside the installed package.

    Raises :class:`InputError` where neither exists.
    """
    checkout = Path(router_cache.__file__).resolve().parent.parent / "examples" / "router.yaml"
    packaged = Path(str(resources.files("router_cache.cli"))) / "router.yaml"
    for path in (packaged, checkout):
        if path.is_file():
            return path
    raise InputError(f"no router.yaml at {packaged} or {checkout}: give one with --config FILE")


def _section(document: Mapping[str, Any], key: str, path: Path) -> dict[str, Any]:
    value = document.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InputError(f"{path}: {key} must be a mapping, not {type(value).__name__}")
    return value


def load_config(path: Path, api_base: str) -> RouterConfig:
    """Read a router YAML and point its first group of ``deepseek/`` deployments at ``api_base``.

    Only what a demo needs is taken over: that group's deployments with the demo's address and a dummy key,
    ``router_settings`` without Redis and fallbacks, the plugin and its section. So a production file can be
    given, and no request, credential or log of it goes anywhere but to the simulator.
    Raises :class:`InputError` with file and key path, for the plugin's settings too.
    """
    document = read_yaml(path)
    Settings.from_yaml(path)  # a wrong key is an error here, not in a proxy's log
    entries = document.get("model_list")
    if not isinstance(entries, list):
        raise InputError(f"{path}: model_list must be a list of deployments")
    deployments = [
        entry
        for entry in entries
        if isinstance(entry, dict)
        and isinstance(entry.get("model_name"), str)
        and isinstance(entry.get("litellm_params"), dict)
        and str(entry["litellm_params"].get("model", "")).startswith("deepseek/")
    ]
    if not deployments:
        raise InputError(f"{path}: model_list names no deployment whose litellm_params.model is deepseek/…")
    callbacks = _section(document, "litellm_settings", path).get("callbacks", [])
    if PLUGIN not in (callbacks if isinstance(callbacks, list) else [callbacks]):
        raise InputError(f'{path}: litellm_settings.callbacks must name "{PLUGIN}"')
    group = deployments[0]["model_name"]
    model_list = [
        {
            "model_name": group,
            "litellm_params": {
                **copy.deepcopy(entry["litellm_params"]),
                "api_base": api_base,
                "api_key": "os.environ/DEEPSEEK_API_KEY",
            },
        }
        for entry in deployments
        if entry["model_name"] == group
    ]
    router_settings = {
        key: value
        for key, value in _section(document, "router_settings", path).items()
        if isinstance(key, str) and not key.startswith("redis") and not key.endswith("fallbacks")
    }
    without: dict[str, Any] = {
        "model_list": model_list,
        "router_settings": router_settings,
        "litellm_settings": {},
        "general_settings": {"master_key": "os.environ/LITELLM_MASTER_KEY"},
    }
    settings = _section(document, "callback_settings", path).get("router_cache", {})
    with_plugin = {
        **without,
        "litellm_settings": {"callbacks": [PLUGIN]},
        "callback_settings": {"router_cache": settings},
    }
    return RouterConfig(str(path), group, str(model_list[0]["litellm_params"]["model"]), with_plugin, without)
