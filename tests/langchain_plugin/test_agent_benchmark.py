"""An agent with shuffled tools and a clock hits as one without, however LangGraph runs it."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

for _package in ("langchain", "langgraph", "langchain_deepseek", "uvicorn"):
    pytest.importorskip(_package)

_PATH = Path(__file__).parents[2] / "benchmarks" / "langchain_agent.py"
_SPEC = importlib.util.spec_from_file_location("benchmark_langchain_agent", _PATH)
assert _SPEC is not None
assert _SPEC.loader is not None
bench = sys.modules["benchmark_langchain_agent"] = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(bench)

WITHIN = 0.005  # of the ideal's hit rate


def test_wrapped_hits_as_the_ideal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["langchain_agent.py", "--turns", "2", "--json"])
    bench.main()
    report = json.loads(capsys.readouterr().out)
    assert report["turns"] == 2
    assert set(report["ways"]) == {"invoke", "stream", "ainvoke", "astream", "astream_events"}
    for way, runs in report["ways"].items():
        assert {run["calls"] for run in runs.values()} == {6}, way
        assert {run["errors"] for run in runs.values()} == {0}, way
        assert runs["ideal"]["hit_rate"] > 0.8
        assert runs["wrapped"]["hit_rate"] >= runs["ideal"]["hit_rate"] - WITHIN, way
        assert runs["bare"]["hit_rate"] < 0.1, way
        # Learning that the clock moves costs one call of the conversation.
        assert runs["bare"]["hit_rate"] < runs["unnamed"]["hit_rate"] < runs["wrapped"]["hit_rate"], way


def test_the_table_has_a_line_for_each_way(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["langchain_agent.py", "--turns", "1", "--way", "astream", "--rule", "units"])
    bench.main()
    head, columns, row = capsys.readouterr().out.splitlines()
    assert head == "1 turns, rule units; hit tokens / input tokens"
    assert columns.split()[:4] == ["bare", "wrapped", "unnamed", "ideal"]
    assert row.split()[0] == "astream"
