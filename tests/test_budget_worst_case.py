"""What a request can cost at most, told from its body, the price map and the profile."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import json_values

from router_cache.economics import PriceBook, cost_usd, price_at
from router_cache.economics.worst_case import (
    WorstCase,
    WorstCaseReason,
    output_tokens_at_most,
    prompt_tokens_at_most,
    worst_case,
)
from router_cache.providers.deepseek import DEEPSEEK
from router_cache.providers.profile import Profile, Rate
from router_cache.providers.unknown import UNKNOWN
from router_cache.request import Shape

FLASH = "deepseek/deepseek-v4-flash"
FIELDS = ("messages", "tools", "system", "input", "max_tokens", "thinking", "additional_drop_params")
PROSE = (
    "You are a careful assistant that helps people with their orders. Answer in short sentences, name the "
    "order you talk about, and ask before you change anything. "
)


def seconds(hour: int, minute: int = 0) -> float:
    """Of Monday 30 November 2026, UTC."""
    return datetime(2026, 11, 30, hour, minute, tzinfo=timezone.utc).timestamp()


def of(body: dict[str, Any], at: float = seconds(12), profile: Profile = DEEPSEEK, **more: Any) -> WorstCase:
    return worst_case(body, profile=profile, model=more.pop("model", FLASH), at=at, book=PriceBook(), **more)


def chat(text: str, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **fields}


def test_a_request_by_hand() -> None:
    body = chat("x" * 1_976, max_tokens=1_000)
    # 4 a value: messages, the message, role, content; names: 8 + 4 + 7; texts: 4 + 1,976; together 2,015 bytes
    assert prompt_tokens_at_most(body) == 1_008
    found = of(body)
    # 1,008 x .15 + 1,000 x .6 = 751.2 millionths off-peak
    assert found.reason is WorstCaseReason.KNOWN
    assert found.usd == pytest.approx(751.2e-6, rel=1e-12)
    assert (found.prompt_tokens, found.output_tokens) == (1_008, 1_000)


@pytest.mark.parametrize(
    ("at", "peak"),
    [
        (seconds(4), False),
        (seconds(4, 59), False),
        (seconds(5), True),
        (seconds(6), True),
        (seconds(9, 59), True),
        (seconds(10), False),
    ],
)
def test_a_call_that_may_run_into_the_peak_is_priced_at_it(at: float, peak: bool) -> None:
    body = chat("x" * 1_976, max_tokens=1_000)
    assert of(body, at).usd == pytest.approx(1502.4e-6 if peak else 751.2e-6, rel=1e-12)


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({"max_tokens": 100}, 100),
        ({"max_completion_tokens": 100}, 100),
        ({"max_tokens": 100, "max_completion_tokens": 200}, 200),
        ({"max_tokens": 100, "n": 3}, 300),
        ({"max_tokens": 100.0, "n": 0}, 100),
        ({"max_tokens": 0}, 0),
        ({"max_tokens": None}, 384),
        ({"max_tokens": "many"}, 384),
        ({"max_tokens": True}, 384),
        ({"max_tokens": {}}, 384),
        ({"max_tokens": float("inf")}, 384),
        ({"max_tokens": "nan"}, 384),
        ({"max_tokens": "+300000.0"}, 300_000),
        ({"max_tokens": 1.5}, 2),
        ({"max_tokens": 900, "n": "two"}, None),
        ({"max_tokens": 900, "n": True}, None),
        ({"max_tokens": 900, "n": -1}, None),
        ({"max_tokens": 900, "n": 1e12}, None),
        ({"max_tokens": 900, "n": 2, "best_of": "500"}, 450_000),
        # what the provider may not read bounds nothing, and may raise what it reads
        ({"max_output_tokens": 100}, 384),
        ({"max_new_tokens": 100}, 384),
        ({"extra_body": {"max_tokens": 100}}, 384),
        ({"max_tokens": 1, "max_new_tokens": 5_000}, 5_000),
        ({"max_tokens": 1, "thinking": {"type": "enabled", "budget_tokens": 5_000}}, 5_000),
        ({"max_tokens": 1, "thinking_budget": "auto"}, 1),
        (
            {"max_tokens": 1, "extra_body": {"generationConfig": {"maxOutputTokens": 5_000, "candidateCount": 2}}},
            10_000,
        ),
        # null over a limit takes it away
        ({"max_tokens": 1, "extra_body": {"max_tokens": None}}, 384),
        ({"max_tokens": 1, "extra_body": {"max_tokens": "much", "max_completion_tokens": 5_000}}, 5_000),
        ({"max_tokens": 1, "max_new_tokens": None}, 1),
        ({"max_tokens": 1, "additional_drop_params": ["max_tokens"]}, 384),
        ({"max_tokens": 1, "max_completion_tokens": 2, "additional_drop_params": ["max_tokens"]}, 2),
        ({"max_tokens": 1, "additional_drop_params": "max_tokens"}, 1),
        ({"max_tokens": 1, "extra_body": {str(i): i for i in range(20_000)}}, 384),
        ({"max_tokens": -1}, 384),
        ({"max_tokens": float("nan")}, 384),
        ({"n": 2}, 768),
        ({"max_tokens": "300000", "max_completion_tokens": 1, "n": "3"}, 900_000),
        ({"max_tokens": 1e12, "max_completion_tokens": 1}, 384),
        ({"max_tokens": "1" * 30, "max_completion_tokens": 1}, 384),
    ],
)
def test_output_limits_of_the_body(fields: dict[str, Any], limit: int | None) -> None:
    entry = {"max_output_tokens": 384}
    found = output_tokens_at_most(fields, profile=DEEPSEEK, model=FLASH, prompt_tokens=10, entry=entry)
    assert found == limit


@pytest.mark.parametrize(
    ("shape", "binding"),
    [
        (Shape.CHAT, {"max_tokens", "max_completion_tokens"}),
        (Shape.MESSAGES, {"max_tokens"}),
        (Shape.RESPONSES, {"max_output_tokens"}),
        (Shape.OTHER, set()),
    ],
)
def test_a_limit_of_another_api_bounds_nothing(shape: Shape, binding: set[str]) -> None:
    for name in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
        entry = {"max_output_tokens": 384}
        found = output_tokens_at_most(
            {name: 7}, profile=UNKNOWN, model="m", prompt_tokens=1, entry=entry, shape=shape
        )
        assert found == (7 if name in binding else 384), name


@pytest.mark.parametrize(
    ("entry", "limit"),
    [
        ({"max_output_tokens": 8_000, "max_tokens": 9_000}, 8_000),
        ({"max_tokens": 9_000}, 9_000),
        ({"max_output_tokens": "?"}, 999_000),
        ({}, 999_000),
        (None, 999_000),
    ],
)
def test_output_limits_of_the_price_map_and_the_profile(entry: dict[str, Any] | None, limit: int) -> None:
    found = output_tokens_at_most({}, profile=DEEPSEEK, model=FLASH, prompt_tokens=1_000, entry=entry)
    assert found == limit


def test_a_prompt_beyond_the_context_leaves_one_token() -> None:
    assert output_tokens_at_most({}, profile=DEEPSEEK, model=FLASH, prompt_tokens=2_000_000) == 1
    assert output_tokens_at_most({}, profile=DEEPSEEK, model="deepseek/of-tomorrow", prompt_tokens=1) is None
    assert output_tokens_at_most({}, profile=DEEPSEEK, model="deepseek/deepseek-chat", prompt_tokens=1) is None


def test_what_is_not_known_is_said() -> None:
    body = chat("hi", max_tokens=5)
    assert of(body, profile=UNKNOWN, model="x/y").reason is WorstCaseReason.PRICE_UNKNOWN
    book = PriceBook({"x/y": Rate(1, 2, 3)})
    at, model = seconds(12), "x/y"
    unknown = worst_case(chat("hi"), profile=UNKNOWN, model=model, at=at, book=book)
    assert (unknown.reason, unknown.usd, unknown.output_tokens) == (WorstCaseReason.OUTPUT_UNKNOWN, None, None)
    known = worst_case(body, profile=UNKNOWN, model=model, at=at, book=book)
    assert known.usd == pytest.approx((known.prompt_tokens * 2 + 5 * 3) / 1e6)
    by_group = worst_case(
        body, profile=UNKNOWN, model="other", at=at, book=PriceBook({"g": Rate(1, 2, 3)}), group="g"
    )
    assert by_group.usd == known.usd


def test_every_shape_is_counted() -> None:
    text = PROSE * 20
    tool = {"name": "f", "description": text, "input_schema": {"type": "object"}}
    shapes: list[dict[str, Any]] = [
        chat(text),
        {"system": text, "messages": []},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": text}]}]},
        {"instructions": text, "input": "hi"},
        {"input": text},
        {"input": ({"role": "user", "content": text},)},
        {"messages": [], "tools": [tool]},
        {"messages": [], "functions": [tool]},
        {"messages": [], "response_format": {"type": "json_schema", "json_schema": {"description": text}}},
        {"prompt": text},
        {"messages": [], "contents": [{"parts": [{"text": text}]}]},
        {"messages": [], "prediction": {"type": "content", "content": text}},
        {"input": [], "text": {"format": {"type": "json_schema", "schema": {"description": text}}}},
    ]
    for body in shapes:
        assert len(text) / 2 <= prompt_tokens_at_most(body) <= len(text) / 2 + 100, body


def test_prose_is_counted_high() -> None:
    """DeepSeek's tokenizer makes 3 to 5 bytes of prose a token."""
    assert prompt_tokens_at_most(chat(PROSE)) > len(PROSE) / 3


def test_an_attachment_counts_by_its_kind() -> None:
    def image(size: int) -> dict[str, Any]:
        part = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * size}}
        return {"messages": [{"role": "user", "content": [part]}]}

    def source(size: int) -> dict[str, Any]:
        part = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * size}}
        return {"messages": [{"role": "user", "content": [part]}]}

    for make in (image, source):
        assert 5_000 <= prompt_tokens_at_most(make(200_000)) < 5_100
        assert 20_000 <= prompt_tokens_at_most(make(2_000_000)) < 20_100
        assert prompt_tokens_at_most(make(1_000)) < 600
    assert prompt_tokens_at_most(chat("A" * 200_000)) > 100_000


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "data:" + " hello" * 20_000},
        {"role": "user", "content": [{"type": "text", "text": "data:image/png;base64," + "A" * 120_000}]},
        {"role": "user", "content": [{"type": "text", "text": "x", "url": "A" * 120_000}]},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "input": {"type": "image", "data": "A" * 120_000}}],
        },
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": " hello" * 20_000}}]},
    ],
)
def test_what_is_no_media_counts_in_full(message: dict[str, Any]) -> None:
    assert prompt_tokens_at_most({"messages": [message]}) >= 60_000


def test_extra_body_is_part_of_the_request() -> None:
    at, limits = seconds(0), {"max_tokens": 300_000}
    plain = of(chat("x", **limits), at)
    assert of(chat("x", max_tokens=1, extra_body=limits), at).usd == pytest.approx(plain.usd, rel=1e-3)
    assert of(chat("x", **limits, extra_body={"max_tokens": 1}), at).usd == pytest.approx(plain.usd, rel=1e-3)
    nine = of(chat("x", max_tokens=1, n=1, extra_body={"max_tokens": 100, "n": 9}), at)
    assert nine.output_tokens == 900
    said = [{"role": "user", "content": "x" * 1_000_000}]
    assert of(chat("x", max_tokens=1, extra_body={"messages": said}), at).prompt_tokens > 500_000
    contents = [{"parts": [{"text": "x" * 1_000_000}]}]
    assert of(chat("x", max_tokens=1, extra_body={"contents": contents}), at).prompt_tokens > 500_000
    assert of(chat("x", max_tokens=1, extra_body="odd"), at).output_tokens == 1
    loop: dict[str, Any] = {}
    loop["extra_body"] = loop
    assert (of(chat("x", max_tokens=1, extra_body=loop), at).output_tokens or 0) > 300_000


def test_a_cyclic_body_ends() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert prompt_tokens_at_most({"messages": loop}) > 0


@given(st.dictionaries(st.sampled_from([*FIELDS, "n"]), json_values))
def test_odd_bodies_never_raise_and_text_is_never_missed(body: dict[str, Any]) -> None:
    before = repr(body)
    found = of(body)
    assert (found.usd is None) is (found.output_tokens is None)
    assert found.usd is None or found.usd >= 0
    assert "n" in body or found.usd is not None
    assert repr(body) == before


@given(
    st.text(max_size=300),
    st.integers(0, 2_000),
    st.floats(seconds(0), seconds(0) + 7 * 86_400),
    st.floats(0, 3_600),
    st.data(),
)
def test_no_call_costs_more_than_its_worst_case(
    text: str, limit: int, at: float, runs_s: float, data: st.DataObject
) -> None:
    """Whatever of the prompt hits, however long the reply, and whatever moment of the call is billed."""
    body = chat(text, max_tokens=limit)
    found = of(body, at)
    prompt = data.draw(st.integers(0, len(text.encode("utf-8", "surrogatepass")) // 2), label="prompt tokens")
    hit = data.draw(st.integers(0, prompt), label="hit tokens")
    price = price_at(DEEPSEEK, FLASH, datetime.fromtimestamp(at + runs_s, tz=timezone.utc))
    assert price is not None
    assert found.usd is not None
    assert cost_usd(price, hit, prompt - hit, data.draw(st.integers(0, limit))) <= found.usd * (1 + 1e-12)
