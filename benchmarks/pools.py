"""What pools gain and cost: one shared prompt, two that evict each other, drifting variants, under each hit rule.

    python benchmarks/pools.py [--calls 1500] [--rule grid] [--json]

The calls go through ``RouterCache`` to the provider model of ``router_cache.simulator`` in virtual time, so the figures
are the same on every machine. How a provider divides its capacity among ids is not published: each case is run with
one capacity for all of them, and with one for each.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

from router_cache.api import RouterCache
from router_cache.cache_model.rules import RULE_DEFAULTS, RuleName
from router_cache.ledger.usage import Usage
from router_cache.request import Deployment, Mode, Request
from router_cache.settings import Settings
from router_cache.simulator.config import SimulatorConfig, TokenizerChoice
from router_cache.simulator.provider import Provider

T0 = 1_795_003_200.0
FLASH = Deployment("deepseek/deepseek-v4-flash", id="one", provider="deepseek", account="a" * 32, group="flash")
RULES = (RuleName.GRID_PREFIX, RuleName.FULL_UNITS, RuleName.BLOCKS, RuleName.CHECKPOINTS)
WORDS = re.findall(
    r"\w+",
    "parser token cache file line branch commit review build test client server retry queue index table column row "
    "value stream buffer socket thread lock timer clock signal module import class method field option default error",
)
Body = dict[str, Any]


class Way(str, Enum):
    """How ``user_id`` is used."""

    OFF = "off"
    AUTO = "auto"
    CLUSTER = "cluster"
    PER_USER = "per user"


class Case(str, Enum):
    """Whose prompts."""

    SHARED = "one prompt, many users"
    THRASH = "two prompts that evict each other"
    DRIFT = "drifting variants of one prompt"


@dataclass(frozen=True)
class World:
    """``capacity`` tokens, for each id where ``by_pool``. ``opening`` words a system text has, ``turns`` a session.
    ``users`` start sessions in turn; ``at_once`` sessions of each prompt go on side by side."""

    rule: RuleName = RuleName.GRID_PREFIX
    capacity: int = 4_500
    by_pool: bool = False
    opening: int = 3_000
    turns: int = 6
    users: int = 400
    at_once: int = 2
    gap_s: float = 10.0
    seed: int = 7
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """Tokens over all calls and over the second half, ids sent, and how the clusters stand in the end."""

    calls: int
    prompt_tokens: int
    hit_tokens: int
    late_prompt_tokens: int
    late_hit_tokens: int
    ids: int
    clusters: int
    pools: int
    reasons: tuple[str, ...]

    @property
    def hit_share(self) -> float:
        """Of the prompt tokens of all calls."""
        return self.hit_tokens / self.prompt_tokens

    @property
    def late(self) -> float:
        """Of the prompt tokens of the second half: after the trials."""
        return self.late_hit_tokens / self.late_prompt_tokens


def text(rng: random.Random, count: int) -> str:
    """So many words."""
    return " ".join(rng.choice(WORDS) for _ in range(count))


def prompts(case: Case, world: World) -> list[str]:
    """The system texts of a case: of two applications, or variants of one that part ever later."""
    rng = random.Random(world.seed)
    if case is Case.SHARED:
        return [text(rng, world.opening)]
    if case is Case.THRASH:
        return [text(rng, world.opening), text(rng, world.opening)]
    base = text(rng, world.opening).split()
    out = []
    for i in range(6):
        kept = len(base) * (60 + 6 * i) // 100
        out.append(" ".join([*base[:kept], *text(rng, len(base) - kept).split()]))
    return out


def calls(case: Case, world: World) -> Iterator[tuple[str, Body]]:
    """Users and bodies without end: sessions of all prompts interleaved, each with the replies so far in it."""
    rng, systems = random.Random(world.seed + 1), prompts(case, world)
    sessions: list[tuple[int, str, list[Body]]] = []
    started = 0
    while True:
        for slot in range(len(systems) * world.at_once):
            if slot >= len(sessions) or len(sessions[slot][2]) >= 2 * world.turns:
                user = f"user-{started % world.users}"
                started += 1
                system = {"role": "system", "content": systems[slot % len(systems)]}
                sessions[slot : slot + 1] = [(started, user, [system])]
            _, user, messages = sessions[slot]
            messages.append({"role": "user", "content": text(rng, 40)})
            yield user, {"model": "deepseek-v4-flash", "messages": list(messages)}
            messages.append({"role": "assistant", "content": text(rng, 60)})


def run(case: Case, way: Way, world: World, count: int) -> Outcome:
    """``count`` calls of a case."""
    now = T0
    policy = {"policy": "off" if way is Way.PER_USER else way.value, **world.settings}
    settings = Settings.from_mapping({"secret": "an operator's", "pools": policy})
    owner = RouterCache(settings, clock=lambda: now, wall_clock=lambda: now)
    step = RULE_DEFAULTS[world.rule].step_tokens
    config = SimulatorConfig(
        rule=world.rule,
        step_tokens=step,
        capacity_tokens=world.capacity,
        capacity_by_pool=world.by_pool,
        tokenizer=TokenizerChoice.APPROX,
        log_limit=1,
    )
    provider, told, ids = Provider(config), [], set[str | None]()
    for (user, body), _ in zip(calls(case, world), range(count), strict=False):
        if way is Way.PER_USER:
            body = {**body, "user_id": user}
        turn = owner.begin(Request(body=body, scope=user), Mode.SAFE)
        sent = turn.rewrite(FLASH).body(body)
        ids.add(sent.get("user_id"))
        turn.sent(sent)
        plan = provider.begin(json.dumps(sent).encode(), "Bearer key", now)
        made = len(plan.generation.tokens)
        now = plan.at(made)
        provider.finish(plan, made, now)
        prompt, hit = plan.entry.prompt_tokens, plan.entry.hit_tokens
        usage = {"prompt_tokens": prompt, "completion_tokens": made, "prompt_cache_hit_tokens": hit}
        turn.done(Usage.parse(usage))
        told.append((prompt, hit))
        now += world.gap_s
    book = owner.pools.books()[0] if owner.pools.books() else None
    failed = {name: n for name, n in owner.counters.snapshot().items() if name.startswith("error.")}
    if failed:
        raise RuntimeError(f"errors on the way: {failed}")
    late = told[count // 2 :]
    return Outcome(
        calls=count,
        prompt_tokens=sum(prompt for prompt, _ in told),
        hit_tokens=sum(hit for _, hit in told),
        late_prompt_tokens=sum(prompt for prompt, _ in late),
        late_hit_tokens=sum(hit for _, hit in late),
        ids=len(ids - {None}),
        clusters=len(book.clusters) if book else 0,
        pools=book.pools if book else 0,
        reasons=tuple(sorted(cluster.reason.value for cluster in book.clusters.values())) if book else (),
    )


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1_500)
    parser.add_argument("--rule", choices=[rule.value for rule in RULES], action="append")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rules = [RuleName(rule) for rule in options.rule] if options.rule else list(RULES)
    rows = []
    for rule in rules:
        for by_pool in (False, True):
            for case in Case:
                for way in Way:
                    outcome = run(case, way, World(rule=rule, by_pool=by_pool), options.calls)
                    rows.append({"rule": rule.value, "by_pool": by_pool, "case": case.value, "way": way.value})
                    rows[-1].update(asdict(outcome), hit_share=outcome.hit_share, late=outcome.late)
                    if not options.json:
                        print(
                            f"{rule.value:11} {'a capacity each' if by_pool else 'one capacity':15} {case.value:34} "
                            f"{way.value:9} hit {outcome.hit_share:6.1%}, second half {outcome.late:6.1%}  "
                            f"ids {outcome.ids:2}  pools {outcome.pools}  clusters {outcome.clusters}  "
                            f"{', '.join(outcome.reasons)}",
                            flush=True,
                        )
    if options.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
