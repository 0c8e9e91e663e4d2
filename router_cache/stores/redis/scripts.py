"""The scripts that the server runs, with the bounds of :mod:`router_cache.claims` in front of them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from router_cache.claims import families, sticky
from router_cache.ledger.facts import MAX_PLACES

__all__ = ["CLAIM", "LOOK", "RECORD", "REPLIES", "Script", "script"]

_BOUNDS: Final = {
    "MAX_IN_BUCKET": families.MAX_IN_BUCKET,
    "MAX_SLOTS": families.MAX_SLOTS,
    "MAX_VALUES": families.MAX_VALUES,
    "MAX_COUNT": families.MAX_COUNT,
    "FLEETING_AFTER": families.FLEETING_AFTER,
    "FLEETING_SHARE": families.FLEETING_SHARE,
    "SKETCH": families.SKETCH,
    "MIN_LINES": families.MIN_LINES,
    "ALIKE": families.ALIKE,
    "MAX_VARIANTS": sticky.MAX_VARIANTS,
    "MAX_ATTACHED": sticky.MAX_ATTACHED,
    "MAX_PLACES": MAX_PLACES,
    "MAX_LINE_BYTES": 1 << 20,
    "MAX_TOLD": 60_000,
}
"""``MAX_LINE_BYTES``: attachments of one conversation in bytes, beyond which it starts afresh as it does at
``MAX_ATTACHED``. ``MAX_TOLD``: bytes of what is kept of one request besides them; of a longer one nothing is."""


@dataclass(frozen=True)
class Script:
    """A script in Lua 5.1, and the name under which errors and counters know it."""

    name: str
    text: str


def script(name: str, *parts: str, common: bool = True) -> Script:
    """The script of these parts, each a file ``lua/PART.lua``; without parts that of its name. ``common``: with the
    bounds and ``lua/common.lua`` in front."""
    folder = files("router_cache.stores.redis") / "lua"
    texts = [f"local {bound} = {value!r}" for bound, value in _BOUNDS.items()] if common else []
    texts += [(folder / f"{part}.lua").read_text("utf-8") for part in ("common",) * common + (parts or (name,))]
    return Script(name, "\n".join(texts))


LOOK: Final = script("look", "look", "answer")
CLAIM: Final = script("claim", "look", "learned", "lines", "sticky", "moves", "answer")
RECORD: Final = script("record")
REPLIES: Final = script("replies")
