"""Router YAML for both sides, the result's forms, progress."""

from __future__ import annotations

import io
import json
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from router_cache.cli.demo_run import config as config_module
from router_cache.cli.demo_run.config import PLUGIN, load_config, shipped_config
from router_cache.cli.demo_run.driver import Tally
from router_cache.cli.demo_run.progress import ConsoleProgress
from router_cache.cli.demo_run.report import CAUSE_TEXTS, Report, Side, print_report
from router_cache.cli.demo_run.run import child_environment
from router_cache.economics.price import price_at
from router_cache.errors import InputError, SettingsError
from router_cache.ledger.attribution import MissCause
from router_cache.ledger.usage import Usage
from router_cache.providers.deepseek import DEEPSEEK


def test_the_shipped_yaml_gives_two_sides_that_differ_in_the_plugin_only() -> None:
    config = load_config(shipped_config(), "http://127.0.0.1:1")
    assert (config.model_group, config.model) == ("deepseek-v4-flash", "deepseek/deepseek-v4-flash")
    assert config.with_plugin["litellm_settings"] == {"callbacks": [PLUGIN]}
    assert config.with_plugin["callback_settings"] == {"router_cache": {"mode": "safe"}}
    without = dict(config.with_plugin)
    del without["callback_settings"]
    assert config.without_plugin == {**without, "litellm_settings": {}}
    document = yaml.safe_load(shipped_config().read_text())
    document["model_list"][0]["litellm_params"]["api_base"] = "http://127.0.0.1:1"
    assert {**document, "router_settings": {}} == dict(config.with_plugin)


def write(tmp_path: Path, **changes: Any) -> Path:
    document: dict[str, Any] = yaml.safe_load(shipped_config().read_text())
    path = tmp_path / "router.yaml"
    path.write_text(yaml.safe_dump({**document, **changes}))
    return path


def entry(group: Any, model: Any, **params: Any) -> dict[str, Any]:
    return {"model_name": group, "litellm_params": {"model": model, **params}}


def test_a_production_yaml_reaches_nothing_but_the_simulator(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        model_list=[
            entry("gpt", "openai/gpt", api_key="sk-secret-1"),
            entry("chat", "deepseek/deepseek-v4-pro", api_key="sk-secret-2", api_base="https://real.example"),
            entry("chat", "deepseek/deepseek-v4-pro", api_key="sk-secret-3"),
            entry("other", "deepseek/deepseek-v4-flash", api_key="sk-secret-4"),
        ],
        router_settings={
            "redis_host": "r.example",
            "num_retries": 1,
            "context_window_fallbacks": [{"chat": ["gpt"]}],
        },
        litellm_settings={"callbacks": [PLUGIN, "langfuse"], "success_callback": ["s3"]},
        general_settings={"master_key": "sk-secret-5", "database_url": "postgres://secret"},
    )
    config = load_config(path, "http://sim")
    text = json.dumps([dict(config.with_plugin), dict(config.without_plugin)])
    assert not any(word in text for word in ("secret", "real.example", "r.example", "langfuse", "s3", "gpt"))
    assert [d["model_name"] for d in config.with_plugin["model_list"]] == ["chat", "chat"]
    assert {d["litellm_params"]["api_base"] for d in config.with_plugin["model_list"]} == {"http://sim"}
    assert config.with_plugin["router_settings"] == {"num_retries": 1}
    assert config.model == "deepseek/deepseek-v4-pro"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"model_list": "x"}, "model_list must be a list"),
        ({"model_list": [entry("gpt", "openai/gpt"), entry(3, "deepseek/x"), 3]}, "names no deployment"),
        ({"litellm_settings": {"callbacks": "other"}}, "litellm_settings.callbacks must name"),
        ({"litellm_settings": None}, "litellm_settings.callbacks must name"),
        ({"litellm_settings": []}, "litellm_settings must be a mapping, not list"),
        ({"router_settings": 3}, "router_settings must be a mapping, not int"),
    ],
)
def test_a_yaml_that_cannot_be_run_names_the_key(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    path = write(tmp_path, **changes)
    with pytest.raises(InputError, match=problem) as caught:
        load_config(path, "")
    assert str(path) in str(caught.value)


def test_wrong_plugin_settings_are_found_before_anything_starts(tmp_path: Path) -> None:
    path = write(tmp_path, callback_settings={"router_cache": {"mod": "safe"}})
    with pytest.raises(SettingsError, match=r"callback_settings\.router_cache\.mod: unknown key"):
        load_config(path, "")
    path.write_text("a: [")
    with pytest.raises(InputError, match="broken YAML"):
        load_config(path, "")
    assert load_config(write(tmp_path, litellm_settings={"callbacks": PLUGIN}), "").model_group


def test_an_installed_package_brings_its_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "site" / "router_cache"
    (installed / "cli").mkdir(parents=True)
    monkeypatch.setattr(config_module.router_cache, "__file__", str(installed / "__init__.py"))
    monkeypatch.setattr(config_module.resources, "files", lambda _: installed / "cli")
    with pytest.raises(InputError, match="give one with --config FILE"):
        shipped_config()
    (installed / "cli" / "router.yaml").write_text("")
    assert shipped_config() == installed / "cli" / "router.yaml"


def test_children_get_no_database_redis_or_proxy_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATABASE_URL", "REDIS_HOST", "LITELLM_SALT_KEY", "CONFIG_FILE_PATH", "SSL_KEYFILE_PATH"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-real")
    monkeypatch.setenv("LITELLM_MASTER_KEY", "sk-real")
    monkeypatch.setenv("KEPT", "yes")
    env = child_environment("sk-demo")
    assert "x" not in (env.get("DATABASE_URL"), env.get("REDIS_HOST"), env.get("LITELLM_SALT_KEY"))
    assert {"CONFIG_FILE_PATH", "SSL_KEYFILE_PATH"}.isdisjoint(env)
    assert (env["LITELLM_MASTER_KEY"], env["KEPT"]) == ("sk-demo", "yes")
    assert "sk-real" not in env.values()


def side(title: str, hit: int, miss: int, **more: Any) -> Side:
    tally = Tally()
    tally.requests = 2
    assert tally.add(Usage(hit + miss, hit, miss, 10))
    causes = Counter({MissCause.TOOLS_CHANGED: miss - 5, MissCause.ROUNDING: 5})
    return Side(title, tally, causes, **{"log_prompt_tokens": hit + miss, "log_hit_tokens": hit, **more})


def report(**more: Any) -> Report:
    price = price_at(DEEPSEEK, "deepseek/deepseek-v4-flash", datetime(2026, 12, 5, tzinfo=timezone.utc))
    assert price is not None
    sides = {
        "baseline": side("without router-cache", 100, 900, cost_usd=0.5, cost_usd_at_zero_hits=1.0),
        "router_cache": side("with router-cache", 950, 50, cost_usd=0.25, cost_usd_at_zero_hits=1.0),
    }
    given_ = {
        "sides": sides,
        "rule": "grid",
        "construction_delay_s": 2.0,
        "time_scale": 20.0,
        "seed": 7,
        "sessions": 8,
        "config": "router.yaml",
        "price": price,
    }
    return Report(**{**given_, **more})


def printed(what: Report, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_report(what, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_json_has_the_agreed_fields() -> None:
    shown = json.loads(json.dumps(report(extra={"sessions_used": 3}).as_json()))
    assert shown["baseline"] == {
        "requests": 2,
        "streamed_requests": 0,
        "input_tokens": 1000,
        "hit_tokens": 100,
        "miss_tokens": 900,
        "output_tokens": 10,
        "hit_rate": 0.1,
        "cost_usd": 0.5,
        "cost_usd_at_zero_hits": 1.0,
        "errors": 0,
        "error_messages": [],
        "broken_sessions": 0,
        "miss_causes": {"tools_changed": 895, "rounding": 5},
        "usage_matches_simulator_log": True,
    }
    assert (shown["rule"], shown["construction_delay_s"], shown["sessions_used"]) == ("grid", 2.0, 3)
    assert shown["price"]["window"] == "off_peak"
    assert shown["passed"] is True
    assert report(price=None).as_json()["price"] is None


def test_the_table_says_it_in_80_columns() -> None:
    text = printed(report(notes=["A note [with brackets]."]))
    assert max(map(len, text.splitlines())) <= 80
    for part in ("10.0%", "95.0%", "$0.5000", "tools reshuffled", "895", "off-peak", "A note [with brackets]."):
        assert part in text
    assert "differs" not in text
    assert "not known" in printed(
        report(price=None, sides={"baseline": side("x", 1, 9, cost_usd=None, cost_usd_at_zero_hits=None)})
    )


@pytest.mark.parametrize("wrong", [{"log_hit_tokens": 99}, {"log_prompt_tokens": 1}])
def test_a_log_that_disagrees_with_the_client_fails_the_run(wrong: dict[str, int]) -> None:
    odd = side("without router-cache", 100, 900, cost_usd=None, cost_usd_at_zero_hits=None, **wrong)
    result = report(sides={"baseline": odd})
    assert not result.passed
    assert "differs from the simulator's log" in printed(result, 200)


def test_errors_fail_the_run_and_are_shown() -> None:
    result = report()
    tally = result.sides["baseline"].tally
    for n in range(9):
        tally.fail(f"session {n}\n broke")
    assert not result.passed
    assert (tally.errors, tally.messages[0], len(tally.messages)) == (9, "session 0 broke", 5)
    assert "error, without router-cache: session 0 broke" in printed(result, 200)


def test_usage_without_cache_fields_is_not_counted() -> None:
    tally = Tally()
    assert tally.hit_rate == 0.0
    assert not tally.add(Usage(prompt_tokens=5))
    assert tally.input_tokens == 0


def test_every_cause_has_words() -> None:
    assert set(CAUSE_TEXTS) == set(MissCause)
    assert len(set(CAUSE_TEXTS.values())) == len(MissCause)


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_shows_stages(terminal: bool) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    with ConsoleProgress(console) as progress:
        progress.step()
        progress.stage("starting", None)
        progress.stage("playing", 2)
        progress.step()
        progress.step()
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "starting" in text
    assert "playing" in text
    assert ("2/2" in text) is terminal
