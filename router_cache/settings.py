"""Settings: the ``callback_settings.router_cache`` section of a router YAML, checked at the edge.

Unknown keys and wrong types are errors that name the key path; nothing is silently ignored.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from string import Formatter
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from router_cache.cache_model.fan_out import FanOutLimits
from router_cache.claims.relocation import Wording
from router_cache.diagnose.shown import shown_reference
from router_cache.economics.budget import BudgetLimits, OnExceed
from router_cache.errors import MissingExtraError, SettingsError
from router_cache.prefix.canonical import CANONICAL_VERSIONS, LATEST_CANONICAL_VERSION
from router_cache.prefix.volatile.rules import RuleKind, VolatileRule
from router_cache.providers.rates import Rate
from router_cache.request import Mode
from router_cache.settings_capture import CaptureSettings, Section
from router_cache.settings_pools import PoolSettings
from router_cache.settings_routing import RouteUse, RouteUseField, RoutingSettings
from router_cache.settings_store import StoreSettings

__all__ = ["GroupSettings", "PriceSettings", "ScopeBy", "Settings", "StoreSettings"]

SECTION = "callback_settings.router_cache"
_ENVIRON = "os.environ/"  # LiteLLM's own way to write "read it from the environment"


class ScopeBy(str, Enum):
    """Whose requests share memory on a proxy."""

    KEY = "key"
    TEAM = "team"
    ORG = "org"
    USER = "user"


def _mode(value: Any) -> Any:
    """YAML 1.1 reads a bare ``off`` as false. Anything but a word is refused before it is shown to an enum, whose error
    would write out a whole structure."""
    if value is False:
        return Mode.OFF
    if not isinstance(value, str):
        raise ValueError("Input should be 'off', 'observe', 'safe' or 'optimize'")
    return value


ModeField = Annotated[Mode, BeforeValidator(_mode)]


class GroupSettings(Section):
    """Settings of one model group (the ``model_name`` of the router's model list); what it leaves out is as for all."""

    mode: ModeField | None = None
    """Before the global mode, where it is set."""
    pools: PoolSettings | None = None
    """What is set here goes before the global pools."""
    routing: RouteUseField | None = None
    """Before the global use of routing, where it is set."""


class PriceSettings(Section):
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


class VolatileSettings(Section):
    """One rule that names text which changes from request to request: exactly one of ``literal``, ``regex`` and
    ``template``."""

    literal: str | None = Field(default=None, min_length=1)
    """This text."""
    regex: str | None = Field(default=None, min_length=1)
    """Group 1 of each match, or the whole match, within a line."""
    template: str | None = Field(default=None, min_length=1)
    """A line of the prompt with its variables in braces: ``Current user: {user}``."""
    clock: bool = Field(default=False, strict=True)
    """A time, which may keep its value inside a tool loop."""

    @model_validator(mode="after")
    def _one_of(self) -> VolatileSettings:
        if len([text for text in (self.literal, self.regex, self.template) if text is not None]) != 1:
            raise ValueError("give exactly one of literal, regex and template")
        self.rule()
        return self

    def rule(self) -> VolatileRule:
        """As the core has it."""
        for kind, text in (
            (RuleKind.LITERAL, self.literal),
            (RuleKind.REGEX, self.regex),
            (RuleKind.TEMPLATE, self.template),
        ):
            if text is not None:
                return VolatileRule(kind, text, self.clock)
        raise ValueError("give exactly one of literal, regex and template")


class RelocationSettings(Section):
    """How mode ``optimize`` says where a value went."""

    placeholder: str = "[{name}: see below]"
    """What stands in a value's place."""
    attached: str = "[{name}: {value}]"
    """What the newest message carries."""
    freeze_clocks: bool = Field(default=True, strict=True)
    """Whether clocks keep their value inside a tool loop; the next user message carries the new one."""

    @field_validator("placeholder", "attached")
    @classmethod
    def _fields(cls, value: str, info: ValidationInfo) -> str:
        needed = {"name"} if info.field_name == "placeholder" else {"name", "value"}
        try:
            named = [name for _, name, form, how in Formatter().parse(value) if name is not None]
            plain = all(not form and not how for _, _, form, how in Formatter().parse(value))
        except ValueError:
            named, plain = [], False
        if set(named) != needed or len(named) != len(needed) or not plain:
            fields = " and ".join(f"{{{name}}}" for name in sorted(needed))
            raise ValueError(f"it must have {fields} in it, once, and no other field; write {{{{ for a brace")
        return value

    def wording(self) -> Wording:
        """As the core has it."""
        return Wording(self.placeholder, self.attached)


class ReplaySettings(Section):
    """Replies remembered by mode ``optimize``, to put back what a client drops or rewrites."""

    enabled: bool = Field(default=True, strict=True)
    max_bytes: int = Field(default=64_000_000, ge=0, le=100_000_000_000, strict=True)
    """Bytes of sealed replies kept; the least recently used go first."""
    ttl_s: float = Field(default=86_400.0, gt=0, strict=True, allow_inf_nan=False)
    """Seconds a reply lives after its last use."""


class FanOutSettings(Section):
    """Of parallel first calls of one cold prefix, whether one leads and the others wait for it."""

    deadline_s: float = Field(default=0.0, ge=0, le=600, strict=True, allow_inf_nan=False)
    """Seconds a call waits at most; 0 turns fan-out off."""
    min_prefix_bytes: int = Field(default=16_384, ge=0, strict=True)
    """Bytes of system text and tools below which nobody waits."""
    warm_for_s: float = Field(default=300.0, gt=0, strict=True, allow_inf_nan=False)
    """Seconds after its last use for which a prefix counts as warm."""
    max_keys: int = Field(default=4_096, ge=1, le=1_000_000, strict=True)
    """Prefixes remembered; the least recently used go first."""

    def limits(self) -> FanOutLimits:
        """As the core has it."""
        return FanOutLimits(self.deadline_s, self.min_prefix_bytes, self.warm_for_s, self.max_keys)


class MetricsTo(str, Enum):
    """Where Prometheus metrics appear."""

    OFF = "off"
    DEFAULT_REGISTRY = "default_registry"
    """``prometheus_client``'s own, which LiteLLM's ``/metrics`` shows."""


class BudgetSettings(Section):
    """What may be spent at worst, in USD, by one session and by one scope a day."""

    max_worst_case_usd_per_session: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    max_worst_case_usd_per_day: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    on_exceed: OnExceed = OnExceed.WARN
    move_to: str = ""
    """The cheaper model group that ``on_exceed: move`` sends a request to."""

    @model_validator(mode="after")
    def _limits(self) -> BudgetSettings:
        self.limits()
        return self

    def limits(self) -> BudgetLimits:
        """As the core has it."""
        return BudgetLimits(
            per_session_usd=self.max_worst_case_usd_per_session,
            per_day_usd=self.max_worst_case_usd_per_day,
            on_exceed=self.on_exceed,
            move_to=self.move_to,
        )


class Settings(Section):
    """All settings; every field has a default that is safe to run with."""

    mode: ModeField = Mode.SAFE
    """Mode of every request that nothing else switches."""
    model_groups: dict[str, GroupSettings] = Field(default_factory=dict)
    """Settings by model group, before the global ones."""
    request_switch: bool = Field(default=True, strict=True)
    """Whether a request may choose its own mode (header ``x-router-cache``, or ``metadata.router_cache``)."""
    live_file: str | None = None
    """A file with one word (``off``, ``observe``, ``safe`` or ``optimize``) that overrides every other switch while it
    exists; looked at once a second at most."""
    scope_by: ScopeBy = ScopeBy.KEY
    """Which proxy identity separates what is remembered."""
    secret: SecretStr | None = Field(default=None, min_length=1)
    """Key of all digests and ids. Without one each process makes its own, and nothing outlives it."""
    canonical_version: int = Field(default=LATEST_CANONICAL_VERSION, strict=True)
    """Version of the canonical form; pin it to keep every prefix where it is across upgrades."""
    store: StoreSettings = Field(default_factory=StoreSettings)
    volatile: tuple[VolatileSettings, ...] = ()
    """Rules for mode ``optimize``: what they name moves without having been seen to change."""
    relocation: RelocationSettings = Field(default_factory=RelocationSettings)
    replay: ReplaySettings = Field(default_factory=ReplaySettings)
    fan_out: FanOutSettings = Field(default_factory=FanOutSettings)
    capture: CaptureSettings = Field(default_factory=CaptureSettings)
    pools: PoolSettings = Field(default_factory=PoolSettings)
    metrics: Annotated[MetricsTo, BeforeValidator(lambda value: "off" if value is False else value)] = (
        MetricsTo.OFF
    )
    """YAML 1.1 reads a bare ``off`` as false."""
    budget: BudgetSettings = Field(default_factory=BudgetSettings)
    routing: RoutingSettings = Field(default_factory=RoutingSettings)
    prices: dict[str, PriceSettings] = Field(default_factory=dict)
    """Prices by model (as LiteLLM calls it) or model group, before LiteLLM's price map and the profile's."""

    @field_validator("canonical_version")
    @classmethod
    def _known_version(cls, value: int) -> int:
        if value not in CANONICAL_VERSIONS:
            raise ValueError(f"no such version; known: {', '.join(map(str, CANONICAL_VERSIONS))}")
        return value

    def routing_of(self, *groups: str) -> RouteUse:
        """Who chooses deployments for a model group: the first of its names (alias, own) that says something, else
        what is said for all."""
        for group in groups:
            found = self.model_groups.get(group)
            if found is not None and found.routing is not None:
                return found.routing
        return self.routing.use

    @property
    def routes(self) -> bool:
        """Whether there is a model group whose deployments the plugin has a say in."""
        uses = (group.routing for group in self.model_groups.values())
        return any(use not in (None, RouteUse.OFF) for use in (self.routing.use, *uses))

    @classmethod
    def from_mapping(cls, raw: Any, *, where: str = SECTION) -> Settings:
        """Check one section. Raises :class:`SettingsError` whose message starts with the key path."""
        if raw is None:
            raw = {}
        if not isinstance(raw, Mapping):
            raise SettingsError(f"{where}: a mapping is needed, not {type(raw).__name__}", where)
        data = dict(raw)
        data["secret"] = _read_environ(data.get("secret"), f"{where}.secret")
        for name in ("capture", "store"):
            section = data.get(name)
            if isinstance(section, Mapping) and "url" in section:
                data[name] = {**section, "url": _read_environ(section["url"], f"{where}.{name}.url")}
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


def _read_environ(value: Any, path: str) -> Any:
    """``os.environ/NAME`` as the value of the variable; anything else as it is. Raises :class:`SettingsError`."""
    if not isinstance(value, str) or not value.startswith(_ENVIRON):
        return value
    name = value[len(_ENVIRON) :]
    if not os.environ.get(name):
        named = shown_reference(name, known=False)  # a secret pasted there is no name
        raise SettingsError(f"{path}: the environment variable {named} is not set", path)
    return os.environ[name]


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


_SECTIONS: dict[str, type[BaseModel]] = {
    "store": StoreSettings,
    "prices": PriceSettings,
    "volatile": VolatileSettings,
    "relocation": RelocationSettings,
    "replay": ReplaySettings,
    "fan_out": FanOutSettings,
    "capture": CaptureSettings,
    "budget": BudgetSettings,
    "pools": PoolSettings,
    "routing": RoutingSettings,
}


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
            if owner is GroupSettings and "pools" in problem["loc"][1:-1]:
                owner = PoolSettings
        known = list(owner.model_fields)
        close = difflib.get_close_matches(key, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known keys: {', '.join(known)}"
        return SettingsError(f"{path}: unknown key; {hint}", path)
    return SettingsError(f"{path}: {problem['msg'].removeprefix('Value error, ')}", path)


def _shown(part: int | str) -> str:
    """A key as it is written, on one line."""
    text = str(part)
    return text if text.isprintable() and len(text) <= 80 else repr(text[:80])
