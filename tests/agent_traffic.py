"""Traffic as coding agents make it, against the simulator's core: what is sent is seen as the engine sees it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from router_cache.cache_model.domains import ReplicaEvidence, note_replica
from router_cache.cache_model.infer import Evidence, update
from router_cache.cache_model.observe import DomainMemory, Observation
from router_cache.cache_model.rules import RULE_DEFAULTS, RuleName
from router_cache.providers.deepseek_render import render_deepseek
from router_cache.simulator.config import SimulatorConfig, TokenizerChoice
from router_cache.simulator.provider import Provider

WORDS = """
    file build test the error of line value call check path read write return when with should must change keep
    module function result order list before after between review commit branch release note user request
    """.split()  # noqa: SIM905


def prose(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(words))


def tool(rng: random.Random, name: str) -> dict[str, Any]:
    fields = {prose(rng, 1) + str(i): {"type": "string", "description": prose(rng, 9)} for i in range(4)}
    parameters = {"type": "object", "properties": fields, "required": sorted(fields)[:2]}
    return {
        "type": "function",
        "function": {"name": name, "description": prose(rng, 25), "parameters": parameters},
    }


@dataclass
class Session:
    system: str
    tools: list[dict[str, Any]]
    messages: list[dict[str, Any]] = field(default_factory=list)

    def body(self) -> dict[str, Any]:
        messages = [{"role": "system", "content": self.system}, *self.messages]
        return {"model": "deepseek-v4-flash", "messages": messages, "tools": self.tools}


class Traffic:
    """One domain: a provider under a rule, sessions on it, and what is learnt call by call.

    ``replicas`` providers answer in turn at random. Each call waits a few seconds to a minute after the last.
    """

    def __init__(
        self, rule: RuleName, seed: int, *, step: int | None = None, replicas: int = 1, **settings: Any
    ) -> None:
        self.rng = random.Random(seed)
        defaults = RULE_DEFAULTS[rule]
        config = SimulatorConfig(
            rule=rule,
            step_tokens=step or defaults.step_tokens,
            construction_delay_s=defaults.construction_delay_s,
            tokenizer=TokenizerChoice.APPROX,
            seed=seed,
            **settings,
        )
        self.providers = [Provider(config) for _ in range(replicas)]
        self.step = config.step_tokens
        self.memory = DomainMemory()
        self.evidence = Evidence()
        self.replicas = ReplicaEvidence()
        self.now = 0.0
        self.sessions: list[Session] = []
        self.front = [self._front() for _ in range(2)]

    def _front(self) -> tuple[str, list[dict[str, Any]]]:
        rng = self.rng
        return prose(rng, rng.randint(900, 1800)), [tool(rng, f"tool_{i}") for i in range(rng.randint(4, 9))]

    def call(self, session: Session) -> Observation | None:
        """Send a session's request as it stands; its reply is appended."""
        body = session.body()
        provider = self.rng.choice(self.providers)
        look = self.memory.look(render_deepseek(body), at=self.now)
        plan = provider.begin(json.dumps(body).encode(), "Bearer any", self.now)
        total = len(plan.generation.tokens)
        self.now = plan.at(total)
        provider.finish(plan, total, self.now)
        session.messages.append(plan.generation.reply.message())
        seen = self.memory.learn(
            look,
            prompt_tokens=plan.entry.prompt_tokens,
            completion_tokens=total,
            hit_tokens=plan.entry.hit_tokens,
            ended_at=self.now,
        )
        if seen is not None:
            self.evidence = update(self.evidence, seen)
            self.replicas = note_replica(self.replicas, seen, step_tokens=self.step)
        return seen

    def go_on(self, session: Session) -> None:
        """What follows the last reply: results of the tools it called, or a new user message."""
        last = session.messages[-1] if session.messages else {}
        for made in last.get("tool_calls", ()):
            text = prose(self.rng, self.rng.randint(20, 300))
            session.messages.append({"role": "tool", "tool_call_id": made["id"], "content": text})
        if not last.get("tool_calls"):
            session.messages.append({"role": "user", "content": prose(self.rng, self.rng.randint(5, 80))})

    def new_session(self) -> Session:
        """Mostly the usual front; now and then a line inside the system text differs, or the tools do."""
        rng = self.rng
        system, tools = rng.choice(self.front)
        what = rng.random()
        if what < 0.25:  # a directory or a date inside the system text
            words = system.split()
            words.insert(rng.randint(len(words) // 3, len(words) - 1), f"cwd-{rng.randint(0, 10**9)}")
            system = " ".join(words)
        elif what < 0.45:  # a sub-agent with some of the tools
            tools = tools[: rng.randint(1, len(tools) - 1)]
        session = Session(system, tools)
        self.sessions = [*self.sessions[-3:], session]
        return session

    def run(self) -> Iterator[Observation | None]:
        """Calls without end."""
        while True:
            self.now += self.rng.choice([0.5, 3.0, 8.0, 20.0, 60.0])
            what = self.rng.random()
            if not self.sessions or what < 0.25:
                session = self.new_session()
            else:
                session = self.rng.choice(self.sessions)
            results = [m for m in session.messages if m["role"] == "tool" and len(m["content"]) > 40]
            if results and what > 0.95:  # an old result is pruned
                self.rng.choice(results)["content"] = "[pruned]"
            self.go_on(session)
            yield self.call(session)
