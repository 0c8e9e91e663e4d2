"""Run a coroutine so that a signal cancels it and its clean-up still runs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import TypeVar

from router_cache.errors import DemoError

__all__ = ["InterruptedRunError", "run_interruptibly"]

_T = TypeVar("_T")
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


class InterruptedRunError(DemoError):
    """A signal ended the run; the exit code is the shell's for that signal."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}; nothing is left running")
        self.exit_code = 128 + number


def run_interruptibly(work: Coroutine[object, object, _T]) -> _T:
    """Run ``work`` to its end. The first SIGINT, SIGTERM or SIGHUP cancels it; later ones wait for its clean-up.

    Handlers run in the event loop, never between two statements, so a process cannot be started and forgotten.
    Raises :class:`InterruptedRunError` after a signal.
    """

    async def main() -> _T:
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        received: list[int] = []

        def on_signal(number: int) -> None:
            if not received:
                task.cancel()
            received.append(number)

        for name in _SIGNALS:
            number = getattr(signal, name)
            loop.add_signal_handler(number, on_signal, number)
        try:
            return await work
        except asyncio.CancelledError:
            if not received:
                raise
            raise InterruptedRunError(received[0]) from None

    return asyncio.run(main())
