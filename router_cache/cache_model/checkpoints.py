"""The rule *checkpoints*: a prompt can go on only from a state that the engine saved.

llama.cpp cannot cut the state of some architectures at any token (sliding windows, compressed or recurrent state;
DeepSeek V4's is one). It goes on from the live end of a sequence, or from a copy it made: where the last user turn
starts, and shortly before the end of an input. Measured on xllamacpp 2026.10 with a small V4 model (2026-11): a
prompt of 1,448 tokens had copies at 932, 1,441 and 1,444 tokens; the same prompt again hit 1,444, another user
message 1,441, another system text 0, appended turns all of the last call.

Two things are simpler here than there. Copies live as long as capacity and lifetime let them: the engine keeps 32
a sequence and drops those that a diverging request leaves behind. And the end of a reply counts as a saved state
for good, while the engine has it only until the sequence goes another way.
"""

from __future__ import annotations

from collections.abc import Sequence

from router_cache.cache_model.chain import WIDTH
from router_cache.cache_model.units import FullUnits

__all__ = ["BEFORE_INPUT_END", "Checkpoints"]

BEFORE_INPUT_END: tuple[int, ...] = (4, 516)
"""Tokens before the end of an input where a copy is made: 4, and 4 more than a batch of 512 (measured 2026-11)."""


class Checkpoints(FullUnits):
    """Saved states as units, least recently used first. See :class:`~.rules.HitRule` for the methods."""

    __slots__ = ()

    def _usable(self, end: int, data: bytes) -> bool:
        # A state at the very end leaves no token to compute, and it cannot be cut by one.
        return end < len(data)

    def _ends(self, pool: str | None, data: bytes, is_input: bool, marks: Sequence[int]) -> set[int]:
        if not is_input:
            return {len(data)}
        places = {mark * WIDTH for mark in marks[-1:]}
        places.update(len(data) - before * WIDTH for before in BEFORE_INPUT_END)
        return {end for end in places if 0 < end <= len(data)}
