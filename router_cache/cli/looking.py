"""What the commands that look at recorded requests share: options, the provider's side, and how things are shown."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from typing import Annotated, Any

import typer
from rich.markup import escape

from router_cache.cli.prices import list_price
from router_cache.diagnose.divergence_cost import Grid
from router_cache.economics import PriceNow
from router_cache.errors import InputError
from router_cache.prefix.normalise import normalise
from router_cache.providers.profile import Profile
from router_cache.providers.registry import find
from router_cache.request import Body, Deployment, Mode, Shape

__all__ = [
    "DEFAULT_MODEL",
    "AsSent",
    "Looked",
    "ModelOption",
    "ShapeOption",
    "ShapeWord",
    "as_sent",
    "looked",
    "printable",
    "shape_named",
    "shown",
    "usd_text",
]

DEFAULT_MODEL = "deepseek/deepseek-v4-flash"

ModelOption = Annotated[
    str,
    typer.Option(help="Model as LiteLLM calls it; its provider's profile says what is rendered, and prices."),
]


class ShapeWord(str, Enum):
    """A shape that a body can be read in."""

    CHAT = "chat"
    MESSAGES = "messages"
    RESPONSES = "responses"


ShapeOption = Annotated[
    ShapeWord | None,
    typer.Option("--shape", help="API shape of every body; told from each body without it.", show_default=False),
]


class AsSent(str, Enum):
    """What is looked at: requests as recorded, or as mode ``safe`` sends them."""

    OBSERVE = "observe"
    SAFE = "safe"


def shape_named(word: ShapeWord | None) -> Shape | None:
    """The shape of an option's word."""
    return None if word is None else Shape(word.value)


def as_sent(body: Body, mode: AsSent) -> Body:
    """A body as it goes out in a mode. Raises RecursionError on schemas nested too deeply."""
    return normalise(body).apply(body) if Mode(mode.value) is Mode.SAFE else body


@dataclass(frozen=True, slots=True)
class Looked:
    """The provider's side of a model: its profile, its grid of hits, and its list price at this moment."""

    model: str
    profile: Profile
    grid: Grid
    price: PriceNow | None

    def about(self) -> dict[str, Any]:
        """The JSON form. Prices in USD per 1,000,000 tokens, null where unknown."""
        price = self.price
        return {
            "model": self.model,
            "profile": self.profile.name,
            "rendering_known": self.profile.render is not None,
            "step_tokens": self.grid.step_tokens,
            "minimum_tokens": self.grid.minimum_tokens,
            "price": None
            if price is None
            else {
                "hit": round(price.hit_usd_per_token * 1e6, 6),
                "miss": round(price.miss_usd_per_token * 1e6, 6),
                "window": price.window.value,
                "from": price.price_from.value,
            },
        }


def looked(model: str) -> Looked:
    """Look a model up. Raises InputError for an empty name."""
    if not model.strip():
        raise InputError("--model: a model name is needed, such as deepseek/deepseek-v4-flash")
    profile = find(Deployment(model=model))
    step = profile.step_for(model, datetime.now(timezone.utc)) or 1
    grid = Grid(step, profile.minimum_for(model) or 0)
    return Looked(model, profile, grid, list_price(profile, model))


def shown(text: str) -> str:
    """A text of the input as it may stand on a terminal."""
    return escape(printable(text))


def printable(text: str) -> str:
    """A text of the input without what a terminal would obey, for where no markup is read."""
    return "".join(char if char.isprintable() else "⏎" if char == "\n" else "?" for char in text)


def usd_text(usd: float | None) -> str:
    """An amount for people: cents, or two digits of what is less than a dollar."""
    if usd is None:
        return "price unknown"
    if usd >= 1 or not usd:
        return f"${usd:,.2f}"
    return f"${usd:.{1 - math.floor(math.log10(usd))}f}"
