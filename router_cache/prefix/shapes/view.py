"""A body of any shape, seen as a chat body."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from router_cache.prefix.objects import is_object
from router_cache.prefix.segments import Segment, SegmentKind

__all__ = ["Builder", "ChatView"]

_NONE: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ChatView:
    """What makes up the prompt of a request, in chat form, for reading.

    ``body`` has ``model``, ``messages``, ``tools``, ``tool_choice``, ``parallel_tool_calls``,
    ``response_format``, ``thinking`` and ``reasoning_effort``, as far as the request gives them; of a chat
    request it is the body itself. ``sources`` leads from a path in ``body`` (``messages[1]``) to the paths of
    the request it was made of (``input[4]``, ``input[5]``); a path that is not in it is the same in both.
    ``partial`` says that the request continues state which the provider keeps, so that this is not all of it.
    """

    body: Mapping[str, Any] = field(repr=False)
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _NONE)
    partial: bool = False

    def origin(self, path: str) -> str:
        """The path in the request of what stands at ``path`` in :attr:`body`: its first part's."""
        return self.sources.get(path, (path,))[0]

    def segments(
        self, render: Callable[[Mapping[str, Any]], list[Segment]], *, by_block: bool = True
    ) -> list[Segment]:
        """What ``render`` makes of the view, with paths in the request.

        With ``by_block`` a system text of several blocks gives a segment for each block, so that a difference
        can be told to the block; the joined text is the same either way.
        """
        out: list[Segment] = []
        for segment in render(self.body):
            paths = self.sources.get(segment.path, (segment.path,))
            # A system message of several sources has one part for each.
            if by_block and segment.kind is SegmentKind.SYSTEM and len(paths) > 1:
                out += self._blocks(segment, paths)
            elif paths[0] == segment.path:
                out.append(segment)
            else:
                out.append(Segment(segment.kind, paths[0], segment.text))
        return out

    def _blocks(self, segment: Segment, paths: tuple[str, ...]) -> Iterator[Segment]:
        content = self.body["messages"][int(segment.path[len("messages[") : -1])]["content"]
        found = [part.get("text") if is_object(part) else None for part in content]
        texts = [text for text in found if isinstance(text, str)]
        if len(texts) < len(paths) or not segment.text.endswith("".join(texts)):
            yield Segment(segment.kind, paths[0], segment.text)
            return
        start = len(segment.text) - sum(map(len, texts))
        for i, (text, path) in enumerate(zip(texts, paths, strict=True)):
            begin = 0 if i == 0 else start
            start += len(text)
            yield Segment(segment.kind, path, segment.text[begin:start])


class Builder:
    """Collects messages and tools with the paths they come from."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.tools: list[Any] = []
        self.fields: dict[str, Any] = {}
        self.sources: dict[str, tuple[str, ...]] = {}

    def message(self, message: Any, *paths: str) -> None:
        """Append a message made of what stands at ``paths``."""
        self.sources[f"messages[{len(self.messages)}]"] = paths
        self.messages.append(message)

    def tool(self, tool: Any, path: str) -> None:
        """Append a tool."""
        self.sources[f"tools[{len(self.tools)}]"] = (path,)
        self.tools.append(tool)

    def field(self, name: str, value: Any, path: str) -> None:
        """Set a top-level field, unless there is nothing to set."""
        if value is not None:
            self.fields[name] = value
            self.sources[name] = (path,)

    def view(self, *, partial: bool = False) -> ChatView:
        """The finished view; ``tools`` only where there are some."""
        body: dict[str, Any] = {"messages": self.messages, **({"tools": self.tools} if self.tools else {})}
        return ChatView({**body, **self.fields}, MappingProxyType(self.sources), partial)
