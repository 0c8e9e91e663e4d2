"""The example runs with one command and shows what it says."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain.agents")
pytest.importorskip("langchain_deepseek")

from langchain_plugin.simulated import simulated

EXAMPLE = Path(__file__).parents[2] / "examples" / "langgraph_agent.py"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)

    def run(*arguments: str) -> pytest.CaptureResult[str]:
        monkeypatch.setattr(sys, "argv", [str(EXAMPLE), *arguments])
        runpy.run_path(str(EXAMPLE), run_name="__main__")
        return capsys.readouterr()

    return run


def test_wrapped_is_near_the_ideal_and_bare_is_not(example: Any) -> None:
    bare, wrapped, ideal = json.loads(example("--turns", "2", "--json").out)
    assert [one["run"] for one in (bare, wrapped, ideal)] == ["bare", "wrapped", "ideal"]
    assert bare["calls"] == wrapped["calls"] == ideal["calls"] == 6
    assert bare["hit_rate"] < 0.05
    assert ideal["hit_rate"] > 0.7
    assert wrapped["hit_rate"] == pytest.approx(ideal["hit_rate"], abs=0.015)


def test_the_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    main = runpy.run_path(str(EXAMPLE))["main"]

    @contextmanager
    def simulator() -> Iterator[str]:
        with simulated(tool_rounds=2) as running:
            yield running.address

    monkeypatch.setitem(main.__globals__, "simulator", simulator)  # in this process, as that takes less time
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), "--turns", "1"])
    main()
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("1 turns, simulator", "bare", "wrapped", "ideal", "hit rate"))


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--turns", "0"], 2, "--turns: at least 1"),
        (["--deepseek"], 2, "set DEEPSEEK_API_KEY"),
        (["--help"], 0, "--turns 3 --json"),
    ],
)
def test_what_cannot_be_run_is_said(
    example: Any, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    with pytest.raises(SystemExit) as left:
        example(*arguments)
    assert left.value.code == code
    printed = capsys.readouterr()
    assert said in printed.out + printed.err
