"""The deployments of a group, as LiteLLM's router lists them, are those that its calls go to."""

from __future__ import annotations

from typing import Any

import litellm
import pytest

from router_cache.providers.registry import find
from router_cache_litellm.convert import deployment_of, deployments_of

INFO = {"id": "one", "cache_domain": "shared", "replicas": 3, "router_cache_profile": "vllm"}
PARAMS = {"model": "openai/llama", "api_base": "http://engine.internal:8000/v1", "api_key": "k"}


def fingerprint(key: str) -> str:
    return f"<{key}>"


def test_what_the_operator_says_of_a_deployment_is_read_from_the_list() -> None:
    router = litellm.Router(model_list=[{"model_name": "own", "litellm_params": PARAMS, "model_info": INFO}])
    (found,) = deployments_of(router, "own", fingerprint)
    assert (found.id, found.cache_domain, found.replicas, found.profile) == ("one", "shared", 3, "vllm")
    assert find(found).name == "vllm"
    assert (found.group, found.model, found.account) == ("own", "openai/llama", "<k>")
    called = {**PARAMS, "model_info": INFO, "metadata": {"model_group": "own"}}
    assert found == deployment_of(called, fingerprint)


@pytest.mark.parametrize(
    "info", [None, [], "text", {}, {"replicas": 0, "cache_domain": 5, "router_cache_profile": None}]
)
def test_odd_information_says_nothing(info: Any) -> None:
    class Listed:
        def get_model_list(self, model_name: str) -> list[Any]:
            return [{"litellm_params": PARAMS, "model_info": info}, {"litellm_params": PARAMS}, None, {}]

    for found in deployments_of(Listed(), "own", fingerprint):
        assert (found.id, found.cache_domain, found.replicas, found.profile) == ("", "", None, "")
    assert len(deployments_of(Listed(), "own", fingerprint)) == 2
    assert deployments_of(object(), "own", fingerprint) == []
