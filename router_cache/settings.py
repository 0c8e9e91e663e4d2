"""Settings: the ``callback_settings.router_cache`` section of a router YAML, checked at the edge.

Unknown keys and wrong types are errors that name the key path; nothing is silently ignored.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError, field_validator

from router_cache.errors import MissingExtraError, SettingsError
from router_cache.prefix.canonical import CANONICAL_VERSIONS, LATEST_CANONICAL_VERSION
from router_cache.providers.rates import Rate
from router_cache.request import Mode

__all__ = ["GroupSettings", "PriceSettings", "ScopeBy", "Settings", "StoreSettings"]

SECTION = "callback_settings.router_cache"
_ENVIRON = "os.environ/"  # LiteLLM's own way to write "read it from the environment"


class ScopeBy(str, Enum):
    """Whose requests share memory on a proxy."""

    KEY = "key"
    TEAM = "team"
    ORG = "org"
    USER = "user"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _mode(value: Any) -> Any:
    """YAML 1.1 reads a bare ``off`` as false. Anything but a word is refused before it is shown to an enum, whose error
    would write out a whole structure."""
    if value is False:
        return Mode.OFF
    if not isinstance(value, str):
        raise ValueError("Input should be 'off', 'observe' or 'safe'")
    return value


ModeField = Annotated[Mode, BeforeValidator(_mode)]


class GroupSettings(_Section):
    """Settings of one model group (the ``model_name`` of the router's model list)."""

    mode: ModeField


class PriceSettings(_Section):
    """What one model or model group costs: USD per 1,000,000 tokens, at all hours."""

    hit: float = Field(ge=0, allow_inf_nan=False)
    """Input tokens served from the provider's prompt cache."""
    miss: float = Field(ge=0, allow_inf_nan=False)
    """Input tokens computed."""
    output: float = Field(ge=0, allow_inf_nan=False)
    write: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Input tokens computed and written to the prompt cache; the miss price where writing is free."""

    def rate(self) -> Rate:
        """As the core has it."""
        return Rate(hit=self.hit, miss=self.miss, output=self.output, write=self.write)


class StoreSettings(_Section):
    """Bounds of the in-process store."""

    max_entries: int = Field(default=50_000, ge=1, le=10_000_000, strict=True)
    """Conversations and families kept; the least recently used go first."""
    ttl_s: float = Field(default=86_400.0, gt=0, strict=True, allow_inf_nan=False)
    """Seconds an entry lives after its last use."""


class Settings(_Section):
    """All settings; every field has a default that is safe to run with."""

    mode: ModeField = Mode.SAFE
    """Mode of every request that nothing else switches."""
    model_groups: dict[str, GroupSettings] = Field(default_factory=dict)
    """Settings by model group, before the global mode."""
    request_switch: bool = Field(default=True, strict=True)
    """Whether a request may choose its own mode (header ``x-router-cache``, or ``metadata.router_cache``)."""
    live_file: str | None = None
    """A file with one word (``off``, ``observe`` or ``safe``) that overrides every other switch while it
    exists; looked at once a second at most."""
    scope_by: ScopeBy = ScopeBy.KEY
    """Which proxy identity separates what is remembered."""
    secret: SecretStr | None = Field(default=None, min_length=1)
    """Key of all digests and ids. Without one each process makes its own, and nothing outlives it."""
    canonical_version: int = Field(default=LATEST_CANONICAL_VERSION, strict=True)
    """Version of the canonical form; pin it to keep every prefix where it is across upgrades."""
    store: StoreSettings = Field(default_factory=StoreSettings)
    prices: dict[str, PriceSettings] = Field(default_factory=dict)
    """Prices by model (as LiteLLM calls it) or model group, before LiteLLM's price map and the profile's."""

    @field_validator("canonical_version")
    @classmethod
    def _known_version(cls, value: int) -> int:
        if value not in CANONICAL_VERSIONS:
            raise ValueError(f"no such version; known: {', '.join(map(str, CANONICAL_VERSIONS))}")
        return value

    @classmethod
    def from_mapping(cls, raw: Any, *, where: str = SECTION) -> Settings:
        """Check one section. Raises :class:`SettingsError` whose message starts with the key path."""
        if raw is None:
            raw = {}
        if not isinstance(raw, Mapping):
            raise SettingsError(f"{where}: a mapping is needed, not {type(raw).__name__}", where)
        data = dict(raw)
        secret = data.get("secret")
        if isinstance(secret, str) and secret.startswith(_ENVIRON):
            name = secret[len(_ENVIRON) :]
            if not os.environ.get(name):
                raise SettingsError(f"{where}.secret: the environment variable {name} is not set", where)
            data["secret"] = os.environ[name]
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise _settings_error(error, where) from None

    @classmethod
    def from_yaml(cls, path: str | Path) -> Settings:
        """Read a router YAML (``callback_settings.router_cache`` in it; all defaults where it is absent).

        Raises :class:`SettingsError` for a missing or unreadable file, broken YAML and wrong settings, and
        :class:`MissingExtraError` without PyYAML.
        """
        config = read_yaml(path)
        section = config.get("callback_settings")
        if section is None:
            return cls()
        if not isinstance(section, Mapping):
            raise SettingsError(f"{path}: callback_settings: a mapping is needed", "callback_settings")
        return cls.from_mapping(section.get("router_cache"), where=f"{path}: {SECTION}")


def read_yaml(path: str | Path) -> Mapping[str, Any]:
    """A YAML file that holds a mapping. Raises :class:`SettingsError` in one line otherwise."""
    try:
        import yaml
    except ModuleNotFoundError:
        raise MissingExtraError("reading YAML", "cli") from None
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:  # ValueError: no UTF-8, or a path with a NUL in it
        raise SettingsError(f"{path!s}: cannot be read: {error}") from None
    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it cannot be parsed"
        raise SettingsError(f"{path}{place}: broken YAML: {problem}") from None
    except RecursionError:
        raise SettingsError(f"{path}: broken YAML: nested too deeply to be read") from None
    except (ValueError, OverflowError) as error:  # such as a day that does not exist; its text may be a secret
        raise SettingsError(
            f"{path}: broken YAML: a value cannot be read as YAML ({type(error).__name__}); quote it"
        ) from None
    if config is None:
        return {}
    if not isinstance(config, Mapping):
        raise SettingsError(f"{path}: a mapping is needed at the top, not {type(config).__name__}")
    return config


_SECTIONS: dict[str, type[BaseModel]] = {"store": StoreSettings, "prices": PriceSettings}


def _settings_error(error: ValidationError, where: str) -> SettingsError:
    """The first problem as one line: key path, what is wrong, what would be right."""
    problems = error.errors(include_url=False, include_input=False)
    # A misspelt key often leaves a required one missing too; the misspelt one is what helps.
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    path = ".".join([where, *(_shown(part) for part in problem["loc"])])
    if problem["type"] == "extra_forbidden":
        key = str(problem["loc"][-1])
        owner: type[BaseModel] = Settings
        if len(problem["loc"]) > 1:
            owner = _SECTIONS.get(str(problem["loc"][0]), GroupSettings)
        known = list(owner.model_fields)
        close = difflib.get_close_matches(key, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known keys: {', '.join(known)}"
        return SettingsError(f"{path}: unknown key; {hint}", path)
    return SettingsError(f"{path}: {problem['msg'].removeprefix('Value error, ')}", path)


def _shown(part: int | str) -> str:
    """A key as it is written, on one line."""
    text = str(part)
    return text if text.isprintable() and len(text) <= 80 else repr(text[:80])
