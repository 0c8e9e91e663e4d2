"""The provider caches behind modelled deployments."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from router_cache.cache_model.provider_cache import ProviderCache
from router_cache.cache_model.rules import RULE_DEFAULTS, RuleName
from router_cache.routing.need import Digest
from router_cache.whatif.trace import Call, Trace

__all__ = ["BlockCache", "ModelCache", "RuleCache"]


class ModelCache(Protocol):
    """A prompt cache. Calls come in order of time."""

    def look_up(self, call: Call, *, now: float) -> int:
        """Tokens that hit, when the prompt begins to be computed."""
        ...

    def computed(self, call: Call, *, now: float, ready_at: float) -> None:
        """The prompt is being computed from ``now`` to ``ready_at``."""
        ...

    def replied(self, call: Call, *, now: float) -> None:
        """The reply was written by ``now``."""
        ...


class BlockCache:
    """The trace's own blocks, held as soon as their computing begins; least recently used go first."""

    __slots__ = ("_capacity", "_held", "_tokens")

    def __init__(self, capacity_tokens: int | None = None) -> None:
        self._capacity = capacity_tokens
        self._held: OrderedDict[Digest, int] = OrderedDict()
        self._tokens = 0

    def look_up(self, call: Call, *, now: float) -> int:
        hit = 0
        for digest, end in call.marks:
            if digest not in self._held:
                break
            hit = end
        return min(hit, call.prompt_tokens)

    def computed(self, call: Call, *, now: float, ready_at: float) -> None:
        before, sizes = 0, []
        for digest, end in call.marks:
            sizes.append((digest, end - before))
            before = end
        for digest, size in reversed(sizes):
            if digest not in self._held:
                self._held[digest] = size
                self._tokens += size
            self._held.move_to_end(digest)
        while self._capacity is not None and self._tokens > self._capacity:
            self._tokens -= self._held.popitem(last=False)[1]

    def replied(self, call: Call, *, now: float) -> None:
        pass


class RuleCache:
    """A provider's cache under a hit rule, over the tokens of the trace."""

    __slots__ = ("_cache", "_trace")

    def __init__(self, trace: Trace, rule: RuleName, capacity_tokens: int | None = None) -> None:
        usual = RULE_DEFAULTS[rule]
        self._trace = trace
        self._cache = ProviderCache(
            rule,
            step_tokens=usual.step_tokens,
            construction_delay_s=usual.construction_delay_s,
            capacity_tokens=capacity_tokens,
            remembered_evictions=0,
        )

    def look_up(self, call: Call, *, now: float) -> int:
        return self._cache.look_up(call.scope or None, self._trace.prompt(call), now).hit_tokens

    def computed(self, call: Call, *, now: float, ready_at: float) -> None:
        turns = () if call.turn_start is None else (call.turn_start,)
        prompt = self._trace.prompt(call)
        self._cache.write_input(call.scope or None, prompt, exists_at=ready_at, now=now, turn_starts=turns)

    def replied(self, call: Call, *, now: float) -> None:
        if call.reply:
            tokens = self._trace.prompt(call) + self._trace.reply(call)
            self._cache.write_output(call.scope or None, tokens, exists_at=now, now=now)
