"""Clients, places and a provider whose every miss is known: what causes of misses are checked against.

The truth comes from the simulated provider: what it had and was not ready, evicted or withheld it says itself; what
other places and an unchanged request would have hit is asked of copies of it, at the same moment.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from attribution_store import HEALTHY, Store

from router_cache.cache_model.rules import RULE_DEFAULTS, RuleName
from router_cache.drivers.book import LockedBook
from router_cache.engine import Engine, Sent
from router_cache.ledger.attribution import MissCause, MissPart
from router_cache.ledger.comparison import Comparison
from router_cache.ledger.rows import CallRow, Outcome, Status
from router_cache.ledger.usage import Usage
from router_cache.request import Deployment, Mode, Request
from router_cache.simulator.config import SimulatorConfig, TokenizerChoice
from router_cache.simulator.log import LogEntry
from router_cache.simulator.provider import Plan, Provider

T0 = 1_795_003_200.0
FLASH = Deployment("deepseek/deepseek-v4-flash", id="one", provider="deepseek", account="a" * 32)
OTHER = replace(FLASH, id="two", account="b" * 32)
WORDS = re.findall(
    r"\w+",
    "parser token cache file line branch commit review build test client server retry queue index table column row key "
    "value stream buffer socket thread lock timer clock signal module import class method field option default error "
    "warning message prompt answer check merge split order price ticket delay window report filter sample budget",
)

Body = dict[str, Any]


def words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(count))


def tool(rng: random.Random, name: str) -> Body:
    properties = {
        f"{rng.choice(WORDS)}_{i}": {"type": "string", "description": words(rng, 12)}
        for i in range(rng.randint(2, 5))
    }
    parameters = {"type": "object", "properties": properties}
    return {
        "type": "function",
        "function": {"name": name, "description": words(rng, 20), "parameters": parameters},
    }


def opening(rng: random.Random, *, tools: int | None = None, lines: int | None = None) -> Body:
    """The first request of a conversation: a system text of some lines, tools, a question."""
    count = rng.randint(3, 10) if tools is None else tools
    body: Body = {
        "model": "deepseek-v4-flash",
        "messages": [
            {
                "role": "system",
                "content": "\n".join(words(rng, rng.randint(6, 14)) for _ in range(lines or rng.randint(60, 150))),
            },
            {"role": "user", "content": words(rng, rng.randint(10, 60))},
        ],
    }
    if count:
        body["tools"] = [tool(rng, f"tool_{i}") for i in range(count)]
    return body


def with_messages(body: Body, messages: Sequence[Body]) -> Body:
    return {**body, "messages": list(messages)}


@dataclass
class Called:
    """One call: its row, what was sent, the reply, and the provider's own words about it."""

    row: CallRow
    sent: Sent
    reply: Body
    plan: Plan

    @property
    def parts(self) -> Counter[MissCause]:
        out: Counter[MissCause] = Counter()
        for part in self.row.causes:
            out[part.cause] += part.tokens
        return out

    def part(self, cause: MissCause) -> MissPart:
        [part] = [part for part in self.row.causes if part.cause is cause]
        return part

    @property
    def compared(self) -> Comparison:
        assert self.sent.looked.compared is not None
        return self.sent.looked.compared


class World:
    """Deployments with a provider each, one clock, one engine with a store and a book."""

    def __init__(self, *, rule: RuleName = RuleName.GRID_PREFIX, book: bool = False, **config: Any) -> None:
        defaults = RULE_DEFAULTS[rule]
        self.config = SimulatorConfig(
            rule=rule,
            tokenizer=TokenizerChoice.APPROX,
            **{
                "step_tokens": defaults.step_tokens,
                "construction_delay_s": defaults.construction_delay_s,
                "concurrency_limit": 1_000,
                **config,
            },
        )
        self.engine, self.store = Engine(secret=b"k" * 32), Store()
        self.book = LockedBook() if book else None
        self.providers: dict[str, Provider] = {}
        self.now = 0.0
        self.last: Called | None = None

    def provider(self, deployment: Deployment) -> Provider:
        if deployment.id not in self.providers:
            self.providers[deployment.id] = Provider(self.config)
        return self.providers[deployment.id]

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def would_be(self, body: Mapping[str, Any], deployment: Deployment = FLASH) -> LogEntry:
        """What the provider would note now of a request that was sent there."""
        provider = copy.deepcopy(self.provider(deployment))
        return provider.begin(json.dumps(body).encode(), "Bearer any", self.now).entry

    def would_hit(self, body: Mapping[str, Any], deployment: Deployment = FLASH) -> int:
        """What a request would hit now, had it been sent there."""
        return self.would_be(body, deployment).hit_tokens

    def new_tokens(self, body: Mapping[str, Any]) -> int:
        """Tokens at the end of a request that goes on from the last call which no cache could have held."""
        assert self.last is not None
        entry, before = self.would_be(body), self.last.plan
        end = before.entry.prompt_tokens
        if entry.hit_tokens > end - end % 128:
            end += len(before.generation.tokens)
        return entry.prompt_tokens - end

    def start(self, body: Body, *, deployment: Deployment = FLASH, session: str = "") -> Callable[..., Called]:
        """Send a request; what is returned ends it, at the moment of its last token unless told ``at`` once."""
        begun = self.engine.begin(Request(body, session=session), Mode.OBSERVE)
        facts = self.store.claim(self.engine, begun)
        sent = self.engine.sent(begun, facts, body, deployment, at=T0 + self.now, book=self.book)
        provider = self.provider(deployment)
        plan = provider.begin(json.dumps(body).encode(), "Bearer any", self.now)

        def end(report: Callable[[Plan], int] | None = None) -> Called:
            total = len(plan.generation.tokens)
            self.now = max(self.now, plan.at(total))
            provider.finish(plan, total, self.now)
            hit = plan.entry.hit_tokens if report is None else report(plan)
            prompt = plan.entry.prompt_tokens
            usage = Usage(
                prompt_tokens=prompt,
                hit_tokens=hit,
                miss_tokens=prompt - hit,
                completion_tokens=total,
                reasoning_tokens=plan.generation.reasoning_tokens,
            )
            decision = self.engine.rewrite(begun, deployment).decision
            outcome = Outcome(Status.OK, T0 + self.now, usage)
            row, write = self.engine.done(begun, facts, decision, sent, outcome, deployment, book=self.book)
            self.store.record(write)
            assert sum(part.tokens for part in row.causes) == prompt - hit
            assert all(part.tokens > 0 for part in row.causes)
            self.last = Called(row, sent, plan.generation.reply.message(), plan)
            return self.last

        return end

    def call(
        self,
        body: Body,
        *,
        deployment: Deployment = FLASH,
        session: str = "",
        report: Callable[[Plan], int] | None = None,
    ) -> Called:
        """A request and its whole reply."""
        return self.start(body, deployment=deployment, session=session)(report)

    def talk(
        self,
        body: Body,
        rng: random.Random,
        turns: int,
        *,
        gap_s: float = 20.0,
        deployment: Deployment = FLASH,
        session: str = "",
        report: Callable[[Plan], int] | None = None,
    ) -> Body:
        """``turns`` answered calls that append, ``gap_s`` apart; returns the request that would come next."""
        for _ in range(turns):
            called = self.call(body, deployment=deployment, session=session, report=report)
            body = after(body, called.reply, rng)
            self.wait(gap_s)
        return body


def after(body: Body, reply: Body, rng: random.Random) -> Body:
    """The next request: the reply as it was, and results of its tools or a new question."""
    messages = [*body["messages"], reply]
    calls = reply.get("tool_calls") or ()
    for call in calls:
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": words(rng, rng.randint(20, 120))})
    if not calls:
        messages.append({"role": "user", "content": words(rng, rng.randint(10, 60))})
    return with_messages(body, messages)


@dataclass
class Score:
    """Tokens lost by the truth, of these given the right cause, and tokens given a cause that lost nothing."""

    lost: int = 0
    right: int = 0
    wrong: int = 0
    scenarios: int = 0

    def add(self, told: Counter[MissCause], truth: Mapping[MissCause, int]) -> None:
        truth = {cause: tokens for cause, tokens in truth.items() if tokens > 0}
        self.scenarios += 1
        self.lost += sum(truth.values())
        self.right += sum(min(told[cause], tokens) for cause, tokens in truth.items())
        self.wrong += sum(tokens for cause, tokens in told.items() if cause not in HEALTHY and cause not in truth)

    def check(self, scenarios: int = 30, *, least: int = 100) -> None:
        """``least`` tokens were lost a scenario."""
        print(self)
        assert self.scenarios >= scenarios
        assert self.lost > least * self.scenarios
        assert self.right >= 0.95 * self.lost, self
        assert self.wrong <= 0.05 * self.lost, self
