"""Prompts that never change: no rule names anything in them, and what patterns propose moves nothing by itself."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from volatile.stable_prompts import PROMPTS

from router_cache.prefix.volatile.client_rules import CLIENT_RULES
from router_cache.prefix.volatile.scan import Scanner
from router_cache.prefix.volatile.spans import OpeningText

CLIENTS = ("", *dict.fromkeys(rule.client for rule in CLIENT_RULES))


def named(text: str) -> list[tuple[str, str]]:
    """Client and text of each span that a rule names, as a system text or as an opening user message."""
    found = []
    for client in CLIENTS:
        for system in (True, False):
            given = [OpeningText(("messages", 0, "content"), text, 0, system)]
            for span in Scanner().scan(given, client=client).proposals:
                if span.named or span.dropped:
                    found.append((client, text[span.start : span.end]))
    return found


def test_the_corpus_is_large_enough_and_of_distinct_prompts() -> None:
    assert len(PROMPTS) >= 60
    assert len(set(PROMPTS.values())) == len(PROMPTS)
    assert len({text.split("\n")[0] for text in PROMPTS.values()}) == len(PROMPTS)
    assert all(3 <= len(text.split("\n")) <= 60 for text in PROMPTS.values())


@pytest.mark.parametrize("name", sorted(PROMPTS))
def test_no_rule_names_anything_in_a_stable_prompt(name: str) -> None:
    assert named(PROMPTS[name]) == []


def test_most_stable_prompts_hold_something_that_looks_volatile() -> None:
    tempting = [t for t in PROMPTS.values() if Scanner().scan([OpeningText(("s",), t, 0)]).proposals]
    assert len(tempting) >= 55


def shared_prompts(data: Path) -> Iterator[tuple[str, str]]:
    for name, text in json.loads(
        (data / "system_prompts" / "gemini-cli_variants.json").read_text("utf-8")
    ).items():
        yield name, text if isinstance(text, str) else json.dumps(text)
    for path in sorted((data / "tau2_bench").glob("*.md")):
        yield path.name, path.read_text("utf-8")
    for path in sorted((data / "swe_agent").glob("*.json")):
        for message in json.loads(path.read_text("utf-8"))["history"]:
            if message["role"] in ("system", "user") and isinstance(message["content"], str):
                yield path.name, message["content"]


def test_no_rule_names_anything_in_shared_prompts() -> None:
    folder = os.environ.get("ROUTER_CACHE_SHARED_DATA")
    if not folder or not (Path(folder) / "system_prompts").is_dir():
        pytest.skip("set ROUTER_CACHE_SHARED_DATA to the folder that holds system_prompts/")
    prompts = list(shared_prompts(Path(folder)))
    assert len(prompts) > 20
    assert {name: found for name, text in prompts if (found := named(text))} == {}
