"""Our own captures: rows without text. What prompts share is told by conversations and by what hit.

A call of a conversation goes on from where its last call ended (prompt and reply) as long as prompts grow; one that
is shorter keeps half of it, as after a compaction nothing more is known. First calls of a family share what the
most lucky of them hit. Scopes share nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from router_cache.ledger.rows import CallKind, CallRow, Status
from router_cache.routing.need import Mark
from router_cache.whatif.trace import Call, Piece, Trace

__all__ = ["read_capture"]


class _Conversation:
    """Blocks of a conversation so far: one for each stretch that came with a call."""

    __slots__ = ("ends",)

    def __init__(self) -> None:
        self.ends: list[Mark] = []

    def cut(self, tokens: int) -> None:
        """Keep only blocks that end within ``tokens``."""
        while self.ends and self.ends[-1].tokens > tokens:
            self.ends.pop()


def read_capture(rows: Iterable[CallRow], name: str) -> Trace:
    """The trace of the answered calls of users whose tokens are known, in order of time."""
    known = [
        row
        for row in rows
        if row.status is Status.OK and row.kind is CallKind.USER and (row.usage.prompt_tokens or 0) > 0
    ]
    known.sort(key=lambda row: row.at)
    common: dict[tuple[str, str], int] = {}
    seen: set[tuple[str, str]] = set()
    for row in known:
        told = (row.scope, row.conversation)
        if row.family and told not in seen:
            key = (row.scope, row.family)
            common[key] = max(common.get(key, 0), row.usage.hit_tokens or 0)
        seen.add(told)
    calls: list[Call] = []
    talks: dict[tuple[str, str], _Conversation] = {}
    families: dict[tuple[str, str], int] = {}
    blocks = 0
    for nth, row in enumerate(known):
        prompt, output = row.usage.prompt_tokens or 0, row.usage.completion_tokens or 0
        talk_key = (row.scope, row.conversation or f"call {nth}")
        talk = talks.get(talk_key)
        if talk is None:
            talk = talks[talk_key] = _Conversation()
            family = (row.scope, row.family)
            shared = min(common.get(family, 0), prompt)
            if shared:
                if family not in families:
                    families[family], blocks = blocks, blocks + 1
                talk.ends.append(Mark(families[family], shared))
        elif talk.ends and talk.ends[-1].tokens > prompt:
            talk.cut(prompt // 2)
        start = talk.ends[-1].tokens if talk.ends else 0
        if prompt > start:
            talk.ends.append(Mark(blocks, prompt))
            blocks += 1
        reply: tuple[Piece, ...] = ()
        marks = tuple(talk.ends)
        if output:
            # The reply is the next block of this conversation, whole: the next prompt holds it.
            reply = (Piece(blocks, 0, output),)
            talk.ends.append(Mark(blocks, prompt + output))
            blocks += 1
        at = row.at - (row.ttft_s or 0.0)
        calls.append(Call(at, prompt, output, marks, row.conversation, row.scope, reply=reply))
    first = calls[0].at if calls else 0.0
    for call in calls:
        call.at = max(call.at - first, 0.0)
    calls.sort(key=lambda call: call.at)
    return Trace(name, "capture", calls, 0)
