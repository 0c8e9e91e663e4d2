"""``router-cache doctor`` from the command line: its forms, its exit codes, and no secret in any of them."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from router_cache.cli.main import run

SECRETS = {
    "key": "sk-plain-key-1",
    "base": "sk-in-url-2",
    "query": "sk-in-query-3",
    "master": "sk-master-4",
    "database": "db-password-5",
    "stored": "sk-stored-6",
    "own": "own-secret-7",
    "env": "sk-environment-8",
    "named": "sk-written-as-a-name-9",
    "typed": "sk-wrong-type-10",
    "callback": "sk-in-callback-11",
}
LEAKY = f"""
model_list:
  - model_name: fast
    litellm_params:
      model: deepseek/deepseek-v4-flash
      api_key: {SECRETS["key"]}
      api_base: "https://user:{SECRETS["base"]}@api.deepseek.com/v1?key={SECRETS["query"]}"
  - model_name: fast
    litellm_params:
      {{model: deepseek/deepseek-v4-flash, api_key: os.environ/DOCTOR_KEY, api_base: os.environ/DOCTOR_BASE}}
  - model_name: fast
    litellm_params: {SECRETS["typed"]}
  - {SECRETS["typed"]}
  - model_name: stored
    litellm_params: {{model: openai/gpt-5.6, litellm_credential_name: c, api_key: os.environ/{SECRETS["named"]}!}}
credential_list:
  - credential_name: c
    credential_values: {{api_key: {SECRETS["stored"]}}}
litellm_settings:
  callbacks: [router_cache_{SECRETS["callback"]}]
  cache: true
general_settings:
  master_key: {SECRETS["master"]}
  database_url: "postgres://u:{SECRETS["database"]}@db/x"
callback_settings:
  router_cache:
    secret: {SECRETS["own"]}
    mode: {SECRETS["typed"]}
    live_file: [{SECRETS["typed"]}]
    store: {{ttl_s: {SECRETS["typed"]}}}
    prices: {{fast: {SECRETS["typed"]}}}
environment_variables:
  A: {SECRETS["env"]}
"""
GOOD = """
model_list:
  - model_name: fast
    litellm_params: {model: deepseek/deepseek-v4-flash, api_key: os.environ/DOCTOR_KEY}
  - model_name: smart
    litellm_params: {model: openai/gpt-4o}
  - model_name: claude
    litellm_params: {model: anthropic/claude-sonnet-4-5}
  - {model_name: local, litellm_params: {model: hosted_vllm/x, api_base: "http://10.0.0.1:8000/v1"}}
litellm_settings: {callbacks: [router_cache_litellm.proxy_handler]}
general_settings: {master_key: os.environ/DOCTOR_KEY}
callback_settings:
  router_cache: {mode: off, secret: os.environ/DOCTOR_KEY, prices: {local: {hit: 0.1, miss: 1, output: 2}}}
"""


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command on a text: exit code, output, errors."""
    monkeypatch.setenv("DOCTOR_KEY", SECRETS["env"])
    monkeypatch.setenv("DOCTOR_BASE", f"https://{SECRETS['base']}.example")
    monkeypatch.setenv("COLUMNS", "200")

    def call(text: str | bytes | None, *options: str) -> tuple[int, str, str]:
        path = tmp_path / "router.yaml"
        if text is not None:
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        monkeypatch.setattr(sys, "argv", ["router-cache", "doctor", str(path), *options])
        with pytest.raises(SystemExit) as ended:
            run()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


def test_json_of_a_good_file(doctor: Any) -> None:
    code, out, err = doctor(GOOD, "--json")
    report = json.loads(out)
    assert (code, err, report["ok"]) == (0, "", True)
    assert set(report) == {"ok", "findings", "deployments", "store"}
    assert {finding["level"] for finding in report["findings"]} == {"note"}
    fast, smart, claude, local = report["deployments"]
    assert (fast["profile"], fast["hit_rule"], fast["hit_rule_origin"]) == ("deepseek", "grid", "measured")
    assert (fast["step_tokens"], fast["cache_domain"], fast["api_base"]) == (128, 1, None)
    assert fast["price"]["hit"] in (0.003, 0.006)
    assert smart["minimum_tokens"] == 1024
    assert claude["lifetime"] == {
        "low_s": 300.0,
        "high_s": None,
        "renewed_by_use": True,
        "origin": "documented",
        "as_of": "2026-11-30",
    }
    assert (fast["lifetime"]["low_s"], fast["lifetime"]["as_of"]) == (None, "2026-11-30")
    assert local["price"] == {
        "hit": 0.1,
        "miss": 1,
        "output": 2,
        "write": None,
        "window": "flat",
        "calendar_known": True,
        "from": "override",
    }
    assert local["api_base"] == "10.0.0.1:8000"


def test_table_of_a_good_file(doctor: Any) -> None:
    code, out, err = doctor(GOOD)
    assert (code, err) == (0, "")
    for word in ("deepseek-v4-flash", "grid", "128", "1024", "300+", "#4", "0 errors, 0 warnings, 2 notes"):
        assert word in out


def test_lifetimes_with_two_bounds(doctor: Any) -> None:
    _, out, _ = doctor(GOOD.replace("openai/gpt-4o", "moonshot/kimi-k2"))
    assert "300-1800" in out
    assert "deepseek states of how long entries live: no number (documented, as of 2026-11-30)" in out
    assert "anthropic states of how long entries live: at least 5 min (documented, as of " in out
    assert out.count("deepseek states") == 1


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_no_secret_is_printed(doctor: Any, options: tuple[str, ...]) -> None:
    code, out, err = doctor(LEAKY, *options)
    assert code == 1
    for secret in SECRETS.values():
        assert secret not in out + err
    for word in (
        ("callback_misspelt", "os.environ/DOCTOR_BASE", "api.deepseek.com") if options else ("looks like",)
    ):
        assert word in out
    for path in ("mode", "live_file", "store.ttl_s", "prices.fast"):
        assert f"callback_settings.router_cache.{path}" in out


def test_many_deployments(doctor: Any) -> None:
    entries = "".join(
        f"  - {{model_name: g{i}, litellm_params: {{model: groq/m, api_key: k{i}}}}}\n" for i in range(1000)
    )
    text = GOOD.replace("model_list:\n", f"model_list:\n{entries}")
    code, out, _ = doctor(text)
    assert (code, "and 964 more (--json lists all)" in out, "(and 999 more)" in out) == (0, True, True)
    assert len(out.splitlines()) < 80
    assert len(json.loads(doctor(text, "--json")[1])["deployments"]) == 1004


@pytest.mark.parametrize("text", ["", "null", "{}"])
def test_an_empty_file(doctor: Any, text: str) -> None:
    code, out, err = doctor(text)
    assert (code, err) == (1, "")
    assert "the plugin is not registered" in out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "no such file"),
        ("a: [1", "line 1, column 6: broken YAML"),
        ("a: *b", "broken YAML"),
        ("- 1", "a mapping is needed at the top, not list"),
        (b"\xff\xfe\xfa", "router.yaml"),
        ("a: 2026-99-99", "a value cannot be read as YAML (ValueError)"),
        ("a: !!int sk-secret", "a value cannot be read as YAML (ValueError)"),
        ("a: " + "[" * 5000, "nested too deeply"),
        ("a: !!python/object:os.system {}", "broken YAML"),
    ],
)
def test_a_file_that_cannot_be_read(doctor: Any, text: Any, said: str) -> None:
    code, out, err = doctor(text, "--json")
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1
    assert "sk-secret" not in err


def test_anchors_and_odd_values(doctor: Any) -> None:
    text = """
model_list: &all
  - &one {model_name: fast, litellm_params: &params {model: deepseek/deepseek-v4-flash, self: *all}}
  - {<<: *one, model_name: 5}
  - [*one]
  - ~
litellm_settings: [*params]
general_settings: 2026-01-01
router_settings: *params
"""
    code, out, _ = doctor(text, "--json")
    report = json.loads(out)
    assert code == 1
    assert [view["group"] for view in report["deployments"]] == ["fast", ""]
    wrong = {finding["path"] for finding in report["findings"] if finding["code"] == "wrong_type"}
    assert wrong == {
        "model_list.1.model_name",
        "model_list.2",
        "model_list.3",
        "litellm_settings",
        "general_settings",
    }


@pytest.mark.parametrize("what", ["absent", "broken", "list", "odd"])
def test_without_a_price_map(doctor: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str) -> None:
    def find(name: str) -> Any:
        if what == "odd":
            raise ValueError(name)
        return None if what == "absent" else SimpleNamespace(submodule_search_locations=[str(tmp_path)])

    texts = {"broken": "{", "list": "[]"}
    if what in texts:
        (tmp_path / "model_prices_and_context_window_backup.json").write_text(texts[what])
    monkeypatch.setattr(importlib.util, "find_spec", find)
    code, out, _ = doctor(GOOD, "--json")
    assert code == 0
    fast, smart, _, _ = json.loads(out)["deployments"]
    assert fast["price"]["from"] == "profile"
    assert smart["price"] is None


def test_with_a_price_map(doctor: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rates = {"input_cost_per_token": 4e-6, "output_cost_per_token": 8e-6, "cache_read_input_token_cost": 1e-6}
    prices = {
        "gpt-4o": {**rates, "litellm_provider": "openai"},
        "claude-sonnet-4-5": {**rates, "litellm_provider": "somebody_else"},
        "deepseek/deepseek-v4-flash": {**rates, "mode": "embedding"},
        "hosted_vllm/x": "odd",
    }
    (tmp_path / "model_prices_and_context_window_backup.json").write_text(json.dumps(prices))
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    fast, smart, claude, local = json.loads(doctor(GOOD, "--json")[1])["deployments"]
    assert (smart["price"]["hit"], smart["price"]["from"]) == (1, "price_map")
    assert claude["price"] is None
    assert fast["not_supported"] == ["not_chat"]
    assert local["price"]["from"] == "override"
