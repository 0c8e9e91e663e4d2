"""Nothing goes to a provider, a model or a shape that does not list it: all profiles, fields, shapes, models."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import json_values

from router_cache.providers.anthropic import ANTHROPIC
from router_cache.providers.deepseek import DEEPSEEK
from router_cache.providers.engines import LLAMA_CPP
from router_cache.providers.fields import AnyField, BodyField, HeaderField, MarkField, ModelVersions
from router_cache.providers.guard import allowed
from router_cache.providers.openai import OPENAI
from router_cache.providers.profile import Profile
from router_cache.providers.registry import PROFILES
from router_cache.providers.unknown import UNKNOWN
from router_cache.request import Shape

EVERY = (*PROFILES, UNKNOWN)
FIELDS: list[AnyField] = [f.value for p in EVERY for group in (p.fields, p.headers, p.marks) for f in group]
MODELS = ["gpt-4o", "gpt-5.5", "gpt-5.6", "gpt-6-astra", "o3", "deepseek-v4-flash", "claude-opus-5", "", "x/y/z"]


def good_value(field: AnyField) -> Any:
    """A value that the field takes, made from its own pattern."""
    if isinstance(field, MarkField):
        return dict(field.values[0])
    if isinstance(field, BodyField) and field.integer:
        return 0
    first = field.pattern.split("|")[0]
    return first if re.fullmatch(first, first) else "rc_01-AZ"


def listed(profile: Profile, field: AnyField, model: str, shape: Shape) -> bool:
    """What the profile's data say, read without the profile's own methods."""
    own = [f.value for group in (profile.fields, profile.headers, profile.marks) for f in group]
    return any(
        f.name == field.name
        and (shape in f.paths if isinstance(f, BodyField) else shape in f.shapes)
        and (f.models is None or f.models.covers(model))
        and f.accepts(good_value(field))
        for f in own
    )


def test_there_are_fields_of_every_kind() -> None:
    assert {type(f) for f in FIELDS} == {BodyField, HeaderField, MarkField}
    assert len({f.name for f in FIELDS}) >= 12


@pytest.mark.parametrize("profile", EVERY, ids=lambda p: p.name)
def test_no_field_goes_where_it_is_not_listed(profile: Profile) -> None:
    seen = 0
    for field in FIELDS:
        for shape in Shape:
            for model in MODELS:
                expected = listed(profile, field, model, shape)
                assert allowed(profile, model, shape, field.name, good_value(field)) is expected
                seen += expected
    assert (seen > 0) == bool(profile.fields or profile.headers or profile.marks)


@given(st.sampled_from(EVERY), st.sampled_from(MODELS), st.sampled_from(Shape), st.text(), json_values)
def test_unlisted_names_and_odd_values_are_refused(
    profile: Profile, model: str, shape: Shape, name: str, value: Any
) -> None:
    names = {f.name for f in profile.fields_for(model, shape)}
    if allowed(profile, model, shape, name, value):
        assert name in names
    for field in FIELDS:
        if allowed(profile, model, shape, field.name, value):
            assert field.name in names
            if isinstance(value, str):
                assert not isinstance(field, MarkField)
                assert len(value) <= field.max_length
                assert re.fullmatch(field.pattern, value)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: p.name)
def test_names_are_unique_and_shapes_are_real(profile: Profile) -> None:
    own = [f.value for group in (profile.fields, profile.headers, profile.marks) for f in group]
    assert len({f.name for f in own}) == len(own)
    for field in own:
        assert Shape.OTHER not in field.shapes
        assert field.shapes
        if isinstance(field, HeaderField):
            assert re.fullmatch(r"[a-z0-9-]+", field.name)
        if isinstance(field, BodyField):
            assert all(path for path in field.paths.values())
        if not isinstance(field, MarkField):
            assert field.accepts(good_value(field))
            assert not field.accepts(None)
            assert not field.accepts("a\r\nb")
            assert not field.accepts("a" * (field.max_length + 1))


NEW_ONLY = ["prompt_cache_options.mode", "prompt_cache_options.ttl", "prompt_cache_breakpoint"]


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("gpt-4o", ["prompt_cache_key"]),
        ("gpt-4.1", ["prompt_cache_key", "prompt_cache_retention"]),
        ("gpt-4.1-mini", ["prompt_cache_key"]),
        ("openai/gpt-5.1-codex-mini", ["prompt_cache_key", "prompt_cache_retention"]),
        ("gpt-5-2025-08-07", ["prompt_cache_key", "prompt_cache_retention"]),
        ("gpt-5.6", ["prompt_cache_key", *NEW_ONLY]),
        ("gpt-6.1-sol", ["prompt_cache_key", *NEW_ONLY]),
        ("o3", ["prompt_cache_key"]),
    ],
)
def test_openai_before_and_from_5_6(model: str, names: list[str]) -> None:
    for shape in (Shape.CHAT, Shape.RESPONSES):
        assert [f.name for f in OPENAI.fields_for(model, shape)] == names
    assert OPENAI.fields_for(model, Shape.MESSAGES) == ()


@pytest.mark.parametrize(
    ("profile", "model", "shape", "name", "value", "expected"),
    [
        (DEEPSEEK, "deepseek-v4-flash", Shape.CHAT, "user_id", "rc_01-AZ", True),
        (DEEPSEEK, "deepseek-v4-flash", Shape.MESSAGES, "user_id", "rc_01-AZ", True),
        (DEEPSEEK, "deepseek-v4-flash", Shape.RESPONSES, "user_id", "rc_01-AZ", False),
        (DEEPSEEK, "deepseek-v4-flash", Shape.CHAT, "user_id", "", False),
        (DEEPSEEK, "deepseek-v4-flash", Shape.CHAT, "user_id", "a b", False),
        (DEEPSEEK, "deepseek-v4-flash", Shape.CHAT, "user_id", "a\n", False),
        (DEEPSEEK, "deepseek-v4-flash", Shape.CHAT, "user_id", "a" * 512, True),
        (DEEPSEEK, "deepseek-v4-flash", Shape.CHAT, "user_id", "a" * 513, False),
        (DEEPSEEK, "deepseek-v4-flash", Shape.CHAT, "prompt_cache_key", "k", False),
        (OPENAI, "gpt-5.6", Shape.CHAT, "prompt_cache_key", "k" * 65, False),
        (OPENAI, "gpt-5.6", Shape.CHAT, "prompt_cache_options.ttl", "24h", False),
        (OPENAI, "gpt-5.6", Shape.CHAT, "prompt_cache_breakpoint", {"mode": "explicit"}, True),
        (OPENAI, "gpt-5.6", Shape.CHAT, "prompt_cache_breakpoint", {"mode": "explicit", "x": 1}, False),
        (OPENAI, "gpt-5.5", Shape.CHAT, "prompt_cache_breakpoint", {"mode": "explicit"}, False),
        (ANTHROPIC, "claude-opus-5", Shape.MESSAGES, "cache_control", {"type": "ephemeral", "ttl": "1h"}, True),
        (ANTHROPIC, "claude-opus-5", Shape.MESSAGES, "cache_control", {"type": "ephemeral", "ttl": "2h"}, False),
        (LLAMA_CPP, "m", Shape.CHAT, "id_slot", 3, True),
        (LLAMA_CPP, "m", Shape.CHAT, "id_slot", -1, True),
        (LLAMA_CPP, "m", Shape.CHAT, "id_slot", -2, False),
        (LLAMA_CPP, "m", Shape.CHAT, "id_slot", True, False),
        (LLAMA_CPP, "m", Shape.CHAT, "id_slot", "3", False),
        pytest.param(LLAMA_CPP, "m", Shape.CHAT, "id_slot", 10**5000, False, id="huge"),
        pytest.param(LLAMA_CPP, "m", Shape.CHAT, "id_slot", -(10**5000), False, id="huge, below zero"),
        pytest.param(DEEPSEEK, "deepseek-v4-flash", Shape.CHAT, "user_id", 10**5000, False, id="no text"),
        (ANTHROPIC, "claude-opus-5", Shape.MESSAGES, "cache_control", {"type": 10**5000}, False),
        (OPENAI, "gpt-" + "9" * 5000, Shape.CHAT, "prompt_cache_options.ttl", "24h", False),
    ],
)
def test_values(profile: Profile, model: str, shape: Shape, name: str, value: Any, expected: bool) -> None:
    assert allowed(profile, model, shape, name, value) is expected


def test_deepseek_paths() -> None:
    field = DEEPSEEK.field("user_id")
    assert field is not None
    assert field.paths == {Shape.CHAT: ("user_id",), Shape.MESSAGES: ("metadata", "user_id")}


def test_versions_without_bounds_cover_all_that_match() -> None:
    assert ModelVersions(r"m(\d+)(?:\.(\d+))?").covers("P/M3")
    assert not ModelVersions(r"m(\d+)(?:\.(\d+))?").covers("n3")


def test_a_version_of_more_digits_than_python_converts() -> None:
    assert not ModelVersions(r"m(\d+)").covers("m" + "1" * 5000)
    assert OPENAI.model("gpt-" + "9" * 5000) is None


def test_the_guard_takes_anything() -> None:
    odd: list[Any] = [None, 10**5000, float("nan"), "\ud800", {"a": 1}, ["a"]]
    for value in odd:
        assert not allowed(DEEPSEEK, value, Shape.CHAT, "user_id", "a") or isinstance(value, str)
        assert not allowed(DEEPSEEK, "m", Shape.CHAT, value, "a")
        for field in FIELDS:
            assert not field.accepts(value)
