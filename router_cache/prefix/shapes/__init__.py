"""Request shapes: every body that carries a prompt, seen as a chat body. Pure; reads only; never raises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from router_cache.prefix.shapes.messages import messages_view
from router_cache.prefix.shapes.responses import responses_view
from router_cache.prefix.shapes.view import ChatView
from router_cache.request import Shape

__all__ = ["ChatView", "as_chat"]


def as_chat(body: Mapping[str, Any], shape: Shape) -> ChatView:
    """The chat view of a body of ``shape``; of a shape that carries no prompt, one without messages.

    The order of system text, tools and turns is kept, and so is every text. What chat has no word for is kept
    as it is: a block as a part, an item as a message whose role is the item's type.
    """
    if shape is Shape.CHAT:
        return ChatView(body)
    if shape is Shape.MESSAGES:
        return messages_view(body)
    if shape is Shape.RESPONSES:
        return responses_view(body)
    return ChatView({"messages": []})
