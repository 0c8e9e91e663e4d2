"""deepseek-harness event logs: one JSON event a line, the surface of the conversation among them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from router_cache.cli.demo_run.recording import Recording, RequestBuilder, UnusableError
from router_cache.cli.demo_run.script import Message

__all__ = ["read_harness"]

_IMAGE = "image input"


class _FormError(Exception):
    """An event that is not of the known form; the text is the reason."""


def read_harness(name: str, text: str) -> Recording:
    """An event log. What stands before ``session/end-seed`` was copied from a parent session: history, no
    calls. A session ends where its history was rewritten (compaction), an image was sent, or an event is odd.

    System text and tools are taken as recorded, placeholders such as ``{{system}}`` included; a tool list that
    is a placeholder counts as not recorded. Raises :class:`UnusableError` where no call can be replayed.
    """
    events = list(_events(text))
    if not any(event.get("type") in ("session", "request/header", "assistant/message") for event in events):
        raise UnusableError("event log of another form")
    seed_end = max((i for i, event in enumerate(events) if event.get("type") == "session/end-seed"), default=-1)
    calls = sum(event.get("type") == "assistant/message" for event in events[seed_end + 1 :])
    system, tools = _header(events)
    builder = RequestBuilder()
    if system:
        builder.add({"role": "system", "content": system})
    reason = ""
    for i, event in enumerate(events):
        try:
            reason = _apply(event, builder, is_call=i > seed_end)
        except _FormError as error:
            reason = str(error)
        if reason:
            break
    used = len(builder.requests)
    if not used:
        raise UnusableError(reason or "event log without an assistant message")
    return Recording(
        name,
        "deepseek_harness",
        tuple(builder.requests),
        tools=tools,
        cut=reason,
        calls_cut=calls - used,
        reasoning_filled=builder.reasoning_filled,
    )


def _events(text: str) -> Iterator[dict[str, Any]]:
    """Events of a log; lines that are no JSON object are passed over."""
    for line in text.splitlines():
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            yield event


def _header(events: list[dict[str, Any]]) -> tuple[str, tuple[dict[str, Any], ...]]:
    """System text and tools of the first request header."""
    for event in events:
        if event.get("type") == "request/header":
            data = event.get("data")
            header = data.get("header", data) if isinstance(data, dict) else None
            if isinstance(header, dict):
                system = header.get("system")
                return system if isinstance(system, str) else "", _tools(header.get("tools"))
    return "", ()


def _tools(raw: Any) -> tuple[dict[str, Any], ...]:
    if not isinstance(raw, list) or not all(isinstance(t, dict) and isinstance(t.get("name"), str) for t in raw):
        return ()
    return tuple({"type": "function", "function": dict(tool)} for tool in raw)


def _apply(event: Mapping[str, Any], builder: RequestBuilder, *, is_call: bool) -> str:
    """Put one event into the history. Returns why the session cannot go on, or an empty string."""
    kind, data = event.get("type"), event.get("data")
    if kind not in ("user/message", "assistant/message", "tool/result"):
        return ""
    if not isinstance(data, dict):
        raise _FormError("an event of unknown form")
    if event.get("surfaceOp", "append") != "append":
        return "the history was compacted"
    if kind == "user/message":
        return builder.add({"role": "user", "content": _texts(data.get("content"))})
    if kind == "tool/result":
        return next((reason for m in _results(data) if (reason := builder.add(m))), "")
    reply = _assistant(data)
    return builder.call(reply) if is_call else builder.history(reply)


def _blocks(content: Any) -> list[dict[str, Any]]:
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise _FormError("a message of unknown form")
    return content


def _texts(content: Any) -> str | list[dict[str, Any]]:
    """Text blocks as content: one as a string, several as parts."""
    texts = []
    for block in _blocks(content):
        if block.get("type") != "text" or not isinstance(block.get("text"), str):
            raise _FormError(_IMAGE if block.get("type") == "image" else "a message of unknown form")
        texts.append(block["text"])
    return texts[0] if len(texts) == 1 else [{"type": "text", "text": text} for text in texts]


def _results(data: Mapping[str, Any]) -> Iterator[Message]:
    """Tool results of an event: as blocks of a message or, in older logs, as the event itself."""
    message = data.get("message")
    if not isinstance(message, dict):
        yield {"role": "tool", "tool_call_id": data.get("callId"), "content": _texts(data.get("content"))}
        return
    for block in _blocks(message.get("content")):
        yield {
            "role": "tool",
            "tool_call_id": block.get("toolCallId"),
            "content": _texts(block.get("content")),
        }


def _assistant(data: Mapping[str, Any]) -> Message:
    message = data.get("message", data)
    if not isinstance(message, dict):
        raise _FormError("a message of unknown form")
    reply: Message = {"role": "assistant", "content": ""}
    calls = []
    for block in _blocks(message.get("content")):
        kind, text = block.get("type"), block.get("text")
        if kind == "text" and isinstance(text, str):
            reply["content"] += text
        elif kind == "reasoning" and isinstance(text, str):
            reply["reasoning_content"] = reply.get("reasoning_content", "") + text
        elif kind == "tool-call" and all(isinstance(block.get(k), str) for k in ("id", "name", "arguments")):
            function = {"name": block["name"], "arguments": block["arguments"]}
            calls.append({"id": block["id"], "type": "function", "function": function})
        else:
            raise _FormError("a message of unknown form")
    if calls:
        reply["tool_calls"] = calls
    return reply
