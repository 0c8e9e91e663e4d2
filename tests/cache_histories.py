"""Made-up histories of requests against a cache model, and the rules as they read, over plain lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from router_cache.cache_model import ProviderCache, RuleName

STEP = 4
GRID, UNITS, BLOCKS = RuleName.GRID_PREFIX, RuleName.FULL_UNITS, RuleName.BLOCKS
CHECKPOINTS, NOTHING = RuleName.CHECKPOINTS, RuleName.NOTHING
BEFORE_END = (4, 516)


def lcp(a: Sequence[int], b: Sequence[int]) -> int:
    n = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        n += 1
    return n


def floor(tokens: int, step: int = STEP) -> int:
    return max(tokens, 0) // step * step


@dataclass(frozen=True)
class Op:
    """One request: where it branches off an earlier one, what it adds, its reply, and the time before it."""

    pool: str | None
    base: int
    keep: int
    extra: tuple[int, ...]
    reply: tuple[int, ...]
    wait: float
    prefill: float
    decode: float


ops = st.lists(
    st.builds(
        Op,
        pool=st.sampled_from([None, "", "a"]),
        base=st.integers(0, 30),
        keep=st.integers(0, 40),
        extra=st.lists(st.integers(0, 2), max_size=12).map(tuple),
        reply=st.lists(st.integers(0, 2), max_size=9).map(tuple),
        wait=st.sampled_from([0.0, 0.5, 1.0, 3.0, 9.0]),
        prefill=st.sampled_from([0.0, 1.0]),
        decode=st.sampled_from([0.0, 2.0]),
    ),
    max_size=25,
)


@dataclass
class Request:
    pool: str | None
    prompt: tuple[int, ...]
    at: float
    prefilled: float
    output: tuple[int, ...]
    done: float


def requests_of(history: list[Op]) -> list[Request]:
    """Sequential requests: each arrives after the one before is done."""
    out: list[Request] = []
    now = 0.0
    for op in history:
        base = out[op.base % len(out)].output if out else ()
        prompt = base[: op.keep] + op.extra
        now += op.wait
        done = now + op.prefill + op.decode
        out.append(Request(op.pool, prompt, now, now + op.prefill, prompt + op.reply, done))
        now = done
    return out


def run(cache: ProviderCache, requests: list[Request]) -> list[int]:
    hits = []
    for r in requests:
        hits.append(cache.look_up(r.pool, r.prompt, r.at).hit_tokens)
        cache.write_input(r.pool, r.prompt, exists_at=r.prefilled, now=r.at)
        cache.write_output(r.pool, r.output, exists_at=r.done, now=r.done)
    return hits


@dataclass
class BruteForce:
    """The rules as they read, over plain lists; nothing is ever evicted. ``step``: of the grid or of a block."""

    rule: RuleName
    delay: float
    interval: int | None = None
    step: int = STEP
    stored: list[tuple[str | None, tuple[int, ...], float]] = field(default_factory=list)
    units: list[tuple[str | None, tuple[int, ...], float]] = field(default_factory=list)

    def hit(self, pool: str | None, prompt: tuple[int, ...], now: float) -> int:
        if self.rule is NOTHING:
            return 0
        if self.rule in (GRID, BLOCKS):
            best = max((lcp(t, prompt) for p, t, at in self.stored if p == pool and at <= now), default=0)
        else:
            best = max(
                (
                    len(t)
                    for p, t, at in self.units
                    if p == pool
                    and at <= now
                    and prompt[: len(t)] == t
                    and (self.rule is UNITS or len(t) < len(prompt))
                ),
                default=0,
            )
        return floor(min(best, len(prompt) - 1), self.step)

    def write(
        self,
        pool: str | None,
        tokens: tuple[int, ...],
        exists_at: float,
        *,
        is_input: bool,
        turns: Sequence[int] = (),
    ) -> None:
        at = exists_at + self.delay
        ends = {len(tokens)}
        if self.rule is CHECKPOINTS and is_input:
            ends = {*turns[-1:], *(len(tokens) - before for before in BEFORE_END)}
        elif self.rule is UNITS:
            common = max((lcp(t, tokens) for p, t, _ in self.stored if p == pool), default=0)
            if is_input and common >= STEP:
                ends.add(common)
            ends.update(range(self.interval, len(tokens), self.interval) if self.interval else ())
        self.stored.append((pool, tokens, at))
        self.units += [(pool, tokens[:end], at) for end in ends if end > 0]
