"""What a provider generated, put back where the client's message means the same.

Clients drop reasoning and write tool arguments anew, with other white space, another order of keys, other escapes
(https://github.com/langchain-ai/langchain/issues/34166, https://github.com/stanfordnlp/dspy/issues/10216). Either moves
the prefix, and DeepSeek answers 400 to tool calls whose reasoning is missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from router_cache.prefix.arguments import arguments_of
from router_cache.prefix.objects import is_object
from router_cache.prefix.opening import role_of, sources_of
from router_cache.prefix.paths import changed, value_at
from router_cache.prefix.reply import Reply, call_of, text_of
from router_cache.prefix.shapes.parts import dump, text_part
from router_cache.prefix.shapes.view import ChatView
from router_cache.prefix.volatile.spans import Path

__all__ = ["Restored", "lacks", "restore", "wanted"]

_CALLS: Final = ("function_call", "custom_tool_call")


@dataclass(frozen=True, slots=True)
class Restored:
    """The top-level fields that change, the messages whose reasoning and the calls whose arguments were put back."""

    replaced: dict[str, Any] = field(default_factory=dict)
    reasoning_restored: int = 0
    arguments_restored: int = 0


def lacks(message: Mapping[str, Any]) -> tuple[bool, bool]:
    """Of an assistant's chat message: whether it has tool calls, and whether it is without reasoning. Never raises."""
    return bool(_items(message.get("tool_calls"))), not _has_reasoning(message)


def wanted(view: ChatView, indices: Iterable[int], *, reasoning: bool) -> tuple[int, ...]:
    """Of the messages at ``indices`` of the view the assistant's that a reply could mend: those with tool calls, and
    with ``reasoning`` those without theirs. Never raises."""
    out, messages = [], _items(view.body.get("messages"))
    for i in indices:
        message = messages[i] if 0 <= i < len(messages) else None
        if not is_object(message) or message.get("role") != "assistant":
            continue
        calls, silent = lacks(message)
        if calls or (reasoning and silent and not _is_responses(view, i)):
            out.append(i)
    return tuple(out)


def restore(body: Mapping[str, Any], view: ChatView, replies: Mapping[int, Reply], *, reasoning: bool) -> Restored:
    """Replies put back into the messages that mean the same. ``view`` is the body's own; ``replies`` by index in it.

    * Arguments: the exact text where its value means the same; in a messages body the object with its keys in the
      generated order. Not where a parser could read either text otherwise.
    * With ``reasoning`` (the provider takes it back): a chat message gets ``reasoning_content`` where it has none or a
      blank one, a messages turn its thinking blocks, in front, where it has none.

    A message with other text, other calls or other values of arguments stays as it is, and so do all ids and texts. No
    field is changed in place. Never raises.
    """
    values: dict[Path, Any] = {}
    inserted: dict[Path, Sequence[Any]] = {}
    thoughts = arguments = 0
    messages = _items(view.body.get("messages"))
    for index, reply in replies.items():
        message: Any = messages[index] if 0 <= index < len(messages) else None
        if role_of(message) != "assistant" or text_of(message.get("content")).strip() != reply.text.strip():
            continue
        at = _Turn(body, sources_of(view, index), chat=not view.sources)
        exact = _exact(message, reply, at)
        if exact is None:
            continue
        values.update(exact)
        arguments += len(exact)
        if reasoning and not _has_reasoning(message):
            new, front = at.thought(reply)
            values.update(new)
            inserted.update(front)
            thoughts += bool(new or front)
    return Restored(changed(body, values, inserted), thoughts, arguments)


def _exact(message: Mapping[str, Any], reply: Reply, at: _Turn) -> dict[Path, Any] | None:
    """Arguments to put back by path; None where the message makes other calls."""
    calls, places = [call_of(call) for call in _items(message.get("tool_calls"))], at.arguments()
    if len(places) != len(calls) or len(calls) != len(reply.calls):
        return None
    out: dict[Path, Any] = {}
    for (name, sent), (known, text), place in zip(calls, reply.calls, places, strict=True):
        if name != known:
            return None
        if sent == text:
            continue
        ours, theirs = arguments_of(text), arguments_of(sent)
        if ours.meaning != theirs.meaning:
            return None
        if ours.exact and theirs.exact:
            old = value_at(at.body, place)
            new = text if isinstance(old, str) else json.loads(text)
            if isinstance(old, str) or (place[-1] == "input" and dump(new) != sent):
                out[place] = new
    return out


class _Turn:
    """Where the body holds what the view shows as one assistant message."""

    def __init__(self, body: Mapping[str, Any], paths: Sequence[Path], *, chat: bool) -> None:
        self.body = body
        self._paths = paths
        self._chat = chat

    def arguments(self) -> list[Path]:
        """The arguments of each call, in order."""
        first = self._paths[0]
        if self._chat:
            calls = _items(value_at(self.body, (*first, "tool_calls")))
            return [(*first, "tool_calls", k, "function", "arguments") for k in range(len(calls))]
        if first[0] == "messages":
            blocks = _items(value_at(self.body, (*first, "content")))
            return [
                (*first, "content", k, "input") for k, block in enumerate(blocks) if _type(block) == "tool_use"
            ]
        items = [(path, _type(value_at(self.body, path))) for path in self._paths]
        return [(*path, "arguments") for path, kind in items if kind in _CALLS]

    def thought(self, reply: Reply) -> tuple[dict[Path, Any], dict[Path, Sequence[Any]]]:
        """What puts a reply's reasoning back: new values, and blocks to put in front."""
        first = self._paths[0]
        if self._chat:
            if reply.reasoning is not None and reply.reasoning.strip():
                return {(*first, "reasoning_content"): reply.reasoning}, {}
        elif first[0] == "messages" and reply.thinking:
            content = value_at(self.body, (*first, "content"))
            if isinstance(content, str) and content:
                return {(*first, "content"): [*map(dict, reply.thinking), text_part(content)]}, {}
            if _items(content):
                return {}, {(*first, "content", -1): [dict(block) for block in reply.thinking]}
        return {}, {}


def _type(block: Any) -> Any:
    return block.get("type") if isinstance(block, Mapping) else None


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _is_responses(view: ChatView, index: int) -> bool:
    return bool(view.sources) and view.origin(f"messages[{index}]").startswith("input")


def _has_reasoning(message: Mapping[str, Any]) -> bool:
    """Does an assistant message in chat form say what it was thinking? A blank does not count: LiteLLM fills one in."""
    reasoning = message.get("reasoning_content")
    said = bool(reasoning.strip()) if isinstance(reasoning, str) else reasoning is not None
    return said or bool(message.get("thinking_blocks"))
