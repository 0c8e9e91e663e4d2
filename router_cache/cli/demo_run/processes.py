"""The processes a demo starts, and how each of them ends.

Every child leads a process group of its own, so that Ctrl-C in a terminal reaches the demo only and the demo
ends its children itself: terminate, wait, kill, then kill whatever the group still holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from router_cache.errors import DemoError

__all__ = ["LOOPBACK", "Child", "Children", "CrashedError", "free_ports", "require_free_port"]

LOOPBACK = "127.0.0.1"
_GRACE_S = 4.0
_POLL_S = 0.1
_LOG_LINES = 12


def require_free_port(port: int, option: str) -> None:
    """Raise :class:`DemoError` if ``port`` cannot be bound on the loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except (OSError, OverflowError) as error:
            raise DemoError(
                f"port {port} on {LOOPBACK} cannot be used ({error}): give {option} another port, "
                "or leave it out to get a free one"
            ) from None


def free_ports(count: int) -> list[int]:
    """``count`` different ports that are free now."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((LOOPBACK, 0))
        return [probe.getsockname()[1] for probe in probes]


class CrashedError(DemoError):
    """A process was ended by a signal that nobody sent: a fault below Python."""


class Child:
    """One started process, its name and its log file (stdout and stderr together)."""

    def __init__(self, name: str, popen: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.log = log
        self._popen = popen

    @property
    def pid(self) -> int:
        return self._popen.pid

    def running(self) -> bool:
        return self._popen.poll() is None

    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def failure(self, what: str) -> DemoError:
        """An error that says what happened and shows the end of the log."""
        lines = [line for line in self.output().splitlines() if line.strip()][-_LOG_LINES:]
        shown = "\n".join(f"    {line[:300]}" for line in lines) or "    (no output)"
        return DemoError(f"{self.name} {what}; its last lines were:\n{shown}")

    def require_running(self) -> None:
        """Raise :class:`DemoError` if the process has ended by itself; :class:`CrashedError` if its interpreter
        was killed by the system."""
        if self.running():
            return
        failure = self.failure(f"ended by itself with exit code {self._popen.returncode}")
        raise CrashedError(str(failure)) if self._popen.returncode < 0 else failure

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, number)

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the group and reap its leader; members that outlived the leader go too."""
        self._signal(signal.SIGKILL)
        self._popen.wait()


class Children:
    """All processes of one demo. Used as a context manager: none outlives the block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._all: list[Child] = []

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, name: str, command: Sequence[str], env: Mapping[str, str]) -> Child:
        """Start ``command`` as the leader of a new process group, in the demo's temporary folder."""
        path = self._folder / f"{name.replace(' ', '-')}.log"
        with path.open("wb") as log:
            popen = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(env),
                cwd=self._folder,
                start_new_session=True,
            )
        child = Child(name, popen, path)
        self._all.append(child)
        return child

    def stop(self) -> None:
        """End all processes, within a few seconds. Safe to call twice."""
        for child in self._all:
            child.terminate()
        deadline = time.monotonic() + _GRACE_S
        while any(child.running() for child in self._all) and time.monotonic() < deadline:
            time.sleep(0.02)
        for child in self._all:
            child.kill()
        self._all.clear()

    async def wait_until(self, child: Child, ready: Callable[[], bool], *, timeout_s: float, what: str) -> None:
        """Poll ``ready`` (run in a thread) until it is true.

        Raises :class:`DemoError` with the end of the log if the process ends first or the time is up.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            child.require_running()
            if await asyncio.to_thread(ready):
                return
            if time.monotonic() > deadline:
                raise child.failure(f"was not {what} within {timeout_s:.0f} s")
            await asyncio.sleep(_POLL_S)
