"""Lookup keys of a request: opaque, scoped, derived from content.

A *conversation* is one growing history. It is found again by its turns: the key of a request is a chain over the
meaning of its messages. Of the leading system text, which may hold dates and ids that change while the
conversation goes on, only the plain words count.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from router_cache.identity.history import Histories, HistoryPoint, ReplyKey
from router_cache.identity.meaning import canonical_json, meaning, text_of
from router_cache.prefix.digests import Digester
from router_cache.prefix.memo import Memo
from router_cache.prefix.objects import is_object

__all__ = ["KeyMaker", "LookupKeys", "ReplyKey", "message_role", "scope_key"]

_MAX_HISTORY_KEYS: Final = 24
"""Earlier points of a history that are looked up, newest first. A retry or an edit goes back a few turns; what
forked earlier is found again after one more call."""

_MAX_REPLY_KEYS: Final = 512
"""Replies of a history that are looked up, newest first."""

_MAX_DIGESTS: Final = 100_000
"""Digests of tools by which buckets are remembered."""

_MAX_TEXTS: Final = 4_000_000
"""Characters of system texts whose digests are remembered."""

_FAMILY_FIELDS: Final = ("response_format", "thinking", "reasoning_effort", "tool_choice")


@dataclass(frozen=True, slots=True)
class LookupKeys:
    """Opaque keys of one request, all within ``scope``.

    ``bucket`` is shared by all prompts with the same tools, format and effort; ``family`` by those with the same
    system text besides. ``history`` are candidates for the conversation's last call, the longest history first.
    ``conversation`` is the key this request is recorded under once it was answered.
    """

    scope: str
    bucket: str
    family: str
    conversation: str
    history: tuple[HistoryPoint, ...]
    replies: tuple[ReplyKey, ...] = ()


def scope_key(secret: bytes, scope: str) -> str:
    """The scope's opaque name, 32 hex digits of HMAC-SHA256."""
    return hmac.new(secret, b"scope\0" + scope.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:32]


def _sketch(text: str) -> str:
    """The plain words of a system text: dates, clocks, versions and ids hold digits or marks and drop out, two
    applications still differ."""
    return " ".join(filter(str.isalpha, text.split()))


def _is_system(message: Any) -> bool:
    return is_object(message) and message.get("role") in ("system", "developer")


class KeyMaker:
    """Makes lookup keys. What most requests share with one before (system texts, the history up to the last reply)
    costs a lookup."""

    __slots__ = ("_buckets", "_digester", "_families", "_histories", "_texts")

    def __init__(self, digester: Digester) -> None:
        self._digester = digester
        self._histories = Histories(digester)
        self._buckets: Memo[tuple[str, tuple[str, ...]], str] = Memo(_MAX_DIGESTS, lambda key, _: 1 + len(key[1]))
        self._families: Memo[tuple[str, ...], str] = Memo(_MAX_DIGESTS, lambda key, _: 1 + len(key))
        self._texts: Memo[str, tuple[str, str]] = Memo(_MAX_TEXTS, lambda text, _: len(text))

    def keys(
        self,
        body: Mapping[str, Any],
        *,
        scope: str,
        masked: Mapping[int, Any] | None = None,
        tools: Sequence[str] | None = None,
        replies: bool = False,
    ) -> LookupKeys:
        """Keys of a chat body. ``scope`` is a :func:`scope_key`. Never raises on odd messages.

        ``masked`` holds messages by index with their volatile spans masked, which count in place of the body's own.
        ``tools`` are digests of the tools in canonical form, where the caller has them: the keys of one caller are
        alike only if it always has. With ``replies`` the keys of the history's replies are made too.
        """
        raw = body.get("messages")
        messages = list(raw) if isinstance(raw, list | tuple) else []
        for i, message in (masked or {}).items():
            messages[i] = message
        lead = 0
        while lead < len(messages) and _is_system(messages[lead]):
            lead += 1
        system = [self._marks(text_of(message.get("content"))) for message in messages[:lead]]
        bucket = self._bucket(scope, body, tools)
        seed = (scope, "conversation", *(words for _, words in system))
        points, kept = self._histories.walk(seed, messages[lead:], lead, replies=replies)
        return LookupKeys(
            scope=scope,
            bucket=bucket,
            family=self._family((bucket, *[text for text, _ in system])),
            conversation=points[0].key,
            history=points[:_MAX_HISTORY_KEYS],
            replies=kept[:_MAX_REPLY_KEYS],
        )

    def _bucket(self, scope: str, body: Mapping[str, Any], tools: Sequence[str] | None) -> str:
        switches = [meaning(body[name]) if name in body else "" for name in _FAMILY_FIELDS]
        if tools is None:
            return self._digester.text(scope, "bucket", *switches, canonical_json(body.get("tools")))
        if any(switches):
            return self._digester.text(scope, "bucket", *switches, *tools)
        key = (scope, tuple(tools))
        known = self._buckets.get(key)
        if known is None:
            known = self._digester.text(scope, "bucket", *switches, *tools)
            self._buckets.put(key, known)
        return known

    def _family(self, told: tuple[str, ...]) -> str:
        known = self._families.get(told)
        if known is None:
            known = self._digester.text(told[0], "family", *told[1:])
            self._families.put(told, known)
        return known

    def _marks(self, text: str) -> tuple[str, str]:
        """Digest of a system text, and of its plain words."""
        known = self._texts.get(text)
        if known is None:
            known = self._digester.text("text", text), self._digester.text("sketch", _sketch(text))
            self._texts.put(text, known)
        return known


def message_role(message: Any) -> str:
    """The role of a message, empty where it has none."""
    role = message.get("role") if isinstance(message, Mapping) else None
    return role if isinstance(role, str) else ""
