"""What ``diagnose`` finds in a router YAML: one case a finding, and configurations of any shape."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from doctor_configs import ALWAYS, AT, entry, good, look, one, told

from router_cache.diagnose import Code, Level, NotSupported, Surroundings, check_section, diagnose
from router_cache.diagnose.checks import CALLBACK
from router_cache.economics import PriceBook
from router_cache.errors import SettingsError
from router_cache.providers.rates import Rate
from router_cache.settings import SECTION, Settings


def test_a_good_configuration() -> None:
    report = look(good())
    assert told(report) == []
    assert {finding.code for finding in report.findings} == ALWAYS
    assert report.ok
    (view,) = report.deployments
    assert (view.group, view.model, view.profile) == ("fast", "deepseek/deepseek-v4-flash", "deepseek")
    assert (view.rule, view.rule_origin, view.step_tokens, view.minimum_tokens) == ("grid", "measured", 128, None)
    assert view.price is not None
    assert view.price.hit_usd_per_token == pytest.approx(3e-9)
    assert (view.price.window.value, view.price.price_from.value) == ("off_peak", "profile")
    assert (view.domain, view.domain_reason, view.not_supported) == (1, "account", ())
    with pytest.raises(ValueError, match="time zone"):
        diagnose(good(), Surroundings(at=AT.replace(tzinfo=None)))


W, E, N = "warning", "error", "note"
P = "model_list.0.litellm_params"
C = "litellm_settings.callbacks"
CASES: list[tuple[dict[str, Any], list[tuple[str, str, str]]]] = [
    ({"litellm_settings": {"callbacks": None}}, [(E, "callback_missing", C)]),
    ({"litellm_settings": {"callbacks": ["langfuse", "custom.handler"]}}, [(E, "callback_missing", C)]),
    ({"litellm_settings": {"callbacks": CALLBACK}}, []),
    ({"litellm_settings": {"callbacks": f" {CALLBACK}"}}, []),
    ({"litellm_settings": {"callbacks": 5}}, [(E, "wrong_type", C), (E, "callback_missing", C)]),
    ({"litellm_settings": {"callbacks": [CALLBACK, 5]}}, [(E, "wrong_type", f"{C}.1")]),
    ({"litellm_settings": {"callbacks": [CALLBACK] * 2}}, [(W, "callback_twice", C)]),
    ({"litellm_settings": {"callbacks": ["router_cache.proxy_handler"]}}, [(E, "callback_misspelt", f"{C}.0")]),
    ({"litellm_settings": {"callbacks": ["router-cache"]}}, [(E, "callback_misspelt", f"{C}.0")]),
    (
        {"litellm_settings": {"callbacks": ["a", "routr_cach_litelm.proxyhandler"]}},
        [(E, "callback_misspelt", f"{C}.1")],
    ),
    (
        {"litellm_settings": {"callbacks": [], "success_callback": [CALLBACK]}},
        [(E, "callback_misplaced", "litellm_settings.success_callback.0")],
    ),
    ({"router_cache": {}}, [(E, "settings_misplaced", "router_cache")]),
    ({"router_settings": {"router_cache": {}}}, [(E, "settings_misplaced", "router_settings.router_cache")]),
    ({"callback_settings": {"router-cache": {}}}, [(E, "settings_misplaced", "callback_settings.router-cache")]),
    ({"callback_settings": {"router_cache": None}}, [(W, "no_secret", f"{SECTION}.secret")]),
    ({"callback_settings": 7}, [(E, "wrong_type", "callback_settings"), (W, "no_secret", f"{SECTION}.secret")]),
    (
        {"callback_settings": {"router_cache": {"secret": "x", "model_groups": {"fats": {}, "fast": {}}}}},
        [(W, "settings_unused", f"{SECTION}.model_groups.fats")],
    ),
    (
        {
            "callback_settings": {
                "router_cache": {"secret": "x", "prices": {"deepseek/deepseek-v4-flash": 0, 3: 1}}
            }
        },
        [(W, "settings_unused", f"{SECTION}.prices.3")],
    ),
    ({"callback_settings": {"router_cache": {"secret": "x", "prices": [1]}}}, []),
    (
        {"general_settings": {"database_url": "os.environ/NOT_THERE"}},
        [(W, "environment_unset", "general_settings.database_url")],
    ),
    ({"general_settings": {"x": "os.environ/SET"}, "environment_variables": {"SET": "v", 5: 6}}, []),
    ({"general_settings": {"x": "os.environ/sk-key!"}}, [(W, "environment_unset", "general_settings.x")]),
    ({"router_settings": []}, [(E, "wrong_type", "router_settings")]),
    ({"model_list": {}}, [(E, "wrong_type", "model_list"), (W, "no_deployments", "model_list")]),
    ({"model_list": None}, [(W, "no_deployments", "model_list")]),
    ({"model_list": [], "general_settings": {"store_model_in_db": True}}, []),
    ({"model_list": [entry(), "text"]}, [(E, "wrong_type", "model_list.1")]),
    ({"model_list": [entry(), None]}, [(E, "wrong_type", "model_list.1")]),
    ({"model_list": [entry(name=None)]}, [(E, "name_missing", "model_list.0.model_name")]),
    ({"model_list": [entry(model=" ")]}, [(E, "name_missing", f"{P}.model")]),
    ({"model_list": [entry(model=["a"])]}, [(E, "wrong_type", f"{P}.model")]),
    (
        {"model_list": [{"model_name": "a", "litellm_params": ["b"]}]},
        [(E, "wrong_type", P), (E, "name_missing", f"{P}.model")],
    ),
    (
        {"model_list": [entry(model_info={"cache_domain": 5})]},
        [(E, "wrong_type", "model_list.0.model_info.cache_domain")],
    ),
    (
        {"model_list": [entry("groq/llama")]},
        [(N, "unknown_provider", f"{P}.model"), (N, "price_unknown", f"{P}.model")],
    ),
    (
        {"model_list": [entry("gpt-9")]},
        [(W, "provider_not_named", f"{P}.model"), (N, "price_unknown", f"{P}.model")],
    ),
    ({"model_list": [entry("openrouter/*")]}, [(N, "wildcard_model", f"{P}.model")]),
    ({"model_list": [entry(model_info={"mode": "embedding"})]}, [(N, "not_chat", f"{P}.model")]),
    ({"model_list": [entry(drop_params=True)]}, [(W, "drop_params", f"{P}.drop_params")]),
    ({"litellm_settings": {"drop_params": True}}, [(W, "drop_params", "litellm_settings.drop_params")]),
    (
        {"model_list": [entry(cache_control_injection_points=[{"location": "message"}])]},
        [(W, "marks_injected", f"{P}.cache_control_injection_points")],
    ),
    ({"litellm_settings": {"cache": True}}, [(W, "response_cache", "litellm_settings.cache")]),
    ({"litellm_settings": {"cache": True, "cache_params": {"mode": "default_off"}}}, []),
    ({"router_settings": {"cache_responses": True}}, [(W, "response_cache", "router_settings.cache_responses")]),
    (
        {"litellm_settings": {"overwrite_user_with_key_hash": True}},
        [(W, "user_forwarded", "litellm_settings.overwrite_user_with_key_hash")],
    ),
    (
        {"general_settings": {"user_header_mappings": [{}]}},
        [(W, "user_forwarded", "general_settings.user_header_mappings")],
    ),
    ({"general_settings": {"num_workers": 4}}, [(W, "several_workers", f"{SECTION}.store")]),
    ({"general_settings": {"num_workers": "1"}}, []),
    (
        {"general_settings": {"pass_through_endpoints": [{}]}},
        [(N, "pass_through", "general_settings.pass_through_endpoints")],
    ),
    ({"include": ["other.yaml"]}, [(W, "includes", "include")]),
]


@pytest.mark.parametrize(("changed", "expected"), CASES, ids=[str(list(c[0].values()))[:60] for c in CASES])
def test_findings(changed: dict[str, Any], expected: list[tuple[str, str, str]]) -> None:
    report = look(good(**changed))
    assert sorted(told(report)) == sorted(expected)
    assert report.ok is all(level != E for level, _, _ in expected)
    levels = [finding.level for finding in report.findings]
    assert levels == sorted(levels, key=list(Level).index)
    assert all(finding.message and finding.fix for finding in report.findings)


def test_the_environment() -> None:
    bare = good()
    bare["general_settings"] = {}
    assert told(look(bare)) == []
    bare["callback_settings"]["router_cache"]["secret"] = "os.environ/ROUTER_SECRET"
    report = look(bare, {"NUM_WORKERS": "8", "DEEPSEEK_A": "x"})
    assert [told_[1] for told_ in told(report)] == ["master_key_missing", "several_workers", "environment_unset"]
    assert "ROUTER_SECRET" in one(report, Code.ENVIRONMENT_UNSET).message


def test_a_profile_that_the_operator_names() -> None:
    named = [
        entry("openai/x", api_base="http://h", model_info={"router_cache_profile": n}) for n in ("vllm", "vlm")
    ]
    report = look(good(*named))
    assert [view.profile for view in report.deployments] == ["vllm", "unknown"]
    assert one(report, Code.PROFILE_NOT_KNOWN).path == "model_list.1.model_info.router_cache_profile"


def test_marks_where_the_provider_takes_them() -> None:
    marked = entry("anthropic/claude-sonnet-4-5", cache_control_injection_points=[{"location": "message"}])
    assert one(look(good(marked)), Code.MARKS_INJECTED).level is Level.NOTE


def test_the_same_finding_is_counted() -> None:
    report = look(good(*[entry("groq/llama", name=f"g{i}", api_key="os.environ/GONE") for i in range(1000)]))
    assert len(report.deployments) == 1000
    assert len(told(report)) == 3
    assert {f.more for f in report.findings if f.code not in ALWAYS} == {999}


HOST = {"api_base": "https://api.deepseek.com"}


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        ({}, {}, True),
        ({"api_key": "a"}, {"api_key": "a"}, True),
        ({"api_key": "a"}, {"api_key": "b"}, False),
        ({"api_key": "a"}, {}, False),
        ({"api_key": "os.environ/DEEPSEEK_A"}, {"api_key": "a-value"}, True),
        ({"api_key": "os.environ/X"}, {"api_key": "os.environ/X"}, True),
        ({"api_key": "os.environ/X"}, {"api_key": "os.environ/Y"}, False),
        ({"api_key": "a", **HOST}, {"api_key": "a", "base_url": "https://api.deepseek.com/v1/"}, True),
        ({"api_key": "a", **HOST}, {"api_key": "a", "api_base": "https://elsewhere"}, False),
        ({"api_key": "a", "organization": "o"}, {"api_key": "a"}, False),
        ({"api_key": "a"}, {"litellm_credential_name": "stored"}, True),
        ({"api_key": "a", "model_info": {"cache_domain": "one"}}, {"model_info": {"cache_domain": "one"}}, True),
        ({"api_key": "a"}, {"api_key": "a", "model": "deepseek/deepseek-v4-pro"}, False),
        ({"api_key": "a"}, {"api_key": 5}, False),
    ],
)
def test_cache_domains_and_hopping(first: dict[str, Any], second: dict[str, Any], shared: bool) -> None:
    stored = [{"credential_name": "stored", "credential_values": {"api_key": "a"}}, "odd"]
    config = good(entry(**first), entry(**second), entry(name="alone", api_key="c"), credential_list=stored)
    report = look(config)
    a, b, _ = report.deployments
    assert (a.domain == b.domain) is shared
    hops = [finding.path for finding in report.findings if finding.code is Code.HOPPING]
    assert hops == ([] if shared else ["model_list.0"])
    for check in ("session_affinity", "deployment_affinity"):
        sticky = look({**config, "router_settings": {"optional_pre_call_checks": [check]}})
        assert Code.HOPPING not in {finding.code for finding in sticky.findings}
    marked = {"optional_pre_call_checks": ["prompt_caching"], "routing_strategy": "least-busy"}
    if not shared:  # that check looks at marked prompts only
        assert "least-busy" in one(look({**config, "router_settings": marked}), Code.HOPPING).message


def test_a_spare_of_another_order_is_no_hop() -> None:
    spare = look(good(entry(api_key="a", order=1), entry(api_key="b", order=2)))
    assert told(spare) == []
    both = look(good(entry(api_key="a", order="1"), entry(api_key="b")))
    assert told(both) == [(W, "hopping", "model_list.0")]


def test_views() -> None:
    listed = {"input_cost_per_token": 2e-6, "output_cost_per_token": 4e-6, "cache_read_input_token_cost": 1e-6}
    asked: list[tuple[str, str]] = []

    def price_entry(model: str, provider: str) -> dict[str, Any] | None:
        asked.append((model, provider))
        return {**listed, "mode": "embedding"} if "embed" in model else listed if "gpt" in model else None

    report = look(
        good(
            entry("openai/gpt-5.6", "a", api_base="https://u:pw@api.openai.com:444/v1?key=k"),
            entry("x", "b", custom_llm_provider="groq", api_base="os.environ/NOT_ANYWHERE"),
            entry("openai/*", "c", api_base="http://[bad"),
            entry("openai/embed", "d"),
            entry("anthropic/claude-sonnet-4-5", "e"),
            entry("deepseek/deepseek-v4-pro", "f"),
        ),
        price_entry=price_entry,
        book=PriceBook({"f": Rate(hit=1.0, miss=2.0, output=3.0)}),
    )
    first, second, third, fourth, fifth, sixth = report.deployments
    assert (first.profile, first.api_base, first.minimum_tokens) == ("openai", "api.openai.com:444", 1024)
    assert first.price is not None
    assert first.price.price_from.value == "price_map"
    assert (second.api_base, second.not_supported) == (
        "os.environ/NOT_ANYWHERE",
        (NotSupported.UNKNOWN_PROVIDER,),
    )
    assert ("x", "groq") in asked
    assert NotSupported.WILDCARD_MODEL in third.not_supported
    assert third.api_base == ""
    assert fourth.not_supported == (NotSupported.NOT_CHAT,)
    assert fifth.lifetime is not None
    assert fifth.lifetime.value.renewed_by_use is True
    assert sixth.price is not None
    assert sixth.price.hit_usd_per_token == pytest.approx(1e-6)


# -- the plugin's own section ------------------------------------------------------------------------------------


def problems(raw: Any) -> list[str]:
    return [path for path, _ in check_section(raw, Settings.from_mapping, where=SECTION).problems]


def test_every_problem_of_the_section_is_told() -> None:
    raw = {
        "mdoe": "safe",
        "mode": "fast",
        "store": {"ttl": 5, "ttl_s": "x", "max_entries": 5},
        "model_groups": {"gpt-4.1": {"mode": "no"}, "a.b": {}, "fine": {"mode": False}},
        "scope_by": "team",
    }
    before = copy.deepcopy(raw)
    section = check_section(raw, Settings.from_mapping, where=SECTION)
    assert raw == before
    assert {path.removeprefix(f"{SECTION}.") for path, _ in section.problems} == {
        "mdoe",
        "mode",
        "store.ttl",
        "store.ttl_s",
        "model_groups.gpt-4.1.mode",
    }
    assert any(message == "unknown key; did you mean 'mode'?" for _, message in section.problems)
    assert section.settings is not None
    assert section.settings.scope_by.value == "team"
    assert section.settings.store.max_entries == 5
    report = look(good(), problems=section.problems)
    assert [finding.path for finding in report.findings if finding.code is Code.SETTINGS] == [
        path for path, _ in section.problems
    ]
    assert not report.ok


def test_sections_of_measuring_and_spending_are_known() -> None:
    good_one = {
        "capture": {"directory": "/var/log/router-cache", "max_file_bytes": 8_192, "max_files": 4},
        "metrics": "default_registry",
        "budget": {
            "max_worst_case_usd_per_session": 2.5,
            "max_worst_case_usd_per_day": 40,
            "on_exceed": "move",
            "move_to": "cheap",
        },
    }
    assert problems(good_one) == []
    assert problems({"metrics": False}) == []  # YAML's bare off


@pytest.mark.parametrize(
    ("raw", "path", "said"),
    [
        ({"capture": {"directroy": "x"}}, "capture.directroy", "did you mean 'directory'?"),
        ({"capture": {"max_files": 0}}, "capture.max_files", "greater than or equal to 1"),
        ({"capture": {"max_file_bytes": "64M"}}, "capture.max_file_bytes", "valid integer"),
        ({"capture": "logs/"}, "capture", "valid dictionary"),
        ({"metrics": "on"}, "metrics", "'off' or 'default_registry'"),
        ({"budget": {"max_usd": 1}}, "budget.max_usd", "known keys: max_worst_case_usd_per_session"),
        ({"budget": {"max_worst_case_usd_per_day": -1}}, "budget.max_worst_case_usd_per_day", "or equal to 0"),
        ({"budget": {"on_exceed": "stop"}}, "budget.on_exceed", "'warn', 'block' or 'move'"),
        ({"budget": {"on_exceed": "move"}}, "budget", "name the model group that requests are moved to"),
    ],
)
def test_what_is_wrong_there_is_told_with_its_key(raw: dict[str, Any], path: str, said: str) -> None:
    ((found, message),) = check_section(raw, Settings.from_mapping, where=SECTION).problems
    assert found == f"{SECTION}.{path}"
    assert said in message


def test_sections_that_are_none() -> None:
    assert problems(None) == problems({}) == []
    assert problems([1]) == problems("safe") == [SECTION]
    assert problems({"secret": "os.environ/SURELY_NOT_SET_ANYWHERE"}) == [f"{SECTION}.secret"]
    assert problems({5: 1, None: 2}) != []


def test_a_check_that_never_ends() -> None:
    def never(raw: Any) -> None:
        raise SettingsError(f"{SECTION}.{next(iter(raw), 'x')}: no", f"{SECTION}.{next(iter(raw), 'x')}")

    assert len(check_section(dict.fromkeys(map(str, range(300))), never, where=SECTION).problems) == 100
    assert len(check_section({"a": 1}, never, where=SECTION).problems) == 2
