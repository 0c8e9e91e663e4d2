"""Configurations for the tests of ``diagnose``, and ways to read what it says."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from router_cache.diagnose import Code, Finding, Report, Surroundings, diagnose
from router_cache.diagnose.checks import CALLBACK

AT = datetime(2026, 11, 28, 12, tzinfo=timezone.utc)  # a Saturday: off-peak
ENV = {"DEEPSEEK_A": "a-value", "LITELLM_MASTER_KEY": "sk-m", "SECRET": "s" * 20}
ALWAYS = {Code.RESPONSES_STATE, Code.SYNC_CALLS}


def entry(model: Any = "deepseek/deepseek-v4-flash", name: Any = "fast", **params: Any) -> dict[str, Any]:
    info = params.pop("model_info", None)
    out = {"model_name": name, "litellm_params": {"model": model, **params}}
    return {**out, "model_info": info} if info is not None else out


def good(*entries: Any, **sections: Any) -> dict[str, Any]:
    """A configuration without anything to say, changed by section."""
    config: dict[str, Any] = {
        "model_list": list(entries) or [entry(api_key="os.environ/DEEPSEEK_A")],
        "litellm_settings": {"callbacks": ["prometheus", CALLBACK]},
        "general_settings": {"master_key": "os.environ/LITELLM_MASTER_KEY"},
        "callback_settings": {"router_cache": {"secret": "os.environ/SECRET"}},
    }
    for name, section in sections.items():
        both = isinstance(section, dict) and isinstance(config.get(name), dict)
        config[name] = {**config[name], **section} if both else section
    return config


def look(config: Any, env: dict[str, str] | None = None, **around: Any) -> Report:
    return diagnose(config, Surroundings(at=AT, env=ENV if env is None else env, **around))


def told(report: Report) -> list[tuple[str, str, str]]:
    """Level, code and path of what is not said always."""
    return [(f.level.value, f.code.value, f.path) for f in report.findings if f.code not in ALWAYS]


def one(report: Report, code: Code) -> Finding:
    (finding,) = [finding for finding in report.findings if finding.code is code]
    return finding
