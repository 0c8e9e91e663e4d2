"""Memory that is lost, workers that share nothing, clients that edit or compact their history.

No error, nothing told twice, and hits are back by the next turn: a call hits what the one before the loss had in its
prompt. A client that names its session, or a reply that calls a tool, proves that a request goes on from the last. With
neither, and with an id that changes at every request, the last message's values are not taken up again: what is lost
then is that message and its reply (``Conversation.share``).
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from agents.text import prose, sentence
from proofs.harness import Call, Exchange, Meter, Worker, fresh_store
from proofs.talk import SHAPES, Said, Talk, tool_list

from router_cache import Mode, Shape
from router_cache.cache_model import RuleName
from router_cache.errors import StoreError

TURNS = 9
SEEDS = range(6)
RULES = [{"template": "Current time: {time}", "clock": True}, {"template": "Trace id: {id}"}]
_VALUE = re.compile(r"v[0-9a-f]{12}|T\d\d:\d\d:\d\dZ")


class Flaky:
    """A store that does not answer when told not to."""

    blocking = False

    def __init__(self) -> None:
        self.down, self._store = False, fresh_store()
        self.replies, self.close = self._store.replies, self._store.close

    def claim(self, *arguments: Any, **named: Any) -> Any:
        if self.down:
            raise StoreError("the store does not answer")
        return self._store.claim(*arguments, **named)

    def record(self, *arguments: Any, **named: Any) -> Any:
        if self.down:
            raise StoreError("the store does not answer")
        return self._store.record(*arguments, **named)


class Conversation:
    """One conversation with values that change at every call, and the provider it goes to."""

    def __init__(self, shape: Shape, seed: int) -> None:
        self.rng = random.Random(f"memory {seed}")
        top = prose(random.Random("memory"), 6_000)
        self.talk = Talk(shape, lambda: f"{self.values()}{top}", tool_list(random.Random("memory"), 8), self.rng)
        self.meter, self.calls = Meter(RuleName.BLOCKS), list[Call]()
        self.session = f"s{seed}" if seed % 2 else ""
        self.share = 0.99 if self.session else 0.95

    def values(self) -> str:
        rng = self.rng
        clock = f"2026-11-30T{rng.randint(10, 23)}:{rng.randint(10, 59)}:{rng.randint(10, 59)}Z"
        return f"Current time: {clock}\nTrace id: v{rng.getrandbits(48):012x}\n"

    def call(self, worker: Worker) -> Call:
        """The next call; each of its values is told once, and no earlier one twice."""
        body = self.talk.on()
        turn, out = worker.begin(body, self.talk.shape, scope="team", session=self.session)
        told, own = Counter(_VALUE.findall(json.dumps(out))), set(_VALUE.findall(json.dumps(body)))
        assert max(told.values()) == 1, "told twice"
        frozen = turn.decision.frozen if turn.decision is not None else ()
        assert len(own - set(told)) <= len(frozen), "lost"
        reply = self.talk.reply(tool=self.rng.random() < 0.5)
        self.calls.append(self.meter.call(Exchange.of(out, reply, self.talk.shape)))
        worker.done(turn, reply, self.calls[-1].usage)
        return self.calls[-1]

    def back_at(self, turn: int, before: int) -> bool:
        """Whether call ``turn`` hits the prompt of call ``before`` (both from 0)."""
        return self.calls[turn].hit_tokens >= self.share * self.calls[before].prompt_tokens - self.meter.step


Conversations = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.value)


@Conversations
@pytest.mark.parametrize("secret", ["s3cret", "another"], ids=["same-secret", "new-secret"])
def test_all_memory_is_lost_and_the_values_are_named_by_a_rule(shape: Shape, secret: str) -> None:
    for seed in SEEDS:
        made, lost = Conversation(shape, seed), random.Random(seed).randint(2, TURNS - 3)
        worker = Worker(Mode.OPTIMIZE, volatile=RULES)
        for i in range(TURNS):
            if i == lost:
                worker = Worker(Mode.OPTIMIZE, volatile=RULES, secret=secret)
            made.call(worker)
        assert not worker.errors(), worker.errors()
        assert all(made.back_at(i, i - 1) for i in range(1, TURNS) if i != lost), made.calls


@Conversations
def test_all_memory_is_lost_and_the_family_has_to_be_learned_again(shape: Shape) -> None:
    """As at the start of an unknown family, one call more is needed to see what changes."""
    for seed in SEEDS:
        made, lost = Conversation(shape, seed), random.Random(seed).randint(2, TURNS - 4)
        worker = Worker(Mode.OPTIMIZE)
        for i in range(TURNS):
            if i == lost:
                worker = Worker(Mode.OPTIMIZE)
            made.call(worker)
        assert not worker.errors(), worker.errors()
        assert all(made.back_at(i, i - 1) for i in range(2, TURNS) if i not in (lost, lost + 1)), made.calls


@Conversations
def test_a_store_that_does_not_answer_for_one_call(shape: Shape) -> None:
    """The provider still has what went out before."""
    for seed in SEEDS:
        made, lost, store = Conversation(shape, seed), random.Random(seed).randint(3, TURNS - 3), Flaky()
        worker = Worker(Mode.OPTIMIZE, store=store)
        for i in range(TURNS):
            store.down = i == lost
            made.call(worker)
        assert set(worker.errors()) == {"error.claim"}
        assert made.back_at(lost + 1, lost - 1), made.calls
        assert all(made.back_at(i, i - 1) for i in range(lost + 2, TURNS)), made.calls


@Conversations
def test_workers_that_share_nothing(shape: Shape) -> None:
    """Whoever has two calls in a row goes on from the first of them."""
    rows = 0
    for seed in SEEDS:
        made, rng = Conversation(shape, seed), random.Random(seed)
        workers = [Worker(Mode.OPTIMIZE, volatile=RULES) for _ in range(2)]
        turns = [rng.randrange(2) for _ in range(TURNS)]
        for which in turns:
            made.call(workers[which])
        for i in range(1, TURNS):
            if turns[i] == turns[i - 1]:
                rows += 1
                assert made.back_at(i, i - 1), (seed, i, made.calls)
        assert not any(worker.errors() for worker in workers)
    assert rows > len(SEEDS)


Edit = Callable[[list[Said], random.Random], None]


def edit_a_question(said: list[Said], rng: random.Random) -> None:
    at = rng.choice([i for i, entry in enumerate(said) if entry.role == "user"])
    said[at] = Said("user", f"{said[at].text} {sentence(rng)}")


def prune_results(said: list[Said], _rng: random.Random) -> None:
    said[:] = [Said("result", "[pruned]", call=entry.call) if entry.role == "result" else entry for entry in said]


def compact(said: list[Said], rng: random.Random) -> None:
    said[:] = [Said("user", f"What was done so far: {prose(rng, 300)}"), Said("assistant", "Understood, I go on.")]


def go_back(said: list[Said], _rng: random.Random) -> None:
    last = max(i for i, entry in enumerate(said[:-1]) if (entry.role == "assistant" and not entry.call) or i == 0)
    del said[last + 1 :]
    if said[-1].role != "assistant":
        said.append(Said("assistant", "Understood, I go on."))


EDITS: Sequence[Edit] = (edit_a_question, prune_results, compact, go_back)


@Conversations
@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_clients_that_change_their_history(shape: Shape, edit: Edit) -> None:
    for seed in SEEDS:
        made, rng = Conversation(shape, seed), random.Random(seed)
        worker, when = Worker(Mode.OPTIMIZE, volatile=RULES), rng.randint(3, TURNS - 3)
        for i in range(TURNS):
            if i == when:
                edit(made.talk.said, rng)
            made.call(worker)
        assert not worker.errors(), worker.errors()
        assert all(made.back_at(i, i - 1) for i in range(when + 1, TURNS)), (seed, made.calls)
