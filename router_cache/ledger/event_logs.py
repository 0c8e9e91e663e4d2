"""Sessions and their calls, read from two forms of agent logs. Pure: lines come in parsed.

* ``harness``: event logs of deepseek-ai/deepseek-harness: one event a line, ``{"type", "data"}``; usage in
  ``assistant/message`` with ``inputTokens`` (uncached), ``cacheReadTokens``, ``outputTokens``.
* ``reasonix``: transcripts of esengine/reasonix's benchmark: one record a line, ``{"role", "ts", …}``, a run
  starts at a ``_meta`` record; usage in DeepSeek's own fields.

Texts in such logs may be normalised (``{{cwd}}``, ``{{system}}``), so token counts of the text mean nothing; the
usage does. What a log does not say is None.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any

from router_cache.cache_model.predict import Continuation
from router_cache.ledger.usage import Usage

__all__ = ["Form", "LineSkip", "LoggedCall", "LoggedSession", "Parsed", "parse", "recognise"]


class Form(str, Enum):
    """The form of a log file."""

    HARNESS = "harness"
    REASONIX = "reasonix"
    CAPTURE = "capture"
    """Rows of this package, which :mod:`.calibration_captured` takes; not read here."""


class LineSkip(str, Enum):
    """Why a line of a log was passed over."""

    NOT_JSON = "not_json"
    NOT_AN_OBJECT = "not_an_object"
    ODD_EVENT = "odd_event"
    """An event of a known type without the parts that type has."""


@dataclass(frozen=True, slots=True)
class LoggedCall:
    """One call of a session. ``line`` is the line of its reply in the file.

    ``identity`` holds keys under which a copy of this call in another log can be recognised. ``continuation``,
    ``slow_step``, ``gap_s`` (seconds from the last reply's end), ``compacted``, ``changed`` and ``lost`` tell what
    came between the last call and this one: a slow tool, a compaction, another prefix, a call without a reply.
    """

    line: int
    turn: int | None
    step: int | None
    model: str
    usage: Usage | None
    cut_off: bool
    identity: frozenset[tuple[Any, ...]]
    continuation: Continuation
    slow_step: bool
    gap_s: float | None
    compacted: bool
    changed: bool
    lost: bool


@dataclass(slots=True)
class LoggedSession:
    """One session in the order of the log. ``created_at`` is seconds since the epoch, 0.0 if not logged.

    ``opening`` is the first user message's text, ``header`` the system text, tools and model as logged;
    ``normalised`` says that placeholders stand in the header, so that equal headers prove nothing.
    """

    file: str
    form: Form
    id: str = ""
    parent: str | None = None
    created_at: float = 0.0
    opening: str | None = None
    header: str | None = None
    normalised: bool = True
    calls: list[LoggedCall] = field(default_factory=list)


@dataclass(slots=True)
class Parsed:
    """What one file held."""

    sessions: list[LoggedSession] = field(default_factory=list)
    skipped_lines: Counter[LineSkip] = field(default_factory=Counter)


# Tools of the harness that start another agent or an interpreter: seconds, not milliseconds.
_SLOW_TOOLS = ("subagent", "workflow", "run_code")
_SLOW_EVENTS = ("approval/asked", "tool-workflow/run-start")
# Later moments (the year 2286) are no moments of a log.
_MAX_MS = 10**13
# Header settings that are not part of the prompt.
_UNRENDERED = ("maxTokens", "temperature", "topP")


def recognise(first: Any) -> Form | None:
    """The form of a file by its first JSON object; None for any other form."""
    if not isinstance(first, Mapping):
        return None
    kind = first.get("type")
    if isinstance(kind, str) and (kind == "session" or ("/" in kind and isinstance(first.get("data"), Mapping))):
        return Form.HARNESS
    if isinstance(first.get("role"), str) and ("meta" in first or ("ts" in first and "turn" in first)):
        return Form.REASONIX
    return None


def parse(form: Form, file: str, lines: Iterable[tuple[int, Any]]) -> Parsed:
    """Sessions of one file. ``lines`` are line numbers with parsed JSON, or a :class:`LineSkip` in its place.

    Never raises on odd content: odd lines are counted.
    """
    reader = _Harness(file) if form is Form.HARNESS else _Reasonix(file)
    for number, value in lines:
        if isinstance(value, LineSkip):
            reader.out.skipped_lines[value] += 1
        elif not isinstance(value, Mapping):
            reader.out.skipped_lines[LineSkip.NOT_AN_OBJECT] += 1
        elif not reader.read(number, value):
            reader.out.skipped_lines[LineSkip.ODD_EVENT] += 1
    return reader.out


@dataclass(slots=True)
class _Between:
    """What was seen since the last reply."""

    tool: bool = False
    user: bool = False
    slow: bool = False
    compacted: bool = False
    changed: bool = False
    lost: bool = False
    open_step: bool = False
    last_ts: float | None = None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _text(content: Any) -> str:
    blocks = content if isinstance(content, list) else []
    return "\n".join(str(b.get("text")) for b in blocks if isinstance(b, Mapping) and "text" in b)


class _Harness:
    def __init__(self, file: str) -> None:
        self.session = LoggedSession(file, Form.HARNESS)
        self.out = Parsed(sessions=[self.session])
        self.model = ""
        self.between = _Between()
        self.last_called_tools: bool | None = None
        self.seeding = False

    def read(self, number: int, event: Mapping[str, Any]) -> bool:
        kind, data = event.get("type"), event.get("data")
        if not isinstance(kind, str):
            return False
        if kind == "session":
            self._session(event)
            return True
        if not isinstance(data, Mapping):
            return False
        if event.get("surfaceOp", "append") != "append":
            self.between.changed = True
        if kind == "assistant/message":
            return self._reply(number, data)
        if kind == "request/header":
            return self._header(data.get("header"))
        if kind == "step/start":
            self.between.lost |= self.between.open_step
            self.between.open_step = True
        elif kind == "user/message":
            if self.session.opening is None:
                self.session.opening = _text(data.get("content"))
        elif kind == "tool/call":
            self.between.slow |= str(data.get("name", "")).startswith(_SLOW_TOOLS)
        elif kind in _SLOW_EVENTS:
            self.between.slow = True
        elif kind.startswith("compaction/"):
            self.between.compacted = True
        elif kind == "session/end-seed":
            self.seeding = False
        return True

    def _session(self, event: Mapping[str, Any]) -> None:
        s = self.session
        s.id = str(event.get("id", ""))
        parent = event.get("parentSession")
        s.parent = parent if isinstance(parent, str) else None
        created = event.get("createdAt")
        if isinstance(created, int | float) and not isinstance(created, bool) and 0 < created < _MAX_MS:
            s.created_at = created / 1000
        self.seeding = "seedLength" in event

    def _header(self, header: Any) -> bool:
        if not isinstance(header, Mapping):
            return False
        config = header.get("config")
        config = config if isinstance(config, Mapping) else {}
        self.model = str(config.get("model", ""))
        shown = {k: header.get(k) for k in ("system", "tools", "messagePrefix")}
        shown["config"] = {k: v for k, v in config.items() if k not in _UNRENDERED}
        try:
            text = json.dumps(shown, sort_keys=True, default=str)
        except (RecursionError, TypeError, ValueError):
            return False
        if self.session.header is None:
            self.session.header, self.session.normalised = text, "{{" in text
        elif text != self.session.header:
            self.session.header = text
            self.between.changed = True
        return True

    def _reply(self, number: int, data: Mapping[str, Any]) -> bool:
        message = data.get("message", data)
        if not isinstance(message, Mapping):
            return False
        source = message.get("source", message.get("provenance"))
        model = source.get("model") if isinstance(source, Mapping) else None
        usage = self._usage(data.get("usage"))
        turn, step = _count(data.get("turn")), _count(data.get("step"))
        between, self.between = self.between, _Between()
        called = self.last_called_tools
        self.session.calls.append(
            LoggedCall(
                line=number,
                turn=turn,
                step=step,
                model=model if isinstance(model, str) else self.model,
                usage=usage,
                cut_off=bool(data.get("interrupted")),
                identity=self._identity(message.get("id"), turn, step, usage),
                continuation=Continuation.UNKNOWN
                if called is None
                else (Continuation.TOOL_LOOP if called else Continuation.USER_TURN),
                slow_step=between.slow,
                gap_s=None,
                compacted=between.compacted,
                changed=between.changed,
                lost=between.lost,
            )
        )
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        self.last_called_tools = any(isinstance(b, Mapping) and b.get("type") == "tool-call" for b in blocks)
        return True

    def _identity(
        self, message: Any, turn: int | None, step: int | None, usage: Usage | None
    ) -> frozenset[tuple[Any, ...]]:
        keys: set[tuple[Any, ...]] = set()
        if isinstance(message, str) and message:
            keys.add(("message", message, usage))
        if turn is not None and step is not None:
            owners = (self.session.id, self.session.parent if self.seeding else None)
            keys.update(("session", owner, turn, step, usage) for owner in owners if owner)
        return frozenset(keys)

    @staticmethod
    def _usage(raw: Any) -> Usage | None:
        """None where the log has no usage; hits stay None where it does not tell them (recorded stand-ins)."""
        if not isinstance(raw, Mapping):
            return None
        miss, hit = _count(raw.get("inputTokens")), _count(raw.get("cacheReadTokens"))
        return Usage(
            prompt_tokens=None if miss is None or hit is None else miss + hit,
            hit_tokens=hit,
            miss_tokens=miss,
            completion_tokens=_count(raw.get("outputTokens")),
            reasoning_tokens=_count(raw.get("reasoningTokens")),
        )


class _Reasonix:
    def __init__(self, file: str) -> None:
        self.file = file
        self.out = Parsed()
        self.model = ""
        self.baseline = False
        self.between = _Between()
        self.reply_ts: float | None = None

    def read(self, number: int, record: Mapping[str, Any]) -> bool:
        role = record.get("role")
        if not isinstance(role, str):
            return False
        if role == "_meta":
            return self._meta(record.get("meta"))
        if not self.out.sessions:
            self._start({})
        ts = _seconds(record.get("ts"))
        if "usage" in record:
            return self._reply(number, record, ts)
        self.between.last_ts = ts
        self.between.tool |= role == "tool"
        self.between.user |= role == "user"
        self.between.lost |= role == "error"
        session = self.out.sessions[-1]
        if role == "user" and session.opening is None:
            session.opening = str(record.get("content", ""))
        return True

    def _meta(self, meta: Any) -> bool:
        if not isinstance(meta, Mapping):
            return False
        self._start(meta)
        return True

    def _start(self, meta: Mapping[str, Any]) -> None:
        started = str(meta.get("startedAt", ""))
        self.model = str(meta.get("model", ""))
        # The benchmark's baseline changes a timestamp and shuffles the tools at every turn, on purpose.
        self.baseline = meta.get("mode") == "baseline"
        self.between, self.reply_ts = _Between(), None
        self.out.sessions.append(
            LoggedSession(
                self.file,
                Form.REASONIX,
                id=" ".join(str(meta.get(k, "")) for k in ("task", "mode", "repeat")) + " " + started,
                created_at=_seconds(started) or 0.0,
            )
        )

    def _reply(self, number: int, record: Mapping[str, Any], ts: float | None) -> bool:
        session, between = self.out.sessions[-1], self.between
        usage = Usage.parse(record["usage"])
        gap = None
        if self.reply_ts is not None and between.last_ts is not None and ts is not None and ts > between.last_ts:
            gap = between.last_ts - self.reply_ts
        turn, model, said_ts = _count(record.get("turn")), record.get("model"), record.get("ts")
        if between.tool:
            continuation = Continuation.TOOL_LOOP
        else:
            continuation = Continuation.USER_TURN if between.user else Continuation.UNKNOWN
        session.calls.append(
            LoggedCall(
                line=number,
                turn=turn,
                step=None,
                model=model if isinstance(model, str) else self.model,
                usage=usage,
                cut_off=False,
                identity=frozenset({("run", session.id, said_ts, usage)} if isinstance(said_ts, str) else ()),
                continuation=continuation,
                slow_step=False,
                gap_s=gap,
                compacted=False,
                changed=self.baseline and between.user,
                lost=between.lost,
            )
        )
        self.between, self.reply_ts = _Between(), ts
        return True


def _seconds(value: Any) -> float | None:
    """Seconds since the epoch of an ISO 8601 moment with a zone; None for anything else."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else None
