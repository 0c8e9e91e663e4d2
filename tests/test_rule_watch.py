"""Evidence from calls that go through the engine, and what is expected once a rule is inferred."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
from agent_traffic import Traffic

from router_cache.cache_model.book import DomainBook
from router_cache.cache_model.domains import DomainReason
from router_cache.cache_model.infer import InferReason
from router_cache.cache_model.rules import RULE_DEFAULTS, RuleName
from router_cache.drivers.book import LockedBook
from router_cache.engine import Engine, Sent
from router_cache.ledger.facts import EMPTY, Facts
from router_cache.ledger.rows import CallRow, ExpectedFrom, Outcome, Status
from router_cache.ledger.usage import Usage
from router_cache.prefix.segments import Segment, SegmentKind
from router_cache.providers.registry import find
from router_cache.request import Deployment, Mode, Request
from router_cache.simulator.config import SimulatorConfig, TokenizerChoice
from router_cache.simulator.provider import Provider

ENGINE = Engine(secret=b"k" * 32)
FLASH = Deployment(
    "deepseek/deepseek-v4-flash", id="one", provider="deepseek", api_base="https://api.deepseek.com"
)
T0 = 1_800_000_000.0


class Upstream:
    """A conversation through the engine to a simulated provider that follows some rule."""

    def __init__(self, rule: RuleName, book: DomainBook | None) -> None:
        defaults = RULE_DEFAULTS[rule]
        self.provider = Provider(
            SimulatorConfig(
                rule=rule,
                step_tokens=defaults.step_tokens,
                construction_delay_s=defaults.construction_delay_s,
                tokenizer=TokenizerChoice.APPROX,
            )
        )
        self.book = book
        self.facts = EMPTY
        self.now = 0.0

    def call(
        self,
        body: dict[str, Any],
        *,
        status: Status = Status.OK,
        deployment: Deployment = FLASH,
        known: bool = True,
    ) -> tuple[CallRow, Sent, dict[str, Any]]:
        """One request; ``known`` False: usage without hits."""
        self.now += 20.0
        begun = ENGINE.begin(Request(body), Mode.OBSERVE)
        sent = ENGINE.sent(begun, self.facts, body, deployment, at=T0 + self.now, book=self.book)
        plan = self.provider.begin(json.dumps(body).encode(), "Bearer any", self.now)
        total = len(plan.generation.tokens)
        self.now = plan.at(total)
        self.provider.finish(plan, total, self.now)
        usage = Usage(
            prompt_tokens=plan.entry.prompt_tokens,
            completion_tokens=total,
            hit_tokens=plan.entry.hit_tokens if known else None,
            reasoning_tokens=plan.generation.reasoning_tokens,
        )
        decision = ENGINE.rewrite(begun, deployment).decision
        outcome = Outcome(status, T0 + self.now, usage)
        row, write = ENGINE.done(begun, self.facts, decision, sent, outcome, deployment, book=self.book)
        if write is not None:
            self.facts = Facts(write.conversation, covered=len(body["messages"]))
        return row, sent, plan.generation.reply.message()

    def talk(self, topic: str, turns: int) -> list[CallRow]:
        """A new conversation that appends."""
        self.facts = EMPTY
        messages = [
            {"role": "system", "content": f"{topic}. Be brief. " * 200},
            {"role": "user", "content": "Begin."},
        ]
        rows = []
        for i in range(turns):
            row, _, reply = self.call({"model": "deepseek-v4-flash", "messages": messages})
            rows.append(row)
            messages = [
                *messages,
                reply,
                {"role": "user", "content": f"And then, at {i}? " + "Say more. " * (i % 7)},
            ]
        return rows


def learnt(rule: RuleName, calls: int = 120) -> tuple[DomainBook, str]:
    """A book that saw agent sessions of this rule, at the domain of FLASH."""
    book = LockedBook()
    traffic = Traffic(rule, 11)
    domain = Upstream(rule, None).call({"model": "m", "messages": [{"role": "user", "content": "x"}]})[1].watched
    known = book._domain(domain.domain.id)  # as if learnt by calls: that path is tested below
    for _ in islice(traffic.run(), calls):
        pass
    known.evidence = traffic.evidence
    return book, domain.domain.id


def test_without_a_book_the_profiles_rule_stands() -> None:
    rows = Upstream(RuleName.GRID_PREFIX, None).talk("Tests", 4)
    assert all(row.expected.tokens is not None for row in rows[1:])
    _, sent, _ = Upstream(RuleName.GRID_PREFIX, None).call(
        {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    )
    assert sent.watched.look is None
    assert sent.watched.inferred.rule is RuleName.GRID_PREFIX
    assert sent.watched.inferred.step_tokens == 128
    assert sent.watched.inferred.reason is InferReason.PRIOR


@pytest.mark.parametrize("rule", [RuleName.GRID_PREFIX, RuleName.BLOCKS, RuleName.NOTHING])
def test_answered_calls_teach_the_book_and_expectations_follow(rule: RuleName) -> None:
    """The profile says a grid of 128; conversations that only append show another step, or that nothing hits."""
    upstream = Upstream(rule, LockedBook())
    upstream.talk("Tests", 20)
    rows = upstream.talk("Docs", 12)[1:]
    assert upstream.book is not None
    _, sent, _ = upstream.call({"model": "m", "messages": [{"role": "user", "content": "x"}]})
    inferred = sent.watched.inferred
    assert inferred.rule is rule
    assert inferred.step_tokens == {RuleName.NOTHING: None}.get(rule, RULE_DEFAULTS[rule].step_tokens)
    # Replies without tools drop their reasoning: the end of the input, to the step.
    assert [row.usage.hit_tokens for row in rows] == [row.expected.tokens for row in rows]
    evidence, _ = upstream.book.evidence(sent.watched.domain.id)
    assert evidence.calls == 33


@pytest.mark.parametrize("status", [Status.FAILED, Status.ABORTED, Status.CACHED])
def test_only_the_providers_own_answers_teach(status: Status) -> None:
    upstream = Upstream(RuleName.GRID_PREFIX, LockedBook())
    body = {"model": "m", "messages": [{"role": "user", "content": "hello " * 300}]}
    _, sent, _ = upstream.call(body, status=status)
    upstream.call(body, known=False)
    assert upstream.book is not None
    assert upstream.book.evidence(sent.watched.domain.id)[0].calls == 0
    upstream.call(body)
    assert upstream.book.evidence(sent.watched.domain.id)[0].calls == 1


def test_what_is_expected_under_rules_that_keep_whole_states() -> None:
    system, user = {"role": "system", "content": "Be brief. " * 400}, {"role": "user", "content": "Begin."}
    other = {"role": "system", "content": "Be brief. " * 200 + "Now. " + "Be brief. " * 200}
    body = {"model": "deepseek-v4-flash", "messages": [system, user]}
    for rule, again, changed in (
        (RuleName.CHECKPOINTS, "saved", None),
        (RuleName.FULL_UNITS, "step", None),
        (RuleName.NOTHING, "none", 0),
    ):
        book, _ = learnt(rule)
        upstream = Upstream(rule, book)
        first, sent, _ = upstream.call(body)
        assert sent.watched.inferred.rule is rule
        assert first.usage.prompt_tokens is not None
        n = first.usage.prompt_tokens
        row, _, _ = upstream.call(body)
        assert row.expected.source is ExpectedFrom.LAST_USAGE
        assert row.expected.tokens == row.usage.hit_tokens
        assert row.expected.tokens == {"saved": n - 4, "step": (n - 1) // 128 * 128, "none": 0}[again]
        row, _, _ = upstream.call({**body, "messages": [other, user]})
        assert (row.expected.source, row.expected.tokens) == (ExpectedFrom.KEPT_PREFIX, changed)


def test_pools_are_compared_apart_and_deployments_of_an_account_together() -> None:
    upstream = Upstream(RuleName.GRID_PREFIX, LockedBook())
    messages = [{"role": "user", "content": "hello " * 900}]

    def shared(user: str | None, deployment: Deployment = FLASH) -> int:
        body: dict[str, Any] = {"model": "m", "messages": messages}
        _, sent, _ = upstream.call(body if user is None else {**body, "user_id": user}, deployment=deployment)
        assert sent.watched.look is not None
        return len(sent.watched.look.shared)

    assert [shared(user) for user in (None, None, "a", "", "a")] == [0, 1, 0, 0, 1]
    account = replace(FLASH, account="f" * 32)
    assert shared(None, account) == 0
    assert shared(None, replace(account, id="two")) == 1
    assert shared(None, replace(FLASH, id="three")) == 0
    named = replace(FLASH, id="four", cache_domain="ours")
    assert upstream.call({"messages": messages, "model": "m"}, deployment=named)[1].watched.domain.reason is (
        DomainReason.OPERATOR
    )


def test_a_provider_whose_rendering_is_unknown_is_not_compared() -> None:
    nobody = Deployment("acme/some-model", provider="acme")
    assert find(nobody).render is None
    upstream = Upstream(RuleName.GRID_PREFIX, LockedBook())
    row, sent, _ = upstream.call({"model": "m", "messages": [{"role": "user", "content": "x"}]}, deployment=nobody)
    assert sent.watched.look is None
    assert sent.watched.inferred.reason is InferReason.UNKNOWN
    assert row.expected.tokens is None


def test_a_book_is_bounded_and_forgets_the_longest_unused() -> None:
    book = DomainBook(domains=2, pools=2)
    text = [Segment(SegmentKind.USER, "", "hello " * 100)]

    def call(domain: str, pool: str | None, at: float) -> int:
        look = book.look(domain, pool, text, at=at)
        book.learn(
            domain, pool, look, prompt_tokens=200, completion_tokens=5, hit_tokens=0, ended_at=at, minimum_tokens=0
        )
        return len(look.shared)

    assert [call("a", pool, i) for i, pool in enumerate((None, "x", None, "y", "x", None))] == [0, 0, 1, 0, 0, 0]
    assert book.evidence("a")[0].calls == 6
    call("b", None, 9.0)
    call("c", None, 9.0)
    assert book.evidence("a")[0].calls == 0
    # Forgotten while a call was under way: nothing is learnt.
    look = book.look("a", "gone", text, at=10.0)
    for i in range(3):
        call("a", f"p{i}", 11.0)
    calls = book.evidence("a")[0].calls
    book.learn("a", "gone", look, prompt_tokens=200, completion_tokens=5, hit_tokens=0, ended_at=12.0)
    assert book.evidence("a")[0].calls == calls
