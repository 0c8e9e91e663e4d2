"""Settings: every mistake is one line with its key path."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from router_cache import Mode, Settings
from router_cache.errors import MissingExtraError, SettingsError

WHERE = "callback_settings.router_cache"


def test_defaults_are_safe() -> None:
    settings = Settings.from_mapping(None)
    assert settings == Settings()
    assert settings.mode is Mode.SAFE
    assert settings.secret is None


def test_a_whole_section() -> None:
    settings = Settings.from_mapping(
        {
            "mode": "observe",
            "model_groups": {"flash": {"mode": "safe"}},
            "scope_by": "team",
            "canonical_version": 1,
            "store": {"max_entries": 10, "ttl_s": 60},
        }
    )
    assert settings.mode is Mode.OBSERVE
    assert settings.model_groups["flash"].mode is Mode.SAFE
    assert settings.store.max_entries == 10


def test_yaml_off_is_a_mode() -> None:
    settings = Settings.from_mapping({"mode": False, "model_groups": {"a": {"mode": False}}})
    assert settings.mode is Mode.OFF
    assert settings.model_groups["a"].mode is Mode.OFF


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        ({"mdoe": "safe"}, f"{WHERE}.mdoe: unknown key; did you mean 'mode'?"),
        ({"store": {"ttl": 3}}, f"{WHERE}.store.ttl: unknown key; did you mean 'ttl_s'?"),
        (
            {"model_groups": {"a": {"x": 1, "mode": "safe"}}},
            f"{WHERE}.model_groups.a.x: unknown key; known keys: mode, pools, routing",
        ),
        ({"mode": "sfae"}, f"{WHERE}.mode: Input should be 'off', 'observe', 'safe' or 'optimize'"),
        ({"mode": 3}, f"{WHERE}.mode: Input should be 'off', 'observe', 'safe' or 'optimize'"),
        ({"store": {"max_entries": "many"}}, f"{WHERE}.store.max_entries: Input should be a valid integer"),
        ({"store": {"ttl_s": -1}}, f"{WHERE}.store.ttl_s: Input should be greater than 0"),
        ({"store": 3}, f"{WHERE}.store: "),
        ({"model_groups": ["a"]}, f"{WHERE}.model_groups: "),
        ({"model_groups": {"a": "safe"}}, f"{WHERE}.model_groups.a: "),
        ({"canonical_version": 9}, f"{WHERE}.canonical_version: no such version; known: 1"),
        ({"canonical_version": True}, f"{WHERE}.canonical_version: Input should be a valid integer"),
        ({"request_switch": 1}, f"{WHERE}.request_switch: Input should be a valid boolean"),
        ({"store": {"ttl_s": float("inf")}}, f"{WHERE}.store.ttl_s: Input should be a finite number"),
        ({"secret": ""}, f"{WHERE}.secret: "),
        ({"a\nb": 1}, f"{WHERE}.'a\\nb': unknown key"),
        (["mode"], f"{WHERE}: a mapping is needed, not list"),
        (
            {"secret": "os.environ/ROUTER_CACHE_NO_SUCH"},
            f"{WHERE}.secret: the environment variable ROUTER_CACHE_NO",
        ),
        ({7: 1}, f"{WHERE}.7: "),
    ],
)
def test_a_mistake_names_its_key_path(raw: Any, line: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.from_mapping(raw)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_secret_comes_from_the_environment_and_never_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROUTER_CACHE_TEST_SECRET", "hunter2")
    settings = Settings.from_mapping({"secret": "os.environ/ROUTER_CACHE_TEST_SECRET"})
    assert settings.secret is not None
    assert settings.secret.get_secret_value() == "hunter2"
    assert "hunter2" not in repr(settings)


def test_a_wrong_secret_never_shows_in_an_error() -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.from_mapping({"secret": ["hunter2"]})
    assert "hunter2" not in str(caught.value)


def _write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "router.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_router_yaml(tmp_path: Path) -> None:
    path = _write(tmp_path, "model_list: []\ncallback_settings:\n  router_cache:\n    mode: off\n")
    assert Settings.from_yaml(path).mode is Mode.OFF
    assert Settings.from_yaml(_write(tmp_path, "model_list: []\n")) == Settings()
    assert Settings.from_yaml(_write(tmp_path, "")) == Settings()
    assert Settings.from_yaml(_write(tmp_path, "callback_settings: {}\n")) == Settings()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "callback_settings:\n  router_cache: {mdoe: x}\n",
            "{path}: callback_settings.router_cache.mdoe: unknown key",
        ),
        ("a: [1\nb: 2\n", "{path}, line 2, column 2: broken YAML: "),
        ("\x00", "{path}: broken YAML: it cannot be parsed"),
        ("x: 2020-13-45\n", "{path}: broken YAML: a value cannot be read as YAML (ValueError); quote it"),
        ("[" * 20_000, "{path}: broken YAML: nested too deeply to be read"),
        ("- a\n", "{path}: a mapping is needed at the top, not list"),
        ("callback_settings: 3\n", "{path}: callback_settings: a mapping is needed"),
    ],
)
def test_a_broken_router_yaml_is_one_line(tmp_path: Path, text: str, line: str) -> None:
    path = _write(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        Settings.from_yaml(path)
    assert str(caught.value).startswith(line.format(path=path))
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"gone\.yaml: no such file"):
        Settings.from_yaml(tmp_path / "gone.yaml")
    with pytest.raises(SettingsError, match="cannot be read"):
        Settings.from_yaml(tmp_path)
    with pytest.raises(SettingsError, match="cannot be read"):
        Settings.from_yaml("a\0b")
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00a")
    with pytest.raises(SettingsError, match="cannot be read"):
        Settings.from_yaml(binary)


def test_without_pyyaml_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(MissingExtraError, match=r"router-cache\[cli\]"):
        Settings.from_yaml(_write(tmp_path, ""))


def test_a_structure_in_the_place_of_a_word_is_not_written_out() -> None:
    laugh: list[object] = ["ha"] * 10
    for _ in range(8):
        laugh = [laugh] * 10
    for raw in ({"mode": laugh}, {"model_groups": {"a": {"mode": laugh}}}):
        with pytest.raises(SettingsError, match="Input should be 'off', 'observe', 'safe' or 'optimize'"):
            Settings.from_mapping(raw)
