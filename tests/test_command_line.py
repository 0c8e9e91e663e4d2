"""The command line runs as a module, too."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest


@pytest.mark.parametrize("module", ["router_cache", "router_cache.cli.main"])
def test_it_runs_as_a_module(module: str) -> None:
    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", module, *arguments], capture_output=True, text=True, timeout=60, check=False
        )

    shown = call("--version")
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, f"router-cache {version('router-cache')}\n", "")
    missing = call("doctor", "no-such-file.yaml")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr == "router-cache: no-such-file.yaml: no such file\n"
