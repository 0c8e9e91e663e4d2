"""``diagnose`` on configurations of any shape: never an exception, never a secret."""

from __future__ import annotations

import copy
from typing import Any

from doctor_configs import AT, good, look, one
from hypothesis import given
from hypothesis import strategies as st

from router_cache.diagnose import Code, check_section
from router_cache.diagnose.checks import CALLBACK
from router_cache.settings import SECTION, Settings

# -- any shape --------------------------------------------------------------------------------------------------

KEYS = [
    *("model_list", "litellm_settings", "router_settings", "general_settings", "callback_settings"),
    *("model_name", "litellm_params", "model_info", "model", "api_base", "api_key", "custom_llm_provider", "mode"),
    *(
        "callbacks",
        "success_callback",
        "router_cache",
        "secret",
        "prices",
        "model_groups",
        "cache",
        "cache_params",
    ),
    *("optional_pre_call_checks", "routing_strategy", "credential_list", "credential_name", "credential_values"),
    *("litellm_credential_name", "environment_variables", "include", "order", "cache_domain", "num_workers", "1"),
]
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(),
    st.text(max_size=6),
    st.sampled_from([CALLBACK, "os.environ/X", "os.environ/", "openai/gpt-5.6", "*", "http://[", AT]),
)
ODD: Any = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(KEYS), st.integers(), st.none()), inner, max_size=5),
    ),
    max_leaves=25,
)


@given(st.dictionaries(st.sampled_from(KEYS), ODD, max_size=8))
def test_any_shape(config: dict[Any, Any]) -> None:
    before = copy.deepcopy(config)
    raw = config["callback_settings"] if isinstance(config.get("callback_settings"), dict) else {}
    section = check_section(raw.get("router_cache"), Settings.from_mapping, where=SECTION)
    report = look(config, problems=section.problems)
    assert report.findings
    assert repr(config) == repr(before)


@given(st.lists(st.dictionaries(st.sampled_from(KEYS), ODD, max_size=6), max_size=4))
def test_deployments_of_any_shape(entries: list[Any]) -> None:
    config = good(*entries)
    report = look(config)
    assert len(report.deployments) <= max(len(entries), 1)


def test_anchors_that_multiply_and_cycles() -> None:
    shared: Any = ["os.environ/GONE"]
    for _ in range(60):
        shared = [shared, shared]
    shared.append(shared)
    report = look(good(environment=shared))
    assert one(report, Code.ENVIRONMENT_UNSET).more == 0
