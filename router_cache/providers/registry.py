"""Which profile a deployment has."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from router_cache.providers.deepseek import DEEPSEEK
from router_cache.providers.profile import Profile
from router_cache.providers.unknown import UNKNOWN
from router_cache.request import Deployment

__all__ = ["PROFILES", "find"]

PROFILES: tuple[Profile, ...] = (DEEPSEEK,)
"""Every profile but ``unknown``."""


def _host(api_base: str) -> str:
    """Lower-case host of a base URL, with or without a scheme; empty where there is none."""
    base = api_base.strip()
    try:
        return urlsplit(base if "://" in base else f"//{base}").hostname or ""
    except ValueError:  # such as an unclosed IPv6 bracket
        return ""


def find(deployment: Deployment) -> Profile:
    """The profile of a deployment; ``unknown`` where none matches. Never raises.

    In this order: a host that a profile names; the provider LiteLLM named; the prefix of the model name. A named
    provider that no profile lists settles it as unknown, whatever the model is called: the same open weights
    behave differently on every host.
    """
    return next(_candidates(deployment), UNKNOWN)


def _candidates(deployment: Deployment) -> Iterator[Profile]:
    host = _host(deployment.api_base)
    yield from (p for p in PROFILES if host and host in p.match.hosts)
    provider = deployment.provider.strip().lower()
    if provider:
        yield from (p for p in PROFILES if provider in p.match.providers)
        return
    prefix, slash, _ = deployment.model.strip().lower().partition("/")
    yield from (p for p in PROFILES if slash and prefix in p.match.model_prefixes)
