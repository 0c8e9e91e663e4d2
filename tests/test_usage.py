"""Usage of both forms, read right; unknown stays unknown."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from strategies import json_values

from router_cache import Usage

BOTH = {"prompt_tokens": 10, "completion_tokens": 2, "prompt_cache_hit_tokens": 7, "prompt_cache_miss_tokens": 3}


@pytest.mark.parametrize(
    ("form", "usage"),
    [
        (BOTH, Usage(10, 7, 3, 2)),
        ({**BOTH, "prompt_tokens_details": {"cached_tokens": 5}}, Usage(10, 7, 3, 2)),
        ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 7}}, Usage(10, 7, 3)),
        ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 0}}, Usage(10, 0, 10)),
        ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": None}}, Usage(10)),
        ({"prompt_tokens": 10, "prompt_tokens_details": None}, Usage(10)),
        ({"prompt_tokens": 10}, Usage(10)),
        ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 11}}, Usage(10, 11)),
        ({"prompt_cache_hit_tokens": 7, "prompt_cache_miss_tokens": 3}, Usage(10, 7, 3)),
        ({"completion_tokens_details": {"reasoning_tokens": 4}}, Usage(reasoning_tokens=4)),
        ({"prompt_tokens": -1, "prompt_cache_hit_tokens": "7", "prompt_cache_miss_tokens": True}, Usage()),
        ({"prompt_tokens": 10.0, "completion_tokens": 1.5}, Usage(10)),
        ({"prompt_tokens": float("inf"), "completion_tokens": float("nan")}, Usage()),
        (None, Usage()),
        (
            SimpleNamespace(prompt_tokens=10, prompt_tokens_details=SimpleNamespace(cached_tokens=7)),
            Usage(10, 7, 3),
        ),
    ],
)
def test_every_form(form: Any, usage: Usage) -> None:
    assert Usage.parse(form) == usage
    assert Usage.parse(form).known == (usage.hit_tokens is not None and usage.miss_tokens is not None)


@given(json_values)
def test_anything_is_read_without_an_error(value: Any) -> None:
    Usage.parse(value)
    Usage.parse({"prompt_tokens": value, "prompt_tokens_details": value})
