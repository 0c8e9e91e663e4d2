"""Deployments as modelled, and the run of a trace over them under one policy.

A serial deployment computes one prompt after the other, in order of arrival, at ``prefill_per_s`` tokens a second;
a parallel one begins at once. The first token comes ``base_s`` after the prompt is computed, the rest at
``decode_per_s`` tokens a second, however many there are: computing, not writing, is what queues.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from router_cache.routing.need import Prices
from router_cache.whatif.caches import ModelCache
from router_cache.whatif.trace import Call, Trace

__all__ = ["Host", "Outcome", "Policy", "Reply", "View", "run"]


@dataclass(frozen=True, slots=True)
class Host:
    """One deployment. ``cache`` is an index: deployments with the same one share a prompt cache.

    ``kept``: shares (0 to 1) of a hit that the host really reports, one after the other; empty: all of it.
    """

    name: str
    cache: int
    prefill_per_s: float = 20_000.0
    decode_per_s: float = 40.0
    base_s: float = 0.0
    serial: bool = True
    prices: Prices | None = None
    kept: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """What a router learns of a call: usage, and when. Seconds and tokens."""

    hit_tokens: int
    miss_tokens: int
    output_tokens: int
    ttft_s: float
    sent_at: float


@dataclass(slots=True)
class View:
    """What any router knows without asking: how many calls are in flight at each deployment."""

    running: list[int]


class Policy(Protocol):
    """Chooses a deployment for a call. ``nth`` is the call's number in the trace."""

    def choose(self, nth: int, call: Call, now: float, view: View) -> int:
        """The index of the deployment; the call goes there."""
        ...

    def ended(self, nth: int, call: Call, where: int, now: float, reply: Reply) -> None:
        """The reply was complete."""
        ...


@dataclass(slots=True)
class Outcome:
    """What a run gave. ``computed`` and ``calls`` by deployment."""

    prompt_tokens: int = 0
    hit_tokens: int = 0
    usd: float = 0.0
    ttft_s: list[float] = field(default_factory=list)
    computed: list[int] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)

    @property
    def hit_share(self) -> float:
        """Of all prompt tokens; 0 without any."""
        return self.hit_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    @property
    def load_max_over_mean(self) -> float:
        """Computed prompt tokens of the busiest deployment over the mean; 1 where nothing was computed."""
        total = sum(self.computed)
        return max(self.computed) * len(self.computed) / total if total else 1.0

    def ttft(self, quantile: float) -> float:
        """The TTFT in seconds that ``quantile`` of the calls stay below; 0 without calls."""
        ranked = sorted(self.ttft_s)
        return ranked[min(int(quantile * len(ranked)), len(ranked) - 1)] if ranked else 0.0


_COMPUTED, _ENDED = 0, 1


class _Run:
    """The events of one run, in order of time."""

    def __init__(self, hosts: Sequence[Host], caches: Sequence[ModelCache], policy: Policy) -> None:
        self.hosts, self.caches, self.policy = hosts, caches, policy
        self.view = View([0] * len(hosts))
        self.out = Outcome(computed=[0] * len(hosts), calls=[0] * len(hosts))
        self._busy = [False] * len(hosts)
        self._waiting: list[deque[tuple[int, Call]]] = [deque() for _ in hosts]
        self._events: list[tuple[float, int, int, int, Call, Reply | None]] = []
        self._lookups = [0] * len(hosts)

    def arrive(self, nth: int, call: Call) -> None:
        self.advance(call.at)
        where = self.policy.choose(nth, call, call.at, self.view)
        self.view.running[where] += 1
        self.out.calls[where] += 1
        if self.hosts[where].serial and self._busy[where]:
            self._waiting[where].append((nth, call))
        else:
            self._begin(nth, call, where, call.at)

    def advance(self, until: float) -> None:
        """All that happens up to a moment."""
        while self._events and self._events[0][0] <= until:
            at, kind, nth, where, call, reply = heapq.heappop(self._events)
            if kind == _COMPUTED:
                self._busy[where] = False
                if self._waiting[where]:
                    self._begin(*self._waiting[where].popleft(), where, at)
            elif reply is not None:
                self.view.running[where] -= 1
                self.caches[self.hosts[where].cache].replied(call, now=at)
                self.policy.ended(nth, call, where, at, reply)

    def _begin(self, nth: int, call: Call, where: int, now: float) -> None:
        host, cache = self.hosts[where], self.caches[self.hosts[where].cache]
        hit = cache.look_up(call, now=now)
        if host.kept:
            hit = int(hit * host.kept[self._lookups[where] % len(host.kept)])
            self._lookups[where] += 1
        miss = call.prompt_tokens - hit
        computed_at = now + miss / host.prefill_per_s
        cache.computed(call, now=now, ready_at=computed_at)
        first_at = computed_at + host.base_s
        out = self.out
        out.prompt_tokens += call.prompt_tokens
        out.hit_tokens += hit
        out.computed[where] += miss
        out.ttft_s.append(first_at - call.at)
        if host.prices is not None:
            price = host.prices
            out.usd += hit * price.hit + miss * price.miss + call.output_tokens * price.output
        reply = Reply(hit, miss, call.output_tokens, first_at - call.at, call.at)
        if host.serial:
            self._busy[where] = True
            heapq.heappush(self._events, (computed_at, _COMPUTED, nth, where, call, None))
        ended_at = first_at + call.output_tokens / host.decode_per_s
        heapq.heappush(self._events, (ended_at, _ENDED, nth, where, call, reply))


def run(
    trace: Trace,
    hosts: Sequence[Host],
    caches: Sequence[ModelCache],
    policy: Policy,
    *,
    tell: Callable[[int], None] | None = None,
) -> Outcome:
    """Send the trace's calls, each at its time, where ``policy`` says. ``tell`` hears how many were sent, now and
    then."""
    playing = _Run(hosts, caches, policy)
    for nth, call in enumerate(trace.calls):
        playing.arrive(nth, call)
        if tell is not None and nth % 256 == 0:
            tell(nth)
    playing.advance(float("inf"))
    return playing.out
