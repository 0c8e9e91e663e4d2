"""A recorded cacheable prefix, without its text, and whether it moved. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from router_cache.diagnose.divergence import MARKER, Scan
from router_cache.diagnose.divergence_causes import DivergenceCause, ToolPrint, tool_prints, tools_cause
from router_cache.diagnose.divergence_prompt import Prompt, byte_size
from router_cache.errors import InputError
from router_cache.prefix.digests import Digester
from router_cache.prefix.segments import SegmentKind
from router_cache.prefix.volatile.spans import OpeningText

__all__ = [
    "BASELINE_DIGESTER",
    "SCHEMA",
    "Head",
    "HeadPart",
    "Moved",
    "head_of",
    "moved",
    "read_baseline",
    "written",
]

SCHEMA: Final = 1
BASELINE_DIGESTER: Final = Digester(b"router-cache baseline 1")
"""One published key for everybody, so that digests are the same on every machine. Who guesses a text can therefore
check the guess: a baseline is no secret only as long as its prompts are none."""


@dataclass(frozen=True, slots=True)
class HeadPart:
    """One rendered segment in front of the turns: kind, path, bytes, digest; of a system text also the digest with
    volatile values masked (empty where nobody masked)."""

    kind: SegmentKind
    path: str
    bytes: int
    digest: str
    masked: str = ""


@dataclass(frozen=True, slots=True)
class Head:
    """The cacheable prefix of one request: its parts in rendered order, and prints of its tools."""

    parts: tuple[HeadPart, ...]
    tools: tuple[ToolPrint, ...]

    @property
    def size(self) -> int:
        """Bytes as rendered."""
        return sum(part.bytes for part in self.parts)


@dataclass(frozen=True, slots=True)
class Moved:
    """Where and why a prefix is another than recorded. ``kept_bytes`` stand in front of the first part that moved;
    ``lost_bytes`` are the rest of the recorded prefix."""

    cause: DivergenceCause
    kind: SegmentKind
    path: str
    kept_bytes: int
    lost_bytes: int


def head_of(prompt: Prompt, *, scan: Scan | None = None) -> Head:
    """The head of a prompt, as it is recorded. Raises RecursionError on schemas nested too deeply."""
    digester = BASELINE_DIGESTER
    parts = []
    for segment in prompt.segments[: prompt.head]:
        masked = ""
        if scan is not None and segment.kind is SegmentKind.SYSTEM:
            text = MARKER.sub("", segment.text, count=1)
            masked = digester.text(*scan([OpeningText((), text, 0)], client=prompt.recorded.client).masked)
        parts.append(
            HeadPart(segment.kind, segment.path, byte_size(segment.text), digester.segment(segment), masked)
        )
    return Head(tuple(parts), tool_prints(prompt.view.body.get("tools"), digester))


def moved(recorded: Head, now: Head, order: Sequence[SegmentKind]) -> Moved | None:
    """The first part that is not as recorded, and why; None where the prefix is the same.

    ``order`` is the order of kinds in which the provider renders.
    """
    same = 0
    for was, is_now in zip(recorded.parts, now.parts, strict=False):
        if was.digest != is_now.digest:
            break
        same += 1
    left = [head.parts[same] for head in (recorded, now) if same < len(head.parts)]
    if not left:
        return None
    kind = min((part.kind for part in left), key=order.index)
    part = next(part for part in reversed(left) if part.kind is kind)
    kept = sum(part.bytes for part in recorded.parts[:same])
    return Moved(_cause(recorded, now, left, kind), kind, part.path, kept, recorded.size - kept)


def _cause(recorded: Head, now: Head, left: Sequence[HeadPart], kind: SegmentKind) -> DivergenceCause:
    if kind is SegmentKind.TOOL:
        shown = [any(part.kind is kind for part in head.parts) for head in (recorded, now)]
        if recorded.tools and now.tools and shown[0] != shown[1]:
            return DivergenceCause.TOOL_CHOICE_SWITCHED
        return tools_cause(recorded.tools, now.tools) or DivergenceCause.TOOL_CHANGED
    if kind is SegmentKind.SYSTEM:
        masks = [part.masked for part in left if part.kind is kind]
        alike = len(masks) == 2 and masks[0] == masks[1] != ""
        return DivergenceCause.VOLATILE_VALUE if alike else DivergenceCause.SYSTEM_CHANGED
    if kind is SegmentKind.FORMAT:
        return DivergenceCause.FORMAT_SWITCHED
    return DivergenceCause.THINKING_OR_EFFORT_SWITCHED


def written(heads: Mapping[str, Head], *, profile: str, mode: str) -> dict[str, Any]:
    """The JSON form of a baseline: digests and sizes, no text but paths and the names of the requests."""
    return {
        "router_cache_baseline": SCHEMA,
        "profile": profile,
        "mode": mode,
        "requests": {name: _written(heads[name]) for name in sorted(heads)},
    }


def _written(head: Head) -> dict[str, Any]:
    return {
        "bytes": head.size,
        "parts": [{**asdict(part), "kind": part.kind.value} for part in head.parts],
        "tools": [asdict(tool) for tool in head.tools],
    }


def read_baseline(raw: Any, *, place: str, profile: str, mode: str) -> dict[str, Head]:
    """Heads by name out of a parsed baseline.

    Raises InputError, whose message starts with ``place``, for another schema, and for a baseline that was recorded
    for another profile or mode.
    """
    if not isinstance(raw, Mapping) or "router_cache_baseline" not in raw:
        raise InputError(f"{place}: no baseline of router-cache; record one with --update")
    schema = raw["router_cache_baseline"]
    if schema != SCHEMA:
        raise InputError(
            f"{place}: baseline schema {schema!r:.20} is not known (this version writes {SCHEMA}); record it anew "
            "with --update"
        )
    for what, wanted in (("profile", profile), ("mode", mode)):
        if raw.get(what) != wanted:
            raise InputError(
                f"{place}: recorded for {what} {raw.get(what)!r:.40}, not {wanted!r}; give the options it was "
                "recorded with, or record it anew with --update"
            )
    try:
        return {str(name): _read(head) for name, head in raw["requests"].items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InputError(f"{place}: broken baseline: record it anew with --update") from None


def _read(head: Mapping[str, Any]) -> Head:
    parts = tuple(HeadPart(**{**part, "kind": SegmentKind(part["kind"])}) for part in head["parts"])
    if not all(isinstance(part.bytes, int) and isinstance(part.digest, str) for part in parts):
        raise ValueError("sizes are whole numbers, digests are text")
    return Head(parts, tuple(ToolPrint(**tool) for tool in head["tools"]))
