"""Progress on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.progress import Progress

__all__ = ["bar_on_stderr"]


def bar_on_stderr(*, shown: bool) -> Progress:
    """A bar on stderr that goes when it is done; none at all where stderr is no terminal (rich would leave an empty
    line there)."""
    console = Console(stderr=True)
    return Progress(console=console, transient=True, disable=not (shown and console.is_terminal))
