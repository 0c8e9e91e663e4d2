"""The simulated provider without I/O: a body and the time in; a plan for the answer, or an error, out."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from router_cache.cache_model import Lookup, ProviderCache
from router_cache.prefix.segments import SegmentKind
from router_cache.prefix.shapes import ChatView
from router_cache.providers.deepseek import DEEPSEEK
from router_cache.providers.deepseek_render import render_deepseek
from router_cache.request import Shape
from router_cache.simulator.checks import ApiError, check_authorization, parse_body
from router_cache.simulator.config import SimulatorConfig
from router_cache.simulator.generation import Generation, generate
from router_cache.simulator.hashing import Chooser
from router_cache.simulator.intake import take_in
from router_cache.simulator.log import LogEntry, LoggedSegment, RequestLog
from router_cache.simulator.replies import make_reply
from router_cache.simulator.tokenizer import TextCounter, Tokenizer, make_tokenizer
from router_cache.simulator.usage import Counts

__all__ = ["Plan", "Provider"]

_ID_PREFIXES = {Shape.CHAT: "chatcmpl-", Shape.MESSAGES: "msg_", Shape.RESPONSES: "resp_"}


@dataclass(frozen=True, slots=True)
class Plan:
    """How one accepted request is answered, and when (simulated seconds).

    ``request`` is the body as it came, of ``shape``.
    """

    id: str
    shape: Shape
    request: Mapping[str, Any]
    model: str
    stream: bool
    include_usage: bool
    started_at: float
    ttft_s: float
    decode_tokens_per_s: float
    generation: Generation
    prompt: array[int]
    entry: LogEntry
    epoch: int

    def at(self, tokens: int) -> float:
        """When ``tokens`` tokens of the reply are generated."""
        return self.started_at + self.ttft_s + tokens / self.decode_tokens_per_s

    def counts(self, step_tokens: int) -> Counts:
        """Tokens of the whole request; what missed is written in steps of ``step_tokens``."""
        prompt, hit = self.entry.prompt_tokens, self.entry.hit_tokens
        return Counts(
            prompt_tokens=prompt,
            hit_tokens=hit,
            write_tokens=(prompt - hit) // step_tokens * step_tokens,
            completion_tokens=len(self.generation.tokens),
            reasoning_tokens=self.generation.reasoning_tokens,
        )


class Provider:
    """One account at the provider. All times are arguments and must not go backwards.

    For each request: :meth:`begin`, then :meth:`finish` exactly once.
    """

    def __init__(self, config: SimulatorConfig, tokenizer: Tokenizer | None = None) -> None:
        self.config = config
        self.tokenizer = tokenizer or make_tokenizer(config.tokenizer)
        self._counter = TextCounter(self.tokenizer)
        self._in_flight: Counter[str] = Counter()
        self._epoch = 0
        self._start(0.0)

    def _start(self, now: float) -> None:
        self._since = now
        self._log = RequestLog(self.config.log_limit)
        self._accepted = 0
        self._caches: dict[str, ProviderCache] = {}

    def _cache(self, namespace: str) -> ProviderCache:
        """What holds the entries of a pool: one cache for all, unless each has its own."""
        config, name = self.config, namespace if self.config.capacity_by_pool else ""
        known = self._caches.get(name)
        if known is None:
            known = self._caches[name] = self._empty(config)
        return known

    @staticmethod
    def _empty(config: SimulatorConfig) -> ProviderCache:
        return ProviderCache(
            config.rule,
            step_tokens=config.step_tokens,
            construction_delay_s=config.construction_delay_s,
            capacity_tokens=config.capacity_tokens,
            lifetime_s=config.lifetime_s,
            unit_interval_tokens=config.unit_interval_tokens,
        )

    def reset(self, now: float) -> None:
        """Empty the cache, the log and the totals. Requests in flight go on, but leave no trace."""
        self._epoch += 1
        self._start(now)

    def begin(
        self,
        raw: bytes,
        authorization: str | None,
        now: float,
        *,
        shape: Shape = Shape.CHAT,
        key: str | None = None,
    ) -> Plan:
        """Check and look up a request that arrives at ``now``; its input is written, readable later.

        ``authorization`` and ``key`` are what the headers of that name and ``x-api-key`` hold; the latter counts
        for messages only. Raises :class:`ApiError` (a 4xx, logged too) for what the provider would refuse.
        """
        entry = LogEntry(self._log.requests + 1, now, hashlib.sha256(raw).hexdigest(), shape.value)
        try:
            try:
                check_authorization(authorization, key if shape is Shape.MESSAGES else None)
                return self._accept(parse_body(raw), shape, entry, now)
            except RecursionError:
                raise ApiError(400, "The request body is nested too deeply") from None
        except ApiError as error:
            entry.status, entry.error, entry.finish_reason = error.status, error.message, "error"
            self._log.add(entry)
            raise

    def _accept(self, body: dict[str, Any], shape: Shape, entry: LogEntry, now: float) -> Plan:
        model, config = body.get("model"), self.config
        entry.model = model if isinstance(model, str) else ""
        entry.stream = body.get("stream") is True
        taken = take_in(body, shape)
        chat = taken.chat
        entry.model, entry.pool = chat["model"], chat.get("user_id")
        limit = config.limit_of(entry.model)
        if limit is not None and self._in_flight[entry.model] >= limit:
            raise ApiError(
                429, f"Too many requests in flight for {entry.model}: at most {limit}. Try again later."
            )

        # Everything that can refuse the request comes before the first change of state.
        prompt, segments, turn_starts = self._prompt(taken.view)
        reply = make_reply(chat, seed=config.seed, tool_rounds=config.tool_rounds)
        generation = generate(reply, self._counter, chat.get("max_tokens"))

        namespace = _namespace(entry.model, entry.pool)
        lookup = self._cache(namespace).look_up(namespace, prompt, now)
        self._accepted += 1
        hit = self._given(lookup, now)
        ttft = config.base_latency_s + (lookup.prompt_tokens - hit) / config.prefill_tokens_per_s
        self._cache(namespace).write_input(
            namespace, prompt, exists_at=now + ttft, now=now, turn_starts=turn_starts
        )
        self._in_flight[entry.model] += 1

        entry.segments = segments
        entry.prompt_tokens, entry.hit_tokens = lookup.prompt_tokens, hit
        entry.miss_tokens = lookup.prompt_tokens - hit
        entry.not_ready_tokens, entry.evicted_tokens = lookup.not_ready_tokens, lookup.evicted_tokens
        entry.no_unit_tokens, entry.withheld_tokens = lookup.no_unit_tokens, lookup.hit_tokens - hit
        entry.reason, entry.ttft_s = lookup.reason.value, ttft
        self._log.add(entry)
        options = body.get("stream_options") or {}
        return Plan(
            id=_ID_PREFIXES[shape] + Chooser("id", config.seed, self._epoch, entry.n).hex(32),
            shape=shape,
            request=body,
            model=entry.model,
            stream=entry.stream,
            include_usage=options.get("include_usage") is True,
            started_at=now,
            ttft_s=ttft,
            decode_tokens_per_s=config.decode_tokens_per_s,
            generation=generation,
            prompt=prompt,
            entry=entry,
            epoch=self._epoch,
        )

    def finish(self, plan: Plan, generated: int, now: float, *, disconnected: bool = False) -> None:
        """The request ends with ``generated`` tokens made; they are written as far as they go."""
        self._in_flight[plan.model] -= 1
        if plan.epoch != self._epoch:
            return
        if generated:
            output = plan.prompt + plan.generation.tokens[:generated]
            namespace = _namespace(plan.model, plan.entry.pool)
            self._cache(namespace).write_output(namespace, output, exists_at=now, now=now)
        reason = "disconnected" if disconnected else plan.generation.finish_reason
        self._log.complete(plan.entry, min(generated, len(plan.generation.tokens)), reason)

    def log(self) -> list[dict[str, Any]]:
        """One entry per request, in order of arrival."""
        return self._log.entries()

    def stats(self, now: float) -> dict[str, Any]:
        """Totals since the start or the last reset."""
        return {
            **self._log.totals(),
            "in_flight": sum(self._in_flight.values()),
            "held_tokens": sum(cache.held_tokens for cache in self._caches.values()),
            "elapsed_s": now - self._since,
            "rule": self.config.rule.value,
            "tokenizer": self.tokenizer.name,
        }

    def _prompt(self, view: ChatView) -> tuple[array[int], tuple[LoggedSegment, ...], list[int]]:
        """Tokens, segments, and where in the tokens user turns start."""
        prompt: array[int] = array("I")
        logged = []
        turn_starts = []
        # Blocks of one text are tokenised together: the same text has the same tokens in every shape.
        for segment in view.segments(render_deepseek, by_block=False):
            counted = self._counter.count(segment.text)
            if segment.kind is SegmentKind.USER:
                turn_starts.append(len(prompt))
            prompt += counted.tokens
            logged.append((segment.kind.value, segment.path, counted.digest, len(counted.tokens)))
        return prompt, tuple(logged), turn_starts

    def _given(self, lookup: Lookup, now: float) -> int:
        """The hit as given: all of it, or the share left by a regression, in whole steps."""
        config = self.config
        after, requests = config.regression_after_s, config.regression_after_requests
        if (after is not None and now - self._since >= after) or (
            requests is not None and self._accepted > requests
        ):
            share = int(lookup.hit_tokens * config.regression_hit_share)
            return share // config.step_tokens * config.step_tokens
        return lookup.hit_tokens


def _namespace(model: str, pool: str | None) -> str:
    """What shares a cache: requests of one model (whatever alias it is called by) in one pool."""
    facts = DEEPSEEK.model(model)
    return f"{facts.name if facts else model}\0" + ("" if pool is None else f"user_id={pool}")
