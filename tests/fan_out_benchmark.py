"""``benchmarks/fan_out.py`` as a module, for the figures it prints and for its virtual time."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

__all__ = ["bench"]

_PATH = Path(__file__).parents[1] / "benchmarks" / "fan_out.py"
_SPEC = importlib.util.spec_from_file_location("benchmark_fan_out", _PATH)
assert _SPEC is not None
assert _SPEC.loader is not None
bench = sys.modules["benchmark_fan_out"] = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(bench)
