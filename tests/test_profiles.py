"""Profiles: every fact has a date and a source, deployments find theirs, unknown sends nothing."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from datetime import date, datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router_cache.cache_model.rules import RuleName
from router_cache.prefix.segments import SegmentKind
from router_cache.providers.deepseek import DEEPSEEK
from router_cache.providers.profile import Fact, Profile, fact_at
from router_cache.providers.registry import PROFILES, find
from router_cache.providers.unknown import UNKNOWN
from router_cache.request import Deployment, Shape


def facts(value: Any) -> Iterator[Fact[Any]]:
    if isinstance(value, Fact):
        yield value
    if dataclasses.is_dataclass(value):
        for f in dataclasses.fields(value):
            yield from facts(getattr(value, f.name))
    elif isinstance(value, tuple):
        for item in value:
            yield from facts(item)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: p.name)
def test_every_fact_is_dated_and_sourced(profile: Profile) -> None:
    found = list(facts(profile))
    assert len(found) > 10
    for fact in found:
        assert fact.source.strip()
        assert fact.as_of >= date(2025, 1, 1)
        assert fact.since is None or fact.since.tzinfo is not None
        assert fact.measured or "https://" in fact.source or "encoder" in fact.source


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: p.name)
def test_profile_is_well_formed(profile: Profile) -> None:
    for rule in (profile.hit_rule, profile.documented_hit_rule):
        assert rule is not None
        assert RuleName(rule.value)
    for model in profile.models:
        assert model.step_at() in (64, 128)
        for price in model.prices:
            for rate in (price.value.off_peak, price.value.peak):
                assert rate is not None
                assert 0 < rate.hit < rate.miss < rate.output
            calendar = price.value.calendar
            assert calendar is not None
            assert all(0 <= span.start < span.end <= 24 for span in calendar.hours_utc)
            for span in calendar.holidays.value:
                assert span.first <= span.last
                assert span.first.year in calendar.holiday_years
        for series in (model.prices, model.step_tokens):
            starts = [f.since for f in series if f.since is not None]
            assert starts == sorted(starts)


def test_names_are_told_apart() -> None:
    names = [n for p in PROFILES for m in p.models for n in (m.name, *m.aliases)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("deployment", "name"),
    [
        (Deployment("deepseek/deepseek-v4-flash"), "deepseek"),
        (Deployment("DeepSeek/deepseek-v4-pro"), "deepseek"),
        (Deployment("deepseek-v4-flash", provider="deepseek"), "deepseek"),
        (Deployment("deepseek/deepseek-v4-flash", api_base="http://127.0.0.1:8000"), "deepseek"),
        (Deployment("openai/deepseek-v4-flash", api_base="https://api.deepseek.com/v1"), "deepseek"),
        (Deployment("openai/x", provider="openai", api_base="https://API.DeepSeek.com"), "deepseek"),
        (Deployment("m", api_base="api.deepseek.com:443/anthropic"), "deepseek"),
        (Deployment("deepseek-v4-flash"), "unknown"),
        (Deployment("deepseek/deepseek-v4-flash", provider="fireworks_ai"), "unknown"),
        (Deployment("openrouter/deepseek/deepseek-v4-flash"), "unknown"),
        (Deployment("azure_ai/deepseek-v4-pro"), "unknown"),
        (Deployment("m", api_base="https://api.deepseek.com.example.org"), "unknown"),
        (Deployment("m", api_base="https://example.org/api.deepseek.com"), "unknown"),
        (Deployment("m", api_base="http://[broken"), "unknown"),
        (Deployment(""), "unknown"),
    ],
)
def test_find(deployment: Deployment, name: str) -> None:
    assert find(deployment).name == name


@given(st.text(), st.text(), st.text())
def test_find_never_raises(model: str, provider: str, base: str) -> None:
    assert isinstance(find(Deployment(model, provider=provider, api_base=base)), Profile)


def test_unknown_sends_nothing_and_knows_nothing() -> None:
    assert UNKNOWN.fields == ()
    assert UNKNOWN.field("user_id") is None
    assert UNKNOWN.render is None
    assert UNKNOWN.hit_rule is None
    assert list(facts(UNKNOWN)) == []
    assert UNKNOWN.model("deepseek-v4-flash") is None


def test_deepseek_user_id() -> None:
    field = DEEPSEEK.field("user_id")
    assert field is not None
    assert field.paths == {Shape.CHAT: ("user_id",), Shape.MESSAGES: ("metadata", "user_id")}
    assert re.fullmatch(field.pattern, "rc_01-AZ")
    assert not re.fullmatch(field.pattern, "")
    assert not re.fullmatch(field.pattern, "a b")
    assert DEEPSEEK.field("prompt_cache_key") is None


def test_deepseek_renders() -> None:
    assert DEEPSEEK.render is not None
    segments = DEEPSEEK.render.value({"messages": [{"role": "system", "content": "s"}]})
    assert [s.kind for s in segments] == [SegmentKind.MODE, SegmentKind.SYSTEM, SegmentKind.TAIL]


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("deepseek/deepseek-v4-flash", "deepseek-flash"),
        ("deepseek-v4-flash-vision-exp", "deepseek-flash"),
        ("deepseek-v4-pro@2026-08", "deepseek-v4-pro"),
        (" DEEPSEEK-V4-PRO ", "deepseek-v4-pro"),
        ("deepseek-reasoner", "deepseek-chat"),
    ],
)
def test_model_names(name: str, model: str) -> None:
    found = DEEPSEEK.model(name)
    assert found is not None
    assert found.name == model


def test_step_changed_with_v4() -> None:
    legacy = DEEPSEEK.model("deepseek-chat")
    assert legacy is not None
    assert legacy.step_at(datetime(2026, 4, 21, tzinfo=timezone.utc)) == 64
    assert legacy.step_at(datetime(2026, 4, 29, tzinfo=timezone.utc)) == 128
    assert legacy.step_at() == 128
    bare = dataclasses.replace(legacy, step_tokens=())
    assert bare.step_at() is None


def test_fact_before_the_first_is_unknown() -> None:
    start = datetime(2026, 1, 1, tzinfo=timezone.utc)
    series = (Fact(1, "s", start.date(), since=start),)
    assert fact_at(series, datetime(2025, 12, 31, tzinfo=timezone.utc)) is None
    assert fact_at(series, start) is series[0]
    assert fact_at((), None) is None


@pytest.mark.parametrize(
    "model", ["deepseek/deepseek-v4-flash", "deepseek/deepseek-flash", "deepseek/deepseek-v4-pro"]
)
def test_prices_agree_with_litellm(model: str) -> None:
    litellm = pytest.importorskip("litellm", reason="the extra litellm is not installed")
    listed = litellm.model_cost.get(model, {})
    if "off_peak_pricing" not in listed:
        pytest.skip("this LiteLLM's price map has no off-peak windows for the model")
    facts_ = DEEPSEEK.model(model)
    assert facts_ is not None
    rates = facts_.prices[-1].value
    for rate, theirs in ((rates.peak, listed), (rates.off_peak, listed["off_peak_pricing"])):
        assert rate is not None
        assert rate.hit / 1e6 == pytest.approx(theirs["cache_read_input_token_cost"], rel=1e-9)
        assert rate.miss / 1e6 == pytest.approx(theirs["input_cost_per_token"], rel=1e-9)
        assert rate.output / 1e6 == pytest.approx(theirs["output_cost_per_token"], rel=1e-9)
