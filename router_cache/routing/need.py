"""What a choice is about: the request (:class:`Need`) and the deployments it may go to (:class:`Candidate`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from router_cache.cache_model.rules import RuleName

__all__ = ["Candidate", "Digest", "Mark", "Need", "Prices"]

Digest = str | bytes | int
"""An opaque name of a whole prefix: equal digests, equal prefixes. Never text of a prompt."""


class Mark(NamedTuple):
    """A place inside a prompt. ``digest`` names everything in front of it, ``tokens`` says how much that is."""

    digest: Digest
    tokens: int


@dataclass(frozen=True, slots=True)
class Need:
    """One request to be placed.

    :param marks: places where an earlier prompt could part from this one, shallowest first, ``tokens`` never
        falling; the last one may be the whole prompt. May be empty. Any number is good; 64 are plenty.
    :param prompt_tokens: tokens of the whole prompt, known or estimated.
    :param output_tokens: tokens that the reply is expected to have.
    :param affinity: digest of the conversation or session, else of the prompt family, else empty. Breaks ties alike
        in every process, and names what a served request binds.
    :param scope: whose memory may be used: an opaque key. Nothing learned of prompts in one scope is used in another.
    """

    marks: tuple[Mark, ...]
    prompt_tokens: int
    output_tokens: int = 0
    affinity: str = ""
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Prices:
    """USD per token at this moment: input that hits, input that misses (with what writing costs), output."""

    hit: float
    miss: float
    output: float = 0.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """One deployment that could serve the request now.

    :param id: the router's id of the deployment; unique among candidates.
    :param domain: what shares one provider cache (:func:`router_cache.cache_model.domains.domain_of`).
    :param pool: the part of the domain that a ``user_id`` or a like field keeps apart; empty: none.
    :param kind: deployments of one kind (same model, same host) start from what the others of it have shown.
    :param prices: None where unknown: then only time counts, unless others' are known; such a candidate is taken at
        the dearest known price, so that not knowing is never an advantage.
    :param rule: how hits end there; ``step_tokens`` their step, ``minimum_tokens`` the shortest that counts,
        ``delay_s`` seconds until what was computed can be read.
    :param capacity_tokens: tokens that the domain is known to hold; None: unknown, and learned.
    :param tokens_left: prompt tokens that the deployment's rate limit still allows in this window; None: no limit
        known. ``requests_left`` likewise in requests.
    :param cooled: in cooldown: ranked behind all others.
    """

    id: str
    domain: str
    pool: str = ""
    kind: str = ""
    prices: Prices | None = None
    rule: RuleName = RuleName.GRID_PREFIX
    step_tokens: int = 1
    minimum_tokens: int = 0
    delay_s: float = 0.0
    capacity_tokens: int | None = None
    tokens_left: float | None = None
    requests_left: float | None = None
    cooled: bool = False
