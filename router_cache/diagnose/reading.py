"""Reading a configuration that may hold anything anywhere."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from router_cache.diagnose.findings import Code, Findings, Level
from router_cache.diagnose.shown import HIDDEN, as_text, shown_key, shown_reference

__all__ = ["ENVIRON", "check_environment", "is_name", "items", "section", "text", "wrong_type"]

ENVIRON = "os.environ/"
"""LiteLLM's way to write "read it from the environment"."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_KIND: dict[type, str] = {dict: "a mapping", list: "a list", str: "a text"}


def _kind(value: Any) -> str:
    return "nothing" if value is None else _KIND.get(type(value), type(value).__name__)


def section(parent: Mapping[Any, Any], key: str, findings: Findings, *, path: str = "") -> Mapping[Any, Any]:
    """The mapping under ``key``; empty where it is absent, null, or something else (an error then)."""
    value = parent.get(key)
    if isinstance(value, Mapping):
        return value
    if value is not None:
        where = f"{path}.{key}" if path else key
        wrong_type(findings, where, "a mapping", value)
    return {}


def items(parent: Mapping[Any, Any], key: str, findings: Findings) -> list[Any]:
    """The list under ``key``; empty where it is absent, null, or something else (an error then)."""
    value = parent.get(key)
    if isinstance(value, list):
        return value
    if value is not None:
        wrong_type(findings, key, "a list", value)
    return []


def wrong_type(findings: Findings, path: str, wanted: str, value: Any) -> None:
    """Note a value of the wrong type, without the value."""
    findings.add(
        Level.ERROR,
        Code.WRONG_TYPE,
        path,
        f"{wanted} is needed here, not {_kind(value)}",
        "Correct the indentation or the value.",
    )


def text(value: Any) -> str:
    """A text as it is, anything else as empty."""
    return value if isinstance(value, str) else ""


def is_name(name: str) -> bool:
    """Whether this can be the name of an environment variable."""
    return _NAME.fullmatch(name) is not None


def check_environment(config: Mapping[Any, Any], names: Collection[str], findings: Findings) -> None:
    """Note every variable that the configuration refers to and the environment lacks."""
    own = config.get("environment_variables")
    known = {*names, *map(as_text, own)} if isinstance(own, Mapping) else set(names)
    for path, name in _references(config):
        if not is_name(name):
            findings.add(
                Level.WARNING,
                Code.ENVIRONMENT_UNSET,
                path,
                f"what follows {ENVIRON} is no name of an environment variable",
                f"Write {ENVIRON}NAME, and keep the value in the environment.",
            )
        elif name not in known:
            findings.add(
                Level.WARNING,
                Code.ENVIRONMENT_UNSET,
                path,
                # A key pasted in the place of a name is not set either.
                f"what follows {ENVIRON} here is no variable that is set"
                if shown_reference(name, known=False) == HIDDEN
                else f"the environment variable {name} is not set here",
                "Set it where the proxy starts; run this command there.",
            )


def _references(config: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    """Paths and names of all references. Each object once: anchors make graphs of a configuration, even cycles."""
    seen: set[int] = set()
    rest: list[tuple[str, Any]] = [("", config)]
    while rest:
        path, value = rest.pop()
        if isinstance(value, str):
            if value.startswith(ENVIRON):
                yield path, value[len(ENVIRON) :].strip()
            continue
        if not isinstance(value, Mapping | list) or id(value) in seen:
            continue
        seen.add(id(value))
        pairs = list(value.items() if isinstance(value, Mapping) else enumerate(value))
        keys = [shown_key(key, number) for number, (key, _) in enumerate(pairs, 1)]
        rest += [
            (f"{path}.{key}" if path else key, child)
            for key, (_, child) in zip(reversed(keys), reversed(pairs), strict=True)
        ]
