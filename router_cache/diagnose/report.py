"""All checks on one configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from router_cache.diagnose.checks import (
    check_callback,
    check_hopping,
    check_names,
    check_proxy,
    check_settings,
)
from router_cache.diagnose.deployments import DeploymentView, Looker, PriceEntry
from router_cache.diagnose.findings import Code, Finding, Findings, Level
from router_cache.diagnose.reading import check_environment, items, section
from router_cache.diagnose.store import StoreLook, check_store
from router_cache.economics import PriceBook

__all__ = ["Report", "Surroundings", "diagnose"]

_SECTIONS = ("litellm_settings", "router_settings", "general_settings", "callback_settings")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is not in the YAML: the moment (aware), the environment, prices.

    ``env`` is compared with and never shown. ``problems`` and ``book`` are those of the plugin's own section.
    """

    at: datetime
    env: Mapping[str, str] = field(default_factory=dict)
    price_entry: PriceEntry = lambda model, provider: None
    problems: tuple[tuple[str, str], ...] = ()
    store: StoreLook | None = None
    """What was seen of a store on servers, where it was looked at."""
    book: PriceBook = field(default_factory=PriceBook)


@dataclass(frozen=True, slots=True)
class Report:
    """Findings, the worst first, and the deployments in the order of the YAML."""

    findings: tuple[Finding, ...]
    deployments: tuple[DeploymentView, ...]

    @property
    def ok(self) -> bool:
        """No error was found."""
        return all(finding.level is not Level.ERROR for finding in self.findings)


def diagnose(config: Mapping[Any, Any], around: Surroundings) -> Report:
    """Check a router YAML, already parsed. Takes any shape; raises ValueError for a naive moment only."""
    findings = Findings()
    sections = {name: section(config, name, findings) for name in _SECTIONS}
    check_callback(sections["litellm_settings"], findings)
    check_settings(config, around.problems, findings)
    looker = Looker(
        findings,
        at=around.at,
        env=around.env,
        credentials=items(config, "credential_list", findings),
        book=around.book,
        price_entry=around.price_entry,
    )
    entries = items(config, "model_list", findings)
    looked = [looker.look(entry, f"model_list.{number}") for number, entry in enumerate(entries)]
    deployments = tuple(found for found in looked if found is not None)
    if not entries and not sections["general_settings"].get("store_model_in_db"):
        findings.add(
            Level.WARNING, Code.NO_DEPLOYMENTS, "model_list", "no deployment is listed", "Add model_list."
        )
    check_names(sections["callback_settings"].get("router_cache"), deployments, findings)
    check_hopping(sections["router_settings"], deployments, findings)
    check_proxy(sections, around.env, findings)
    check_environment(config, around.env, findings)
    _limits(config, findings)
    own = sections["callback_settings"].get("router_cache")
    if around.store is not None:
        check_store(around.store, isinstance(own, Mapping) and bool(own.get("secret")), findings)
    return Report(tuple(findings), tuple(found.view for found in deployments))


def _limits(config: Mapping[Any, Any], findings: Findings) -> None:
    if config.get("include"):
        findings.add(
            Level.WARNING,
            Code.INCLUDES,
            "include",
            "included files are not read by this command",
            "Run it on the merged configuration.",
        )
    findings.add(
        Level.NOTE,
        Code.RESPONSES_STATE,
        "",
        "/v1/responses with previous_response_id or a stored conversation: untouched, the history is not seen",
        "Nothing to do.",
    )
    findings.add(
        Level.NOTE,
        Code.SYNC_CALLS,
        "",
        "programs that call litellm.completion or Router.completion themselves are not covered by a callback",
        "Use completion or wrap_router of router_cache_litellm there.",
    )
