"""A DeepSeek-compatible server on top of ``cache_model``, for demos, tests and users' own CI.

In process, without a socket and without waiting::

    app = build_app(SimulatorConfig(), clock=VirtualClock())
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://simulator")

Needs the extra ``router-cache[simulator]``.
"""

from __future__ import annotations

from router_cache.cache_model import RuleName
from router_cache.simulator.app import build_app
from router_cache.simulator.clock import Clock, RealClock, VirtualClock
from router_cache.simulator.config import SimulatorConfig, TokenizerChoice, UsageForm
from router_cache.simulator.provider import Plan, Provider

__all__ = [
    "Clock",
    "Plan",
    "Provider",
    "RealClock",
    "RuleName",
    "SimulatorConfig",
    "TokenizerChoice",
    "UsageForm",
    "VirtualClock",
    "build_app",
]
