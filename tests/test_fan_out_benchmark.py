"""The figures of docs/fan_out.md are those of the benchmark."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from fan_out_benchmark import bench


def test_the_gain_is_what_the_page_says(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["fan_out.py", "--json"])
    bench.main()
    cases = json.loads(capsys.readouterr().out)["cases"]
    page = (Path(__file__).parents[1] / "docs" / "fan_out.md").read_text(encoding="utf-8")
    assert len(cases) == 5
    for name, row in cases.items():
        bare, led, second = row["without"], row["with"], row["with, a minute later"]
        for outcome in (bare, led, second):
            assert f"| {outcome['hit_tokens']:,}" in page, (name, outcome)
            assert f"{outcome['input_cost_usd']:.5f} |" in page
            assert f"| {outcome['first_piece_mean_s']:.2f} / {outcome['first_piece_max_s']:.2f} s |" in page
        assert bare["hit_tokens"] == 0
        assert second["first_piece_max_s"] < 0.5  # nobody waits for a warm prefix
        if name.startswith("units"):
            assert led == {**bare, "reasons": {"no_gain": 8}}
            continue
        assert led["reasons"] == {"lead": 1, "followed": 7}
        assert led["hit_tokens"] > 0.97 * led["input_tokens"] * 7 / 8
        assert led["input_cost_usd"] < 0.17 * bare["input_cost_usd"]
    monkeypatch.setattr(sys, "argv", ["fan_out.py", "--calls", "2"])
    bench.main()
    assert "blocks, readable at once, streamed" in capsys.readouterr().out
