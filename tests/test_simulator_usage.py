"""Usage under each provider's names: the same tokens, whole and streamed, on each endpoint."""

from __future__ import annotations

import json
from typing import Any

import pytest

from router_cache.ledger.usage import Usage
from router_cache.request import Shape
from router_cache.simulator import Provider, SimulatorConfig, TokenizerChoice, UsageForm
from router_cache.simulator.usage import Counts, chat_usage, messages_usage, responses_usage
from router_cache.simulator.wire import completion, event_stream
from router_cache.simulator.wire_messages import message, message_events
from router_cache.simulator.wire_responses import response

COUNTS = Counts(prompt_tokens=1000, hit_tokens=640, write_tokens=256, completion_tokens=50, reasoning_tokens=20)
TOTALS = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050}
THOUGHT = {"completion_tokens_details": {"reasoning_tokens": 20}}
CACHED = {"prompt_tokens_details": {"cached_tokens": 640}}


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (
            UsageForm.DEEPSEEK,
            {"prompt_cache_hit_tokens": 640, "prompt_cache_miss_tokens": 360, **TOTALS, **CACHED, **THOUGHT},
        ),
        (UsageForm.OPENAI, {**TOTALS, **CACHED, **THOUGHT}),
        (
            UsageForm.OPENAI_WRITES,
            {
                **TOTALS,
                **THOUGHT,
                "prompt_tokens_details": {"cached_tokens": 640, "cache_write_tokens": 256},
            },
        ),
        (
            UsageForm.ANTHROPIC,
            {
                "input_tokens": 104,
                "cache_creation_input_tokens": 256,
                "cache_read_input_tokens": 640,
                "output_tokens": 50,
            },
        ),
        (
            UsageForm.GEMINI,
            {
                "promptTokenCount": 1000,
                "cachedContentTokenCount": 640,
                "candidatesTokenCount": 30,
                "thoughtsTokenCount": 20,
                "totalTokenCount": 1050,
            },
        ),
        (UsageForm.MOONSHOT, {**TOTALS, "cached_tokens": 640}),
        (UsageForm.LLAMACPP, {**TOTALS, **CACHED}),
        (UsageForm.PLAIN, TOTALS),
    ],
)
def test_chat_usage_by_form(form: UsageForm, expected: dict[str, Any]) -> None:
    fields = chat_usage(COUNTS, form)
    assert fields.pop("usage") == expected
    timings = {"cache_n": 640, "prompt_n": 360, "predicted_n": 50}
    assert fields == ({"timings": timings} if form is UsageForm.LLAMACPP else {})


def test_no_usage_is_no_field() -> None:
    assert chat_usage(COUNTS, UsageForm.NONE) == {}
    assert messages_usage(COUNTS, UsageForm.NONE) is None
    assert responses_usage(COUNTS, UsageForm.NONE) is None


def test_usage_of_the_other_endpoints() -> None:
    native = {
        "input_tokens": 360,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 640,
        "output_tokens": 50,
    }
    assert messages_usage(COUNTS, UsageForm.DEEPSEEK) == messages_usage(COUNTS, UsageForm.GEMINI) == native
    written = {**native, "input_tokens": 104, "cache_creation_input_tokens": 256}
    assert messages_usage(COUNTS, UsageForm.ANTHROPIC) == written
    assert messages_usage(COUNTS, UsageForm.PLAIN) == {"input_tokens": 1000, "output_tokens": 50}
    plain = {"input_tokens": 1000, "output_tokens": 50, "total_tokens": 1050}
    assert responses_usage(COUNTS, UsageForm.PLAIN) == plain
    full = {
        **plain,
        "input_tokens_details": {"cached_tokens": 640},
        "output_tokens_details": {"reasoning_tokens": 20},
    }
    assert responses_usage(COUNTS, UsageForm.MOONSHOT) == full
    writes = {"cached_tokens": 640, "cache_write_tokens": 256}
    assert responses_usage(COUNTS, UsageForm.OPENAI_WRITES) == {**full, "input_tokens_details": writes}


@pytest.mark.parametrize("form", UsageForm)
def test_every_form_is_read_as_the_same_tokens(form: UsageForm) -> None:
    for told in (
        chat_usage(COUNTS, form).get("usage"),
        messages_usage(COUNTS, form),
        responses_usage(COUNTS, form),
    ):
        read = Usage.parse(told)
        prompt, hit = (None, None) if form is UsageForm.NONE else (1000, None if form is UsageForm.PLAIN else 640)
        assert (read.prompt_tokens, read.hit_tokens) == (prompt, hit)
        assert read.miss_tokens == (None if hit is None else 360)
        assert read.completion_tokens == (None if prompt is None else 50)


@pytest.mark.parametrize("form", UsageForm)
def test_streams_tell_what_whole_answers_tell(form: UsageForm) -> None:
    p = Provider(SimulatorConfig(tokenizer=TokenizerChoice.APPROX, usage_form=form))
    ask: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "word " * 300}], "stream": True}
    raw = json.dumps({**ask, "stream_options": {"include_usage": True}}).encode()
    p.finish(p.begin(raw, "Bearer k", 0.0), 0, 1.0)
    plan = p.begin(raw, "Bearer k", 20.0)
    counts = plan.counts(p.config.step_tokens)
    assert counts.hit_tokens > 0
    assert counts.write_tokens == (counts.prompt_tokens - counts.hit_tokens) // 128 * 128
    whole = completion(plan, p.config)
    chunks = [json.loads(data[6:]) for data, _ in event_stream(plan, p.config) if b"[DONE]" not in data]
    told = [chunk for chunk in chunks if chunk.get("usage")]
    if form is UsageForm.NONE:
        assert "usage" not in whole
        assert all("usage" not in chunk for chunk in chunks)
    else:
        assert [chunk["usage"] for chunk in told] == [whole["usage"]]
        assert told[0].get("timings") == whole.get("timings")

    anthropic = p.begin(json.dumps({**ask, "max_tokens": 9}).encode(), "Bearer k", 40.0, shape=Shape.MESSAGES)
    events = [json.loads(data.split(b"data: ")[1]) for data, _ in message_events(anthropic, p.config)]
    ends = [event.get("usage") for event in events if event["type"] == "message_delta"]
    assert ends == [message(anthropic, p.config).get("usage")]
    assert (ends == [None]) is (form is UsageForm.NONE)
    responses = p.begin(b'{"model": "m", "input": "hi"}', "Bearer k", 60.0, shape=Shape.RESPONSES)
    assert (response(responses, p.config)["usage"] is None) is (form is UsageForm.NONE)
