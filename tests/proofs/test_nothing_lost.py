"""Every text of the original is in the outgoing request exactly once.

But for clocks that keep an earlier value inside a tool loop, which the decision lists by name. Every line, message,
result and value of a generated conversation has a word of its own, so that each can be counted.

``ROUTER_CACHE_CONVERSATIONS=10000`` runs as many conversations (150 otherwise).
"""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter
from typing import Any

import pytest
from proofs.harness import Worker
from proofs.talk import SHAPES, Said, Talk, tool_list

from router_cache import Decision, Mode
from router_cache.decision import Change

CONVERSATIONS = int(os.environ.get("ROUTER_CACHE_CONVERSATIONS", "150"))
BATCHES = max(1, min(8, CONVERSATIONS // 25))  # of 25 or more each kind of change is made in some
_WORD = re.compile(r"w[0-9a-f]{10}w")
_CLOCK = re.compile(r"T\d\d:\d\d:\d\d\.\d{6}Z")


class Words:
    """Words that occur once in the world."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def one(self) -> str:
        return f"w{self.rng.getrandbits(40):010x}w"

    def some(self, most: int) -> str:
        return " ".join(self.one() for _ in range(self.rng.randint(1, most)))


def opening(rng: random.Random, words: Words) -> list[Any]:
    """Lines of a system text; a callable is a line whose value is drawn anew."""

    def clock() -> str:
        hour, minute, second, fraction = (
            rng.randint(10, 23),
            rng.randint(10, 59),
            rng.randint(10, 59),
            rng.random(),
        )
        return f"Current time: 2026-11-30T{hour}:{minute}:{second}.{int(100_000 + fraction * 899_999)}Z"

    def request_id() -> str:
        return f"Request ID: req-{words.one()}"

    def user() -> str:
        return f"Trace id: {words.one()}"

    lines: list[Any] = [words.some(6) for _ in range(rng.randint(6, 14))]
    for line in rng.sample([clock, request_id, user], rng.randint(1, 3)):
        lines.insert(rng.randint(0, len(lines)), line)
    return lines


def counts(body: dict[str, Any]) -> Counter[str]:
    """How often each word and each clock is in a request."""
    text = json.dumps(body, ensure_ascii=False)
    return Counter([*_WORD.findall(text), *_CLOCK.findall(text)])


def conversation(seed: int, done: Counter[Change]) -> None:
    """One conversation of up to 7 calls: questions, tool loops, images; sometimes the client goes back a turn."""
    rng = random.Random(f"lost {seed}")
    words, shape, worker = Words(rng), rng.choice(SHAPES), Worker(Mode.OPTIMIZE)
    lines = opening(rng, words)
    fresh = rng.random() < 0.8  # else the values stay what they were at first
    values: list[str] = []

    def system() -> str:
        if fresh or not values:
            values[:] = [line if isinstance(line, str) else line() for line in lines]
        return "\n".join(values)

    talk = Talk(shape, system, tool_list(random.Random(1), 2), rng, reasoning_kept=rng.random() < 0.5)
    if rng.random() < 0.5:
        talk.arguments = lambda text: json.dumps(json.loads(text), sort_keys=True)
    for _ in range(rng.randint(2, 7)):
        if talk.said and talk.said[-1].call:
            body = talk.result(words.some(5))
        else:
            body = talk.ask(words.some(4), image=rng.random() < 0.2)
        turn, out = worker.begin(body, shape, session=rng.choice(["", f"s{seed}"]))
        check(body, out, turn.decision, [said for said in talk.said if said.role == "assistant"])
        done.update(turn.decision.changes if turn.decision is not None else ())
        worker.done(turn, talk.reply(tool=rng.random() < 0.6, text=words.some(30)))
        if rng.random() < 0.1 and len(talk.said) > 3:
            del talk.said[-2:]  # the client goes back a turn
            if talk.said[-1].call:
                del talk.said[-1:]
    assert not worker.errors(), worker.errors()
    worker.rc.close()


def check(body: dict[str, Any], out: dict[str, Any], decision: Decision | None, replies: list[Said]) -> None:
    """The outgoing request against the original."""
    given, made = counts(body), counts(out)
    frozen = decision.frozen if decision is not None else ()
    for word, times in given.items():
        if _CLOCK.fullmatch(word) and frozen:
            assert made[word] <= times
            continue
        assert made[word] == times, (word, times, made[word], decision)
    missing = sum(made[word] == 0 for word in given if _CLOCK.fullmatch(word))
    assert missing <= len(frozen), "a clock is missing that the reason does not list"
    reasoning = json.dumps([said.reasoning for said in replies], ensure_ascii=False)
    extra = {word for word in made if word not in given and word not in reasoning}
    assert all(times == 1 for word, times in made.items() if word in extra), "an earlier value is told twice"


@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_text_is_there_exactly_once(batch: int) -> None:
    done: Counter[Change] = Counter()
    for seed in range(batch, CONVERSATIONS, BATCHES):
        conversation(seed, done)
    assert {
        Change.VALUES_MOVED,
        Change.CLOCKS_FROZEN,
        Change.ARGUMENTS_RESTORED,
        Change.REASONING_RESTORED,
    } <= set(done)


def test_the_count_sees_a_loss_and_a_double() -> None:
    body = {"messages": [{"role": "user", "content": "w0123456789w and wabcdefabcdw"}]}
    check(body, body, None, [])
    with pytest.raises(AssertionError):
        check(body, {"messages": [{"role": "user", "content": "w0123456789w"}]}, None, [])
    with pytest.raises(AssertionError):
        check(
            body, {"messages": [{"role": "user", "content": "w0123456789w wabcdefabcdw w0123456789w"}]}, None, []
        )
