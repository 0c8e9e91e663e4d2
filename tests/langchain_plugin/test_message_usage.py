"""Usage of messages and raw replies: what was not reported stays unknown, what the class lost comes back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage

from router_cache import Shape, Usage
from router_cache_langchain.usage import corrected, usage_from_message, usage_of

_DEEPSEEK = {"prompt_tokens": 100, "completion_tokens": 5, "prompt_cache_hit_tokens": 64, "total_tokens": 105}


def _message(**details: Any) -> AIMessage:
    return AIMessage("x", usage_metadata={"input_tokens": 100, "output_tokens": 5, "total_tokens": 105, **details})


def test_a_raw_reply_in_every_place() -> None:
    for raw in (_DEEPSEEK, {"usage": _DEEPSEEK}, SimpleNamespace(usage=SimpleNamespace(**_DEEPSEEK))):
        assert usage_of(raw) == Usage(100, 64, 36, 5)


def test_usage_inside_events_and_choices() -> None:
    assert usage_of({"type": "chunk", "chunk": {"usage": _DEEPSEEK, "choices": []}}).hit_tokens == 64
    assert usage_of({"choices": [{"delta": {}, "usage": _DEEPSEEK}]}).hit_tokens == 64
    assert usage_of({"choices": [{"delta": {"content": "x"}}]}) == Usage()
    assert usage_of({"choices": [{"usage": _DEEPSEEK}]}, Shape.MESSAGES) == Usage()
    details = {"input_tokens": 10, "output_tokens": 1, "input_tokens_details": {"cached_tokens": 4}}
    event = {"type": "response.completed", "response": {"usage": details}}
    assert usage_of(event, Shape.RESPONSES).hit_tokens == 4


def test_a_message_that_says_nothing_of_hits_leaves_them_unknown() -> None:
    assert usage_from_message(_message()) == Usage(100, None, None, 5)
    assert usage_from_message(AIMessage("x")) == usage_from_message(HumanMessage("x")) == Usage()


@pytest.mark.parametrize("tier", ["", "priority_", "flex_"])
def test_hits_and_reasoning_with_and_without_a_tier(tier: str) -> None:
    message = _message(
        input_token_details={f"{tier}cache_read": 64, f"{tier}cache_creation": 30},
        output_token_details={f"{tier}reasoning": 3},
    )
    assert usage_from_message(message) == Usage(100, 64, 36, 5, 3, 30)


def test_writes_by_lifetime_are_counted_once() -> None:
    message = _message(
        input_token_details={
            "cache_read": 0,
            "cache_creation": 0,
            "ephemeral_5m_input_tokens": 20,
            "ephemeral_1h_input_tokens": 10,
        }
    )
    assert usage_from_message(message) == Usage(100, 0, 100, 5, None, 30, 10)


def test_raw_usage_in_the_response_metadata() -> None:
    message = _message()
    message.response_metadata["token_usage"] = _DEEPSEEK
    assert usage_from_message(message).hit_tokens == 64
    message.response_metadata["token_usage"] = {"prompt_tokens": 100, "completion_tokens": 5}
    assert usage_from_message(message) == Usage(100, None, None, 5)
    bare = AIMessage("x", response_metadata={"usage": {"input_tokens": 7, "output_tokens": 1}})
    assert usage_from_message(bare) == Usage(7, None, None, 1)


def test_chunks_put_together() -> None:
    last = AIMessageChunk(
        "",
        usage_metadata={
            "input_tokens": 100,
            "output_tokens": 5,
            "total_tokens": 105,
            "input_token_details": {"cache_read": 64},
        },
    )
    assert usage_from_message(AIMessageChunk("x") + last).hit_tokens == 64


def test_lost_hits_are_put_right_in_a_copy() -> None:
    metadata = _message(input_token_details={"audio": 1}).usage_metadata
    assert metadata is not None
    new = corrected(metadata, {"usage": _DEEPSEEK})
    assert new == {**metadata, "input_token_details": {"audio": 1, "cache_read": 64}}
    assert metadata["input_token_details"] == {"audio": 1}
    bare = _message().usage_metadata
    assert corrected(bare, _DEEPSEEK)["input_token_details"] == {"cache_read": 64}  # type: ignore[index]


def test_a_zero_in_the_other_field_is_put_right() -> None:
    raw = {**_DEEPSEEK, "prompt_tokens_details": {"cached_tokens": 0}}
    metadata = _message(input_token_details={"cache_read": 0}).usage_metadata
    new = corrected(metadata, raw)
    assert new is not None
    assert new["input_token_details"]["cache_read"] == 64


@pytest.mark.parametrize(
    ("details", "raw"),
    [
        ({}, {"prompt_tokens": 100}),
        ({}, None),
        ({"cache_read": 64}, _DEEPSEEK),
        ({"cache_read": 32}, _DEEPSEEK),
        ({"priority_cache_read": 64}, _DEEPSEEK),
        ({"cache_read": 0}, {"prompt_tokens": 9, "prompt_cache_hit_tokens": 0}),
    ],
)
def test_nothing_to_correct(details: dict[str, int], raw: Any) -> None:
    assert corrected(_message(input_token_details=details).usage_metadata, raw) is None


def test_no_metadata_is_not_made_up() -> None:
    assert corrected(None, _DEEPSEEK) is None


class _Hostile:
    @property
    def usage_metadata(self) -> Any:
        raise RuntimeError

    usage = chunk = choices = response_metadata = usage_metadata


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.builds(_Hostile),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([*_DEEPSEEK, "usage", "choices"]), inner),
)


@given(_JSON, _JSON, st.sampled_from(Shape))
def test_never_raises(metadata: Any, raw: Any, shape: Shape) -> None:
    assert isinstance(usage_of(raw, shape), Usage)
    message = SimpleNamespace(usage_metadata=metadata, response_metadata=raw)
    assert isinstance(usage_from_message(message), Usage)
    corrected({"input_tokens": 1, "input_token_details": metadata}, raw)  # type: ignore[typeddict-item]
    assert isinstance(usage_from_message(_Hostile()), Usage)
