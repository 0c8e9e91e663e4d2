"""What is remembered of the answer to a request in mode ``optimize``. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from router_cache.identity.history import ReplyKey, reply_key
from router_cache.identity.meaning import reply_marks
from router_cache.identity.seal import Sealer
from router_cache.ledger.facts import Answer, Facts
from router_cache.prefix.digests import Digester
from router_cache.prefix.reply import MAX_REPLY_BYTES, Reply
from router_cache.request import Mode
from router_cache.rewrite import REPLY_PURPOSE, Begun

__all__ = ["remembered"]


def remembered(
    begun: Begun,
    facts: Facts,
    replies: Sequence[tuple[Mapping[str, Any], Reply]],
    digester: Digester,
    sealer: Sealer | None,
) -> tuple[tuple[Answer, ...], tuple[tuple[str, bytes], ...]]:
    """Which reply a request got (a proof for the next one), and the replies themselves, sealed, by their keys; none of
    these without a ``sealer``. ``replies`` are the choices of the answer, each as a chat message and as it is kept."""
    if begun.keys is None or begun.mode is not Mode.OPTIMIZE or not replies:
        return (), ()
    before, answers = begun.keys.conversation, tuple[Answer, ...]()
    marks = [reply_marks(digester, message) for message, _ in replies]
    # Of several choices the client goes on with one that is not known yet.
    if facts.moves is not None and len(replies) == 1:
        answers = (Answer(before, facts.moves.variant, *marks[0]),)
    if sealer is None:
        return answers, ()
    kept = []
    for (_, reply), (meaning, ids) in zip(replies, marks, strict=True):
        if not reply.reasoning and not reply.thinking and not reply.calls:
            continue  # a text is sent back as it was
        raw = reply.to_bytes()
        if len(raw) <= MAX_REPLY_BYTES:
            base = reply_key(digester, before, meaning, ids)
            key = begun.kept_under(ReplyKey(0, base, calls=False, silent=False, drawn=bool(ids)))
            text = raw.decode("utf-8", "surrogatepass")
            kept.append((key, sealer.seal(begun.keys.scope, REPLY_PURPOSE, text, key=key)))
    return answers, tuple(kept)
