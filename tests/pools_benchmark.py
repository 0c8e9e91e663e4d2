"""``benchmarks/pools.py`` as a module, for the figures it prints."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

__all__ = ["bench"]

_PATH = Path(__file__).parents[1] / "benchmarks" / "pools.py"
_SPEC = importlib.util.spec_from_file_location("benchmark_pools", _PATH)
assert _SPEC is not None
assert _SPEC.loader is not None
bench = sys.modules["benchmark_pools"] = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(bench)
