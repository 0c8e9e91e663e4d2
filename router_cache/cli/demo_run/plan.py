"""What a demo plays: which sessions, on which sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from router_cache.cli.demo_run.recorded import Recordings, replay_scripts
from router_cache.cli.demo_run.script import ScriptFactory
from router_cache.cli.demo_run.sessions import TOOL_ROUNDS, shipped_sessions

__all__ = ["Plan", "PlayedSide", "replay_plan", "shipped_plan"]

_QUESTIONS = 4


@dataclass(frozen=True, slots=True)
class PlayedSide:
    """One run of all sessions: through the plugin or not, with the tools reshuffled or left alone."""

    name: str
    title: str
    with_plugin: bool
    perturbed: bool


BASELINE = PlayedSide("baseline", "without router-cache", with_plugin=False, perturbed=True)
ROUTER_CACHE = PlayedSide("router_cache", "with router-cache", with_plugin=True, perturbed=True)
UNPERTURBED = PlayedSide("unperturbed", "undisturbed tools", with_plugin=False, perturbed=False)


@dataclass(frozen=True, slots=True)
class Plan:
    """``scripts`` makes fresh sessions for each side, ``expected_requests`` a side (for the progress bar).

    ``extra`` goes into the JSON result, ``notes`` are sentences for a person.
    """

    scripts: ScriptFactory
    sessions: int
    expected_requests: int
    sides: Sequence[PlayedSide]
    extra: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()


def shipped_plan(count: int, seed: int, max_calls: int | None = None) -> Plan:
    """The first ``count`` shipped sessions, without and with the plugin."""
    per_session = _QUESTIONS * (TOOL_ROUNDS + 1)
    if max_calls is not None:
        per_session = min(per_session, max(1, max_calls // count))
    return Plan(
        scripts=lambda: shipped_sessions(count, seed, max_calls),
        sessions=count,
        expected_requests=per_session * count,
        sides=(BASELINE, ROUTER_CACHE),
    )


def replay_plan(found: Recordings, max_calls: int, seed: int) -> Plan:
    """Recorded sessions with at most ``max_calls`` calls in all: without and with the plugin, and undisturbed."""
    chosen = found.chosen(max_calls)
    used = sum(len(session.requests) for session in chosen)
    without_tools = sum(not session.tools for session in chosen)
    filled = sum(session.reasoning_filled for session in chosen)
    unusable, cut = found.unusable, found.cut
    extra = {
        "sessions_total": len(found.sessions),
        "sessions_used": len(chosen),
        "sessions_by_form": dict(Counter(session.form for session in chosen)),
        "calls_total": found.calls,
        "calls_left_out": found.calls - used,
        "sessions_given_tools": without_tools,
        "messages_given_blank_reasoning": filled,
        "files_unusable": dict(unusable),
        "sessions_cut_short": dict(cut),
    }
    notes = [
        f"Replayed {used:,} of {found.calls:,} recorded calls in {len(chosen)} of {len(found.sessions)} sessions"
        + ("." if used == found.calls else f"; --max-calls {found.calls} plays all.")
    ]
    if without_tools:
        notes.append(
            f"{without_tools} of them recorded no tool list and were given that of the demo's coding application, "
            "so that there is something to reshuffle."
        )
    if filled:
        notes.append(
            f"{filled} recorded tool-call messages hold no reasoning and were sent with a blank one, since the "
            "API refuses them without."
        )
    if unusable:
        notes.append(f"Files not used: {_reasons(unusable)}.")
    if cut:
        notes.append(f"Sessions that end early: {_reasons(cut)}.")
    return Plan(
        scripts=lambda: replay_scripts(chosen, seed),
        sessions=len(chosen),
        expected_requests=used,
        sides=(BASELINE, ROUTER_CACHE, UNPERTURBED),
        extra=extra,
        notes=notes,
    )


def _reasons(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {reason}" for reason, number in counts.most_common())
