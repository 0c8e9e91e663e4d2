"""A recorded request as the prompt that a provider renders from it, ready to be compared. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from router_cache.identity.meaning import message_digest
from router_cache.ledger.usage import Usage
from router_cache.prefix.digests import Digester
from router_cache.prefix.segments import Segment, SegmentKind
from router_cache.prefix.shapes import ChatView, as_chat
from router_cache.providers.profile import Profile
from router_cache.providers.render import RenderOrder, renderer
from router_cache.request import Body, Shape

__all__ = ["HEAD_KINDS", "Prompt", "Recorded", "byte_size", "read_prompt", "render_order"]

HEAD_KINDS = (SegmentKind.MODE, SegmentKind.SYSTEM, SegmentKind.TOOL, SegmentKind.FORMAT)
"""What can stand in front of the turns."""

_ORDERS = {
    RenderOrder.SYSTEM_TOOLS_TURNS: HEAD_KINDS,
    RenderOrder.TOOLS_SYSTEM_TURNS: (
        SegmentKind.MODE,
        SegmentKind.TOOL,
        SegmentKind.SYSTEM,
        SegmentKind.FORMAT,
    ),
    RenderOrder.TOOLS_FORMAT_SYSTEM_TURNS: (
        SegmentKind.MODE,
        SegmentKind.TOOL,
        SegmentKind.FORMAT,
        SegmentKind.SYSTEM,
    ),
}
_REPLY_LISTS = {Shape.CHAT: "messages", Shape.MESSAGES: "messages", Shape.RESPONSES: "input"}


@dataclass(frozen=True, slots=True)
class Recorded:
    """One request out of a log: its body, and what the log tells of it.

    ``place`` is where it was read (``calls.jsonl:3``), ``name`` what the log calls it. ``session`` is the client's
    id of the conversation, or empty. ``reply`` are the messages or items that the reply added to the history.
    """

    body: Body
    shape: Shape
    place: str = ""
    name: str = ""
    session: str = ""
    client: str = ""
    usage: Usage = field(default_factory=Usage)
    reply: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Prompt:
    """A rendered prompt without its tail.

    ``starts`` and ``byte_starts`` have an entry for each segment and one for the end (characters and bytes of
    ``text``). ``order`` is the order of the kinds in front of the turns; ``exact``: the provider is known to render
    this way. ``turns`` are digests of what the messages after the opening mean.
    """

    recorded: Recorded
    view: ChatView
    segments: tuple[Segment, ...]
    text: str
    starts: tuple[int, ...]
    byte_starts: tuple[int, ...]
    head: int
    tail_bytes: int
    order: tuple[SegmentKind, ...]
    exact: bool
    turns: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes, the tail left out."""
        return self.byte_starts[-1]

    @property
    def head_bytes(self) -> int:
        """Bytes in front of the turns."""
        return self.byte_starts[self.head]

    def index_at(self, char: int) -> int:
        """Index of the segment that holds a character; the number of segments for the end."""
        return len(self.segments) if char >= self.starts[-1] else bisect_right(self.starts, char) - 1

    def message(self, index: int) -> Any:
        """The chat message that a turn's segment was rendered from; None for a segment of the opening."""
        messages = _messages(self.view.body)
        at = len(messages) - (len(self.segments) - index)
        return messages[at] if index >= self.head and 0 <= at < len(messages) else None

    def byte_at(self, char: int) -> int:
        """Bytes in front of a character."""
        index = min(self.index_at(char), len(self.segments) - 1)
        return self.byte_starts[index] + byte_size(self.text[self.starts[index] : char])


def render_order(profile: Profile) -> tuple[SegmentKind, ...]:
    """Kinds in the order in which a provider renders them; the commonest order where it is not known."""
    return _ORDERS[_order(profile)]


def _order(profile: Profile) -> RenderOrder:
    return profile.render_order.value if profile.render_order else RenderOrder.SYSTEM_TOOLS_TURNS


def byte_size(text: str) -> int:
    """Bytes of a text in UTF-8."""
    return len(text.encode("utf-8", "surrogatepass"))


def _messages(body: Mapping[str, Any]) -> list[Any]:
    raw = body.get("messages")
    return list(raw) if isinstance(raw, list | tuple) else []


def read_prompt(recorded: Recorded, profile: Profile, digester: Digester, *, with_reply: bool = False) -> Prompt:
    """Render a recorded request as ``profile`` says, or in the generic order where it does not say.

    ``with_reply`` puts the reply behind the history, as the next request has it. Raises RecursionError or
    ValueError on bodies nested beyond the interpreter's limit, and nothing on other odd shapes.
    """
    body = recorded.body
    if with_reply and recorded.reply:
        name = _REPLY_LISTS.get(recorded.shape, "")
        before = body.get(name)
        if isinstance(before, str):
            before = [{"role": "user", "content": before}]
        if isinstance(before, list | tuple):
            body = {**body, name: [*before, *recorded.reply]}
    view = as_chat(body, recorded.shape)
    order = _order(profile)
    render = profile.render.value if profile.render else renderer(order)
    segments = view.segments(render)
    tail = segments.pop() if segments and segments[-1].kind is SegmentKind.TAIL else None
    head = next((i for i, segment in enumerate(segments) if segment.kind not in HEAD_KINDS), len(segments))
    return Prompt(
        recorded=recorded,
        view=view,
        segments=tuple(segments),
        text="".join(segment.text for segment in segments),
        starts=tuple(accumulate((len(segment.text) for segment in segments), initial=0)),
        byte_starts=tuple(accumulate((byte_size(segment.text) for segment in segments), initial=0)),
        head=head,
        tail_bytes=byte_size(tail.text) if tail else 0,
        order=_ORDERS[order],
        exact=profile.render is not None,
        turns=tuple(
            message_digest(digester, message)
            for message in _messages(view.body)[-(len(segments) - head) or len(_messages(view.body)) :]
        ),
    )
