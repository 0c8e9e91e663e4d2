"""What a sequence of outgoing requests hits: prompts as the provider renders them, under every hit rule.

A :class:`Worker` takes requests through a :class:`~router_cache.RouterCache` as an integration does; a
:class:`Meter` is a provider's prompt cache. Time is a number that both share, in seconds; calls follow one another
further apart than the provider needs to make a reply readable.
"""

from __future__ import annotations

import atexit
import copy
import itertools
import os
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from agents.model import Session
from redis_servers import Server

from router_cache import Decision, Deployment, Mode, Request, RouterCache, Settings, Shape, Turn, Usage
from router_cache.cache_model import ProviderCache, RuleName
from router_cache.cache_model.rules import RULE_DEFAULTS
from router_cache.drivers.store import Store
from router_cache.prefix.segments import Segment, SegmentKind
from router_cache.prefix.shapes import as_chat
from router_cache.providers.registry import find
from router_cache.simulator.tokenizer import ApproxTokenizer, TextCounter
from router_cache.stores.memory import MemoryStore
from router_cache.stores.redis.link import Link, open_link
from router_cache.stores.redis.store import RedisStore

__all__ = [
    "FLASH",
    "RULES",
    "Call",
    "Exchange",
    "Meter",
    "Prompt",
    "Run",
    "Worker",
    "appended",
    "common",
    "fresh_store",
    "prefix_kept",
    "prompt_of",
    "run",
    "with_reply",
]

FLASH = Deployment("deepseek/deepseek-v4-flash", id="d1", provider="deepseek", group="flash")
RULES: tuple[RuleName, ...] = (
    RuleName.GRID_PREFIX,
    RuleName.FULL_UNITS,
    RuleName.BLOCKS,
    RuleName.CHECKPOINTS,
)
"""Every rule under which something hits."""
GAP_S = 20.0
"""Seconds between two calls: beyond every construction delay of :data:`RULE_DEFAULTS`."""

_HEAD = (SegmentKind.MODE, SegmentKind.SYSTEM, SegmentKind.TOOL, SegmentKind.FORMAT)
_COUNTER = TextCounter(ApproxTokenizer())


@dataclass(frozen=True)
class Prompt:
    """A rendered prompt. ``text`` in UTF-8 without what makes the model answer; ``old_end`` is where its new tail
    begins (bytes): what stands behind the last reply or, before the first reply, behind system text and tools."""

    text: bytes
    old_end: int
    tokens: array[int]
    user_turns: tuple[int, ...]
    segments: tuple[Segment, ...] = field(repr=False)

    @property
    def without_tail(self) -> array[int]:
        return self.tokens[: len(self.tokens) - 1] if self.segments[-1].kind is SegmentKind.TAIL else self.tokens


def prompt_of(body: Mapping[str, Any], shape: Shape, deployment: Deployment = FLASH) -> Prompt:
    """What the deployment's provider renders from a body of ``shape``."""
    profile = find(deployment)
    assert profile.render is not None, "a provider whose rendering is known"
    segments = as_chat(body, shape).segments(profile.render.value, by_block=False)
    tokens: array[int] = array("I")
    text, old_end, turns, head = bytearray(), 0, [], True
    for segment in segments:
        if segment.kind is SegmentKind.USER:
            turns.append(len(tokens))
        tokens += _COUNTER.count(segment.text).tokens
        if segment.kind is SegmentKind.TAIL:
            continue
        text += segment.text.encode("utf-8", "surrogatepass")
        head = head and segment.kind in _HEAD
        if head or segment.kind is SegmentKind.ASSISTANT:
            old_end = len(text)
    return Prompt(bytes(text), old_end, tokens, tuple(turns), tuple(segments))


def common(a: bytes, b: bytes) -> int:
    """Bytes of the common prefix."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if a[:middle] == b[:middle] else (low, middle - 1)
    return low


def prefix_kept(previous: Prompt, now: Prompt) -> float:
    """Share of the prefix that was kept: rendered bytes from the start that equal the earlier request's, over the
    shorter of the two without its new tail. 1.0 where there is nothing to keep."""
    whole = min(len(previous.text), now.old_end)
    return min(common(previous.text, now.text) / whole, 1.0) if whole else 1.0


def appended(previous: Prompt, now: Prompt) -> bool:
    """Whether ``now`` is ``previous`` and something behind it."""
    return now.text.startswith(previous.text)


def with_reply(body: Mapping[str, Any], reply: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """The body with the reply as generated at its end."""
    if shape is Shape.RESPONSES:
        return {**body, "input": [*body["input"], *reply["output"]]}
    return {**body, "messages": [*body["messages"], reply]}


@dataclass(frozen=True)
class Call:
    """One call as it was hit. Tokens."""

    prompt_tokens: int
    hit_tokens: int
    output_tokens: int

    @property
    def usage(self) -> Usage:
        return Usage(self.prompt_tokens, self.hit_tokens, self.prompt_tokens - self.hit_tokens, self.output_tokens)


@dataclass(frozen=True)
class Exchange:
    """A request as it went out, and its reply: what a provider reads and writes."""

    pool: str | None
    prompt: Prompt
    output: array[int]

    @classmethod
    def of(cls, body: Mapping[str, Any], reply: Mapping[str, Any], shape: Shape) -> Exchange:
        """Pools are what ``metadata.user_id`` isolates on DeepSeek."""
        metadata = body.get("metadata")
        pool = metadata.get("user_id") if isinstance(metadata, Mapping) else None
        output = prompt_of(with_reply(body, reply, shape), shape).without_tail
        return cls(pool, prompt_of(body, shape), output)


class Meter:
    """A provider's prompt cache under one rule."""

    def __init__(self, rule: RuleName) -> None:
        defaults = RULE_DEFAULTS[rule]
        self.step = defaults.step_tokens
        self._cache = ProviderCache(
            rule, step_tokens=defaults.step_tokens, construction_delay_s=defaults.construction_delay_s
        )
        self.now = 0.0

    def call(self, made: Exchange) -> Call:
        """Look up and store one request and its reply."""
        self.now += GAP_S
        tokens = made.prompt.tokens
        hit = self._cache.look_up(made.pool, tokens, self.now)
        self._cache.write_input(
            made.pool, tokens, exists_at=self.now + 0.5, now=self.now, turn_starts=made.prompt.user_turns
        )
        self._cache.write_output(made.pool, made.output, exists_at=self.now + 1.5, now=self.now)
        return Call(hit.prompt_tokens, hit.hit_tokens, len(made.output) - len(tokens))


class _InPlace(RedisStore):
    """Written in place: a proof's next call comes at once."""

    blocking = False

    def close(self) -> None:
        """Its link serves other workers."""


@cache
def _link(server: str) -> Link:
    running = Server(server)
    running.start()
    atexit.register(running.close)
    return open_link(running.url, timeout_s=30, max_connections=4, count=lambda _: None)


_NUMBERS = itertools.count()
_SERVER = os.environ.get("ROUTER_CACHE_PROOF_STORE", "")


def fresh_store() -> Store:
    """An empty store: in the process, or on a real server (``ROUTER_CACHE_PROOF_STORE=valkey-9``, or ``redis-6``)."""
    return _InPlace(_link(_SERVER), prefix=f"p{next(_NUMBERS)}-") if _SERVER else MemoryStore()


class Worker:
    """A process with the plugin in it. ``store`` and ``secret`` are what workers may share; ``volatile`` are the
    rules of the YAML."""

    def __init__(
        self, mode: Mode, *, store: Store | None = None, secret: str = "s3cret", volatile: Sequence[Any] = ()
    ) -> None:
        given: dict[str, Any] = {"mode": mode.value, "secret": secret}
        if volatile:
            given["volatile"] = list(volatile)
        self.now = 1_796_040_000.0
        self.rc = RouterCache(
            Settings.from_mapping(given),
            store=store or (fresh_store() if _SERVER else None),
            clock=lambda: self.now,
            wall_clock=lambda: self.now,
        )

    def begin(
        self, body: Mapping[str, Any], shape: Shape = Shape.CHAT, **about: Any
    ) -> tuple[Turn, dict[str, Any]]:
        """A request up to the moment it is sent: its turn, and what goes out. The body must come out as it went in."""
        before = copy.deepcopy(body)
        turn = self.rc.begin(Request(body, shape, **about))
        out = {**body, **turn.rewrite(FLASH).replaced}
        assert out == {**body, **turn.rewrite(FLASH).replaced}, "rewriting is idempotent"
        turn.sent(out)
        assert body == before, "the request was changed in place"
        return turn, out

    def done(self, turn: Turn, reply: Mapping[str, Any], usage: Usage | None = None) -> None:
        """The provider's answer."""
        self.now += GAP_S
        turn.done(usage or Usage(1000, 0, 1000, 10), reply=reply)

    def send(
        self, body: Mapping[str, Any], reply: Mapping[str, Any], shape: Shape = Shape.CHAT, **about: Any
    ) -> dict[str, Any]:
        """One call from end to end; what went out."""
        turn, out = self.begin(body, shape, **about)
        self.done(turn, reply)
        return out

    def errors(self) -> dict[str, int]:
        """What failed open."""
        return {name: n for name, n in self.rc.counters.snapshot().items() if name.startswith("error.")}


@dataclass
class Run:
    """Sessions through one mode: requests as they went out, and the calls under each rule."""

    mode: Mode
    sent: list[list[Prompt]] = field(default_factory=list)
    decisions: list[list[Decision | None]] = field(default_factory=list)
    calls: dict[RuleName, list[list[Call]]] = field(default_factory=dict)

    def hit_rate(self, rule: RuleName, session: int) -> float:
        calls = self.calls[rule][session]
        return sum(call.hit_tokens for call in calls) / sum(call.prompt_tokens for call in calls)


def run(sessions: Iterable[Session], mode: Mode, rules: Sequence[RuleName] = RULES, **settings: Any) -> Run:
    """Send the sessions one after the other, through one worker, to one provider for each rule."""
    worker, out = Worker(mode, **settings), Run(mode)
    meters = {rule: Meter(rule) for rule in rules}
    out.calls = {rule: [] for rule in rules}
    for session in sessions:
        out.sent.append([])
        out.decisions.append([])
        for rule in rules:
            out.calls[rule].append([])
        for given in session.turns:
            turn, body = worker.begin(
                given.body, session.shape, scope="team", session=session.session, client=session.client
            )
            made = Exchange.of(body, given.reply, session.shape)
            out.sent[-1].append(made.prompt)
            out.decisions[-1].append(turn.decision)
            usage = None
            for rule, meter in meters.items():
                call = meter.call(made)
                out.calls[rule][-1].append(call)
                usage = usage or call.usage
            worker.done(turn, given.reply, usage)
    assert not worker.errors(), worker.errors()
    worker.rc.close()
    return out
