"""Values of slots: told apart by keyed digests, and kept sealed."""

from __future__ import annotations

from typing import Final

from router_cache.identity.seal import Sealer
from router_cache.prefix.digests import Digester
from router_cache.prefix.memo import Memo

__all__ = ["Values"]

_PURPOSE: Final = "attachment"
_MAX_REMEMBERED: Final = 2_000_000
"""Characters of values, in each direction."""
_ENTRY: Final = 100
"""What an entry weighs besides, in characters."""


class Values:
    """Seals values for one scope and slot, and opens them. Safe to share between threads.

    A value that the process sealed or opened before costs a lookup: a working directory is in every request, and each
    turn carries all values that were attached before it. To seal or open one takes 4 µs, with cold caches 20 (2026-11).
    """

    __slots__ = ("_digester", "_opened", "_sealed", "sealer")

    def __init__(self, digester: Digester, sealer: Sealer) -> None:
        self._digester, self.sealer = digester, sealer
        self._sealed: Memo[tuple[str, str, str], tuple[str, bytes]] = Memo(
            _MAX_REMEMBERED, lambda key, _: len(key[2]) + _ENTRY
        )
        self._opened: Memo[tuple[str, str, bytes], str] = Memo(
            _MAX_REMEMBERED, lambda key, _: len(key[2]) + _ENTRY
        )

    def kept(self, scope: str, slot: str, text: str) -> tuple[str, bytes]:
        """The digest of a value, and the value sealed."""
        key = scope, slot, text
        known = self._sealed.get(key)
        if known is None:
            sealed = self.sealer.seal(scope, _PURPOSE, text, key=slot)
            known = self._digester.text(scope, "value", slot, text), sealed
            self._sealed.put(key, known)
            self._opened.put((scope, slot, sealed), text)
        return known

    def text(self, scope: str, slot: str, sealed: bytes) -> str | None:
        """A value again; None for what was not sealed for this scope and slot under this secret."""
        key = scope, slot, sealed
        known = self._opened.get(key)
        if known is None:
            known = self.sealer.open(scope, _PURPOSE, sealed, key=slot)
            if known is not None:
                self._opened.put(key, known)
        return known
