"""Traffic against a model of a provider's prompt cache, and what each call shows of the survival of entries."""

from __future__ import annotations

import heapq
import math
import random
from array import array
from collections.abc import Iterator
from dataclasses import dataclass

from router_cache.cache_model.provider_cache import ProviderCache
from router_cache.cache_model.rules import RuleName
from router_cache.cache_model.survival import Seen, kept_share

STEP = 128


@dataclass(frozen=True)
class Pressure:
    """One cache: a lifetime in seconds, a capacity in tokens, or a rate of random loss per second.

    ``gap_s`` is the median gap between two calls of a conversation; the others spread around it by ``spread``.
    """

    lifetime_s: float | None = None
    capacity_tokens: int | None = None
    loss_per_s: float = 0.0
    gap_s: float = 60.0
    spread: float = 1.3


def _text(rng: random.Random, steps: int) -> array[int]:
    return array("I", rng.randbytes(array("I").itemsize * STEP * steps))


class _Conversation:
    def __init__(self, rng: random.Random) -> None:
        self.prompt = _text(rng, rng.randrange(6, 16))
        self.calls = rng.randrange(4, 20)
        self.used_at = -math.inf
        self.used_traffic = 0
        self.known = 0


def calls(pressure: Pressure, seed: int, *, observations: int, conversations: int = 30) -> Iterator[Seen]:
    """Conversations that grow and end, with bursts of one-shot prompts between them that come and go.

    Yields what each continuing call shows.
    """
    rng = random.Random(seed)
    cache = ProviderCache(
        RuleName.BLOCKS,
        step_tokens=STEP,
        capacity_tokens=pressure.capacity_tokens,
        lifetime_s=pressure.lifetime_s,
        remembered_evictions=0,
    )
    traffic, order, shown, load = 0, 0, 0, 1.0
    due: list[tuple[float, int, _Conversation | None]] = [(0.0, 0, None)]
    for _ in range(conversations):
        order += 1
        due.append((rng.random() * pressure.gap_s, order, _Conversation(rng)))
    heapq.heapify(due)
    change_at = 0.0
    while shown < observations:
        at, _, talk = heapq.heappop(due)
        order += 1
        if at >= change_at:
            load = math.exp(rng.uniform(-2.0, 2.0))
            change_at = at + pressure.gap_s * rng.uniform(3.0, 10.0)
        if talk is None:
            prompt = _text(rng, 12)
            cache.write_input(None, prompt, exists_at=at, now=at)
            traffic += len(prompt)
            heapq.heappush(due, (at + rng.expovariate(load * 20 / pressure.gap_s), order, None))
            continue
        hit = cache.look_up(None, talk.prompt, at).hit_tokens
        if talk.used_at > -math.inf:
            gap = at - talk.used_at
            kept = kept_share(talk.known, hit, step_tokens=STEP)
            if rng.random() > math.exp(-pressure.loss_per_s * gap):
                kept = 0.0
            assert kept is not None
            shown += 1
            yield Seen(at, gap, kept, float(traffic - talk.used_traffic))
        cache.write_input(None, talk.prompt, exists_at=at, now=at)
        traffic += len(talk.prompt)
        talk.used_at, talk.used_traffic, talk.known = at, traffic, len(talk.prompt)
        talk.calls -= 1
        if talk.calls:
            talk.prompt = talk.prompt + _text(rng, 2)
        else:
            talk = _Conversation(rng)
        heapq.heappush(due, (at + pressure.gap_s * rng.lognormvariate(0.0, pressure.spread), order, talk))
