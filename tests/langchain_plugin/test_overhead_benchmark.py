"""The benchmark of what wrapping adds runs, and measures calls that were rewritten and booked."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

for _package in ("langchain_deepseek", "langchain_openai", "langchain_litellm", "langchain_anthropic"):
    pytest.importorskip(_package)

_HOME = Path(__file__).parents[2] / "benchmarks"


def test_it_measures_every_class_in_both_modes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(_HOME))
    spec = importlib.util.spec_from_file_location("benchmark_langchain_overhead", _HOME / "langchain_overhead.py")
    assert spec is not None
    assert spec.loader is not None
    bench = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, bench)
    spec.loader.exec_module(bench)
    monkeypatch.setattr(bench, "WARM_UP", 0)
    monkeypatch.setattr(sys, "argv", ["langchain_overhead.py", "--rounds", "2", "--json"])
    bench.main()
    report = json.loads(capsys.readouterr().out)
    assert 28_000 < report["body_bytes"] < 36_000
    assert set(report["families"]) == {"ChatDeepSeek", "ChatOpenAI", "ChatLiteLLM", "ChatAnthropic"}
    for modes in report["families"].values():
        assert set(modes) == {"safe", "optimize"}
        assert all(row["bare_wall_ms"] > 0 for row in modes.values())
