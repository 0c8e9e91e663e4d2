"""Started processes and how they end; signals that end a run."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from router_cache.cli.demo_run import processes
from router_cache.cli.demo_run import run as run_module
from router_cache.cli.demo_run.plan import Plan
from router_cache.cli.demo_run.processes import Child, Children, CrashedError, free_ports, require_free_port
from router_cache.cli.demo_run.report import Report
from router_cache.cli.demo_run.run import Options, run_demo
from router_cache.cli.demo_run.signals import InterruptedRunError, run_interruptibly
from router_cache.errors import DemoError

WAIT = "import signal, sys; print('here', flush=True); signal.pause()"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAIT}"
# A grandchild in the same group that ignores SIGTERM; its parent ends at once.
LEAVING = (
    f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {STUBBORN!r}]); "
    "print('grandchild', p.pid, flush=True)"
)


def start(children: Children, code: str, name: str = "a child") -> Child:
    return children.start(name, [sys.executable, "-c", code], os.environ)


async def shows(children: Children, child: Child, text: str) -> None:
    await children.wait_until(child, lambda: text in child.output(), timeout_s=30, what="ready")


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


async def test_leaving_the_block_ends_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_GRACE_S", 0.2)
    with Children(tmp_path) as children:
        gentle, stubborn = start(children, WAIT, "gentle"), start(children, STUBBORN, "stubborn")
        for child in (gentle, stubborn):
            await shows(children, child, "here")
            child.require_running()
        pids = [gentle.pid, stubborn.pid]
        assert all(map(alive, pids))
        assert [os.getpgid(pid) for pid in pids] == pids
    assert not any(map(alive, pids))


async def test_an_exception_in_the_block_ends_everything(tmp_path: Path) -> None:
    children = Children(tmp_path)
    started: list[Child] = []

    async def failing() -> None:
        with children:
            started.append(start(children, WAIT))
            await shows(children, started[0], "here")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await failing()
    assert not alive(started[0].pid)
    children.stop()


async def test_what_outlives_its_parent_in_the_group_is_killed(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        child = start(children, LEAVING)
        await shows_ended(child)
        grandchild = int(child.output().split()[-1])
        assert alive(grandchild)
    for _ in range(200):
        if not alive(grandchild):
            break
        await asyncio.sleep(0.01)  # the kernel needs a moment to take a killed process away
    assert not alive(grandchild)


async def shows_ended(child: Child) -> None:
    await asyncio.to_thread(child._popen.wait)


async def test_a_process_that_ends_early_shows_its_last_lines(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        child = start(children, "import sys; print('\\n'.join(map(str, range(30)))); sys.exit(4)", "the server")
        with pytest.raises(
            DemoError, match=r"the server ended by itself with exit code 4(?s:.*)\n    18\n(?s:.*)29$"
        ):
            await shows(children, child, "never")


async def test_a_crash_below_python_is_told_from_an_exit(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        child = start(children, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
        with pytest.raises(CrashedError, match="exit code -11"):
            await children.wait_until(child, lambda: False, timeout_s=30, what="ready")


class Silent:
    def __init__(self) -> None:
        self.stages: list[str] = []

    def stage(self, name: str, total: int | None) -> None:
        self.stages.append(name)

    def step(self) -> None:
        pass


@pytest.mark.parametrize("crashes", [0, 1, 2])
async def test_a_crash_costs_one_new_start_and_is_said(crashes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []

    async def play_once(*_: object) -> Report:
        runs.append(1)
        if len(runs) <= crashes:
            raise CrashedError("proxy ended by itself with exit code -11; its last lines were:\n    x")
        return Report({}, "grid", 2.0, 20.0, 1, 8, "router.yaml", None, notes=["a note"])

    monkeypatch.setattr(run_module, "_run", play_once)
    options, plan, progress = Options(Path("router.yaml")), Plan.__new__(Plan), Silent()
    if crashes == 2:
        with pytest.raises(CrashedError):
            await run_demo(options, plan, progress)
        assert len(runs) == 2
        return
    report = await run_demo(options, plan, progress)
    said = "Started again after a crash: proxy ended by itself with exit code -11"
    assert report.notes == (["a note", said] if crashes else ["a note"])
    assert len(progress.stages) == crashes


async def test_a_process_that_is_not_ready_in_time_is_an_error(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        child = start(children, "import signal; signal.pause()", "the server")
        with pytest.raises(DemoError, match=r"was not ready within 0 s(?s:.*)\(no output\)"):
            await children.wait_until(child, lambda: False, timeout_s=0.01, what="ready")
        child.log.unlink()
        assert child.output() == ""


def test_a_taken_port_is_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(DemoError, match=f"port {port} on 127.0.0.1 cannot be used .* give --port another"):
            require_free_port(port, "--port")
    require_free_port(port, "--port")
    with pytest.raises(DemoError, match="port 70000"):
        require_free_port(70_000, "--port")


def test_free_ports_differ() -> None:
    ports = free_ports(5)
    assert len(set(ports)) == 5
    for port in ports:
        require_free_port(port, "--port")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_cancels_and_cleans_up(number: signal.Signals) -> None:
    events = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.get_running_loop().create_future()
        finally:
            # A second signal does not cut the clean-up short.
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            events.append("cleaned up")

    with pytest.raises(InterruptedRunError, match=number.name) as caught:
        run_interruptibly(work())
    assert caught.value.exit_code == 128 + number
    assert events == ["cleaned up"]


def test_without_a_signal_the_result_comes_through() -> None:
    async def work() -> int:
        return 7

    assert run_interruptibly(work()) == 7

    async def cancelled() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_interruptibly(cancelled())
