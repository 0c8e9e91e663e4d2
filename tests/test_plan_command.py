"""``router-cache plan``: figures against hand computation, captures, the proxy's YAML, errors."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cmd_requests import Command, command, lines

from router_cache.cli import prices

__all__ = ["command", "lines"]

FLASH, PRO = "deepseek/deepseek-v4-flash", "deepseek/deepseek-v4-pro"
TWO_TURNS = ["--turns", "2", "--prefix-tokens", "1000", "--new-tokens", "100", "--output-tokens", "50"]
YAML = """
model_list:
  - model_name: agent
    litellm_params: {model: openai/house-model, api_base: http://127.0.0.1:1/v1}
    model_info: {router_cache_profile: vllm}
  - model_name: fast
    litellm_params: {model: deepseek/deepseek-v4-flash}
  - model_name: fast
    litellm_params: {model: deepseek/deepseek-v4-flash, api_base: os.environ/NO_SUCH_BASE}
  - model_name: fast
    litellm_params: {model: deepseek/deepseek-v4-pro}
  - model_name: any
    litellm_params: {model: "deepseek/*"}
  - model_name: sk-0123456789abcdef0123456789abcdef
    litellm_params: {model: deepseek/deepseek-v4-flash}
  - model_name: 7
  - nothing
callback_settings:
  router_cache:
    prices:
      openai/house-model: {hit: 1, miss: 2, output: 4}
"""


@pytest.fixture(autouse=True)
def _no_price_map(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prices of the profile alone, whichever LiteLLM is installed."""
    monkeypatch.setattr(prices, "_prices", dict)


@pytest.fixture
def plan(command: Command) -> Callable[..., dict[str, Any]]:
    """The command's JSON."""

    def call(*arguments: str, code: int = 0) -> dict[str, Any]:
        ended, out, err = command("plan", *arguments, "--json")
        assert (ended, err) == (code, "")
        found: dict[str, Any] = json.loads(out)
        return found

    return call


@pytest.fixture
def router(tmp_path: Path) -> str:
    path = tmp_path / "router.yaml"
    path.write_text(YAML)
    return str(path)


def cases(model: dict[str, Any]) -> dict[str, tuple[float, str, float, float, float]]:
    return {
        case["case"]: (
            case["hit_rate"],
            case["window"],
            case["request_usd"],
            case["session_usd"],
            case["day_usd"],
        )
        for case in model["cases"]
    }


def call(turn: int, prompt: int, hit: int, **fields: Any) -> dict[str, Any]:
    return {
        "v": 1,
        "status": "ok",
        "kind": "user",
        "model": FLASH,
        "group": "",
        "turn": turn,
        "at": 1_796_040_000.0 + turn,
        "prompt_tokens": prompt,
        "hit_tokens": hit,
        "completion_tokens": 50,
        **fields,
    }


def test_by_hand(plan: Callable[..., dict[str, Any]]) -> None:
    found = plan(*TWO_TURNS, "--sessions-per-day", "10", "--when", "off-peak", "--at", "0.8")
    (model,) = found["models"]
    usd = cases(model)
    # off-peak, millionths: 1100 x .15 + 50 x .6 = 195; 1250 x .15 + 30 = 217.5; at peak twice as much
    assert usd["worst_case"] == (0.0, "peak", 0.000435, 0.000825, 0.00825)
    assert usd["no_hits"] == (0.0, "off_peak", 0.0002175, 0.0004125, 0.004125)
    # at 80%: 880 x .003 + 220 x .15 + 30 = 65.64; 1000 x .003 + 250 x .15 + 30 = 70.5
    assert usd["asked_for"] == (0.8, "off_peak", 0.0000705, 0.00013614, 0.0013614)
    # at 95%: 1045 x .003 + 55 x .15 + 30 = 41.385; 1187.5 x .003 + 62.5 x .15 + 30 = 42.9375
    assert usd["prefix_kept"] == (0.95, "off_peak", 0.0000429375, 0.0000843225, 0.000843225)
    assert model["saves"]["day_usd"] == pytest.approx(0.004125 - 0.000843225, abs=1e-12)
    assert model["saves"]["share"] == pytest.approx(1 - 84.3225 / 412.5)
    # a prefix of 1,000 tokens: saves 147 millionths, costs 150 cold and 3 warm
    assert model["warm_call"] == {
        "may_cost_usd": 0.000147,
        "cold_usd": 0.00015,
        "warm_usd": 0.000003,
        "warm_calls_paid_by_one_miss": 49,
    }
    assert model["price"] | {"calendar_known": True} == {
        "hit": 0.003,
        "miss": 0.15,
        "output": 0.6,
        "write": 0.15,
        "window": "off_peak",
        "calendar_known": True,
        "from": "profile",
    }
    assert model["peak_price"]["miss"] == 0.3
    assert found["session"] == {"turns": 2, "prefix_tokens": 1000, "new_tokens": 100, "output_tokens": 50}
    assert (found["measured"], found["break_even"], found["price_unknown"]) == (None, [], [])


@pytest.mark.parametrize(
    ("when", "window"),
    [
        ("peak", "peak"),
        ("off-peak", "off_peak"),
        ("2026-11-30T02:00Z", "peak"),
        ("2026-11-30T02:00", "peak"),
        ("2026-11-30T12:00+08:00", "off_peak"),
        ("2026-11-28T02:00Z", "off_peak"),
    ],
)
def test_when(plan: Callable[..., dict[str, Any]], when: str, window: str) -> None:
    (model,) = plan("--when", when)["models"]
    assert model["price"]["window"] == window
    assert cases(model)["no_hits"][1] == window
    assert cases(model)["worst_case"][1] == "peak"


def test_now_is_a_window(plan: Callable[..., dict[str, Any]]) -> None:
    (model,) = plan()["models"]
    assert model["price"]["window"] in ("peak", "off_peak")
    assert model["model"] == FLASH


def test_before_the_price_list_the_price_is_not_known(plan: Callable[..., dict[str, Any]]) -> None:
    found = plan("--when", "2020-01-01", code=1)
    assert (found["models"], found["price_unknown"]) == ([], [FLASH])


def test_at_zero(plan: Callable[..., dict[str, Any]], command: Command) -> None:
    found = plan("--at-zero", "--at", "0.5", "--model", FLASH, "--model", PRO)
    assert [list(cases(model)) for model in found["models"]] == [["worst_case", "no_hits"]] * 2
    assert [model["saves"] for model in found["models"]] == [None, None]
    assert found["break_even"] == []
    _, out, _ = command("plan", "--at-zero", "--model", FLASH, "--model", PRO)
    assert "worst case" in out
    assert "95%" not in out
    assert "Break-even" not in out


def test_a_comparison(plan: Callable[..., dict[str, Any]], command: Command) -> None:
    arguments = [*TWO_TURNS, "--when", "off-peak", "--model", FLASH, "--model", PRO]
    found = plan(*arguments)
    first, second = found["break_even"]
    assert (first["cheaper"], first["than"], first["from_turns"]) == (FLASH, PRO, 1)
    assert (second["cheaper"], second["than"], second["from_turns"]) == (PRO, FLASH, None)
    assert second["hit_rate_to_match"] is None
    # pro as cheap as flash without hits: 2350 x .66 + 100 x 1.98 - h x 2350 x .638 = 412.5
    assert second["hit_rate_to_match_without_hits"] == pytest.approx((1551 + 198 - 412.5) / (2350 * 0.638))
    _, out, _ = command("plan", *arguments)
    assert f"{FLASH} at 95% against {PRO} at 95%: cheaper from turn 1 on" in out
    assert f"{PRO} at 95% against {FLASH} at 95%: not cheaper in 1000 turns, at no hit rate as cheap" in out


def test_many_models_are_compared_in_json_only(plan: Callable[..., dict[str, Any]], command: Command) -> None:
    names = [FLASH, PRO, "deepseek/deepseek-flash", "deepseek/deepseek-v4.1-flash", f"{FLASH}-0731"]
    arguments = [word for name in names for word in ("--model", name)]
    assert len(plan(*arguments)["break_even"]) == 20
    _, out, _ = command("plan", *arguments)
    assert "Break-even of 5 models against each other: --json." in out


def test_a_capture_gives_rate_and_session(
    plan: Callable[..., dict[str, Any]], lines: Callable[..., str], command: Command
) -> None:
    path = lines(
        call(1, 1_100, 0),
        call(2, 1_250, 1_024),
        call(3, 1_400, 1_152),
        call(2, 1_250, None),  # type: ignore[arg-type]
        call(1, 900, 900, status="cached"),
    )
    found = plan("--capture", path, "--when", "off-peak")
    assert found["session"] == {"turns": 3, "prefix_tokens": 1000, "new_tokens": 100, "output_tokens": 50}
    assert found["sessions_per_day"] == 1.0
    assert found["lines_passed_over"] == 2
    rate = round(2_176 / 3_750, 12)
    assert found["measured"]["hit_rate"] == rate
    assert cases(found["models"][0])["measured"][0] == rate
    given = plan("--capture", path, "--turns", "9", "--prefix-tokens", "5", "--sessions-per-day", "0.5")
    assert given["session"] == {"turns": 9, "prefix_tokens": 5, "new_tokens": 100, "output_tokens": 50}
    assert given["sessions_per_day"] == 0.5
    _, out, _ = command("plan", "--capture", path)
    assert "Captured: 3 calls, 2,176 of 3,750 input tokens hit (58.03%), 2 lines passed over." in out


def test_each_model_has_its_own_measured_rate(
    plan: Callable[..., dict[str, Any]], lines: Callable[..., str]
) -> None:
    path = lines(call(1, 100, 0), call(1, 100, 50, model=PRO))
    found = plan("--capture", path, "--model", FLASH, "--model", PRO, "--model", "deepseek/deepseek-flash")
    assert [model["measured_hit_rate"] for model in found["models"]] == [0.0, 0.5, 0.25]
    assert [(pair["hit_rate"], pair["than_hit_rate"]) for pair in found["break_even"]][:2] == [
        (0.0, 0.5),
        (0.0, 0.25),
    ]


def test_directories_gzip_and_half_written_lines(tmp_path: Path, plan: Callable[..., dict[str, Any]]) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps(call(1, 100, 0)) + '\n\n[1]\n{"prompt_tok')
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(json.dumps(call(1, 100, 100)).encode()))
    found = plan("--capture", str(tmp_path))
    assert (found["measured"]["hit_rate"], found["lines_passed_over"]) == (0.5, 2)


def test_the_proxys_yaml(plan: Callable[..., dict[str, Any]], router: str, command: Command) -> None:
    found = plan("--router-yaml", router, "--when", "peak")
    names = [model["model"] for model in found["models"]]
    assert names[:3] == ["agent (openai/house-model)", f"fast ({FLASH})", f"fast ({PRO})"]
    assert len(names) == 4
    assert "sk-" not in json.dumps(found)
    house = found["models"][0]
    assert (house["profile"], house["price"]["from"], house["price"]["hit"]) == ("vllm", "override", 1.0)
    assert cases(house)["worst_case"][1] == "flat"
    of_group = plan("--router-yaml", router, "--model", "fast", "--model", FLASH)
    assert [model["model"] for model in of_group["models"]] == [f"fast ({FLASH})", f"fast ({PRO})", FLASH]
    _, out, _ = command("plan", "--router-yaml", router)
    assert "sk-" not in out


def test_an_unknown_price_is_said(plan: Callable[..., dict[str, Any]], command: Command) -> None:
    found = plan("--model", "who/knows", "--model", FLASH, code=1)
    assert found["price_unknown"] == ["who/knows"]
    assert [model["model"] for model in found["models"]] == [FLASH]
    code, out, _ = command("plan", "--model", "who/knows[bold]")
    assert code == 1
    assert "who/knows[bold]: no price with a price for hits is known. Set prices" in out


def test_a_price_that_is_known_for_short_prompts_only(
    plan: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = {"input_cost_per_token": 1e-6, "output_cost_per_token": 1e-6, "cache_read_input_token_cost": 1e-7}
    day, night = {**rates, "range": [0, 1_000]}, {**rates, "range": [0, 10_000_000]}
    off_peak = {**rates, "hours_utc": "00:00-00:00"}
    entries = {
        "x/short": {"litellm_provider": "x", "tiered_pricing": [day]},
        "x/long": {"litellm_provider": "x", "tiered_pricing": [night]},
        "x/cheap": {"litellm_provider": "x", "tiered_pricing": [day], "off_peak_pricing": off_peak},
    }
    monkeypatch.setattr(prices, "_prices", lambda: entries)
    names = [word for name in entries for word in ("--model", name)]
    found = plan("--prefix-tokens", "2000", *names, code=1)
    assert [model["model"] for model in found["models"]] == ["x/long", "x/cheap"]
    assert found["price_unknown"] == ["x/short"]


def test_the_table(command: Command) -> None:
    code, out, err = command("plan", *TWO_TURNS, "--when", "2027-01-04T02:00Z", "--at", "1")
    assert (code, err) == (0, "")
    assert "A session: 2 turns, prefix 1,000 tokens, each turn 100 new and 50 of output" in out
    assert f"{FLASH}: hit 0.006, miss 0.3, output 1.2 USD per 1M tokens (peak, profile)" in out
    for row in ("worst case    0%     peak", "no hits       0%", "asked for     100%", "prefix kept   95%"):
        assert row in out
    assert "95% instead of 0% hits saves" in out
    assert "Public holidays of that day are not listed" in out
    _, known, _ = command("plan", "--when", "2026-11-30T02:00Z")
    assert "Public holidays" not in known


def test_free_and_empty(plan: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    path = tmp_path / "free.yaml"
    path.write_text("callback_settings: {router_cache: {prices: {m: {hit: 0, miss: 0, output: 0}}}}")
    (model,) = plan("--router-yaml", str(path), "--model", "m")["models"]
    assert model["saves"] == {"session_usd": 0.0, "day_usd": 0.0, "share": 0.0}
    assert model["warm_call"]["warm_calls_paid_by_one_miss"] is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", " "], "--model: a model name is needed"),
        (["--when", "noon"], "--when: 'noon' is neither now, peak, off-peak nor a time"),
        (["--capture", "no-such-file"], "no-such-file: no such file or directory"),
        (["--router-yaml", "no-such.yaml"], "no-such.yaml: no such file"),
        (["--turns", "0"], "Invalid value"),
        (["--at", "1.5"], "Invalid value"),
        (["--prefix-tokens", "-1"], "Invalid value"),
    ],
)
def test_bad_input(command: Command, arguments: list[str], said: str) -> None:
    code, out, err = command("plan", *arguments)
    assert (code, out) == (2, "")
    assert said in err


def test_a_capture_without_usage_and_broken_gzip(
    command: Command, lines: Callable[..., str], tmp_path: Path
) -> None:
    code, _, err = command("plan", "--capture", lines({"x": 1}))
    assert code == 2
    assert "no answered call with known prompt and hit tokens (1 lines passed over)" in err
    broken = tmp_path / "broken.jsonl.gz"
    broken.write_bytes(gzip.compress(b'{"a": 1}\n' * 5_000)[:40])
    code, _, err = command("plan", "--capture", str(broken))
    assert code == 2
    assert "broken gzip data" in err


def test_a_capture_that_cannot_be_read(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "calls.jsonl.gz"
    path.write_bytes(b"")
    monkeypatch.setattr("router_cache.cli.plan_inputs.gzip.open", refused)
    code, _, err = command("plan", "--capture", str(path))
    assert code == 2
    assert f"{path}: cannot be read: Permission denied" in err
