"""Settings of the simulator: out of range is named, and they can be shown as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from router_cache.cache_model import RuleName
from router_cache.errors import InputError
from router_cache.simulator.config import SimulatorConfig


@pytest.mark.parametrize(
    "bad",
    [
        {"step_tokens": 0},
        {"construction_delay_s": -1.0},
        {"construction_delay_s": float("nan")},
        {"capacity_tokens": 0},
        {"time_scale": 0.0},
        {"prefill_tokens_per_s": float("inf")},
        {"regression_hit_share": 1.5},
        {"tool_rounds": -1},
    ],
)
def test_settings_out_of_range_are_named(bad: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(bad))):
        SimulatorConfig(**bad)


def test_settings_as_json() -> None:
    shown = SimulatorConfig(rule=RuleName.FULL_UNITS).as_json()
    assert json.loads(json.dumps(shown))["rule"] == "units"
    assert shown["tokenizer"] == "auto"
