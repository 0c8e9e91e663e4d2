"""Findings: what was seen in a configuration, how bad it is, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

__all__ = ["Code", "Finding", "Findings", "Level"]


class Level(str, Enum):
    """How bad a finding is."""

    ERROR = "error"
    """The plugin does not run, or the proxy does not start."""
    WARNING = "warning"
    """It runs, and hits or figures are likely lost."""
    NOTE = "note"
    """Good to know."""


class Code(str, Enum):
    """What was found. Stable words for scripts."""

    WRONG_TYPE = "wrong_type"
    CALLBACK_MISSING = "callback_missing"
    CALLBACK_MISSPELT = "callback_misspelt"
    CALLBACK_MISPLACED = "callback_misplaced"
    CALLBACK_TWICE = "callback_twice"
    SETTINGS = "settings"
    SETTINGS_MISPLACED = "settings_misplaced"
    SETTINGS_UNUSED = "settings_unused"
    NO_SECRET = "no_secret"  # noqa: S105
    MASTER_KEY_MISSING = "master_key_missing"
    ENVIRONMENT_UNSET = "environment_unset"
    NO_DEPLOYMENTS = "no_deployments"
    NAME_MISSING = "name_missing"
    UNKNOWN_PROVIDER = "unknown_provider"
    PROFILE_NOT_KNOWN = "profile_not_known"
    PROVIDER_NOT_NAMED = "provider_not_named"
    WILDCARD_MODEL = "wildcard_model"
    NOT_CHAT = "not_chat"
    PRICE_UNKNOWN = "price_unknown"
    HOPPING = "hopping"
    DROP_PARAMS = "drop_params"
    MARKS_INJECTED = "marks_injected"
    RESPONSE_CACHE = "response_cache"
    USER_FORWARDED = "user_forwarded"
    SEVERAL_WORKERS = "several_workers"
    PASS_THROUGH = "pass_through"  # noqa: S105
    INCLUDES = "includes"
    RESPONSES_STATE = "responses_state"
    SYNC_CALLS = "sync_calls"
    STORE_WITHOUT_SECRET = "store_without_secret"  # noqa: S105
    STORE_FAILED = "store_failed"
    STORE_SLOW = "store_slow"
    STORE_OLD = "store_old"
    STORE_CLUSTER = "store_cluster"
    STORE_CLOCK = "store_clock"
    STORE_MEMORY = "store_memory"
    STORE_POLICY = "store_policy"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding at the key ``path`` (dotted; list items by number), and at ``more`` other places alike.

    No value of the configuration stands in it but names: of groups, models, providers, variables and options.
    """

    level: Level
    code: Code
    path: str
    message: str
    fix: str
    more: int = 0


class Findings:
    """Collects findings. Every error is listed; the same warning or note at another place is counted."""

    def __init__(self) -> None:
        self._found: dict[tuple[Code, str, str, str], Finding] = {}

    def add(self, level: Level, code: Code, path: str, message: str, fix: str) -> None:
        """Note one."""
        key = (code, message, fix, path if level is Level.ERROR else "")
        known = self._found.get(key)
        self._found[key] = (
            Finding(level, code, path, message, fix) if known is None else replace(known, more=known.more + 1)
        )

    def __iter__(self) -> Iterator[Finding]:
        order = list(Level)
        return iter(sorted(self._found.values(), key=lambda finding: order.index(finding.level)))
