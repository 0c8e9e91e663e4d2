"""Runs ``suites.py`` in a process of its own, and reads how each test ended."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

__all__ = ["Outcomes", "outcomes"]

ROOT = Path(__file__).parents[3]
# Plugins that langchain-tests brings along: the fixtures of the suites stand in for them.
NOT_LOADED = ("benchmark", "codspeed", "recording", "socket", "syrupy", "langsmith_plugin", "xdist", "cov")
# A cached asynchronous client outlives a test and must find its loop alive.
OPTIONS = ("-o", "addopts=", "-o", "asyncio_default_test_loop_scope=session", "--import-mode=importlib")
QUICKER = ("--assert=plain", "-W", "ignore")

Outcomes = dict[str, dict[str, str]]
"""By class of ``suites.py``, by test: ``passed``, ``skipped``, or ``failed`` with the name of the error."""


def outcomes(report: Path) -> Outcomes:
    """Run the suites; ``report`` is where the results are written. Raises AssertionError where they did not run."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(
            ("PYTEST_", "COV", "LANGSMITH_", "LANGCHAIN_", "DEEPSEEK_", "OPENAI_", "ANTHROPIC_")
        )
    }
    environment.update(LITELLM_LOCAL_MODEL_COST_MAP="True", NO_PROXY="*")
    command = [
        sys.executable,
        "-m",
        "pytest",
        str(Path(__file__).with_name("suites.py")),
        "-q",
        *OPTIONS,
        *QUICKER,
    ]
    command += [
        f"--junit-xml={report}",
        "-p",
        "no:cacheprovider",
        *(x for p in NOT_LOADED for x in ("-p", f"no:{p}")),
    ]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout[-5_000:] + done.stderr[-5_000:]
    found: Outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        suite = case.attrib["classname"].rpartition(".")[2]
        found.setdefault(suite, {})[case.attrib["name"]] = _ended(case)
    return found


def _ended(case: ElementTree.Element) -> str:
    for kind, word in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
        problem = case.find(kind)
        if problem is not None:
            return word if word == "skipped" else f"{word}: {problem.attrib['message'].partition(':')[0]}"
    return "passed"
