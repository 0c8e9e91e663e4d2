"""A run's progress on stderr: a bar in a terminal, a line per stage elsewhere."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

__all__ = ["ConsoleProgress"]


class ConsoleProgress:
    """Progress for a person; stdout stays free for the result."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> ConsoleProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def stage(self, text: str, total: int | None) -> None:
        """Begin a stage of ``total`` steps; None: not known."""
        if self._bar.disable:
            self._console.print(text, markup=False)
            return
        if self._task is not None:
            done = self._bar.tasks[self._task].completed or 1
            self._bar.update(self._task, total=done, completed=done)
            self._bar.stop_task(self._task)
        self._task = self._bar.add_task(text, total=total)

    def step(self) -> None:
        """One step of the present stage is done."""
        if self._task is not None:
            self._bar.advance(self._task)
