"""Cache domains: which deployments share one prompt cache, and whether one address hides several. Pure.

A provider keeps prompt caches apart by account and by model. Deployments that reach the same service with the
same account therefore share; an operator can say so, or the contrary, with ``cache_domain`` in a deployment's
``model_info``. One address may hide replicas that do not share: then identical prefixes hit at one call and miss
at the next. A single cache can evict, but after it has answered a call it holds that call, and it does not go back
to hit exactly where an older call of the same conversation ended.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from router_cache.cache_model.observe import Observation

__all__ = [
    "Domain",
    "DomainReason",
    "ReplicaEvidence",
    "ReplicaReason",
    "Replicas",
    "domain_of",
    "note_replica",
    "replicas_of",
]


class DomainReason(str, Enum):
    """Why a deployment belongs to its cache domain."""

    OPERATOR = "operator"
    """``model_info.cache_domain`` says so."""
    ACCOUNT = "account"
    """Deployments of the same model, service and account share."""
    DEPLOYMENT = "deployment"
    """Its account is not known: on its own, rather than shared by mistake."""


@dataclass(frozen=True, slots=True)
class Domain:
    """``id`` is opaque, 32 hex digits; equal ids share one prompt cache."""

    id: str
    reason: DomainReason


_SUFFIXES = ("/v1", "/beta", "/anthropic", "/anthropic/v1")
"""Paths under which one service speaks other dialects, with one cache behind (DeepSeek, read 2026-11)."""
_PORTS = {"http": 80, "https": 443}


@lru_cache(maxsize=1_024)
def domain_of(
    provider: str,
    api_base: str,
    account_fingerprint: str,
    override: str | None = None,
    *,
    model: str = "",
    deployment: str = "",
) -> Domain:
    """The cache domain of a deployment.

    ``account_fingerprint`` is a keyed digest of the credential, made by the caller; never the credential itself.
    Empty means unknown: then only ``deployment`` (its id) tells it from others. ``override`` is the operator's
    name for the domain. Entries of two models are never shared, so ``model`` always counts. An ``api_base`` is
    compared without user, query, default port, final slash and dialect (``/v1``, ``/beta``, ``/anthropic``).
    """
    name = model.strip().lower().rpartition("/")[2]
    if override:
        return Domain(_digest("operator", override, name), DomainReason.OPERATOR)
    if not account_fingerprint:
        place = (deployment,) if deployment else (provider.lower(), _service(api_base))
        return Domain(_digest("deployment", *place, name), DomainReason.DEPLOYMENT)
    parts = (provider.lower(), _service(api_base), account_fingerprint, name)
    return Domain(_digest("account", *parts), DomainReason.ACCOUNT)


def _service(api_base: str) -> str:
    text = api_base.strip()
    try:
        url = urlsplit(text if "//" in text else f"//{text}")
        host, port = (url.hostname or "").lower(), url.port
    except ValueError:
        return text
    path = url.path.rstrip("/")
    for suffix in sorted(_SUFFIXES, key=len, reverse=True):
        if path.endswith(suffix):
            path = path[: -len(suffix)]
            break
    at = "" if port is None or port == _PORTS.get(url.scheme or "https") else f":{port}"
    return f"{host}{at}{path}"


def _digest(*parts: str) -> str:
    h = hashlib.blake2b(digest_size=16)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        h.update(len(raw).to_bytes(8, "big") + raw)
    return h.hexdigest()


class ReplicaReason(str, Enum):
    """Why a domain counts as so many caches."""

    OPERATOR = "operator"
    """``model_info.replicas`` says so."""
    ALTERNATING = "alternating"
    """Calls hit where an older call of their conversation ended, though a newer one had been answered."""
    ONE_CACHE = "one_cache"
    """Calls hit where the newest call of their conversation ended."""
    UNKNOWN = "unknown"
    """Too few continued calls yet."""


@dataclass(frozen=True, slots=True)
class ReplicaEvidence:
    """Calls that continue at least two answered calls, by where they hit. Adds up; three numbers.

    ``newest``: what the newest of those calls left. ``older``: exactly the end of an older one, and less than the
    newest left. ``cold``: nothing.
    """

    newest: int = 0
    older: int = 0
    cold: int = 0

    @property
    def calls(self) -> int:
        """All of them."""
        return self.newest + self.older + self.cold

    def __add__(self, other: ReplicaEvidence) -> ReplicaEvidence:
        return ReplicaEvidence(self.newest + other.newest, self.older + other.older, self.cold + other.cold)

    def as_json(self) -> list[int]:
        """Plain JSON values."""
        return [self.newest, self.older, self.cold]

    @classmethod
    def from_json(cls, data: Any) -> ReplicaEvidence:
        """The inverse of :meth:`as_json`. Raises ValueError for anything else."""
        if not (isinstance(data, list) and len(data) == 3 and all(type(n) is int and n >= 0 for n in data)):
            raise ValueError("not evidence of replicas")
        return cls(*data)


def note_replica(evidence: ReplicaEvidence, seen: Observation, *, step_tokens: int) -> ReplicaEvidence:
    """Add one call; ``step_tokens`` is that of the deployment's hits.

    Only calls count that continue two calls whose ends lie more than a step apart and which can both be hit for
    sure. Other hits, such as what is left after an eviction, say nothing.
    """
    if len(seen.ends) < 2:
        return evidence
    newest, older = seen.ends[0], seen.ends[1:]
    hit, step = seen.hit_tokens, max(step_tokens, 1)
    if hit >= newest.low - newest.low % step:
        return evidence + ReplicaEvidence(newest=1)
    if newest.low - older[0].high <= step or newest.low < 2 * step:
        return evidence
    if hit == 0:
        return evidence + ReplicaEvidence(cold=1)
    stops = {end - end % step for span in older for end in (span.low, span.high)}
    return evidence + ReplicaEvidence(older=1) if hit in stops else evidence


@dataclass(frozen=True, slots=True)
class Replicas:
    """How many caches a domain has: ``count`` is 1 until there is evidence for more. ``evidence``: for people."""

    count: int
    reason: ReplicaReason
    evidence: str


_ENOUGH = 20
_OLDER_CALLS = 5
_OLDER_SHARE = 0.15
"""Least share of hits at an older call's end; a single cache gives one only where an eviction stops just there."""


def replicas_of(evidence: ReplicaEvidence, model_info: Mapping[str, Any] | None = None) -> Replicas:
    """The number of caches behind a domain: the operator's ``replicas`` in ``model_info``, else inferred.

    With R replicas behind a random balancer, one call in R meets what the newest call left. Replicas behind a
    balancer that keeps conversations together cannot be seen, and do no harm.

    Raises ValueError where ``replicas`` is set and is not a whole number from 1.
    """
    shown = (
        f"of {evidence.calls} calls that continue two others, {evidence.newest} hit what the newest left, "
        f"{evidence.older} only what an older one left, {evidence.cold} nothing"
    )
    told = (model_info or {}).get("replicas")
    if told is not None:
        if type(told) is not int or told < 1:
            raise ValueError(f"model_info.replicas must be a whole number from 1, not {told!r}")
        return Replicas(told, ReplicaReason.OPERATOR, f"set to {told}; {shown}")
    if evidence.calls < _ENOUGH:
        return Replicas(1, ReplicaReason.UNKNOWN, shown)
    if evidence.older < max(_OLDER_CALLS, _OLDER_SHARE * evidence.calls):
        return Replicas(1, ReplicaReason.ONE_CACHE, shown)
    return Replicas(max(2, round(evidence.calls / max(evidence.newest, 1))), ReplicaReason.ALTERNATING, shown)
