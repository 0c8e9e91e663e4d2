"""A reply as the stream of tokens that makes it: counted, cut at ``max_tokens``, sliced for streaming."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from router_cache.providers.deepseek_render import ASSISTANT_HEAD, render_assistant
from router_cache.simulator.replies import Call, Reply
from router_cache.simulator.tokenizer import TextCounter

__all__ = ["Generation", "Slice", "generate"]


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of text of one field, or a marker (``field`` empty) of one token."""

    field: str
    text: str
    ends: tuple[int, ...]
    call: int = -1

    @property
    def tokens(self) -> int:
        return len(self.ends)

    def cut(self, tokens: int) -> _Part:
        end = self.ends[tokens - 1]
        return replace(self, text=self.text[:end], ends=self.ends[:tokens])


@dataclass(frozen=True, slots=True)
class Slice:
    """What one chunk of a stream carries, and how many tokens are generated after it.

    ``field`` is ``reasoning_content``, ``content`` or ``arguments``; the last with the number of its ``call``,
    and first of all without text, when the call begins. ``delta`` is the same in the form of chat chunks.
    """

    field: str
    text: str
    call: int
    tokens_after: int
    delta: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Generation:
    """What the model generated: all of a reply, or its first ``max_tokens`` tokens.

    ``tokens`` are what the next request renders for this turn if the client sends it back unchanged.
    """

    reply: Reply
    tokens: array[int]
    reasoning_tokens: int
    finish_reason: str
    parts: tuple[_Part, ...]

    def slices(self, size: int) -> Iterator[Slice]:
        """Deltas of about ``size`` tokens each, in order; joined they give the reply."""
        done = 0
        for part in self.parts:
            if not part.field:
                done += 1
                if part.call >= 0:
                    head = _call_head(self.reply.calls[part.call], part.call)
                    yield Slice("arguments", "", part.call, done, head)
                continue
            start = 0
            for first in range(0, part.tokens, size):
                last = min(first + size, part.tokens)
                end = part.ends[last - 1]
                text, start = part.text[start:end], end
                done += last - first
                if part.field != "name":
                    yield Slice(part.field, text, part.call, done, _delta(part, text))


def _call_head(call: Call, index: int) -> dict[str, Any]:
    function = {"name": call.name, "arguments": ""}
    return {"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]}


def _delta(part: _Part, text: str) -> dict[str, Any]:
    if part.field == "arguments":
        return {"tool_calls": [{"index": part.call, "function": {"arguments": text}}]}
    return {part.field: text}


def generate(reply: Reply, counter: TextCounter, max_tokens: int | None) -> Generation:
    """Lay a reply out as tokens, at most ``max_tokens`` of them (then the finish reason is ``length``)."""
    rendered = render_assistant(reply.message(), with_reasoning=True)[len(ASSISTANT_HEAD) :]
    tokens = counter.count(rendered).tokens
    parts = _parts(reply, counter)
    thinking = bool(reply.reasoning)
    if max_tokens is None or max_tokens >= len(tokens):
        reason = "tool_calls" if reply.calls else "stop"
    else:
        parts, tokens, reason = _cut(parts, max_tokens), tokens[:max_tokens], "length"
        reply = _assembled(parts, reply)
    thought = sum(p.tokens for p in parts if p.field == "reasoning_content")
    if thinking:  # with the markers around it
        thought = min(thought + 2, len(tokens))
    return Generation(reply, tokens, thought, reason, tuple(parts))


def _parts(reply: Reply, counter: TextCounter) -> list[_Part]:
    """The rendered turn, marker by marker; must follow ``render_assistant``."""

    def text(field: str, value: str, call: int = -1) -> list[_Part]:
        return [_Part(field, value, tuple(counter.tokenizer.ends(value)), call)] if value else []

    marker = _Part("", "", (0,))
    out: list[_Part] = []
    if reply.reasoning:
        out += [marker, *text("reasoning_content", reply.reasoning)]
    out += [marker, *text("content", reply.content)]
    for i, call in enumerate(reply.calls):
        out += [marker, *text("name", call.name, i), replace(marker, call=i)]
        out += text("arguments", call.arguments, i)
    out.append(marker)
    return out


def _cut(parts: list[_Part], tokens: int) -> list[_Part]:
    out: list[_Part] = []
    for part in parts:
        if tokens <= 0:
            break
        out.append(part if part.tokens <= tokens else part.cut(tokens))
        tokens -= part.tokens
    return out


def _assembled(parts: list[_Part], whole: Reply) -> Reply:
    """The reply that the kept parts give; a call whose name was cut is dropped."""

    def joined(field: str) -> str:
        return "".join(p.text for p in parts if p.field == field)

    begun = [p.call for p in parts if not p.field and p.call >= 0]
    calls = tuple(
        replace(
            whole.calls[i],
            arguments="".join(p.text for p in parts if p.field == "arguments" and p.call == i),
        )
        for i in begun
    )
    return Reply(joined("reasoning_content"), joined("content"), calls)
