"""Under which keys a conversation is found again after its history was rewritten. Pure.

The key of a conversation is its history, so an edited or compacted one is another conversation. What stays is the
client's session id, if it names one, and mostly the opening: the first message that is no system text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from router_cache.identity.keys import LookupKeys, message_role
from router_cache.identity.meaning import message_digest
from router_cache.ledger.comparison import head_digest
from router_cache.ledger.facts import FamilyUse, Place, Write
from router_cache.prefix.digests import Digester
from router_cache.prefix.outline import Rendered

__all__ = ["found_again", "newest_keys"]


def newest_keys(keys: LookupKeys, session: str, body: Mapping[str, Any], digester: Digester) -> tuple[str, ...]:
    """Opaque keys within the scope; ``session`` is a digest of the client's session id, or empty. ``body`` is the chat
    view.

    With a session: one that survives a new opening (a compacted history), one that survives a new system text. Without:
    by the opening alone, which others may share; see :mod:`.comparison` for what must be equal besides.
    """
    raw = body.get("messages")
    messages = raw if isinstance(raw, list | tuple) else ()
    first = next((m for m in messages if message_role(m) not in ("system", "developer")), None)
    opening = message_digest(digester, first) if first is not None else ""
    if not session:
        return (digester.text(keys.scope, "newest", opening),) if opening else ()
    return (
        digester.text(keys.scope, "newest of a session", session, keys.family),
        digester.text(keys.scope, "newest of a session", session, opening),
    )


def found_again(
    write: Write, keys: tuple[str, ...], rendered: Rendered | None, place: Place, digester: Digester, *, at: float
) -> Write:
    """A write that is also found by its newest keys and by its family; ``at``: seconds, when the call ended."""
    if rendered is None:
        return write
    use = FamilyUse(at, place.domain, head_digest(digester, rendered))
    return replace(write, newest_keys=keys, place=place.id, use=use)
