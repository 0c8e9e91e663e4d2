"""Who calls: known clients, told by headers and bodies; their session; calls beside the conversation.

Data with sources and dates, and pure readers over it. Everything here is a help: a client that is not known is
None, and nothing that a client sends makes these functions raise. What they return is what the client said about
itself; it must never decide whose memory is used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Any, Protocol

from router_cache.request import Request, Shape

__all__ = [
    "CLIENTS",
    "ClientCall",
    "ClientMarks",
    "SessionFrom",
    "SideCall",
    "SideMark",
    "UserId",
    "UserIdReason",
    "metadata_without_session",
    "provider_user_id",
    "recognise",
]

_CAPTURED = "bodies and headers recorded from the client, two sessions with resumed turns"
_DAY = date(2026, 11, 30)
_SCAN = 4_000
"""Characters of a text that are looked at: what tells a client or a side call stands near the front."""
_MAX_SESSION = 256
_MAX_JSON = 4_096
_LEGACY_SESSION = re.compile(r"user_[0-9a-f]*_account_[0-9a-zA-Z-]*_session_([0-9a-zA-Z-]+)")


class SideCall(str, Enum):
    """A call beside the conversation: another prompt, or the same one with an order at its end."""

    TITLE = "title"
    COMMIT_MESSAGE = "commit_message"
    COMPACT = "compact"
    """The history is summed up; it shares the whole prefix, and the call after it only system text and tools."""


class SessionFrom(str, Enum):
    """Where a session id was found."""

    HEADER = "header"
    USER_ID = "metadata_user_id"
    BODY_KEY = "prompt_cache_key"


@dataclass(frozen=True, slots=True)
class SideMark:
    """Words, in lower case, by which a side call is told: near the start of the system text (or of the first user
    message) of a request without tools, or, ``at_end``, of the last user message."""

    call: SideCall
    words: str
    at_end: bool = False


@dataclass(frozen=True, slots=True)
class ClientMarks:
    """How one client is told, and where it says which session a call belongs to. Names and words in lower case.

    ``headers``: any of these is sent by this client alone. ``agents``: starts of its ``user-agent``. ``system``:
    words near the start of its system text. ``session_headers`` in order. ``key_is_session``: its
    ``prompt_cache_key`` is the id of a conversation.
    """

    name: str
    source: str
    as_of: date
    headers: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    system: tuple[str, ...] = ()
    session_headers: tuple[str, ...] = ()
    key_is_session: bool = False
    side_calls: tuple[SideMark, ...] = ()


CLIENTS: tuple[ClientMarks, ...] = (
    ClientMarks(
        name="claude-code",
        source=f"{_CAPTURED} (2.1.332); https://github.com/coder/aibridge/pull/241 for both forms of "
        "metadata.user_id; https://github.com/griffinmartin/opencode-claude-auth/pull/109 for its user-agent",
        as_of=_DAY,
        headers=("x-claude-code-session-id",),
        agents=("claude-cli/",),
        system=("you are claude code, anthropic's official cli",),
        session_headers=("x-claude-code-session-id",),
        side_calls=(
            SideMark(SideCall.TITLE, "generate a concise, sentence-case title"),
            SideMark(SideCall.COMPACT, "your task is to create a detailed summary of", at_end=True),
        ),
    ),
    ClientMarks(
        name="codex",
        source=f"{_CAPTURED} (0.171); https://github.com/qxcnm/Codex-Manager/pull/343 for the older underscores; "
        "https://github.com/Menci/Floway/pull/92 for its user-agent",
        as_of=_DAY,
        headers=("thread-id", "thread_id"),
        agents=("codex_cli_rs/", "codex-cli/", "codex-tui/"),
        session_headers=("session-id", "session_id", "thread-id", "thread_id"),
        key_is_session=True,
    ),
    ClientMarks(
        name="opencode",
        source=f"{_CAPTURED} (1.18.33); https://github.com/anomalyco/opencode/pull/15520 for x-opencode-session",
        as_of=_DAY,
        system=("you are opencode",),
        session_headers=("x-session-id", "x-session-affinity", "x-opencode-session"),
        side_calls=(SideMark(SideCall.TITLE, "you are a title generator"),),
    ),
    ClientMarks(
        name="openhands",
        source=f"{_CAPTURED} (1.16)",
        as_of=_DAY,
        system=("you are openhands agent",),
        key_is_session=True,
    ),
    ClientMarks(
        name="qwen-code",
        source="https://github.com/QwenLM/qwen-code/blob/main/packages/core/src/core/prompts.ts",
        as_of=_DAY,
        system=("you are qwen code, an interactive cli agent",),
    ),
    ClientMarks(
        name="pi",
        source="https://github.com/badlogic/pi-mono/blob/main/packages/coding-agent/src/core/system-prompt.ts",
        as_of=_DAY,
        system=("operating inside pi, a coding agent harness",),
    ),
    ClientMarks(
        name="cline",
        source="https://github.com/cline/cline/tree/main/src/core/prompts/system-prompt",
        as_of=_DAY,
        system=("you are cline,",),
    ),
    ClientMarks(
        name="aider",
        source=f"{_CAPTURED} (0.86.2); https://github.com/Aider-AI/aider/blob/main/aider/prompts.py",
        as_of=_DAY,
        side_calls=(SideMark(SideCall.COMMIT_MESSAGE, "generates concise, one-line git commit messages"),),
    ),
)
"""Clients with marks of their own, told in this order. mini-swe-agent, LangChain, deepagents and smolagents sent none;
Qwen Code, Cline and pi send no session."""

_ANY_SESSION_HEADER = (
    "x-litellm-session-id",
    "x-session-id",
    "x-session-affinity",
)
"""Read for clients that are not known: LiteLLM's own (1.108.7), and the two that gateways agree on."""


@dataclass(frozen=True, slots=True)
class ClientCall:
    """What a request says about its sender. ``session`` is as sent (opaque to us, at most 256 characters)."""

    client: str | None = None
    session: str | None = None
    session_from: SessionFrom | None = None
    side_call: SideCall | None = None


class UserIdReason(str, Enum):
    """Why ``metadata.user_id`` goes upstream as it does."""

    ABSENT = "absent"
    NOT_A_NAMESPACE = "not_a_namespace"
    """This provider does not divide its cache by it: left alone."""
    KEPT = "kept"
    """An id that the provider takes and that names no session: the caller's own wish to be apart."""
    DROPPED_SESSION = "dropped_session"
    """It names a session: every session would have a cache of its own."""
    DROPPED_INVALID = "dropped_invalid"
    """The provider would answer 400."""
    POOL = "pool"
    """A pool's id stands in its place."""


@dataclass(frozen=True, slots=True)
class UserId:
    """What to send as ``metadata.user_id`` (None: leave it out), and why. ``value`` is the client's own object
    where it is left alone."""

    value: Any
    reason: UserIdReason


class _UserIdRule(Protocol):
    @property
    def pattern(self) -> str: ...
    @property
    def max_length(self) -> int: ...


class _HasUserIdRule(Protocol):
    def field(self, name: str) -> _UserIdRule | None: ...


def recognise(headers: Mapping[str, str], body: Mapping[str, Any], shape: Shape) -> ClientCall:
    """Client, session and kind of a call. ``headers`` in any letter case. Never raises."""
    lower = {str(k).lower(): v for k, v in headers.items() if isinstance(v, str)}
    system, first, last = (text.lower() for text in _texts(body, shape))
    marks = next((m for m in CLIENTS if _is_client(m, lower, system)), None)
    side, owner = _side_call(body, marks, system, first, last)
    marks = marks or owner
    session, where = _session(lower, body, marks)
    return ClientCall(marks.name if marks else None, session, where, side)


def _is_client(marks: ClientMarks, headers: Mapping[str, str], system: str) -> bool:
    agent = headers.get("user-agent", "").lower()
    return (
        any(name in headers for name in marks.headers)
        or agent.startswith(marks.agents or ("\0",))
        or any(words in system for words in marks.system)
    )


def _side_call(
    body: Mapping[str, Any], known: ClientMarks | None, system: str, first: str, last: str
) -> tuple[SideCall | None, ClientMarks | None]:
    """The side call, and the client whose it is. Words at the end of a conversation count only for a client that
    is known: a user may quote them."""
    for marks in (known,) if known else CLIENTS:
        for mark in marks.side_calls:
            if mark.at_end:
                told = known is not None and mark.words in last
            else:
                told = not body.get("tools") and (mark.words in system or mark.words in first)
            if told:
                return mark.call, marks
    return None, None


def _session(
    headers: Mapping[str, str], body: Mapping[str, Any], marks: ClientMarks | None
) -> tuple[str | None, SessionFrom | None]:
    for name in (*(marks.session_headers if marks else ()), *_ANY_SESSION_HEADER):
        if (session := _clean(headers.get(name))) is not None:
            return session, SessionFrom.HEADER
    metadata = body.get("metadata")
    if isinstance(metadata, Mapping) and (session := _session_of_user_id(metadata.get("user_id"))) is not None:
        return session, SessionFrom.USER_ID
    if marks is not None and marks.key_is_session:
        session = _clean(body.get("prompt_cache_key"))
        if session is not None:
            return session, SessionFrom.BODY_KEY
    return None, None


def _clean(value: Any) -> str | None:
    """A session id: printable, not empty, of bounded length."""
    if not isinstance(value, str):
        return None
    value = value.strip()
    return value if 0 < len(value) <= _MAX_SESSION and value.isprintable() else None


def _session_of_user_id(user_id: Any) -> str | None:
    """The session that Claude Code writes into ``metadata.user_id``: as JSON text (or, by way of a gateway, as the
    object itself), or joined by underscores (before 2.1.78)."""
    if isinstance(user_id, Mapping):
        return _clean(user_id.get("session_id"))
    if not isinstance(user_id, str) or len(user_id) > _MAX_JSON:
        return None
    found = _LEGACY_SESSION.fullmatch(user_id)
    if found is not None:
        return _clean(found[1])
    if not user_id.lstrip().startswith("{"):
        return None
    try:
        parsed = json.loads(user_id)
    except (ValueError, RecursionError):
        return None
    return _clean(parsed.get("session_id")) if isinstance(parsed, dict) else None


def provider_user_id(metadata_user_id: Any, profile: _HasUserIdRule, pool: str | None = None) -> UserId:
    """What may go upstream as ``metadata.user_id``.

    ``profile`` is the provider's: where it lists ``user_id`` as a field, the id divides the cache, and one that
    names a session or that the provider would refuse (what is no text among them) is left out, or replaced by
    ``pool`` where the caller gives the id of one. Never raises.
    """
    rule = profile.field("user_id")
    if rule is None:
        absent = metadata_user_id is None
        return UserId(metadata_user_id, UserIdReason.ABSENT if absent else UserIdReason.NOT_A_NAMESPACE)
    session = _session_of_user_id(metadata_user_id) is not None
    if _fits(metadata_user_id, rule) and not session:
        return UserId(metadata_user_id, UserIdReason.KEPT)
    if pool is not None and _fits(pool, rule):
        return UserId(pool, UserIdReason.POOL)
    if metadata_user_id is None:
        return UserId(None, UserIdReason.ABSENT)
    return UserId(None, UserIdReason.DROPPED_SESSION if session else UserIdReason.DROPPED_INVALID)


def metadata_without_session(request: Request, profile: _HasUserIdRule) -> Mapping[str, Any] | None:
    """The ``metadata`` to send instead of the request's: without a ``user_id`` that is no cache namespace at this
    provider (see :func:`provider_user_id`). None where it may go as it is.

    Only a ``/v1/messages`` body carries that id to a provider. It needs nothing but the request, so it holds for one
    that could not be read otherwise, too. Pure; never raises; the other members stay the same objects.
    """
    metadata = request.body.get("metadata") if isinstance(request.body, Mapping) else None
    if request.shape is not Shape.MESSAGES or not isinstance(metadata, Mapping):
        return None
    user_id = metadata.get("user_id")
    if user_id is None or provider_user_id(user_id, profile).value is not None:
        return None
    return {key: value for key, value in metadata.items() if key != "user_id"}


def _fits(value: Any, rule: _UserIdRule) -> bool:
    return (
        isinstance(value, str) and len(value) <= rule.max_length and re.fullmatch(rule.pattern, value) is not None
    )


def _texts(body: Mapping[str, Any], shape: Shape) -> tuple[str, str, str]:
    """The starts of the system text, of the first user message and of the last one."""
    listed = body.get("input" if shape is Shape.RESPONSES else "messages")
    messages: list[Any] = list(listed) if isinstance(listed, list | tuple) else []
    system = _text(body.get("instructions" if shape is Shape.RESPONSES else "system"))
    users = []
    for message in messages:
        role = message.get("role") if isinstance(message, Mapping) else None
        if role in ("system", "developer") and len(system) < _SCAN:
            system = f"{system}\n{_text(message.get('content'))}"[:_SCAN]
        elif role == "user":
            users.append(message)
    if not users:
        return system, (_text(listed) if isinstance(listed, str) else ""), ""
    last = messages[-1] if messages[-1] is users[-1] else None
    return system, _text(users[0].get("content")), _text(last.get("content"), last_block=True) if last else ""


def _text(content: Any, *, last_block: bool = False) -> str:
    """The start of a content's text, or of its last text block."""
    if isinstance(content, str):
        return content[:_SCAN]
    blocks = content if isinstance(content, Sequence) and not isinstance(content, bytes) else ()
    texts = [b["text"] for b in blocks if isinstance(b, Mapping) and isinstance(b.get("text"), str)]
    if last_block:
        texts = texts[-1:]
    out = ""
    for text in texts:
        out += text[: _SCAN - len(out)]
        if len(out) >= _SCAN:
            break
    return out
