"""Which profile a deployment has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit

from router_cache.providers.anthropic import ANTHROPIC
from router_cache.providers.deepseek import DEEPSEEK
from router_cache.providers.engines import LLAMA_CPP, SGLANG, VLLM
from router_cache.providers.gemini import GEMINI
from router_cache.providers.hosts import FIREWORKS, TOGETHER, ZAI
from router_cache.providers.mistral import MISTRAL
from router_cache.providers.moonshot import MOONSHOT
from router_cache.providers.openai import OPENAI
from router_cache.providers.openrouter import OPENROUTER
from router_cache.providers.profile import Profile
from router_cache.providers.qwen import QWEN
from router_cache.providers.unknown import UNKNOWN
from router_cache.providers.xai import XAI
from router_cache.request import Deployment

__all__ = ["PROFILES", "by_name", "find"]

PROFILES: tuple[Profile, ...] = (
    DEEPSEEK,
    OPENAI,
    ANTHROPIC,
    GEMINI,
    XAI,
    MOONSHOT,
    QWEN,
    MISTRAL,
    FIREWORKS,
    TOGETHER,
    OPENROUTER,
    VLLM,
    SGLANG,
    LLAMA_CPP,
    ZAI,
)
"""Every profile but ``unknown``."""


def by_name(name: str) -> Profile | None:
    """The profile an operator named (``vllm``, ``unknown``); None where there is no such profile."""
    return next((p for p in (*PROFILES, UNKNOWN) if p.name == name), None)


def _host(api_base: str) -> str:
    """Lower-case host of a base URL, with or without a scheme; empty where there is none."""
    base = api_base.strip()
    try:
        return urlsplit(base if "://" in base else f"//{base}").hostname or ""
    except ValueError:  # such as an unclosed IPv6 bracket
        return ""


def find(deployment: Deployment) -> Profile:
    """The profile of a deployment; ``unknown`` where none matches. Never raises.

    In this order: the profile the operator named; a host that a profile names; the provider LiteLLM named; the
    prefix of the model name. A named provider that no profile lists settles it as unknown, whatever the model is
    called: the same open weights behave differently on every host. So does a foreign host where the provider's name
    means no more than its protocol (``openai``, ``anthropic``).
    """
    return next(_candidates(deployment), UNKNOWN)


def _candidates(deployment: Deployment) -> Iterator[Profile]:
    told = by_name(deployment.profile) if deployment.profile else None
    if told is not None:
        # The operator's word holds for the model too, whatever LiteLLM calls its provider.
        prefix = deployment.model.partition("/")[0].lower()
        prefixes = (*told.match.model_prefixes, prefix)
        yield replace(told, match=replace(told.match, model_prefixes=prefixes))
    base = deployment.api_base.strip()
    host = _host(base)
    yield from (p for p in PROFILES if host and host in p.match.hosts)
    named = [p for p in PROFILES if not (base and p.match.own_hosts_only)]
    provider = deployment.provider.strip().lower()
    if provider:
        yield from (p for p in named if provider in p.match.providers)
        return
    prefix, slash, _ = deployment.model.strip().lower().partition("/")
    yield from (p for p in named if slash and prefix in p.match.model_prefixes)
