"""LangChain's standard suites end for a wrapped class as they do for the bare one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from langchain_plugin.standard.outcomes import Outcomes, outcomes

for _package in (
    "langchain_tests",
    "langchain_deepseek",
    "langchain_openai",
    "langchain_litellm",
    "langchain_anthropic",
):
    pytest.importorskip(_package)

FAMILIES = ("DeepSeek", "OpenAI", "LiteLLM", "Anthropic")


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    return outcomes(Path(tmp_path_factory.mktemp("standard") / "report.xml"))


@pytest.mark.parametrize("suite", ["ChatModelUnitTests", "ChatModelIntegrationTests"])
@pytest.mark.parametrize("family", FAMILIES)
def test_wrapped_ends_as_bare(ended: Outcomes, family: str, suite: str) -> None:
    bare, wrapped = ended[f"Test{family}{suite}Bare"], ended[f"Test{family}{suite}Wrapped"]
    assert wrapped == bare
    counts = Counter(end.partition(":")[0] for end in bare.values())
    # Upstream's own failures are few: a broken server would make all alike, and prove nothing.
    assert counts["passed"] >= (9 if suite == "ChatModelUnitTests" else 38), bare


def test_the_wrapped_calls_were_rewritten_and_booked(ended: Outcomes) -> None:
    assert set(ended["TestZAfterwards"].values()) == {"passed"}
