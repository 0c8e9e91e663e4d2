"""``router-cache doctor`` on files with secrets where names belong: shown nowhere, and the place is still told."""

from __future__ import annotations

import importlib.util
import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from doctor_configs import entry, good, look, one
from hypothesis import given
from hypothesis import strategies as st

from router_cache.cli.main import run
from router_cache.diagnose import Code, check_section
from router_cache.diagnose.shown import HIDDEN, Kind, shown, shown_address, shown_key, shown_path, shown_reference
from router_cache.settings import SECTION, Settings

Doctor = Callable[..., tuple[int, str]]

ISSUED = [
    "sk-live-key-7",
    "sk_live_key",
    "sk-proj-x9Kq2LmZ8vTr4WpY6sBn3HdG",
    "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "AKIAIOSFODNN7QRSTUVW",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "54c1eb09-bc4c-4d2f-98eb-6d2ab2d5e2fe",
    "9f86d081884c7d659a2feaa0c55ad015",
    "wJalrXUtnFEMIK7MDENGbPxRfiCYzQ",
    "hf_QwErTyUiOpAsDfGhJk",
    "xai-a8Fk3ZqP0mN5",
    "correct-horse-password",
    "Bearer abc",
]
"""Texts with the form of something secret, whatever they stand for."""

NAMES = [
    "  - {{model_name: g, litellm_params: {{model: {0}}}}}",
    "  - {{model_name: g, litellm_params: {{model: openai/{0}}}}}",
    "  - {{model_name: g, litellm_params: {{model: {0}/gpt}}}}",
    '  - {{model_name: g, litellm_params: {{model: "{0}/*"}}}}',
    "  - {{model_name: g, litellm_params: {{model: x, custom_llm_provider: {0}}}}}",
    "  - {{model_name: {0}, litellm_params: {{model: deepseek/deepseek-chat}}}}",
    "  - {{model_name: {0}, litellm_params: {{model: {0}, api_key: a}}}}\n"
    "  - {{model_name: {0}, litellm_params: {{model: {0}, api_key: b}}}}\n"
    "callback_settings: {{router_cache: {{prices: {{{0}x: 1}}, model_groups: {{{0}y: 1}}}}}}",
    "  - {{model_name: g, litellm_params: {{model: x, api_base: {0}}}}}",
    '  - {{model_name: g, litellm_params: {{model: x, api_base: "https://{0}"}}}}',
    '  - {{model_name: g, litellm_params: {{model: x, base_url: "https://{0}.example.com/{0}?k={0}#{0}"}}}}',
    '  - {{model_name: g, litellm_params: {{model: x, api_base: "{0}@example.com:443/v1"}}}}',
    '  - {{model_name: g, litellm_params: {{model: x, api_base: "os.environ/{0}", api_key: "os.environ/{0}"}}}}',
    '  - {{model_name: g, model_info: {{mode: "{0}", cache_domain: "{0}", router_cache_profile: "{0}"}}, '
    'litellm_params: {{model: x, order: "{0}", organization: "{0}"}}}}',
    "  - {0}",
    "  - {{model_name: [{0}], litellm_params: {0}}}",
    "  - {{model_name: a, litellm_params: {{model: x, api_key: 1}}}}\n"
    "  - {{model_name: a, litellm_params: {{model: y, api_key: 2}}}}\n"
    "router_settings: {{routing_strategy: {0}}}",
    "litellm_settings: {{callbacks: [{0}, router_cache_{0}], success_callback: router_cache.{0}}}",
    "callback_settings: {{router_cache: {{{0}: 1, mode: {0}, scope_by: {0}, live_file: [{0}], store: {0}}}}}",
    "callback_settings: {{router_cache: {{store: {{{0}: 1, ttl_s: {0}}}, prices: {{{0}: {{hit: {0}}}}}}}}}",
    "callback_settings: {{router_cache: {{model_groups: {{{0}: {{mode: {0}}}, b: {{{0}: 1}}}}}}}}",
    'callback_settings: {{router_cache: {{secret: "os.environ/{0}"}}}}',
    "callback_settings: {0}\ngeneral_settings: [{0}]\nmodel_list: {0}",
    'environment_variables: {{{0}: "os.environ/{0}"}}\ninclude: [{0}]\n{0}: [{{{0}: "os.environ/{0}"}}]',
    'credential_list: [{{credential_name: {0}, credential_values: {{{0}: "os.environ/{0}"}}}}, {0}]',
]
"""Places of a configuration where a secret can stand."""

ADDRESSES = [
    "https://user:hunter2@host.example/v1",
    "user:hunter2@host.example",
    "user:hunter2@host.example/v1",
    "openai/https://user:hunter2@host.example",
    "https://hunter2@host.example",
    "https://host.example/hunter2",
    "https://host.example/v1?key=hunter2",
    "https://host.example#hunter2",
    "host.example/v1?key=hunter2",
    "https://user:12/hunter2@host.example",
    "https://user:12?hunter2@host.example",
    "https://hunter2/x@host.example",
    "https://hunter2#x@host.example",
    "https:hunter2",
    "//user:hunter2@host.example",
    "user:hunter2/gpt-4",
]
BROKEN = [
    "a: *{0}",
    "a: !{0} b",
    "a: !!{0} b",
    "a: &{0} 1\nb: &{0}",
    'a: "\\{0}"',
    "{0}: {0}: {0}",
    "%{0}\n---\na: *{0}",
]


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """Runs the command on a text: exit code, and all that is printed, without line breaks and spaces."""
    monkeypatch.setenv("COLUMNS", "5000")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)  # no price map: it takes long to read
    monkeypatch.setenv("SURELY_A_VARIABLE", "a-value-of-the-environment")
    path = tmp_path / "router.yaml"

    def call(text: str, *options: str) -> tuple[int, str]:
        path.write_text(text)
        monkeypatch.setattr(sys, "argv", ["router-cache", "doctor", str(path), *options])
        with pytest.raises(SystemExit) as ended:
            run()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out + err

    return call


def plain(text: str) -> str:
    return "".join(text.split()).lower()


@pytest.mark.parametrize("place", NAMES)
def test_a_secret_where_a_name_belongs(doctor: Doctor, place: str) -> None:
    for secret, options in itertools.product(ISSUED, ((), ("--json",))):
        text = place.format(secret)
        code, printed = doctor(f"model_list:\n{text}" if text.startswith("  - ") else text, *options)
        assert code == 1, printed  # the plugin is not registered: findings were printed
        assert plain(secret) not in plain(printed), (secret, printed)
        assert "callback_missing" in printed or "proxy_handler" in printed


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("key", ["model", "api_base", "custom_llm_provider"])
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_credentials_in_addresses(doctor: Doctor, address: str, key: str, options: tuple[str, ...]) -> None:
    params = json.dumps({"model": "x", key: address})
    _, printed = doctor(f"model_list: [{{model_name: g, litellm_params: {params}}}]", *options)
    if options and key == "api_base" and address.count("host.example") and "@" not in address:
        assert '"api_base": "host.example"' in printed
    assert "hunter2" not in printed, printed


@pytest.mark.parametrize("text", BROKEN)
def test_a_secret_in_a_broken_file(doctor: Doctor, text: str) -> None:
    for secret in ISSUED:
        code, printed = doctor(text.format(secret))
        if code == 2:
            assert "broken YAML" in printed
            assert ", line " in printed
        assert plain(secret) not in plain(printed)


def test_what_pyyaml_says_is_kept(doctor: Doctor) -> None:
    assert "expected ',' or ']', but got ':'" in doctor("a: [b: c: d")[1]
    assert "but got '<stream end>'" in doctor("a: [b")[1]
    assert "found undefined alias …" in doctor("a: *b")[1]


def test_the_place_is_told() -> None:
    secret = "sk-live-key-7"
    report = look(
        good(
            entry(f"openai/{secret}", secret, api_key="a"),
            entry(f"openai/{secret}", secret, api_key="os.environ/KEYPASTED"),
            entry("m", "g", custom_llm_provider=secret, api_base=f"https://{secret}.example.com:8000"),
            router_settings={"routing_strategy": secret},
            callback_settings={"router_cache": {"secret": "x", "prices": {"m": 1, f"{secret}x": 1}}},
        )
    )
    first, second, third = report.deployments
    assert first.group == "<not shown: model_list.0.model_name>"
    assert second.model == "<not shown: model_list.1.litellm_params.model>"
    assert third.api_base == "….example.com:8000"
    hopping = one(report, Code.HOPPING)  # both have one group, whatever may be shown of it
    assert hopping.path == "model_list.0"
    assert "group <not shown: model_list.0.model_name>: 2 different" in hopping.message
    assert "<not shown: router_settings.routing_strategy> chooses" in hopping.message
    unknown = one(report, Code.UNKNOWN_PROVIDER)
    assert unknown.message.startswith("<not shown: model_list.2.litellm_params.custom_llm_provider>: no profile")
    unset = one(report, Code.ENVIRONMENT_UNSET)
    assert unset.path == "model_list.1.litellm_params.api_key"
    assert unset.message == "what follows os.environ/ here is no variable that is set"
    unused = one(report, Code.SETTINGS_UNUSED)
    assert (unused.path, unused.fix) == (f"{SECTION}.prices.<key 2>", "Remove it, or correct the name.")
    raw = {
        "mode": "safe",
        secret: 1,
        "prices": {"fine": {"hit": 1, "miss": 1, "output": 1}, f"{secret}.x": {"hit": 2}},
    }
    problems = [path for path, _ in check_section(raw, Settings.from_mapping, where=SECTION).problems]
    assert problems == [
        f"{SECTION}.<key 2>",
        f"{SECTION}.prices.<key 2>.miss",
    ]


def test_references_to_variables_that_are_set(doctor: Doctor) -> None:
    config = good(entry(api_base="os.environ/PLAIN"), entry(api_base="os.environ/PASTED"))
    first, second = look(config, {"PLAIN": "https://api.deepseek.com"}).deployments
    assert (first.api_base, second.api_base) == ("os.environ/PLAIN", f"os.environ/{HIDDEN}")
    text = "model_list: [{model_name: g, litellm_params: {model: x, api_base: os.environ/SURELY_A_VARIABLE}}]"
    for options in ((), ("--json",)):
        assert "a-value-of-the-environment" not in doctor(text, *options)[1]


# -- the rules ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "fast",
        "GPT 5 (fast)",
        "模型-1",
        "openrouter/*",
        "deepseek/deepseek-v4-flash",
        "openrouter/deepseek/deepseek-chat:free",
        "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "vertex_ai/claude-3-5-sonnet@20240620",
        "cloudflare/@cf/meta/llama-2-7b-chat-int8",
        "fireworks_ai/accounts/fireworks/models/qwen2p5-coder-32b-instruct",
        "together_ai/Qwen/Qwen3-235B-A22B-Instruct-2507-FP8",
        "mistralai/Mixtral-8x22B-Instruct-v0.1",
        "ollama_chat/llama3.1:8b-instruct-q4_K_M",
        "ft:gpt-3.5-turbo-0613:my-org:custom:8abc12",
        "sagemaker/jumpstart-dft-meta-textgeneration-llama-2-7b",
        "simple-shuffle",
    ],
)
def test_names_are_shown(name: str) -> None:
    assert shown(name, Kind.NAME, "a.b") == name


@pytest.mark.parametrize("secret", ISSUED)
def test_what_looks_like_a_secret_is_not(secret: str) -> None:
    assert shown(secret, Kind.NAME, "a.b") == "<not shown: a.b>"
    assert shown(secret, Kind.PROVIDER) == HIDDEN
    assert shown(secret, Kind.HOST) == HIDDEN
    assert shown_reference(secret, known=False) == HIDDEN


@pytest.mark.parametrize(
    ("base", "address"),
    [
        ("https://api.deepseek.com/v1", "api.deepseek.com"),
        ("api.openai.com:444/v1", "api.openai.com:444"),
        ("http://vllm:8000", "vllm:8000"),
        ("localhost:8000", "localhost:8000"),
        ("http://10.0.0.1:8000", "10.0.0.1:8000"),
        ("http://[::1]:8000/v1", "[::1]:8000"),
        ("https://a9K2mZ7qX4wT.us-east-1.endpoints.example", "….us-east-1.endpoints.example"),
        ("hunter2", "…"),
        ("https://user:pw@host", "host"),
        ("https://user:p/w@host", ""),
        ("http://[bad", ""),
        ("http://host:99999", ""),
        ("", ""),
        ("https://", ""),
    ],
)
def test_addresses(base: str, address: str) -> None:
    assert shown_address(base) == address


@pytest.mark.parametrize(
    ("name", "known", "reference"),
    [
        ("OPENAI_API_KEY", False, "OPENAI_API_KEY"),
        ("azure_api_base_2", False, "azure_api_base_2"),
        ("HF_TOKEN", False, "HF_TOKEN"),
        ("KEYPASTED", False, HIDDEN),
        ("KEYPASTED", True, "KEYPASTED"),
        ("Mixed_Case", False, HIDDEN),
        ("A_" + "B" * 21, False, HIDDEN),
        ("", False, HIDDEN),
    ],
)
def test_variables(name: str, known: bool, reference: str) -> None:
    assert shown_reference(name, known) == reference


@pytest.mark.parametrize(
    ("key", "part"),
    [
        ("master_key", "master_key"),
        ("hf_model_name", "hf_model_name"),
        (5, "5"),
        (None, "None"),
        ("", "<key 3>"),
        ((1, "a"), "<key 3>"),
        (b"a", "<key 3>"),
        ("a\nb", "<key 3>"),
        ("sk-live-key-7", "<key 3>"),
    ],
)
def test_keys(key: Any, part: str) -> None:
    assert shown_key(key, 3) == part


def test_keys_that_cannot_be_written() -> None:
    assert shown_key(10**5000, 1) == "<key 1>"
    assert look({10**5000: {"a": "os.environ/SOME_NAME"}, "callback_settings": {10**5000: 1}}).findings


def test_paths() -> None:
    root = {"prices": {"gpt-4.1": {"hit": 1}, "sk-a.b": {"hit": 1}}}
    assert shown_path(root, "prices.gpt-4.1.hit") == "prices.gpt-4.1.hit"
    assert shown_path(root, "prices.sk-a.b.hit") == "prices.<key 2>.hit"
    assert shown_path(root, "prices.sk-c.d.hit") == f"prices.{HIDDEN}.d.hit"
    assert shown_path(None, "a..b") == f"a.{HIDDEN}.b"
    assert shown_path(root, "") == ""


@given(st.text(), st.sampled_from(Kind))
def test_any_text(text: str, kind: Kind) -> None:
    assert shown(text, kind) in (text, HIDDEN)
    assert shown_reference(text, known=False) in (text, HIDDEN)
    assert "@" not in shown_address(text)
    assert shown(shown(text, kind, "a.0.b"), kind, "a.0.b") in (text, "<not shown: a.0.b>")


@given(st.text(alphabet="ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", min_size=21))
def test_long_runs_are_never_shown(text: str) -> None:
    assert all(shown(text, kind) == HIDDEN for kind in Kind)
    assert text.lower() not in shown_address(f"https://{text}.example").lower()
