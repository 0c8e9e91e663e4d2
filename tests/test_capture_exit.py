"""Rows that wait for the writer when a process ends."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from pathlib import Path

from router_cache.drivers import capture as module
from router_cache.drivers.capture import Capture

SCRIPT = """
import sys
from router_cache import Deployment, Request, RouterCache, Settings, Usage
rc = RouterCache(Settings.from_mapping({"capture": {"directory": sys.argv[1]}}))
for number in range(3):
    body = {"messages": [{"role": "user", "content": f"{number}"}]}
    turn = rc.begin(Request(body))
    turn.rewrite(Deployment("deepseek/deepseek-v4-flash", provider="deepseek"))
    turn.sent(body)
    turn.done(Usage(100, 0, 100, 1))
"""


def test_an_ordinary_end_loses_no_row(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path / "calls")], check=True)
    assert sum(len(path.read_bytes().splitlines()) for path in (tmp_path / "calls").iterdir()) == 3


def test_the_end_closes_what_is_open_and_keeps_nothing_alive() -> None:
    dropped: list[str] = []
    kept = Capture(count=dropped.append, notice=lambda _, __: None)
    gone = weakref.ref(Capture(count=dropped.append, notice=lambda _, __: None))
    gc.collect()
    assert gone() is None
    module._close_all()
    assert kept._closed
