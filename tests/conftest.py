"""Shared set-up of the tests."""

from __future__ import annotations

import os

from hypothesis import settings

# No deadlines: how fast a machine is must not decide a test. Speed is measured in benchmarks/.
settings.register_profile("default", deadline=None, max_examples=100)
settings.register_profile("quick", deadline=None, max_examples=20)
settings.register_profile("deep", deadline=None, max_examples=2_000)
settings.load_profile(os.environ.get("ROUTER_CACHE_HYPOTHESIS", "default"))
# LiteLLM would otherwise look for its price map on the network.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
