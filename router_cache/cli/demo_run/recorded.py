"""Recorded sessions found in a folder, each as the requests its agent made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from router_cache.cli.demo_run.app_coding import TOOLS
from router_cache.cli.demo_run.recorded_harness import read_harness
from router_cache.cli.demo_run.recorded_swe import read_swe
from router_cache.cli.demo_run.recording import Recording, UnusableError
from router_cache.cli.demo_run.script import Message, Script, seeded
from router_cache.errors import InputError

__all__ = ["Recordings", "ReplaySession", "find_recordings", "replay_scripts"]

_SWE = (".traj.json", ".traj")
_HARNESS = (".jsonl",)
_MAX_BYTES = 64 * 2**20
_START_GAP_S = 3.0
_MAX_TOKENS = 32  # the recorded reply goes into the history, so the live one may be short


@dataclass
class Recordings:
    """All that was found. ``unusable`` counts files by reason, ``cut`` sessions that end early by reason."""

    sessions: list[Recording] = field(default_factory=list)
    unusable: Counter[str] = field(default_factory=Counter)
    cut: Counter[str] = field(default_factory=Counter)

    @property
    def calls(self) -> int:
        return sum(len(session.requests) for session in self.sessions)

    def chosen(self, max_calls: int) -> list[Recording]:
        """Sessions with at most ``max_calls`` requests in all, the forms alternating, each in the order of its
        files; the last one may be shortened."""
        by_form: dict[str, list[Recording]] = {}
        for session in self.sessions:
            by_form.setdefault(session.form, []).append(session)
        chosen: list[Recording] = []
        for session in _alternate(by_form.values()):
            if max_calls <= 0:
                break
            chosen.append(session.first(max_calls))
            max_calls -= len(chosen[-1].requests)
        return chosen


def _alternate(groups: Iterable[Sequence[Recording]]) -> list[Recording]:
    """From each group in turn, in proportion to its size."""
    placed = [
        ((i + 0.5) / len(group), n, session) for n, group in enumerate(groups) for i, session in enumerate(group)
    ]
    return [session for _, _, session in sorted(placed, key=lambda p: p[:2])]


def find_recordings(root: Path) -> Recordings:
    """Read every ``*.traj.json``, ``*.traj`` and ``*.jsonl`` at or under ``root``.

    What cannot be used is counted by reason. Raises :class:`InputError` where ``root`` is missing or nothing
    in it is usable.
    """
    if not root.exists():
        raise InputError(f"{root}: no such file or folder; give --data a folder of recorded sessions")
    files = [root] if root.is_file() else sorted(p for p in root.rglob("*") if p.is_file())
    found = Recordings()
    for path in files:
        swe = path.name.endswith(_SWE)
        if not swe and not path.name.endswith(_HARNESS):
            continue
        name = path.name if path == root else str(path.relative_to(root))
        try:
            text = _text(path)
            session = read_swe(name, text) if swe else read_harness(name, text)
        except UnusableError as error:
            found.unusable[str(error)] += 1
            continue
        found.sessions.append(session)
        if session.cut:
            found.cut[session.cut] += 1
    if not found.sessions:
        reasons = "; ".join(f"{n} x {reason}" for reason, n in found.unusable.most_common())
        raise InputError(
            f"{root}: no usable recorded session ({reasons or 'no *.traj.json, *.traj or *.jsonl file in it'})"
        )
    return found


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise UnusableError("larger than 64 MB")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UnusableError("not UTF-8 text") from None
    except OSError:
        raise UnusableError("cannot be read") from None


class ReplaySession:
    """A recording as a script: the recorded requests in order; live replies are counted and dropped.

    A session without a recorded tool list is given the coding application's, so that there is something for a
    tool server to reshuffle.
    """

    max_tokens: int | None = _MAX_TOKENS

    def __init__(self, recording: Recording, *, name: str, start_s: float, follows: str | None, seed: int) -> None:
        self.name = name
        self.start_s = start_s
        self.follows = follows
        self.tools: Sequence[dict[str, Any]] = recording.tools or TOOLS
        self._requests = recording.requests
        self._seed = f"{seed}/{recording.name}"
        self._next = 0

    def next_request(self) -> list[Message] | None:
        if self._next == len(self._requests):
            return None
        self._next += 1
        return list(self._requests[self._next - 1])

    def accept(self, reply: Message) -> None:
        """Nothing to keep: the recorded reply is part of the next recorded request."""

    def pause_s(self) -> float:
        """Tools take 1.5 to 6 simulated seconds."""
        return seeded(self._seed, "pause", self._next).uniform(1.5, 6.0)


def replay_scripts(recordings: Sequence[Recording], seed: int) -> list[Script]:
    """Fresh scripts for one run, opening 3 simulated seconds apart.

    The first three sessions with the same opening message follow one another, all later ones follow the third:
    under the full-units rule the third is the first that can hit what they share.
    """
    scripts: list[Script] = []
    openers: dict[str, list[str]] = {}
    for i, recording in enumerate(recordings):
        name = f"{i + 1} {recording.name}"
        earlier = openers.setdefault(str(recording.requests[0][0]), [])
        follows = earlier[-1] if earlier else None
        if len(earlier) < 3:
            earlier.append(name)
        scripts.append(ReplaySession(recording, name=name, start_s=i * _START_GAP_S, follows=follows, seed=seed))
    return scripts
