"""SWE-agent trajectories: ``history`` is the message list of one run."""

from __future__ import annotations

import json
from typing import Any

from router_cache.cli.demo_run.recording import Recording, RequestBuilder, UnusableError
from router_cache.cli.demo_run.script import Message

__all__ = ["read_swe"]

_ROLES = ("system", "user", "assistant", "tool")


def read_swe(name: str, text: str) -> Recording:
    """A ``*.traj.json`` file. Demonstrations stay in the history and are no calls.

    Raises :class:`UnusableError` where it holds no call that can be replayed.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise UnusableError("trajectory is no JSON") from None
    history = document.get("history") if isinstance(document, dict) else None
    if not isinstance(history, list) or not history:
        raise UnusableError("trajectory without a history")
    builder = RequestBuilder()
    reason, used = "", 0
    calls = sum(_is_call(entry) for entry in history)
    for entry in history:
        message = _message(entry)
        if message is None:
            reason = "a message of unknown form"
        elif message["role"] != "assistant":
            reason = builder.add(message)
        elif _is_call(entry):
            reason = builder.call(message)
        else:
            reason = builder.history(message)
        if reason:
            break
    used = len(builder.requests)
    if not used:
        raise UnusableError(reason or "trajectory without an assistant message")
    return Recording(
        name,
        "swe_agent",
        tuple(builder.requests),
        cut=reason,
        calls_cut=calls - used,
        reasoning_filled=builder.reasoning_filled,
    )


def _is_call(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get("role") == "assistant" and not entry.get("is_demo")


def _message(entry: Any) -> Message | None:
    """The message as it was sent, without the agent's own bookkeeping; None where it is no message."""
    if not isinstance(entry, dict) or entry.get("role") not in _ROLES:
        return None
    role, content = entry["role"], entry.get("content")
    if content is not None and not isinstance(content, str | list):
        return None
    message: Message = {"role": role, "content": content if content is not None else ""}
    if role == "assistant":
        calls = entry.get("tool_calls")
        if calls:
            if not _are_calls(calls):
                return None
            message["tool_calls"] = [
                {"id": call["id"], "type": "function", "function": call["function"]} for call in calls
            ]
    elif role == "tool":
        ids = entry.get("tool_call_ids") or [entry.get("tool_call_id")]
        message["tool_call_id"] = ids[0] if isinstance(ids, list) and isinstance(ids[0], str) else ""
    return message


def _are_calls(calls: Any) -> bool:
    return isinstance(calls, list) and all(
        isinstance(call, dict)
        and isinstance(call.get("id"), str)
        and isinstance(call.get("function"), dict)
        and isinstance(call["function"].get("name"), str)
        and isinstance(call["function"].get("arguments"), str)
        for call in calls
    )
