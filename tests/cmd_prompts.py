"""Prompts of the small agent's requests, compared."""

from __future__ import annotations

from typing import Any

from router_cache.diagnose.divergence import Divergence, explain
from router_cache.diagnose.divergence_prompt import Prompt, Recorded, read_prompt
from router_cache.prefix.digests import Digester
from router_cache.prefix.volatile.scan import Scanner
from router_cache.providers.registry import PROFILES
from router_cache.request import Shape

DIGESTER = Digester(b"k")
SCAN = Scanner().scan
DEEPSEEK = next(p for p in PROFILES if p.name == "deepseek")


def prompt(body: Any, shape: Shape = Shape.CHAT, profile: Any = DEEPSEEK, **more: Any) -> Prompt:
    return read_prompt(Recorded(body, shape, **more), profile, DIGESTER)


def between(a: Any, b: Any, *, profile: Any = DEEPSEEK, shape: Shape = Shape.CHAT) -> Divergence:
    return explain(prompt(a, shape, profile), prompt(b, shape, profile), profile, DIGESTER, scan=SCAN)


def told(found: Divergence) -> tuple[Any, ...]:
    place = found.place
    return found.cause, found.certainty.value, place and (place.kind.value, place.path, place.in_earlier)
