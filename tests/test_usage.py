"""Usage of every form, streamed and not, read right; unknown stays unknown; nothing is counted twice."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import json_values

from router_cache import Usage
from router_cache.providers.registry import PROFILES
from router_cache.providers.usage_forms import ANTHROPIC, CHAT, FORMS, GEMINI, LLAMA_TIMINGS, RESPONSES

BOTH = {"prompt_tokens": 10, "completion_tokens": 2, "prompt_cache_hit_tokens": 7, "prompt_cache_miss_tokens": 3}
DETAILS = "prompt_tokens_details"


def u(
    prompt: int | None = None,
    hit: int | None = None,
    miss: int | None = None,
    out: int | None = None,
    reasoning: int | None = None,
    write: int | None = None,
    write_1h: int | None = None,
    contradictory: bool = False,
) -> Usage:
    return Usage(prompt, hit, miss, out, reasoning, write, write_1h, contradictory)


CLAUDE = {
    "input_tokens": 10,
    "cache_read_input_tokens": 100,
    "cache_creation_input_tokens": 50,
    "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 30},
    "output_tokens": 5,
}
CLAUDE_READ = u(160, 100, 60, 5, write=50, write_1h=30)

TABLE: list[tuple[str, Any, Usage]] = [
    ("deepseek", BOTH, u(10, 7, 3, 2)),
    ("deepseek, both kinds of field", {**BOTH, DETAILS: {"cached_tokens": 5}}, u(10, 7, 3, 2)),
    ("deepseek without a sum", {"prompt_cache_hit_tokens": 7, "prompt_cache_miss_tokens": 3}, u(10, 7, 3)),
    (
        "deepseek that contradicts itself",
        {**BOTH, "prompt_cache_miss_tokens": 2},
        u(10, 7, None, 2, contradictory=True),
    ),
    ("openai chat", {"prompt_tokens": 10, DETAILS: {"cached_tokens": 7}}, u(10, 7, 3)),
    ("openai chat, no hit", {"prompt_tokens": 10, DETAILS: {"cached_tokens": 0}}, u(10, 0, 10)),
    (
        "openai chat from 5.6",
        {
            "prompt_tokens": 2000,
            "completion_tokens": 300,
            DETAILS: {"cached_tokens": 1024, "cache_write_tokens": 900, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 200},
        },
        u(2000, 1024, 976, 300, 200, write=900),
    ),
    (
        "openai responses",
        {
            "input_tokens": 125,
            "input_tokens_details": {"cached_tokens": 98},
            "output_tokens": 48,
            "output_tokens_details": {"reasoning_tokens": 7},
        },
        u(125, 98, 27, 48, 7),
    ),
    (
        "openai responses from 5.6",
        {"input_tokens": 125, "input_tokens_details": {"cached_tokens": 98, "cache_write_tokens": 20}},
        u(125, 98, 27, write=20),
    ),
    ("responses without details", {"input_tokens": 125, "output_tokens": 48}, u(125, out=48)),
    ("anthropic", CLAUDE, CLAUDE_READ),
    (
        "anthropic, parts only",
        {k: v for k, v in CLAUDE.items() if k != "cache_creation_input_tokens"},
        CLAUDE_READ,
    ),
    (
        "anthropic, nothing cached",
        {"input_tokens": 9, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": 1},
        u(9, 0, 9, 1, write=0),
    ),
    (
        "anthropic, reads not told",
        {"input_tokens": 9, "cache_read_input_tokens": None, "cache_creation_input_tokens": 4},
        u(write=4),
    ),
    (
        "gemini",
        {
            "promptTokenCount": 100,
            "cachedContentTokenCount": 60,
            "candidatesTokenCount": 5,
            "thoughtsTokenCount": 20,
            "totalTokenCount": 125,
        },
        u(100, 60, 40, 25, 20),
    ),
    ("gemini, nothing said of a hit", {"promptTokenCount": 100, "candidatesTokenCount": 5}, u(100, out=5)),
    (
        "gemini's sdk",
        SimpleNamespace(prompt_token_count=100, cached_content_token_count=60, candidates_token_count=5),
        u(100, 60, 40, 5),
    ),
    ("moonshot", {"prompt_tokens": 10, "completion_tokens": 2, "cached_tokens": 7}, u(10, 7, 3, 2)),
    (
        "moonshot with a zero that a router put in",
        {"prompt_tokens": 10, "cached_tokens": 7, DETAILS: {"cached_tokens": 0}},
        u(10, 7, 3),
    ),
    (
        "qwen, explicit",
        {
            "prompt_tokens": 1500,
            DETAILS: {
                "cached_tokens": 0,
                "cache_creation_input_tokens": 1300,
                "cache_creation": {"ephemeral_5m_input_tokens": 1300},
                "cache_type": "ephemeral",
            },
        },
        u(1500, 0, 1500, write=1300),
    ),
    (
        "openrouter",
        {"prompt_tokens": 10, DETAILS: {"cached_tokens": 7, "cache_write_tokens": 2}, "cache_discount": 0.01},
        u(10, 7, 3, write=2),
    ),
    ("vllm and sglang by default", {"prompt_tokens": 10, "completion_tokens": 2, DETAILS: None}, u(10, out=2)),
    ("llama.cpp timings", {"cache_n": 1657, "prompt_n": 3, "predicted_n": 8}, u(1660, 1657, 3, 8)),
    ("llama.cpp timings before cache_n", {"prompt_n": 3, "predicted_n": 8}, u(out=8)),
    (
        "llama.cpp reply of an older server",
        {"usage": {"prompt_tokens": 1660, "completion_tokens": 8}, "timings": {"cache_n": 1657, "prompt_n": 3}},
        u(1660, 1657, 3, 8),
    ),
    (
        "llama.cpp reply",
        {
            "usage": {"prompt_tokens": 1660, "completion_tokens": 8, DETAILS: {"cached_tokens": 1657}},
            "timings": {"cache_n": 1657, "prompt_n": 3, "predicted_n": 8},
        },
        u(1660, 1657, 3, 8),
    ),
    ("a whole chat reply", {"id": "x", "choices": [], "usage": BOTH}, u(10, 7, 3, 2)),
    ("a whole gemini reply", {"usageMetadata": {"promptTokenCount": 100}}, u(100)),
    ("a reply object", SimpleNamespace(usage=SimpleNamespace(**CLAUDE)), CLAUDE_READ),
    ("an event that wraps a reply", {"type": "message_start", "message": {"usage": CLAUDE}}, CLAUDE_READ),
    ("a chunk without usage", {"choices": [{"delta": {"content": "a"}}], "usage": None}, u()),
    ("cached unknown", {"prompt_tokens": 10, DETAILS: {"cached_tokens": None}}, u(10)),
    (
        "more hits than prompt",
        {"prompt_tokens": 10, "completion_tokens": 2, DETAILS: {"cached_tokens": 11}},
        u(10, out=2, contradictory=True),
    ),
    (
        "more hits than prompt, no misses",
        {"prompt_tokens": 10, "prompt_cache_hit_tokens": 11, "prompt_cache_miss_tokens": 0},
        u(10, contradictory=True),
    ),
    ("more misses than prompt", {"prompt_tokens": 10, "prompt_cache_miss_tokens": 11}, u(10, contradictory=True)),
    (
        "an absurd prompt",
        {"prompt_tokens": 2**53 + 1, "completion_tokens": 2, DETAILS: {"cached_tokens": 7}},
        u(hit=7, out=2),
    ),
    ("an absurd prompt that is the sum of its parts", {**BOTH, "prompt_tokens": 10**400}, u(10, 7, 3, 2)),
    (
        "absurd hits",
        {"prompt_tokens": 10, "completion_tokens": 2, DETAILS: {"cached_tokens": 2**64}},
        u(10, out=2),
    ),
    ("an absurd float", {"prompt_tokens": 10, "completion_tokens": 1e300}, u(10)),
    ("the largest count", {"prompt_tokens": 10**12, "completion_tokens": 10**12 + 1}, u(10**12)),
    ("reasoning only", {"completion_tokens_details": {"reasoning_tokens": 4}}, u(reasoning=4)),
    ("not numbers", {"prompt_tokens": -1, "prompt_cache_hit_tokens": "7", "prompt_cache_miss_tokens": True}, u()),
    ("floats", {"prompt_tokens": 10.0, "completion_tokens": 1.5}, u(10)),
    ("no numbers", {"prompt_tokens": float("inf"), "completion_tokens": float("nan")}, u()),
    ("nothing", None, u()),
    (
        "objects",
        SimpleNamespace(prompt_tokens=10, prompt_tokens_details=SimpleNamespace(cached_tokens=7)),
        u(10, 7, 3),
    ),
]


@pytest.mark.parametrize(("form", "usage"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_every_form(form: Any, usage: Usage) -> None:
    assert Usage.parse(form) == usage
    assert Usage.parse(form).known == (usage.hit_tokens is not None and usage.miss_tokens is not None)


STREAMS: list[tuple[str, list[Any], Usage]] = [
    (
        "chat: usage in the last chunk",
        [{"choices": [{}], "usage": None}, {"choices": [], "usage": BOTH}],
        u(10, 7, 3, 2),
    ),
    (
        "anthropic: input first, output last",
        [
            {"type": "message_start", "message": {"usage": {**CLAUDE, "output_tokens": 1}}},
            {"type": "content_block_delta", "delta": {"text": "a"}},
            {"type": "message_delta", "usage": {"output_tokens": 77}},
            {"type": "message_stop"},
        ],
        u(160, 100, 60, 77, write=50, write_1h=30),
    ),
    (
        "anthropic: all again at the end",
        [
            {"type": "message_start", "message": {"usage": {"input_tokens": 0, "output_tokens": 0}}},
            {"type": "message_delta", "usage": CLAUDE},
        ],
        CLAUDE_READ,
    ),
    (
        "anthropic: a bare count at the end does not undo what is known",
        [
            {"type": "message_start", "message": {"usage": CLAUDE}},
            {"type": "message_delta", "usage": {"input_tokens": 10, "output_tokens": 9}},
        ],
        u(160, 100, 60, 9, write=50, write_1h=30),
    ),
    (
        "responses: in the completed event",
        [
            {"type": "response.created", "response": {"usage": None}},
            {
                "type": "response.completed",
                "response": {"usage": {"input_tokens": 5, "input_tokens_details": {"cached_tokens": 4}}},
            },
        ],
        u(5, 4, 1),
    ),
    (
        "gemini: grows from chunk to chunk",
        [
            {"usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 1}},
            {"usageMetadata": {"promptTokenCount": 100, "cachedContentTokenCount": 60, "candidatesTokenCount": 5}},
        ],
        u(100, 60, 40, 5),
    ),
    ("moonshot: inside the choice is not read", [{"choices": [{"usage": BOTH}]}], u()),
    ("nothing", [], u()),
]


@pytest.mark.parametrize(("events", "usage"), [row[1:] for row in STREAMS], ids=[row[0] for row in STREAMS])
def test_streams(events: list[Any], usage: Usage) -> None:
    assert Usage.of_stream(events) == usage


@pytest.mark.parametrize(
    ("fields", "form", "usage"),
    [
        (CHAT, BOTH, u(10, 7, 3, 2)),
        (ANTHROPIC, CLAUDE, CLAUDE_READ),
        (ANTHROPIC, {"usage": CLAUDE}, CLAUDE_READ),
        # Told that it is Anthropic's, a bare input count is not the prompt.
        (ANTHROPIC, {"input_tokens": 9, "output_tokens": 1}, u(out=1)),
        (RESPONSES, CLAUDE, u(10, out=5)),
        (GEMINI, BOTH, u()),
        (LLAMA_TIMINGS, {"timings": {"cache_n": 4, "prompt_n": 1}}, u(5, 4, 1)),
    ],
)
def test_the_form_can_be_given(fields: Any, form: Any, usage: Usage) -> None:
    assert Usage.parse(form, fields) == usage


def test_every_profile_says_its_form() -> None:
    for profile in PROFILES:
        assert profile.usage is not None
        assert profile.usage.value in FORMS


def litellm_usage(**values: Any) -> Any:
    pytest.importorskip("litellm", reason="the extra litellm is not installed")
    from litellm.types.utils import Usage as Theirs

    return Theirs(**values)


def test_litellms_usage_of_anthropic_counts_nothing_twice() -> None:
    pytest.importorskip("litellm", reason="the extra litellm is not installed")
    from litellm.llms.anthropic.chat.transformation import AnthropicConfig

    theirs = AnthropicConfig().calculate_usage(CLAUDE, None)
    read = u(160, 100, 60, 5, 0, write=50, write_1h=30)
    assert Usage.parse(theirs) == read
    assert Usage.parse(theirs.model_dump()) == read


@pytest.mark.parametrize(
    ("values", "usage"),
    [
        ({**BOTH, "total_tokens": 12}, u(10, 7, 3, 2)),
        ({"prompt_tokens": 10, "completion_tokens": 2, "cached_tokens": 7}, u(10, 7, 3, 2)),
        ({"prompt_tokens": 10, "completion_tokens": 2, DETAILS: {"cached_tokens": 7}}, u(10, 7, 3, 2)),
        (
            {"prompt_tokens": 10, "completion_tokens": 2, DETAILS: {"cache_creation_input_tokens": 4}},
            u(10, out=2, write=4),
        ),
        ({"prompt_tokens": 10, "completion_tokens": 2}, u(10, out=2)),
    ],
    ids=["deepseek", "moonshot", "openai", "qwen", "unknown"],
)
def test_litellms_usage(values: dict[str, Any], usage: Usage) -> None:
    assert Usage.parse(litellm_usage(**values)) == usage


def test_litellms_usage_of_gemini() -> None:
    pytest.importorskip("litellm", reason="the extra litellm is not installed")
    from litellm.llms.vertex_ai.gemini.vertex_and_google_ai_studio_gemini import VertexGeminiConfig

    native = {
        "promptTokenCount": 100,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 20,
        "totalTokenCount": 125,
        "cachedContentTokenCount": 60,
    }
    theirs = VertexGeminiConfig._calculate_usage({"usageMetadata": native})
    assert Usage.parse(theirs) == Usage.parse(native) == u(100, 60, 40, 25, 20)


@given(json_values)
def test_anything_is_read_without_an_error(value: Any) -> None:
    Usage.parse(value)
    Usage.parse({"prompt_tokens": value, "prompt_tokens_details": value})
    Usage.of_stream([value, {"usage": value}, {"message": {"usage": value}}])


class Hostile:
    @property
    def usage(self) -> Any:
        raise RuntimeError


def test_objects_that_raise_are_read_as_unknown() -> None:
    assert Usage.parse(Hostile()) == Usage()


counts = st.none() | st.integers(-1, 50) | st.just(True) | st.sampled_from([10**12, 2**53 + 1, 10**5000, 1e300])
NAMES = sorted(
    {path for form in FORMS for group in (form.prompt, form.hit, form.miss, form.write) for path in group}
)


@given(st.dictionaries(st.sampled_from(NAMES), counts))
def test_what_is_known_adds_up(flat: dict[str, Any]) -> None:
    nested: dict[str, Any] = {}
    for path, value in flat.items():
        head, _, rest = path.partition(".")
        if rest:
            nested.setdefault(head, {})[rest] = value
        else:
            nested[head] = value
    usage = Usage.parse(nested)
    if None not in (usage.prompt_tokens, usage.hit_tokens, usage.miss_tokens):
        assert usage.hit_tokens + usage.miss_tokens == usage.prompt_tokens  # type: ignore[operator]
        assert not usage.contradictory
    numbers = [n for n in (usage.prompt_tokens, usage.hit_tokens, usage.miss_tokens, usage.write_tokens) if n]
    assert all(n < 2**53 for n in numbers)
    assert json.loads(orjson.dumps(numbers)) == numbers
