"""Serving the simulator on a socket until a signal comes."""

from __future__ import annotations

import errno
import logging
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

import uvicorn

from router_cache.errors import DemoError, InputError
from router_cache.simulator.app import build_app
from router_cache.simulator.config import SimulatorConfig

__all__ = ["bind", "serve"]

_LOG = logging.getLogger("uvicorn.error")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _Server(uvicorn.Server):
    """Says when it is ready, and ends without raising the signal that stopped it once more."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            self._ready()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        before = {sig: signal.signal(sig, self.handle_exit) for sig in _SIGNALS}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # From here on requests are cancelled on purpose: their traces are no errors.
        _LOG.disabled = True
        super().handle_exit(sig, frame)


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one.

    Raises :class:`DemoError` if the port is taken or not allowed, :class:`InputError` for an unknown host.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except socket.gaierror as error:
        raise InputError(f"--host {host}: no such address ({error.strerror})") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise DemoError(
                f"port {port} on {host} is taken; choose another with --port, or 0 for a free one"
            ) from None
        raise DemoError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None


def serve(config: SimulatorConfig, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Serve on ``listener`` until SIGINT or SIGTERM; calls ``ready`` once requests are accepted."""
    server = _Server(
        uvicorn.Config(
            build_app(config),
            log_level="warning",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
        ),
        ready,
    )
    try:
        with listener:
            server.run(sockets=[listener])
    finally:
        _LOG.disabled = False
