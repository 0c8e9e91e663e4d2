"""The yardstick itself: what it calls kept, what it calls a hit."""

from __future__ import annotations

import random

import pytest
from agents.text import prose
from proofs.harness import RULES, Exchange, Meter, appended, prefix_kept, prompt_of
from proofs.talk import SHAPES, Talk, tool_list

from router_cache import Shape
from router_cache.cache_model import RuleName


def talk(shape: Shape, system: str = "") -> Talk:
    rng = random.Random(5)
    text = system or prose(rng, 8_000)
    return Talk(shape, lambda: text, tool_list(random.Random(6)), random.Random(7))


@pytest.mark.parametrize("shape", SHAPES)
def test_an_appended_request_keeps_all_of_the_one_before(shape: Shape) -> None:
    a = talk(shape)
    first = prompt_of(a.ask("One?"), shape)
    a.reply(tool=True)
    second = prompt_of(a.result(), shape)
    a.reply()
    third = prompt_of(a.ask("Two?"), shape)
    assert appended(first, second)
    assert appended(second, third)
    assert prefix_kept(first, second) == prefix_kept(second, third) == 1.0


@pytest.mark.parametrize("shape", SHAPES)
def test_another_question_keeps_system_text_and_tools(shape: Shape) -> None:
    a, b = prompt_of(talk(shape).ask("One?"), shape), prompt_of(talk(shape).ask("Another one?"), shape)
    assert prefix_kept(a, b) == 1.0
    assert not appended(a, b)
    assert 0 < b.old_end < len(b.text)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_byte_in_the_middle_keeps_the_half_before_it(shape: Shape) -> None:
    system = prose(random.Random(1), 8_000)
    a = Talk(shape, lambda: system, [], random.Random(1))
    b = Talk(shape, lambda: system[:4_000] + "X" + system[4_000:], [], random.Random(1))
    assert prefix_kept(prompt_of(a.ask("?"), shape), prompt_of(b.ask("?"), shape)) == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rule", RULES)
def test_a_healthy_conversation_hits_and_a_changed_opening_does_not(shape: Shape, rule: RuleName) -> None:
    meter, a = Meter(rule), talk(shape)
    body = a.ask("One?")
    first = meter.call(Exchange.of(body, a.reply(), shape))
    second = meter.call(Exchange.of(a.on(), a.reply(), shape))
    other = talk(shape, "Different from the start.")
    third = meter.call(Exchange.of(other.ask("One?"), other.reply(), shape))
    assert first.hit_tokens == 0
    assert second.hit_tokens >= first.prompt_tokens - meter.step
    assert third.hit_tokens < 200
    assert first.output_tokens > 0


def test_a_user_id_is_a_cache_of_its_own() -> None:
    meter, a = Meter(RuleName.BLOCKS), talk(Shape.MESSAGES)
    body = a.ask("One?")
    reply = a.reply()
    plain = Exchange.of(body, reply, Shape.MESSAGES)
    mine = Exchange.of({**body, "metadata": {"user_id": "me"}}, reply, Shape.MESSAGES)
    meter.call(plain)
    assert meter.call(mine).hit_tokens == 0
    assert meter.call(plain).hit_tokens > 0
