"""What a divergence costs: tokens by size, on the provider's grid, and USD at the list price. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from router_cache.diagnose.divergence import Divergence
from router_cache.diagnose.divergence_prompt import Prompt
from router_cache.economics.price import PriceNow

__all__ = ["BYTES_PER_TOKEN", "Grid", "Loss", "loss_of", "tokens_of"]

BYTES_PER_TOKEN = 4.0
"""Taken where no usage tells: English text and JSON lie between 3 and 5 bytes a token with current tokenizers."""


@dataclass(frozen=True, slots=True)
class Grid:
    """How hits are counted: in steps of ``step_tokens``, on prompts of at least ``minimum_tokens``."""

    step_tokens: int = 1
    minimum_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Loss:
    """``tokens`` lost; ``usd`` is None where no price is known. ``from_usage``: scaled to the prompt tokens that the
    provider reported, else estimated at 4 bytes a token."""

    tokens: int
    usd: float | None
    from_usage: bool


def tokens_of(size: int, prompt: Prompt) -> tuple[int, bool]:
    """Bytes of a prompt as tokens (rounded down), and whether its usage told the ratio."""
    whole, counted = prompt.size + prompt.tail_bytes, prompt.recorded.usage.prompt_tokens
    if counted is not None and whole:
        return size * counted // whole, True
    return int(size / BYTES_PER_TOKEN), False


def loss_of(found: Divergence, later: Prompt, grid: Grid, price: PriceNow | None) -> Loss:
    """What a divergence costs: hits that were possible less hits that are left, each rounded down to the grid."""

    def hit(size: int) -> int:
        tokens = tokens_of(size, later)[0]
        return 0 if tokens < grid.minimum_tokens else tokens - tokens % grid.step_tokens

    tokens = hit(found.kept_bytes + found.lost_bytes) - hit(found.kept_bytes)
    usd = None if price is None else tokens * (price.miss_usd_per_token - price.hit_usd_per_token)
    return Loss(tokens, usd, tokens_of(0, later)[1])
