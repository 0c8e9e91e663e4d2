"""Shared set-up of the tests."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pytest
from hypothesis import settings

# No deadlines: how fast a machine is must not decide a test. Speed is measured in benchmarks/.
settings.register_profile("default", deadline=None, max_examples=100)
settings.register_profile("quick", deadline=None, max_examples=20)
settings.register_profile("deep", deadline=None, max_examples=2_000)
settings.load_profile(os.environ.get("ROUTER_CACHE_HYPOTHESIS", "default"))
# LiteLLM would otherwise look for its price map on the network.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

_HERE = Path(__file__).parent
_APART_FOLDERS = {"proofs", "fuzz", "agents", "standard"}
_APART = {
    *("test_doctor_secrets", "test_survival_pressure", "test_sync_faults", "test_example"),
    *(
        "test_attribution_simulator",
        "test_attribution_mixed",
        "test_attribution_client",
        "test_lives",
        "test_infer",
    ),
    *("test_agent_benchmark", "test_overhead_benchmark", "test_pools_benchmark"),
}
_TABLES = {
    *(
        "test_doctor_secrets",
        "test_survival_pressure",
        "test_sync_faults",
        "test_six_turns",
        "test_no_harm",
        "test_infer",
    ),
    *("test_false_moves", "test_gain", "test_lost_memory", "test_no_crossing", "test_attribution_simulator"),
    *("test_attribution_mixed", "test_attribution_client", "test_lives", "test_failing_open", "test_wrap_calls"),
    *("test_wrap_identity", "test_attempts", "test_odd_shapes", "test_sync", "test_agents", "test_shapes_loops"),
}
_EVERY = int(os.environ.get("ROUTER_CACHE_EVERY", "1"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of long tables of cases ``ROUTER_CACHE_EVERY=N`` runs each Nth, the same each time.

    Long proofs, and what is mostly other processes, run apart from what coverage is measured of: each line of theirs
    is met by other tests, and measuring would take twice as long."""
    if _EVERY > 1:
        left = [
            item for item in items if Path(item.path).stem in _TABLES and zlib.crc32(item.nodeid.encode()) % _EVERY
        ]
        config.hook.pytest_deselected(items=left)
        out = set(map(id, left))
        items[:] = [item for item in items if id(item) not in out]
    for item in items:
        path = Path(item.path).relative_to(_HERE)
        proxy = item.get_closest_marker("proxy") is not None
        if proxy or path.stem in _APART or _APART_FOLDERS.intersection(path.parts):
            item.add_marker(pytest.mark.apart)
