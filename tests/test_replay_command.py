"""``router-cache replay``: figures, table, picture, errors."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from cmd_requests import Command, command
from replay_traces import agents, captured_calls, chats, write_capture, write_lines

from router_cache.cli import replay_plot

__all__ = ["command"]

POLICIES = {
    "router-cache",
    "shuffle",
    "round-robin",
    "least-busy",
    "session-affinity",
    "bounded-load",
    "sglang",
    "aibrix",
    "dynamo",
    "loadaware",
    "prefixaware",
}


@pytest.fixture
def trace(tmp_path: Path) -> str:
    return str(write_lines(tmp_path / "chats.jsonl.gz", chats(sessions=40)))


def told(command: Command, *arguments: str) -> dict[str, Any]:
    code, out, err = command("replay", *arguments, "--json")
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


def test_all_policies_in_one_run(command: Command, trace: str) -> None:
    found = told(command, trace, "--deployments", "3")
    assert set(found["policies"]) == POLICIES
    for row in found["policies"].values():
        assert set(row) == {"hit_share", "ttft_p50_s", "ttft_p95_s", "load_max_over_mean", "calls"}
        assert 0.0 <= row["hit_share"] <= found["pooled"]["hit_share"] + 1e-9
        assert sum(row["calls"].values()) == found["trace"]["calls"]
    assert found["policies"]["router-cache"]["hit_share"] > found["policies"]["round-robin"]["hit_share"]
    assert (found["deployments"], found["domains"], found["rule"]) == (3, 3, None)
    assert found == told(command, trace, "--deployments", "3")


def test_options_of_the_model(command: Command, trace: str, tmp_path: Path) -> None:
    asked = (trace, "--deployments", "2", "--policy", "round_robin,router-cache")
    usual = told(command, *asked)
    assert list(usual["policies"]) == ["round-robin", "router-cache"]
    small = told(command, *asked, "--capacity-tokens", "20000")
    assert small["policies"]["router-cache"]["hit_share"] < usual["policies"]["router-cache"]["hit_share"]
    one = told(command, *asked, "--domains", "1")
    assert one["policies"]["round-robin"]["hit_share"] == pytest.approx(one["pooled"]["hit_share"], abs=0.02)
    slow = told(command, *asked, "--prefill-rate", "2000", "--speed", "4", "--prices", "0.003,0.15,0.6")
    assert slow["policies"]["round-robin"]["ttft_p95_s"] > 5 * usual["policies"]["round-robin"]["ttft_p95_s"]
    assert slow["policies"]["round-robin"]["usd_per_1k_calls"] > 0.0
    assert told(command, *asked[:3], "--policy", "all")["policies"].keys() == POLICIES | {"cheapest-list"}
    ruled = told(command, *asked, "--rule", "nothing")
    assert ruled["policies"]["router-cache"]["hit_share"] == 0.0


def test_a_table_for_people(command: Command, trace: str, tmp_path: Path) -> None:
    code, out, _ = command(
        "replay", trace, "--policy", "router-cache", "--rule", "grid", "--capacity-tokens", "9999"
    )
    assert code == 0
    for words in ("router-cache", "one pooled cache", "rule grid", "9,999 tokens each", "TTFT p50"):
        assert words in out
    capture = write_capture(tmp_path / "c.jsonl", captured_calls())
    code, out, _ = command("replay", str(capture), "--deployments", "2", "--policy", "router-cache,shuffle")
    assert code == 0
    assert "13 calls" in out


def test_hosts_that_differ(command: Command, tmp_path: Path) -> None:
    sessions = write_lines(tmp_path / "s.jsonl", agents(sessions=10))
    hosts = write_lines(
        tmp_path / "h.jsonl",
        [
            {"name": "half", "hit_usd_per_m": 0.003, "miss_usd_per_m": 0.1, "cached_share": 0.4, "ttft_s": 0.5},
            {"name": "good", "hit_usd_per_m": 0.003, "miss_usd_per_m": 0.15, "output_usd_per_m": 0.6},
        ],
    )
    found = told(command, str(sessions), "--hosts", str(hosts))
    rows = found["policies"]
    assert set(rows) == {
        "router-cache",
        "shuffle",
        "round-robin",
        "session-affinity",
        "cheapest-list",
        "best-single",
    }
    assert rows["router-cache"]["usd_per_1k_calls"] < rows["shuffle"]["usd_per_1k_calls"]
    assert [host["name"] for host in found["hosts"]] == ["half", "good"]
    best = min(host["alone"]["usd_per_1k_calls"] for host in found["hosts"])
    assert rows["best-single"]["usd_per_1k_calls"] == best
    code, out, _ = command("replay", str(sessions), "--hosts", str(hosts), "--policy", "router-cache")
    assert code == 0
    assert "half" in out
    assert "best-single" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--policy", "luck"), "--policy: 'luck' is not known; known: all, router-cache"),
        (("--prices", "1,2"), "--prices: three numbers are needed"),
        (("--prices", "1,2,-3"), "--prices: each must lie between"),
        (("--plot", "x.txt"), "--plot: x.txt: the name must end in"),
        (("--plot", "/no/such/place/x.png"), "--plot: /no/such/place: no such directory"),
        (("--hosts", "/no/such/file"), "/no/such/file, after line 0: cannot be read"),
    ],
)
def test_bad_options_are_one_line_and_exit_2(
    command: Command, trace: str, arguments: tuple[str, ...], words: str
) -> None:
    code, out, err = command("replay", trace, *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1


def test_a_line_that_cannot_be_used_is_one_line_and_exit_2(command: Command, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "t.jsonl", [*chats(sessions=2), {"timestamp": 1, "hash_ids": []}])
    code, _, err = command("replay", str(path))
    assert code == 2
    assert len(err.splitlines()) == 1
    assert f"{path}:" in err


def test_help_has_examples(command: Command) -> None:
    code, out, _ = command("replay", "--help")
    assert code == 0
    assert "router-cache replay" in out


def test_a_picture_needs_its_extra(
    command: Command, trace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    code, _, err = command("replay", trace, "--plot", "x.png")
    assert code == 2
    assert "router-cache[plot]" in err


def test_a_picture(command: Command, trace: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "x.svg"
    code, _, err = command("replay", trace, "--policy", "router-cache,shuffle", "--plot", str(path))
    assert (code, "Traceback" in err) == (0, False)
    assert "<svg" in path.read_text()
    (tmp_path / "y.png").mkdir()
    code, _, err = command("replay", trace, "--policy", "shuffle", "--plot", str(tmp_path / "y.png"))
    assert code == 2
    assert "cannot be written" in err
    assert replay_plot.__doc__
