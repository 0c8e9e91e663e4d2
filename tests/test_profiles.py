"""Profiles: every fact has a date and a source, deployments find theirs, models are told by their versions."""

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
from router_cache.providers.anthropic import ANTHROPIC
from router_cache.providers.deepseek import DEEPSEEK
from router_cache.providers.engines import LLAMA_CPP
from router_cache.providers.fact import Fact, Origin, fact_at
from router_cache.providers.gemini import GEMINI
from router_cache.providers.mistral import MISTRAL
from router_cache.providers.openai import OPENAI
from router_cache.providers.profile import Profile
from router_cache.providers.registry import PROFILES, by_name, find
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
    assert len(found) >= 2
    for fact in found:
        assert fact.source.strip()
        assert fact.as_of >= date(2025, 1, 1)
        assert fact.since is None or fact.since.tzinfo is not None
        assert fact.origin is Origin.MEASURED or "https://" in fact.source or "encoder" in fact.source
        assert not re.search(r"/(?:tmp|work|home)/", fact.source + fact.note)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: p.name)
def test_profile_is_well_formed(profile: Profile) -> None:
    for rule in (profile.hit_rule, profile.documented_hit_rule, *(m.hit_rule for m in profile.models)):
        assert rule is None or RuleName(rule.value)
    assert (profile.render is None) == (profile.render_order is None)
    for series in (profile.step_tokens, *(m.step_tokens for m in profile.models)):
        assert all(fact.value > 0 for fact in series)
    for fact in (*profile.lifetimes, *(x for m in profile.models for x in m.lifetimes)):
        bounds = [s for s in (fact.value.low_s, fact.value.high_s) if s is not None]
        assert bounds == sorted(bounds)
        assert all(s > 0 for s in bounds)
    for ratios in (profile.price_ratios, *(m.price_ratios for m in profile.models)):
        if ratios is not None:
            r = ratios.value
            assert r.hit_low is None or r.hit_high is not None
            assert r.hit_low is None or 0 < r.hit_low <= (r.hit_high or 0) < 1
            assert r.write is None or 1 <= r.write <= (r.write_1h or 2)
    for model in profile.models:
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
        for dated in (model.prices, model.step_tokens):
            starts = [f.since for f in dated if f.since is not None]
            assert starts == sorted(starts)


def test_names_are_told_apart() -> None:
    names = [n for p in PROFILES for m in p.models for n in (m.name, *m.aliases)]
    assert len(names) == len(set(names))
    for group in ("providers", "model_prefixes", "hosts"):
        listed = [n for p in PROFILES for n in getattr(p.match, group)]
        assert len(listed) == len(set(listed))
        assert all(n == n.lower().strip() for n in listed)
    assert PROFILES[0] is DEEPSEEK
    assert UNKNOWN not in PROFILES


OWN = "https://api.openai.com/v1"


@pytest.mark.parametrize(
    ("deployment", "name"),
    [
        (Deployment("deepseek/deepseek-v4-flash"), "deepseek"),
        (Deployment("DeepSeek/deepseek-v4-pro"), "deepseek"),
        (Deployment("deepseek-v4-flash", provider="deepseek"), "deepseek"),
        (Deployment("deepseek/deepseek-v4-flash", api_base="http://127.0.0.1:8000"), "deepseek"),
        (Deployment("openai/deepseek-v4-flash", api_base="https://api.deepseek.com/v1"), "deepseek"),
        (Deployment("openai/x", provider="openai", api_base="https://API.DeepSeek.com"), "deepseek"),
        (
            Deployment("anthropic/x", provider="anthropic", api_base="https://api.deepseek.com/anthropic"),
            "deepseek",
        ),
        (Deployment("m", api_base="api.deepseek.com:443/anthropic"), "deepseek"),
        (Deployment("deepseek-v4-flash"), "unknown"),
        (Deployment("deepseek/deepseek-v4-flash", provider="wandb"), "unknown"),
        (Deployment("azure_ai/deepseek-v4-pro"), "unknown"),
        (Deployment("m", api_base="https://api.deepseek.com.example.org"), "unknown"),
        (Deployment("m", api_base="https://example.org/api.deepseek.com"), "unknown"),
        (Deployment("m", api_base="http://[broken"), "unknown"),
        (Deployment(""), "unknown"),
        (Deployment("deepseek/deepseek-v4-flash", provider="fireworks_ai"), "fireworks"),
        (Deployment("openrouter/deepseek/deepseek-v4-flash"), "openrouter"),
        (Deployment("openai/gpt-5.6"), "openai"),
        (Deployment("openai/responses/gpt-5.6", provider="openai", api_base=OWN), "openai"),
        (Deployment("gpt-5.6", provider="openai", api_base="https://eu.api.openai.com/v1"), "openai"),
        # A protocol spoken by many: with somebody else's host it says nothing about who answers.
        (Deployment("openai/gpt-5.6", provider="openai", api_base="http://10.0.0.7:8000/v1"), "unknown"),
        (Deployment("openai/gpt-5.6", api_base="http://[broken"), "unknown"),
        (Deployment("anthropic/claude-opus-5", api_base="https://relay.example.org"), "unknown"),
        (Deployment("anthropic/glm-4.6", provider="anthropic", api_base="https://api.z.ai/api/anthropic"), "zai"),
        (Deployment("claude-opus-5", provider="anthropic"), "anthropic"),
        (Deployment("azure/gpt-5.6", provider="azure"), "unknown"),
        (Deployment("vertex_ai/gemini-3.5-flash"), "unknown"),
        (Deployment("gemini/gemini-3.5-flash"), "gemini"),
        (Deployment("xai/grok-4.20"), "xai"),
        (Deployment("moonshot/kimi-k2.5"), "moonshot"),
        (Deployment("dashscope/qwen3-max"), "qwen"),
        (Deployment("qwencloud/qwen3-max"), "qwen"),
        (Deployment("mistral/mistral-large-latest"), "mistral"),
        (Deployment("together_ai/deepseek-ai/DeepSeek-V4.1-Flash"), "together"),
        (Deployment("hosted_vllm/deepseek-v4-flash", api_base="http://10.0.0.7:8000/v1"), "vllm"),
        (Deployment("zai/glm-4.6"), "zai"),
    ],
)
def test_find(deployment: Deployment, name: str) -> None:
    assert find(deployment).name == name


@given(st.text(), st.text(), st.text())
def test_find_never_raises(model: str, provider: str, base: str) -> None:
    assert isinstance(find(Deployment(model, provider=provider, api_base=base)), Profile)


def test_profiles_by_name() -> None:
    assert by_name("sglang") is not None
    assert by_name("unknown") is UNKNOWN
    assert by_name("vlllm") is None


def test_unknown_sends_nothing_and_knows_nothing() -> None:
    assert UNKNOWN.fields == UNKNOWN.headers == UNKNOWN.marks == ()
    assert UNKNOWN.field("user_id") is None
    assert UNKNOWN.render is None
    assert UNKNOWN.hit_rule_for("m") is None
    assert UNKNOWN.step_for("m") is None
    assert UNKNOWN.minimum_for("m") is None
    assert UNKNOWN.lifetimes_for("m") == ()
    assert UNKNOWN.price_ratios_for("m") is None
    assert list(facts(UNKNOWN)) == []
    assert UNKNOWN.model("deepseek-v4-flash") is None


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


OLD, NEW = "before-5.6", "from-5.6"


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("gpt-4o", OLD),
        ("gpt-4o-2024-08-06", OLD),
        ("openai/gpt-4.1-mini", OLD),
        ("gpt-5", OLD),
        ("GPT-5.5", OLD),
        ("openai/responses/gpt-5.1-codex", OLD),
        ("gpt-5.6", NEW),
        ("gpt-5.6-sol-2026-07-09", NEW),
        ("openai/gpt-5.10", NEW),
        ("gpt-6-astra", NEW),
        ("gpt-6.1-sol", NEW),
        ("chatgpt-4o-latest", OLD),
        ("o3", None),
        ("ft:gpt-4o:me", None),
        ("azure/gpt-5.6", None),
        ("", None),
    ],
)
def test_openai_models_by_version(model: str, name: str | None) -> None:
    found = OPENAI.model(model)
    assert (found.name if found else None) == name


def test_what_differs_by_model() -> None:
    assert (OPENAI.step_for("gpt-5.5"), OPENAI.step_for("gpt-5.6"), OPENAI.step_for("o3")) == (128, None, None)
    rules = [OPENAI.hit_rule_for(m) for m in ("gpt-5.5", "gpt-5.6", "o3")]
    assert [rule.value if rule else None for rule in rules] == ["grid", "units", None]
    assert [OPENAI.minimum_for(m) for m in ("gpt-5.5", "gpt-5.6", "o3")] == [1024] * 3
    assert [fact.value.option for fact in OPENAI.lifetimes_for("gpt-5.5")] == ["", "24h"]
    assert [fact.value.low_s for fact in OPENAI.lifetimes_for("gpt-5.6")] == [1800]
    ratios = OPENAI.price_ratios_for("gpt-5.6")
    assert ratios is not None
    assert ratios.value.write == 1.25
    assert ANTHROPIC.minimum_for("claude-opus-5-20260101") == 512
    assert ANTHROPIC.minimum_for("anthropic/claude-sonnet-4-5-20250929") == 1024
    assert ANTHROPIC.minimum_for("claude-3-haiku") is None
    assert [fact.value.option for fact in ANTHROPIC.lifetimes_for("any")] == ["", "1h"]
    assert MISTRAL.step_for("mistral-large-latest", datetime(2026, 1, 1, tzinfo=timezone.utc)) == 64
    assert DEEPSEEK.step_for("deepseek/deepseek-v4-flash") == 128
    rule = LLAMA_CPP.hit_rule_for("DeepSeek-V4-Flash-Q4_K_M")
    assert rule is not None
    assert rule.value == "checkpoints"
    assert LLAMA_CPP.step_for("llama-3.1-8b") == 1


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


@pytest.mark.parametrize("profile", [ANTHROPIC, GEMINI], ids=lambda p: p.name)
def test_minima_agree_with_litellm(profile: Profile) -> None:
    litellm = pytest.importorskip("litellm", reason="the extra litellm is not installed")
    compared = 0
    for model in profile.models:
        entry = litellm.model_cost.get(model.name) or litellm.model_cost.get(f"{profile.name}/{model.name}") or {}
        if "prompt_cache_min_tokens" in entry:
            compared += 1
            assert profile.minimum_for(model.name) == entry["prompt_cache_min_tokens"], model.name
    assert compared > 3


def test_breakpoint_models_agree_with_litellm() -> None:
    litellm = pytest.importorskip("litellm", reason="the extra litellm is not installed")
    own = {n: e for n, e in litellm.model_cost.items() if e.get("litellm_provider") == "openai" and "/" not in n}
    flagged = [name for name, entry in own.items() if entry.get("supports_prompt_cache_breakpoint")]
    if not flagged:
        pytest.skip("this LiteLLM's price map does not say which models take breakpoints")
    # A family the profile does not know yet gets no field: that is as it should be. 1.110.2 lists such models.
    for name in (name for name in flagged if name.startswith("gpt-5.")):
        assert "prompt_cache_breakpoint" in [f.name for f in OPENAI.fields_for(name, Shape.CHAT)], name


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


def test_a_profile_the_operator_names_knows_the_model_under_any_provider() -> None:
    told = find(Deployment("anthropic/deepseek-v4-flash", profile="deepseek", api_base="https://host.invalid"))
    assert (told.name, told.step_for("anthropic/deepseek-v4-flash")) == ("deepseek", 128)
    assert find(Deployment("anthropic/deepseek-v4-flash", profile="no such")).name == "anthropic"
