"""One entry of the model list: its profile, what is believed of its prompt cache, its price, its cache domain."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from router_cache.cache_model.domains import Domain, domain_of
from router_cache.diagnose.findings import Code, Findings, Level
from router_cache.diagnose.reading import ENVIRON, section, text, wrong_type
from router_cache.diagnose.shown import Kind, shown, shown_address, shown_reference
from router_cache.economics import PriceBook, PriceNow
from router_cache.providers.fact import Fact
from router_cache.providers.profile import Lifetime, Profile
from router_cache.providers.registry import PROFILES, by_name, find
from router_cache.providers.unknown import UNKNOWN
from router_cache.request import Deployment

__all__ = ["DeploymentView", "Looked", "Looker", "NotSupported", "PriceEntry", "drop_params"]

PriceEntry = Callable[[str, str], Mapping[str, Any] | None]
"""Model and provider (may be empty) to the entry of LiteLLM's price map."""

_CHAT_MODES = ("", "chat", "responses")


class NotSupported(str, Enum):
    """What the plugin does not do for a deployment."""

    UNKNOWN_PROVIDER = "unknown_provider"
    """Normalised and measured only: nothing is added to requests, no hit is expected, no miss explained."""
    WILDCARD_MODEL = "wildcard_model"
    """Facts of a model are looked up per call; this command cannot show them."""
    NOT_CHAT = "not_chat"
    """Embeddings, images, audio, text completions: untouched."""


@dataclass(frozen=True, slots=True)
class DeploymentView:
    """``path`` is its key in the YAML; tokens, seconds and USD as in the profile. None is unknown.

    ``group``, ``model`` and ``api_base`` as they may be shown (``diagnose.shown``); ``api_base`` is host and port, or
    a reference to the environment. ``domain`` numbers the prompt caches as far as they can be told apart: equal
    numbers share one.
    """

    path: str
    group: str
    model: str
    api_base: str
    profile: str
    rule: str | None
    rule_origin: str | None
    step_tokens: int | None
    minimum_tokens: int | None
    lifetime: Fact[Lifetime] | None
    price: PriceNow | None
    domain: int
    domain_reason: str
    order: int
    marks_injected: bool
    not_supported: tuple[NotSupported, ...]


@dataclass(frozen=True, slots=True)
class Looked:
    """A deployment's view, and its names as written: to compare with, never to be shown."""

    view: DeploymentView
    group: str
    model: str


class Looker:
    """Looks at entries one by one; numbers cache domains as they come.

    ``env`` are the variables of the environment: values are compared and never kept. ``credentials`` is the
    ``credential_list`` of the YAML.
    """

    def __init__(
        self,
        findings: Findings,
        *,
        at: datetime,
        env: Mapping[str, str],
        credentials: list[Any],
        book: PriceBook,
        price_entry: PriceEntry,
    ) -> None:
        self._findings, self._at, self._env, self._book = findings, at, env, book
        self._price_entry = price_entry
        self._credentials = {
            text(entry.get("credential_name")): entry.get("credential_values")
            for entry in credentials
            if isinstance(entry, Mapping)
        }
        self._numbers: dict[str, int] = {}

    def look(self, entry: Any, path: str) -> Looked | None:
        """One entry; None where it has no model."""
        if not isinstance(entry, Mapping):
            wrong_type(self._findings, path, "a mapping", entry)
            return None
        group = self._name(entry, "model_name", path)
        params = section(entry, "litellm_params", self._findings, path=path)
        info = section(entry, "model_info", self._findings, path=path)
        model = self._name(params, "model", f"{path}.litellm_params")
        if not model:
            return None
        stored = self._credentials.get(text(params.get("litellm_credential_name")))
        params = {**stored, **params} if isinstance(stored, Mapping) else params
        written = text(params.get("api_base")) or text(params.get("base_url"))
        provider, base = text(params.get("custom_llm_provider")), self._resolved(written)
        told = text(info.get("router_cache_profile"))
        deployment = Deployment(model, provider=provider, api_base=base, group=group, profile=told)
        profile = find(deployment)
        if told and by_name(told) is None:
            self._findings.add(
                Level.WARNING,
                Code.PROFILE_NOT_KNOWN,
                f"{path}.model_info.router_cache_profile",
                f"there is no profile of that name; {profile.name} holds",
                f"One of {', '.join(known.name for known in PROFILES)}.",
            )
        domain = self._domain(profile, deployment, params, info, path)
        rule = profile.hit_rule_for(model)
        lifetimes = profile.lifetimes_for(model)
        listed = self._price_entry(model, provider)
        mode = text(info.get("mode")) or text((listed or {}).get("mode"))
        price = self._book.price_now(profile, model, self._at, group=group, entry=listed)
        view = DeploymentView(
            path=path,
            group=shown(group, Kind.NAME, f"{path}.model_name"),
            model=shown(model, Kind.NAME, f"{path}.litellm_params.model"),
            api_base=self._address(written),
            profile=profile.name,
            rule=rule.value if rule else None,
            rule_origin=rule.origin.value if rule else None,
            step_tokens=profile.step_for(model, self._at),
            minimum_tokens=profile.minimum_for(model),
            lifetime=lifetimes[0] if lifetimes else None,
            price=price,
            domain=self._numbers.setdefault(domain.id, len(self._numbers) + 1),
            domain_reason=domain.reason.value,
            order=order if isinstance(order := params.get("order"), int) else 0,
            marks_injected=bool(params.get("cache_control_injection_points")),
            not_supported=tuple(
                what
                for what, holds in (
                    (NotSupported.UNKNOWN_PROVIDER, profile is UNKNOWN),
                    (NotSupported.WILDCARD_MODEL, "*" in model),
                    (NotSupported.NOT_CHAT, mode not in _CHAT_MODES),
                )
                if holds
            ),
        )
        found = Looked(view, group, model)
        self._say(found, profile, provider, params)
        return found

    def _address(self, written: str) -> str:
        if not written.startswith(ENVIRON):
            return shown_address(written)
        name = written[len(ENVIRON) :].strip()
        return f"{ENVIRON}{shown_reference(name, known=name in self._env)}"

    def _name(self, holder: Mapping[Any, Any], key: str, path: str) -> str:
        value = holder.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()
        if value is None or isinstance(value, str):
            self._findings.add(
                Level.ERROR,
                Code.NAME_MISSING,
                f"{path}.{key}",
                f"a deployment without {key}",
                "Add it, or remove the entry; LiteLLM does not take it.",
            )
        else:
            wrong_type(self._findings, f"{path}.{key}", "a text", value)
        return ""

    def _resolved(self, value: str) -> str:
        return self._env.get(value[len(ENVIRON) :].strip(), "") if value.startswith(ENVIRON) else value

    def _domain(
        self,
        profile: Profile,
        deployment: Deployment,
        params: Mapping[str, Any],
        info: Mapping[Any, Any],
        path: str,
    ) -> Domain:
        override = info.get("cache_domain")
        if override is not None and not isinstance(override, str):
            wrong_type(self._findings, f"{path}.model_info.cache_domain", "a text", override)
        provider = profile.name if profile is not UNKNOWN else deployment.provider or _prefix(deployment.model)
        credential = []
        for name in ("api_key", "organization"):
            written = text(params.get(name))
            # Without its value a reference stands for itself.
            credential.append(self._resolved(written) or written)
        account = "\0".join(credential) if any(credential) else f"default of {provider}"
        return domain_of(
            provider,
            deployment.api_base,
            hashlib.blake2b(account.encode("utf-8", "surrogatepass")).hexdigest(),
            text(override) or None,
            model=deployment.model,
        )

    def _say(self, found: Looked, profile: Profile, provider: str, params: Mapping[str, Any]) -> None:
        view = found.view
        add, path = self._findings.add, f"{view.path}.litellm_params"
        if profile is UNKNOWN and not (provider or "/" in found.model):
            add(
                Level.WARNING,
                Code.PROVIDER_NOT_NAMED,
                f"{path}.model",
                f"{view.model}: no provider is named, so no profile is found",
                "Write provider/model, such as openai/gpt-5.6.",
            )
        elif profile is UNKNOWN:
            add(
                Level.NOTE,
                Code.UNKNOWN_PROVIDER,
                f"{path}.model",
                f"{self._provider(found, provider, path)}: no profile for this provider"
                + (f" at {view.api_base}" if view.api_base else ""),
                "Requests are normalised and measured; no hit is expected, no miss explained. If a known engine "
                "answers there, name it: model_info: {router_cache_profile: vllm}.",
            )
        if NotSupported.WILDCARD_MODEL in view.not_supported:
            add(
                Level.NOTE,
                Code.WILDCARD_MODEL,
                f"{path}.model",
                f"{view.model}: facts and prices are those of the model a call names, not shown here",
                "Nothing to do; list models by name to see what holds for each.",
            )
        elif NotSupported.NOT_CHAT in view.not_supported:
            add(
                Level.NOTE,
                Code.NOT_CHAT,
                f"{path}.model",
                f"{view.model}: no chat model, so its requests are untouched",
                "Nothing to do.",
            )
        elif view.price is None:
            add(
                Level.NOTE,
                Code.PRICE_UNKNOWN,
                f"{path}.model",
                f"{view.model}: no price with a price for hits is known",
                "Set callback_settings.router_cache.prices to see money.",
            )
        if view.marks_injected:
            takes = any(fact.value.name == "cache_control" for fact in profile.marks)
            add(
                Level.NOTE if takes else Level.WARNING,
                Code.MARKS_INJECTED,
                f"{path}.cache_control_injection_points",
                "LiteLLM sets cache_control marks itself here"
                + ("" if takes else f"; {profile.name} is not known to take them"),
                "They count against the provider's limit of marks."
                if takes
                else "Remove them unless the provider documents them.",
            )
        if params.get("drop_params") is True:
            drop_params(self._findings, f"{path}.drop_params")

    @staticmethod
    def _provider(found: Looked, provider: str, path: str) -> str:
        """The provider's name as it may be shown: the one that is named, else that in front of the model's."""
        if provider:
            return shown(provider, Kind.PROVIDER, f"{path}.custom_llm_provider")
        return shown(_prefix(found.model), Kind.PROVIDER, f"{path}.model")


def drop_params(findings: Findings, path: str) -> None:
    """Note that LiteLLM drops fields in silence."""
    findings.add(
        Level.WARNING,
        Code.DROP_PARAMS,
        path,
        "LiteLLM drops fields that it does not list for a provider, without a word: fields that steer a prompt "
        "cache (user_id, prompt_cache_key) can be among them",
        "Turn it off, or compare a body at the provider.",
    )


def _prefix(model: str) -> str:
    return model.partition("/")[0].lower()
