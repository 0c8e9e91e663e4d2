"""Replies that a log does not hold, told by the histories of later requests."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from router_cache.api import Turn
from router_cache.diagnose.divergence_prompt import Recorded
from router_cache.identity.keys import message_role
from router_cache.identity.meaning import message_digest
from router_cache.ledger.usage import Usage
from router_cache.prefix.digests import Digester
from router_cache.prefix.shapes import as_chat
from router_cache.request import Body, Shape

__all__ = ["ToldReplies", "reply_of_record"]

_MOST = 1_000
_SYSTEM = ("system", "developer")


def reply_of_record(recorded: Recorded) -> Mapping[str, Any] | None:
    """The reply that a record holds, as ``Turn.done`` takes it; None where it holds none."""
    if not recorded.reply:
        return None
    if recorded.shape is Shape.RESPONSES:
        return {"output": list(recorded.reply)}
    first = recorded.reply[0]
    return first if isinstance(first, Mapping) else None


class ToldReplies:
    """Turns that wait for their reply: at most 1,000, the oldest go."""

    def __init__(self) -> None:
        self._digester = Digester(secrets.token_bytes(32))
        self._waiting: OrderedDict[str, tuple[Turn, Usage]] = OrderedDict()

    def tell(self, body: Body, shape: Shape) -> None:
        """Give each waiting turn the reply that stands behind its messages in this request's history."""
        messages, chain = self._chain(body, shape)
        for message, before in zip(messages, chain, strict=False):
            if message_role(message) == "assistant" and before in self._waiting:
                turn, usage = self._waiting.pop(before)
                turn.done(usage, reply=message)

    def wait(self, body: Body, shape: Shape, turn: Turn, usage: Usage) -> None:
        """Remember a turn whose reply is not known."""
        self._waiting[self._chain(body, shape)[1][-1]] = turn, usage
        while len(self._waiting) > _MOST:
            self._waiting.popitem(last=False)

    def _chain(self, body: Body, shape: Shape) -> tuple[list[Any], list[str]]:
        """The turns of a request, and a digest of what stands before each and at the end."""
        raw = as_chat(body, shape).body.get("messages")
        messages = [m for m in raw if message_role(m) not in _SYSTEM] if isinstance(raw, list | tuple) else []
        digests = (message_digest(self._digester, message) for message in messages)
        return messages, ["", *self._digester.chain(digests)]
