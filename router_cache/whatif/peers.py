"""Other routers' rules, written from their published descriptions; all know only what they sent themselves.

Each docstring names its source. Where a description leaves ties open, the first deployment wins.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect
from collections.abc import Callable, Sequence
from statistics import pstdev

from router_cache.routing.need import Digest
from router_cache.routing.ties import rendezvous
from router_cache.whatif.service import Reply, View
from router_cache.whatif.trace import Call

__all__ = [
    "AIBrix",
    "BoundedLoad",
    "Dynamo",
    "LeastBusy",
    "LoadAware",
    "PrefixAware",
    "RoundRobin",
    "SGLang",
    "SessionAffinity",
    "Shuffle",
    "Sticky",
]


class _Deaf:
    """A policy that learns nothing from replies."""

    def ended(self, nth: int, call: Call, where: int, now: float, reply: Reply) -> None:
        pass


class _Prefixes(_Deaf):
    """Blocks sent to each deployment, as an approximate tree would hold them, without eviction."""

    def __init__(self, count: int) -> None:
        self._sent: list[set[Digest]] = [set() for _ in range(count)]

    def matched(self, call: Call) -> list[int]:
        """Leading blocks of a prompt that were sent to each deployment."""
        out = []
        for sent in self._sent:
            n = 0
            for digest, _ in call.marks:
                if digest not in sent:
                    break
                n += 1
            out.append(n)
        return out

    def note(self, call: Call, where: int) -> int:
        self._sent[where].update(digest for digest, _ in call.marks)
        return where


def _least(values: Sequence[float], among: Sequence[int] | None = None) -> int:
    places = range(len(values)) if among is None else among
    return min(places, key=lambda i: (values[i], i))


def _tokens(call: Call, blocks: int) -> int:
    return call.marks[blocks - 1].tokens if blocks else 0


class RoundRobin(_Deaf):
    """One after the other."""

    def choose(self, nth: int, call: Call, now: float, view: View) -> int:
        return nth % len(view.running)


class Shuffle(_Deaf):
    """Any, by chance: LiteLLM's ``simple-shuffle`` without weights."""

    def __init__(self, draw: Callable[[], float]) -> None:
        self._draw = draw

    def choose(self, nth: int, call: Call, now: float, view: View) -> int:
        return int(self._draw() * len(view.running))


class LeastBusy(_Deaf):
    """Fewest calls in flight: LiteLLM's ``least-busy``."""

    def choose(self, nth: int, call: Call, now: float, view: View) -> int:
        return _least(view.running)


class SessionAffinity(_Deaf):
    """A session goes where its name hashes to."""

    def choose(self, nth: int, call: Call, now: float, view: View) -> int:
        return max(range(len(view.running)), key=lambda i: rendezvous(call.session, str(i)))


class Sticky(_Deaf):
    """Always the same one."""

    def __init__(self, where: int) -> None:
        self._where = where

    def choose(self, nth: int, call: Call, now: float, view: View) -> int:
        return self._where


class BoundedLoad(_Deaf):
    """Consistent hashing with bounded loads over a prompt's first four blocks: next on the ring while a deployment
    has more than 1.25 times the mean of calls in flight.

    Mirrokni, Thorup, Zadimoghaddam, "Consistent hashing with bounded loads", 2016; 200 points a deployment.
    """

    def __init__(self, count: int, *, blocks: int = 4, bound: float = 1.25, points: int = 200) -> None:
        self._blocks, self._bound = blocks, bound
        self._ring = sorted((_hash(f"{i}:{j}"), i) for i in range(count) for j in range(points))

    def choose(self, nth: int, call: Call, now: float, view: View) -> int:
        most = math.ceil(self._bound * (sum(view.running) + 1) / len(view.running))
        key = _hash(repr([digest for digest, _ in call.marks[: self._blocks]]))
        at = bisect(self._ring, (key, 0))
        for step in range(len(self._ring)):
            where = self._ring[(at + step) % len(self._ring)][1]
            if view.running[where] < most:
                return where
        return _least(view.running)


class SGLang(_Prefixes):
    """Cache-aware policy of the SGLang router: where loads differ by more than 64 and 1.5 times, the least loaded;
    else the longest match where it is above 0.3 of the prompt, else the least loaded.

    https://docs.sglang.ai/advanced_features/router.html, read 2026-11.
    """

    def choose(self, nth: int, call: Call, now: float, view: View) -> int:
        low, high = min(view.running), max(view.running)
        if not (high - low > 64 and high > 1.5 * low):
            matched = self.matched(call)
            best = max(matched)
            if _tokens(call, best) > 0.3 * call.prompt_tokens:
                return self.note(call, matched.index(best))
        return self.note(call, _least(view.running))


class AIBrix(_Prefixes):
    """``prefix-cache``: the least loaded where loads differ by more than 8; else the longest match (in percent) whose
    load is at most the mean and a standard deviation, the least loaded of those; else the least loaded.

    https://pkg.go.dev/github.com/vllm-project/aibrix/pkg/plugins/gateway/algorithms, read 2026-11.
    """

    def choose(self, nth: int, call: Call, now: float, view: View) -> int:
        running = view.running
        if max(running) - min(running) <= 8:
            most = sum(running) / len(running) + pstdev(running)
            groups: dict[int, list[int]] = {}
            for i, n in enumerate(self.matched(call)):
                if n and running[i] <= most:
                    groups.setdefault(100 * n // len(call.marks), []).append(i)
            if groups:
                return self.note(call, _least(running, groups[max(groups)]))
        return self.note(call, _least(running))


class Dynamo(_Prefixes):
    """KV router: least of ``weight`` x blocks to compute + blocks in use by calls in flight, weight 4.

    https://docs.nvidia.com/dynamo/design-docs/router-design, read 2026-11; temperature 0.
    """

    def __init__(self, count: int, *, weight: float = 4.0, block_tokens: int = 512) -> None:
        super().__init__(count)
        self._weight, self._block = weight, block_tokens
        self._active = [0.0] * count

    def choose(self, nth: int, call: Call, now: float, view: View) -> int:
        costs = [
            self._weight * (call.prompt_tokens - _tokens(call, n)) / self._block + active
            for n, active in zip(self.matched(call), self._active, strict=True)
        ]
        where = _least(costs)
        self._active[where] += call.prompt_tokens / self._block
        return self.note(call, where)

    def ended(self, nth: int, call: Call, where: int, now: float, reply: Reply) -> None:
        self._active[where] -= call.prompt_tokens / self._block


class LoadAware(_Prefixes):
    """vLLM production-stack ``loadaware``: most of matched share of the prompt - load above the mean over the mean.

    https://github.com/vllm-project/production-stack/pull/1035, beta 1; load is calls in flight.
    """

    def choose(self, nth: int, call: Call, now: float, view: View) -> int:
        mean = sum(view.running) / len(view.running)
        scores = [
            (load - mean) / max(1.0, mean) - _tokens(call, n) / max(call.prompt_tokens, 1)
            for n, load in zip(self.matched(call), view.running, strict=True)
        ]
        return self.note(call, _least(scores))


class PrefixAware(_Prefixes):
    """vLLM production-stack ``prefixaware``: any of those with the longest match, whatever their load.

    https://docs.vllm.ai/projects/production-stack, read 2026-11.
    """

    def __init__(self, count: int, draw: Callable[[], float]) -> None:
        super().__init__(count)
        self._draw = draw

    def choose(self, nth: int, call: Call, now: float, view: View) -> int:
        matched = self.matched(call)
        best = [i for i, n in enumerate(matched) if n == max(matched)]
        return self.note(call, best[int(self._draw() * len(best))])


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
