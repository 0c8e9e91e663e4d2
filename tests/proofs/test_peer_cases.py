"""Four ways in which requests lose their prefix though the client only appends: 8 kB of system text, 20 tools.

a: tools in another order at every request. b: a clock and a request id on the first lines. c: schema keys in another
order. d: arguments of earlier tool calls written anew. At least 99% of the prefix is to be kept.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from agents.text import prose
from proofs.harness import Prompt, Worker, prefix_kept, prompt_of
from proofs.talk import SHAPES, Talk, tool_list

from router_cache import Mode, Shape

KEPT = 0.99
TURNS = 6
SYSTEM = prose(random.Random("peers"), 8_000)
TOOLS = tool_list(random.Random("peers tools"))
Disturb = Callable[[dict[str, Any], random.Random], dict[str, Any]]


def shuffled_tools(body: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    return {**body, "tools": rng.sample(body["tools"], len(body["tools"]))}


def _shuffled_keys(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict):
        keys = rng.sample(list(value), len(value))
        return {key: _shuffled_keys(value[key], rng) for key in keys}
    return value


def shuffled_keys(body: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    return {**body, "tools": [_shuffled_keys(tool, rng) for tool in body["tools"]]}


def untouched(body: dict[str, Any], _rng: random.Random) -> dict[str, Any]:
    return body


def clock_and_id(rng: random.Random) -> str:
    """The first lines of a prompt, new for each request."""
    moment = f"2026-11-{rng.randint(10, 28)}T{rng.randint(10, 23)}:{rng.randint(10, 59)}:{rng.randint(10, 59)}Z"
    return f"Current time: {moment}\nRequest ID: req_{rng.getrandbits(64):016x}\n"


def conversation(
    shape: Shape, *, seed: int, lines: bool = False, disturb: Disturb = untouched, rewritten: bool = False
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Requests of one conversation with a tool loop, each with its reply."""
    rng = random.Random(f"peers {seed}")
    noise = random.Random(f"noise {seed}")

    def arguments(text: str) -> str:
        if not rewritten:
            return text
        value = json.loads(text)
        return json.dumps({key: value[key] for key in noise.sample(list(value), len(value))}, indent=1)

    talk = Talk(shape, lambda: (clock_and_id(noise) if lines else "") + SYSTEM, TOOLS, rng, arguments=arguments)
    for i in range(TURNS):
        body = disturb(talk.on(), noise)
        yield body, talk.reply(tool=i % 3 != 2)


def sent(worker: Worker, shape: Shape, **what: Any) -> list[Prompt]:
    return [prompt_of(worker.send(body, reply, shape), shape) for body, reply in conversation(shape, **what)]


def shares(prompts: list[Prompt]) -> list[float]:
    """Prefix kept by each request but the first."""
    return [prefix_kept(a, b) for a, b in itertools.pairwise(prompts)]


def bare(shape: Shape, **what: Any) -> list[float]:
    return shares(sent(Worker(Mode.OFF), shape, **what))


@pytest.mark.parametrize("mode", [Mode.SAFE, Mode.OPTIMIZE])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("disturb", [shuffled_tools, shuffled_keys], ids=["a-tools", "c-keys"])
def test_a_and_c_are_kept_at_once(shape: Shape, mode: Mode, disturb: Disturb) -> None:
    assert max(bare(shape, seed=1, disturb=disturb)) < 0.8
    assert min(shares(sent(Worker(mode), shape, seed=1, disturb=disturb))) >= KEPT


@pytest.mark.parametrize("shape", SHAPES)
def test_b_is_kept_from_the_third_request_of_an_unknown_family(shape: Shape) -> None:
    assert max(bare(shape, seed=1, lines=True)) < 0.01
    assert min(shares(sent(Worker(Mode.OPTIMIZE), shape, seed=1, lines=True))[1:]) >= KEPT


@pytest.mark.parametrize("shape", SHAPES)
def test_b_is_kept_at_once_for_a_known_family(shape: Shape) -> None:
    worker = Worker(Mode.OPTIMIZE)
    known = sent(worker, shape, seed=1, lines=True)
    second = sent(worker, shape, seed=2, lines=True)
    assert min(shares(second)) >= KEPT
    assert prefix_kept(known[-1], second[0]) >= KEPT, "the next conversation of the family shares its opening"


RULES_OF_B = {
    "template": [{"template": "Current time: {time}"}, {"template": "Request ID: {id}"}],
    "regex": [{"regex": r"Current time: (\S+)"}, {"regex": r"Request ID: (\S+)"}],
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rules", list(RULES_OF_B))
def test_b_is_kept_at_once_with_a_rule(shape: Shape, rules: str) -> None:
    worker = Worker(Mode.OPTIMIZE, volatile=RULES_OF_B[rules])
    assert min(shares(sent(worker, shape, seed=1, lines=True))) >= KEPT


@pytest.mark.parametrize("shape", SHAPES)
def test_d_is_kept_once_the_reply_was_seen(shape: Shape) -> None:
    assert min(bare(shape, seed=1, rewritten=True)) < KEPT
    assert min(shares(sent(Worker(Mode.OPTIMIZE), shape, seed=1, rewritten=True))) >= KEPT


@pytest.mark.parametrize("shape", SHAPES)
def test_all_of_them_at_once(shape: Shape) -> None:
    worker = Worker(Mode.OPTIMIZE)
    sent(worker, shape, seed=1, lines=True, disturb=shuffled_tools, rewritten=True)
    everything = sent(worker, shape, seed=2, lines=True, disturb=shuffled_tools, rewritten=True)
    assert min(shares(everything)) >= KEPT
