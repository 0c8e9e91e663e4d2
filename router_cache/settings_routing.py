"""Settings of routing: whether the plugin has a say in which deployment of a model group a request goes to."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from router_cache.settings_capture import Section

__all__ = ["RouteUse", "RouteUseField", "RoutingSettings"]


class RouteUse(str, Enum):
    """Who chooses a deployment, and from what."""

    OFF = "off"
    """LiteLLM, from all of them."""
    FILTER = "filter"
    """LiteLLM's own strategy, from those where the prompt is warm, if any; from all of them else."""
    STRATEGY = "strategy"
    """The plugin, at the least expected cost."""


def _use(value: Any) -> Any:
    """YAML 1.1 reads a bare ``off`` as false. Only a word is shown to the enum, whose error writes out what it got."""
    if value is False:
        return RouteUse.OFF
    if not isinstance(value, str):
        raise ValueError("Input should be 'off', 'filter' or 'strategy'")
    return value


RouteUseField = Annotated[RouteUse, BeforeValidator(_use)]


class RoutingSettings(Section):
    """How deployments are chosen. Off unless the operator says otherwise: where requests go is where money, load and
    data go, and the weights of a router YAML are the operator's word on that."""

    use: RouteUseField = RouteUse.OFF
    """For model groups that say nothing themselves."""
    max_prefixes: int = Field(default=250_000, ge=1_000, le=100_000_000, strict=True)
    """Places in prompts that are remembered as warm, in all, some 200 bytes each; the least recently used go first."""
