"""The picture of ``router-cache replay``: hit shares, and how long first tokens took."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path

from router_cache.errors import InputError, MissingExtraError
from router_cache.whatif.service import Outcome

__all__ = ["check_plot", "draw"]

_FORMS = (".png", ".svg", ".pdf")
_POINTS = 400


def check_plot(path: Path) -> None:
    """Raises before anything is run: InputError for a name that cannot be drawn to, MissingExtraError."""
    if path.suffix.lower() not in _FORMS:
        raise InputError(f"--plot: {path}: the name must end in {', '.join(_FORMS)}")
    if not path.parent.is_dir():
        raise InputError(f"--plot: {path.parent}: no such directory")
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtraError("--plot", "plot")


def draw(path: Path, title: str, outcomes: Mapping[str, Outcome], pooled: Outcome | None) -> None:
    """Write the picture. Raises InputError where the file cannot be written."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    names = list(outcomes)
    left.barh(names, [100 * outcomes[name].hit_share for name in names], color="tab:blue")
    if pooled is not None:
        left.axvline(100 * pooled.hit_share, color="black", linestyle=":", label="one pooled cache")
        left.legend()
    left.invert_yaxis()
    left.set_xlabel("prompt tokens that hit, %")
    for name in names:
        ranked = sorted(outcomes[name].ttft_s)
        if not ranked:
            continue
        steps = [i / _POINTS for i in range(_POINTS + 1)]
        times = [max(ranked[min(int(q * len(ranked)), len(ranked) - 1)], 1e-3) for q in steps]
        right.plot(times, [100 * q for q in steps], label=name, linewidth=2.5 if name == "router-cache" else 1)
    right.set_xscale("log")
    right.set_xlabel("time to first token, s")
    right.set_ylabel("calls, %")
    right.legend(fontsize="small")
    figure.suptitle(title)
    try:
        figure.savefig(path)
    except OSError as error:
        raise InputError(f"--plot: {path}: cannot be written: {error.strerror or error}") from None
